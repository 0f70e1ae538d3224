// SPDX-License-Identifier: Apache-2.0
// Family "indexing": reads at places computed at run time; an index outside is the user's
// IndexError.
#ifndef STRAIGHTLINE_OP_INDEXING_TD
#define STRAIGHTLINE_OP_INDEXING_TD

include "dialect/op/op_dialect.td"

class Op_IndexingOp<string mnemonic, string what> : Op_PlainOp<mnemonic> {
  let summary = what;
  let results = (outs Op_Tensor:$result);
  let hasVerifier = 1;
}
def Op_EmbeddingOp : Op_IndexingOp<"embedding", "rows of weight [v, d] at indices"> {
  let description = [{
    - (embedding_c1) weight has rank 2
    - (embedding_c2) the result has the extents of indices, then d
    - (embedding_c3) the result has weight's element type
  }];
  let arguments = (ins Op_Tensor:$weight, Op_IndexTensor:$indices);
}
def Op_GatherOp : Op_IndexingOp<"gather", "result[i][j] = x[index[i][j]][j] for dim 0"> {
  let description = [{
    - (gather_c1) x and index have equal ranks and `dim` is a dim of x
    - (gather_c2) the result has index's extents
    - (gather_c3) the result has x's element type
    - (gather_c4) no static extent of index but `dim` exceeds x's
  }];
  let arguments = (ins Op_Tensor:$x, Op_IndexTensor:$index, I64Attr:$dim);
}
def Op_IndexSelectOp : Op_IndexingOp<"index_select", "entries of a dim at the places in index [n]"> {
  let description = [{
    - (index_select_c1) `dim` is a dim of x
    - (index_select_c2) index has rank 1
    - (index_select_c3) the result has x's extents with n as `dim`, and x's element type
  }];
  let arguments = (ins Op_Tensor:$x, Op_IndexTensor:$index, I64Attr:$dim);
}
class Op_IndexWriteOp<string mnemonic, string what> : Op_IndexingOp<mnemonic, what> {
  let description = [{
    Entries of `dim` at the places in index [n], in the order of index, where two may be equal.

    - (index_write_c1) `dim` is a dim of x
    - (index_write_c2) index has rank 1
    - (index_write_c3) src has x's extents with n as `dim`
    - (index_write_c4) src and the result have x's element type
    - (index_write_c5) the result has x's extents
  }];
  let arguments = (ins Op_Tensor:$x, Op_IndexTensor:$index, Op_Tensor:$src, I64Attr:$dim);
}
def Op_IndexCopyOp : Op_IndexWriteOp<"index_copy", "x with entries of a dim replaced by those of src">;
def Op_IndexAddOp : Op_IndexWriteOp<"index_add", "x with those of src added to entries of a dim">;
def Op_IndexOp : Op_IndexingOp<"index", "elements of x at the places that several index tensors have"> {
  let description = [{
    One index tensor for each of `dims`; a negative index counts from the end. The dims of the index tensors stand in the result where those of `dims`
    stood if these follow each other, else first; then come the other dims of x.

    - (index_c1) `dims` are dims of x, ascending, one for each index tensor, of which there is one at least
    - (index_c2) the index tensors have one type
    - (index_c3) the result has the extents of x with those of the index tensors in place of `dims`, and x's element type
  }];
  let arguments = (ins Op_Tensor:$x, Variadic<Op_IndexTensor>:$indices, DenseI64ArrayAttr:$dims);
  let extraClassDeclaration = [{
    /// The dim of the result where those of the index tensors begin.
    int64_t getFirstIndexDim() { return firstIndexDim(getDims()); }
  }];
}
def Op_IndexPutOp : Op_IndexingOp<"index_put", "x with `values` at the places that several index tensors have"> {
  let description = [{
    What `op.index` would read is replaced by values, or with `accumulate` is added to (bools: or). Where places are equal the last one of `values` stays,
    on a device some one.

    - (index_put_c1) `dims` are dims of x, ascending, one for each index tensor, of which there is one at least
    - (index_put_c2) the index tensors have one type
    - (index_put_c3) values has the extents that op.index would give
    - (index_put_c4) values and the result have x's element type, the result has x's extents
  }];
  let arguments = (ins Op_Tensor:$x, Variadic<Op_IndexTensor>:$indices, Op_Tensor:$values, DenseI64ArrayAttr:$dims,
                       DefaultValuedAttr<BoolAttr, "false">:$accumulate);
  let extraClassDeclaration = [{
    /// The dim of `values` where those of the index tensors begin.
    int64_t getFirstIndexDim() { return firstIndexDim(getDims()); }
  }];
}
def Op_ScatterOp : Op_IndexingOp<"scatter", "x with elements of src at the places in index along `dim`"> {
  let description = [{
    result[index[i][j]][j] = src[i][j] for dim 0, in the order of i, where two places may be equal (on a device in any order). With a `reduce` the
    element is combined with what is there.

    - (scatter_c1) x, index and src have equal ranks and `dim` is a dim of x
    - (scatter_c2) no static extent of index exceeds src's, nor x's but along `dim`
    - (scatter_c3) src and the result have x's element type
    - (scatter_c4) the result has x's extents
    - (scatter_c5) `reduce` is "none", "sum", "prod", "amin" or "amax"
  }];
  let arguments = (ins Op_Tensor:$x, Op_IndexTensor:$index, Op_Tensor:$src, I64Attr:$dim,
                       DefaultValuedAttr<StrAttr, "\"none\"">:$reduce);
}
def Op_TreeEnsembleOp : Op_IndexingOp<"tree_ensemble", "weights of the leaves that rows of x [n, f] reach, over all trees"> {
  let description = [{
    A node of nodes [m, 2] is a number's bits (of an f32 where nodes are i32, of an f64 where they are i64) and a link: the feature in the lowest
    `feature_bits`, a bit that sends NaN to the second child (with `missing`), two that name the decision (1 "below", 2 "equal", else "at_most"; where
    `decision` is "mixed"), then the number of the first of two neighbouring children. A row goes to the second one where its feature is at most the
    number ("at_most"), "below" or "equal". Node t is the root of tree t. A leaf is its own first child, without flags; its number is a NaN whose low 22
    (51) bits say its row of weights [l, c], or, with columns [trees], its element of weights [l, 1]: the tree adds to that column. What each row of x
    collects is added ("sum"), or its largest or smallest ("max", "min"; infinite in a column that no tree reaches). `depth` is the number of decisions on
    the longest way, 0 where it is not said. Nodes are not looked at while running: features, children and rows must exist, and ways must end.

    - (tree_ensemble_c1) x has rank 2, nodes are i32 or i64 [m, 2]
    - (tree_ensemble_c2) weights are f32 or f64 [l, c]; with columns, i32 of rank 1, they are [l, 1]
    - (tree_ensemble_c3) `trees` is at least 1, at most m and, with columns, their number
    - (tree_ensemble_c4) `decision` is "at_most", "below", "equal" or "mixed", `aggregate` "sum", "max" or "min"
    - (tree_ensemble_c5) `feature_bits` is 1 .. 24, `depth` is not negative
    - (tree_ensemble_c6) the result is [n, c], with columns [n, any], of weights' element type
    - (tree_ensemble_c7) x has f32 or f64
  }];
  let arguments = (ins Op_FloatTensor:$x, Op_Tensor:$nodes, Op_FloatTensor:$weights, Optional<Op_Tensor>:$columns, I64Attr:$trees,
                       StrAttr:$decision, StrAttr:$aggregate, I64Attr:$feature_bits, BoolAttr:$missing, I64Attr:$depth);
}

#endif  // STRAIGHTLINE_OP_INDEXING_TD
