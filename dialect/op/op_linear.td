// SPDX-License-Identifier: Apache-2.0
// Family "linear".
#ifndef STRAIGHTLINE_OP_LINEAR_TD
#define STRAIGHTLINE_OP_LINEAR_TD

include "dialect/op/op_dialect.td"

def Op_LinearOp : Op_PureOp<"linear", [Op_Contraction]> {
  let summary = "x @ weight^T + bias; x [.., k], weight [n, k], bias [n]";
  let description = [{
    - (linear_c1) the last extent of x is weight's k
    - (linear_c2) x has rank 1 or more, weight rank 2
    - (linear_c3) bias has extent n
    - (linear_c4) the result has x's extents with n as the last
    - (linear_c5) equal element types, but that the weight of f32 may be stored as bf16, f16 or i8, which the kernel widens, and x and weight
      of f32 both as bf16; x and weight of i8 are summed in i32 (modulo 2^32)
    - (linear_c6) there is no bias where x and weight are i8
  }];
  let arguments = (ins Op_Tensor:$x, Op_Tensor:$weight, Optional<Op_Tensor>:$bias);
  let results = (outs Op_Tensor:$result);
  let assemblyFormat = "$x `,` $weight (`,` $bias^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Op_MatmulOp : Op_PlainOp<"matmul", [Op_Contraction]> {
  let summary = "a [.., m, k] @ b [.., k, n]";
  let description = [{
    - (matmul_c1) a's k is b's k
    - (matmul_c2) equal ranks of 2 or more and equal leading extents
    - (matmul_c3) the result is [.., m, n]
    - (matmul_c4) equal element types
  }];
  let arguments = (ins Op_Tensor:$a, Op_Tensor:$b);
  let results = (outs Op_Tensor:$result);
  let hasVerifier = 1;
}
def Op_GroupedMatmulOp : Op_PureOp<"grouped_matmul"> {
  let summary = "rows of a [m, k] times the matrix of their group (b [g, k, n], ends [g]), or sums of groups of terms (b [k, n])";
  let description = [{
    With b [g, k, n] rows ends[i - 1] to ends[i] (from 0 on for the first group) are multiplied by b[i]. Rows behind the last group are 0.

    With b [k, n] result i is a[:, ends[i - 1]:ends[i]] times b[ends[i - 1]:ends[i], :]: 0 if the group is empty.

    A negative end counts from the back, an end outside of the operand is taken as the nearest one inside, and a group that ends before it
    begins is empty.

    - (grouped_matmul_c1) a has rank 2, b rank 2 or 3 and ends rank 1
    - (grouped_matmul_c2) a's k is b's k
    - (grouped_matmul_c3) ends has extent g, if b has rank 3
    - (grouped_matmul_c4) the result is [m, n], or [g, m, n] if b has rank 2
    - (grouped_matmul_c5) a, b and the result have equal element types
  }];
  let arguments = (ins Op_FloatTensor:$a, Op_FloatTensor:$b, Op_IndexTensor:$ends);
  let results = (outs Op_Tensor:$result);
  let assemblyFormat = "$a `,` $b `,` $ends attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Op_ScaledDotProductAttentionOp : Op_PureOp<"scaled_dot_product_attention"> {
  let summary = "softmax(q k^T * scale + mask) v; without `scale`: 1 / sqrt(e)";
  let description = [{
    q [.., h, l, e], k [.., g, s, e], v [.., g, s, f]; g = h, or divides it (grouped queries). A mask of rank 4 may have a number of images
    n that divides q's: image i has that of i modulo n (windows of several images). A query for which the mask keeps no key gets zeros,
    with `empty_is_nan` NaN, as a written softmax does.

    - (scaled_dot_product_attention_c1) q and k have equal e
    - (scaled_dot_product_attention_c2) equal ranks of 2 or more, equal leading extents but for g
    - (scaled_dot_product_attention_c3) k and v have equal s
    - (scaled_dot_product_attention_c4) mask's extents are 1 or those of [.., h, l, s], but for a number of images that divides q's; its
      elements are bool or q's
    - (scaled_dot_product_attention_c5) the result is [.., h, l, f]
    - (scaled_dot_product_attention_c6) equal element types
  }];
  let arguments = (ins Op_FloatTensor:$q, Op_FloatTensor:$k, Op_FloatTensor:$v, Optional<Op_Tensor>:$mask,
                       BoolAttr:$is_causal, OptionalAttr<F64Attr>:$scale, UnitAttr:$empty_is_nan);
  let results = (outs Op_Tensor:$result);
  let assemblyFormat = [{
    $q `,` $k `,` $v (`mask` $mask^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let hasCanonicalizer = 1;
  let extraClassDeclaration = [{
    /// The number of images of a mask that q's images have by turns; nullopt where each has its own, or all one.
    std::optional<int64_t> getMaskPeriod();
  }];
}

#endif  // STRAIGHTLINE_OP_LINEAR_TD
