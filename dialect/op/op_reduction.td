// SPDX-License-Identifier: Apache-2.0
// Family "reduction": ops that read whole rows.
#ifndef STRAIGHTLINE_OP_REDUCTION_TD
#define STRAIGHTLINE_OP_REDUCTION_TD

include "dialect/op/op_dialect.td"

class Op_RowOp<string mnemonic, list<Trait> traits = []>
    : Op_PureOp<mnemonic, traits # [DeclareOpInterfaceMethods<ReductionOpInterface>]> {
  let results = (outs Op_Tensor:$result);
  let hasVerifier = 1;
}

// (reduce_c1) `dims` are different dims of x, ascending; at least one unless x has rank 0
// (reduce_c2) the result has x's extents without them (keepdim: as 1)
// (reduce_c3) the result's element type is x's (any, all: i1; argmax, argmin: i64)
// (reduce_c4) mean: x has floats
class Op_Reduction<string mnemonic, string what> : Op_RowOp<mnemonic> {
  let summary = what;
  let description = [{
    - (reduce_c1) `dims` are different dims of x, ascending; at least one unless x has rank 0
    - (reduce_c2) the result has x's extents without them (keepdim: as 1)
    - (reduce_c3) the result's element type is x's (any, all: i1; argmax, argmin: i64)
    - (reduce_c4) mean: x has floats
  }];
  let arguments = (ins Op_Tensor:$x, DenseI64ArrayAttr:$dims, BoolAttr:$keepdim);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::verify() { return verifyReduction(*this, getX().getType().getElementType()); }
    ::llvm::SmallVector<int64_t> $cppClass::getReducedDims() { return ::llvm::to_vector(getDims()); }
    bool $cppClass::keepsShape() { return false; }
    bool $cppClass::keepsReducedDims() { return getKeepdim(); }
    ::llvm::StringRef $cppClass::getCombineKind() { return mnemonicOf(*this); }
  }];
}
def Op_SumOp : Op_Reduction<"sum", "sum of each row">;
def Op_MeanOp : Op_Reduction<"mean", "mean of each row">;
def Op_AmaxOp : Op_Reduction<"amax", "largest of each row; NaN if any is">;
def Op_AminOp : Op_Reduction<"amin", "smallest of each row; NaN if any is">;
def Op_ProdOp : Op_Reduction<"prod", "product of each row">;

class Op_BoolReduction<string mnemonic, string what> : Op_Reduction<mnemonic, what> {
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::verify() {
      return verifyReduction(*this, ::mlir::IntegerType::get(getContext(), 1));
    }
    ::llvm::SmallVector<int64_t> $cppClass::getReducedDims() { return ::llvm::to_vector(getDims()); }
    bool $cppClass::keepsShape() { return false; }
    bool $cppClass::keepsReducedDims() { return getKeepdim(); }
    ::llvm::StringRef $cppClass::getCombineKind() { return mnemonicOf(*this); }
  }];
}
def Op_AnyOp : Op_BoolReduction<"any", "some element of the row is not zero">;
def Op_AllOp : Op_BoolReduction<"all", "no element of the row is zero">;

def Op_VarOp : Op_Reduction<"var", "sum of squared deviations over (count - correction)"> {
  let arguments = (ins Op_FloatTensor:$x, DenseI64ArrayAttr:$dims, F64Attr:$correction, BoolAttr:$keepdim);
}

class Op_ArgReduction<string mnemonic, string what> : Op_RowOp<mnemonic> {
  let summary = what;
  let description = "Constraints as of the other reductions: (reduce_c1), (reduce_c2), (reduce_c3)";
  let arguments = (ins Op_Tensor:$x, I64Attr:$dim, BoolAttr:$keepdim);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::verify() {
      return verifyReduction(*this, ::mlir::IntegerType::get(getContext(), 64));
    }
    ::llvm::SmallVector<int64_t> $cppClass::getReducedDims() { return {static_cast<int64_t>(getDim())}; }
    bool $cppClass::keepsShape() { return false; }
    bool $cppClass::keepsReducedDims() { return getKeepdim(); }
    ::llvm::StringRef $cppClass::getCombineKind() { return mnemonicOf(*this); }
  }];
}
def Op_ArgmaxOp : Op_ArgReduction<"argmax", "index of the first largest; of the first NaN if any">;
def Op_ArgminOp : Op_ArgReduction<"argmin", "index of the first smallest; of the first NaN if any">;

// (row_c1) `dim` is a dim of x; (row_c2) the result has x's type.
class Op_RowMap<string mnemonic, string what> : Op_RowOp<mnemonic> {
  let summary = what;
  let description = [{
    - (row_c1) `dim` is a dim of x
    - (row_c2) the result has x's type
  }];
  let arguments = (ins Op_FloatTensor:$x, I64Attr:$dim);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::verify() { return verifyRowMap(*this); }
    ::llvm::SmallVector<int64_t> $cppClass::getReducedDims() { return {static_cast<int64_t>(getDim())}; }
    bool $cppClass::keepsShape() { return true; }
    bool $cppClass::keepsReducedDims() { return true; }
    ::llvm::StringRef $cppClass::getCombineKind() { return mnemonicOf(*this); }
  }];
}
def Op_SoftmaxOp : Op_RowMap<"softmax", "exp(x - max) / sum">;
def Op_LogSoftmaxOp : Op_RowMap<"log_softmax", "x - max - log(sum(exp(x - max)))">;

def Op_CumsumOp : Op_PlainOp<"cumsum"> {
  let summary = "running sum along a dim";
  let description = [{
    - (row_c1) `dim` is a dim of x
    - (row_c2) the result has x's type
  }];
  let arguments = (ins Op_Tensor:$x, I64Attr:$dim);
  let results = (outs Op_Tensor:$result);
  let hasVerifier = 1;
}

def Op_TopkOp : Op_PlainOp<"topk"> {
  let summary = "the k largest (or smallest) elements along a dim in their order, and their places";
  let description = [{
    Equal elements come by rising place; NaN is larger than every number, and -0 equals 0. With k = extent, or -1 for one that has a
    name, this is a stable sort.

    - (topk_c1) `dim` is a dim of x
    - (topk_c2) 1 <= k <= x's extent there (a named one is taken to be large enough), or k is -1: all of it
    - (topk_c3) values and indices have x's extents with k, or all, as `dim`
    - (topk_c4) values have x's element type, indices i64
  }];
  let arguments = (ins Op_Tensor:$x, I64Attr:$dim, I64Attr:$k, BoolAttr:$largest);
  let results = (outs Op_Tensor:$values, Op_Tensor:$indices);
  let hasVerifier = 1;
}

def Op_LayerNormOp : Op_RowOp<"layer_norm", [AttrSizedOperandSegments]> {
  let summary = "(x - mean) / sqrt(var + eps) over the last `normalized_rank` dims, times weight, plus bias";
  let description = [{
    - (layer_norm_c1) `normalized_rank` is 1 .. rank of x
    - (layer_norm_c2) weight and bias have x's last extents and element type
    - (layer_norm_c3) the result has x's type
  }];
  let arguments = (ins Op_FloatTensor:$x, Optional<Op_FloatTensor>:$weight, Optional<Op_FloatTensor>:$bias,
                       I64Attr:$normalized_rank, F64Attr:$eps);
  let assemblyFormat = [{
    $x (`weight` $weight^)? (`bias` $bias^)? attr-dict `:` functional-type(operands, results)
  }];
}
def Op_RmsNormOp : Op_RowOp<"rms_norm"> {
  let summary = "x / sqrt(mean(x * x) + eps) over the last `normalized_rank` dims, times weight";
  let description = [{
    - (rms_norm_c1) `normalized_rank` is 1 .. rank of x
    - (rms_norm_c2) weight has x's last extents and element type
    - (rms_norm_c3) the result has x's type
  }];
  let arguments = (ins Op_FloatTensor:$x, Optional<Op_FloatTensor>:$weight, I64Attr:$normalized_rank, F64Attr:$eps);
  let assemblyFormat = "$x (`weight` $weight^)? attr-dict `:` functional-type(operands, results)";
}
def Op_GroupNormOp : Op_PureOp<"group_norm", [AttrSizedOperandSegments]> {
  let summary = "normalised over groups of channels and all spatial dims, times weight, plus bias";
  let description = [{
    - (group_norm_c1) x has rank 2 or more and `groups` divides the channels
    - (group_norm_c2) weight and bias have one element a channel and x's element type
    - (group_norm_c3) the result has x's type
  }];
  let arguments = (ins Op_FloatTensor:$x, Optional<Op_FloatTensor>:$weight, Optional<Op_FloatTensor>:$bias,
                       I64Attr:$groups, F64Attr:$eps);
  let results = (outs Op_Tensor:$result);
  let assemblyFormat = [{
    $x (`weight` $weight^)? (`bias` $bias^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}
def Op_BatchNormOp : Op_PureOp<"batch_norm", [AttrSizedOperandSegments]> {
  let summary = "(x - mean) / sqrt(var + eps) * weight + bias by channel, with given statistics";
  let description = [{
    - (batch_norm_c1) x has rank 2 or more
    - (batch_norm_c2) weight, bias, mean and var have one element a channel and one element type
    - (batch_norm_c3) the result has x's type
  }];
  let arguments = (ins Op_FloatTensor:$x, Optional<Op_FloatTensor>:$weight, Optional<Op_FloatTensor>:$bias,
                       Op_FloatTensor:$mean, Op_FloatTensor:$var, F64Attr:$eps);
  let results = (outs Op_Tensor:$result);
  let assemblyFormat = [{
    $x (`weight` $weight^)? (`bias` $bias^)? `mean` $mean `var` $var attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

#endif  // STRAIGHTLINE_OP_REDUCTION_TD
