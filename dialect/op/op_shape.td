// SPDX-License-Identifier: Apache-2.0
// Family "shape": data movement and views. Dims are counted from 0.
#ifndef STRAIGHTLINE_OP_SHAPE_TD
#define STRAIGHTLINE_OP_SHAPE_TD

include "dialect/op/op_dialect.td"

// All of this family: (NAME_c1) operands and result have equal element types; the rest is numbered
// from 2.
class Op_ShapeOp<string mnemonic, string what, list<Trait> traits = []> : Op_PlainOp<mnemonic, traits> {
  let summary = what;
  let results = (outs Op_Tensor:$result);
  let hasVerifier = 1;
}
class Op_ViewOp<string mnemonic, string what> : Op_ShapeOp<mnemonic, what, [Op_View]>;

def Op_ExpandOp : Op_ViewOp<"expand", "dims of size 1 (and new leading dims) repeated"> {
  let description = [{
    - (expand_c1) equal element types
    - (expand_c2) the result's rank is not lower
    - (expand_c3) counted from the last, each extent of x is 1 or the result's
  }];
  let arguments = (ins Op_Tensor:$x);
  let hasFolder = 1;
}
def Op_ReshapeOp : Op_ViewOp<"reshape", "the same elements in row-major order under another shape"> {
  let description = [{
    - (reshape_c1) equal element types
    - (reshape_c2) equal numbers of elements
  }];
  let arguments = (ins Op_Tensor:$x);
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}
def Op_PermuteOp : Op_ViewOp<"permute", "dim i of the result is dim dims[i] of x"> {
  let description = [{
    - (permute_c1) equal element types
    - (permute_c2) `dims` is a permutation of x's dims
    - (permute_c3) the result has x's extents in that order
  }];
  let arguments = (ins Op_Tensor:$x, DenseI64ArrayAttr:$dims);
  let hasFolder = 1;
}
def Op_SliceOp : Op_ViewOp<"slice", "elements start, start + step, ... before end of a dim"> {
  let description = [{
    Negative `start` and `end` count from the extent; both are limited to it, as in ATen. With an `end` of -2^63 the slice has the length that
    the result's type says (`x[:n]` of a named size n).

    - (slice_c1) equal element types
    - (slice_c2) `dim` is a dim of x
    - (slice_c3) `step` is positive
    - (slice_c4) the result has x's extents but for `dim`, which has the slice's length
    - (slice_c5) a slice whose length its type says has step 1, a start of 0 or more, and ends within x
  }];
  let arguments = (ins Op_Tensor:$x, I64Attr:$dim, I64Attr:$start, I64Attr:$end, I64Attr:$step);
  let hasFolder = 1;
}
def Op_SelectOp : Op_ViewOp<"select", "one index of a dim; the dim is dropped"> {
  let description = [{
    - (select_c1) equal element types
    - (select_c2) `dim` is a dim of x
    - (select_c3) `index` (negative: from the end) lies in the dim
    - (select_c4) the result has x's extents without `dim`
  }];
  let arguments = (ins Op_Tensor:$x, I64Attr:$dim, I64Attr:$index);
}
def Op_CatOp : Op_ShapeOp<"cat", "tensors one after the other along a dim"> {
  let description = [{
    - (cat_c1) equal element types
    - (cat_c2) `dim` is a dim of each
    - (cat_c3) extents other than `dim` are equal, and the result's `dim` is the sum
    - (cat_c4) at least one tensor
  }];
  let arguments = (ins Variadic<Op_Tensor>:$tensors, I64Attr:$dim);
  let hasFolder = 1;
}
def Op_FlipOp : Op_ShapeOp<"flip", "dims reversed"> {
  let description = [{
    - (flip_c1) equal element types
    - (flip_c2) `dims` are different dims of x
    - (flip_c3) equal extents
  }];
  let arguments = (ins Op_Tensor:$x, DenseI64ArrayAttr:$dims);
}
def Op_ConstantPadNdOp : Op_ShapeOp<"constant_pad_nd", "a border of `value` around x; negative widths crop"> {
  let description = [{
    `pad` holds (before, after) pairs in ATen's order: the last dim first.

    - (constant_pad_nd_c1) equal element types
    - (constant_pad_nd_c2) an even number of widths, at most two a dim
    - (constant_pad_nd_c3) the result has x's extents plus the widths
    - (constant_pad_nd_c4) `value` is of the element's kind (float, or integer)
    - (constant_pad_nd_c5) negative widths cut at most the elements of their dim
  }];
  let arguments = (ins Op_Tensor:$x, DenseI64ArrayAttr:$pad, Op_ScalarAttr:$value);
}
def Op_CloneOp : Op_ShapeOp<"clone", "a copy: never an alias of its operand"> {
  let description = [{
    - (clone_c1) equal element types
    - (clone_c2) equal extents
  }];
  let arguments = (ins Op_Tensor:$x);
  let hasCanonicalizer = 1;
}
def Op_SliceScatterOp : Op_ShapeOp<"slice_scatter", "x with a slice replaced by src"> {
  let description = [{
    - (slice_scatter_c1) equal element types
    - (slice_scatter_c2) `dim` is a dim of x
    - (slice_scatter_c3) `step` is positive
    - (slice_scatter_c4) src has the slice's extents
    - (slice_scatter_c5) the result has x's extents
  }];
  let arguments = (ins Op_Tensor:$x, Op_Tensor:$src, I64Attr:$dim, I64Attr:$start, I64Attr:$end, I64Attr:$step);
}
def Op_SelectScatterOp : Op_ShapeOp<"select_scatter", "x with one index of a dim replaced by src"> {
  let description = [{
    - (select_scatter_c1) equal element types
    - (select_scatter_c2) `dim` is a dim of x
    - (select_scatter_c3) `index` (negative: from the end) lies in the dim
    - (select_scatter_c4) src has x's extents without `dim`
    - (select_scatter_c5) the result has x's extents
  }];
  let arguments = (ins Op_Tensor:$x, Op_Tensor:$src, I64Attr:$dim, I64Attr:$index);
}
def Op_DynamicSliceOp : Op_ShapeOp<"dynamic_slice", "`length` elements of a dim from an index computed at run time"> {
  let description = [{
    The dim stays, with extent `length`. An index outside 0 .. extent - length is an error of the program's maker.

    - (dynamic_slice_c1) equal element types
    - (dynamic_slice_c2) `dim` is a dim of x
    - (dynamic_slice_c3) the result has x's extents but for `dim`, which has `length` (of -1: any extent)
  }];
  let arguments = (ins Op_Tensor:$x, Op_ScalarIndex:$index, I64Attr:$dim, I64Attr:$length);
}
def Op_DynamicUpdateSliceOp : Op_ShapeOp<"dynamic_update_slice", "x with src written from an index computed at run time"> {
  let description = [{
    - (dynamic_update_slice_c1) equal element types
    - (dynamic_update_slice_c2) `dim` is a dim of x
    - (dynamic_update_slice_c3) src has x's extents but for `dim`
    - (dynamic_update_slice_c4) the result has x's extents
  }];
  let arguments = (ins Op_Tensor:$x, Op_Tensor:$src, Op_ScalarIndex:$index, I64Attr:$dim);
}

#endif  // STRAIGHTLINE_OP_SHAPE_TD
