// SPDX-License-Identifier: Apache-2.0
// The attribute of tensors and the type constraints that all families use.
#ifndef STRAIGHTLINE_OP_DIALECT_TD
#define STRAIGHTLINE_OP_DIALECT_TD

include "dialect/op/op_dialect_base.td"

def Op_DimsAttr : AttrDef<Op_Dialect, "Dims",
    [DeclareAttrInterfaceMethods<VerifiableTensorEncoding, ["verifyEncoding"]>]> {
  let mnemonic = "dims";
  let summary = "named extents of a tensor, one expression a dim";
  let description = [{
    `tensor<?x64xf32, #op.dims<[b, 64]>>`: the encoding of a tensor with dynamic sizes. Names are sorted and each is used;
    equal lists are equal attributes. A tensor without dynamic sizes carries no encoding.

    - (dims_c1) one expression a dim
    - (dims_c2) the expression of a static dim is its size, that of a dynamic dim is no number
    - (dims_c3) some expression is no number
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$names,
                        ArrayRefParameter<"::mlir::AffineExpr">:$exprs);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// The attribute for a canonical list.
    static DimsAttr get(::mlir::MLIRContext* context, const ::straightline::symbolic::ExprList& list);
    ::straightline::symbolic::ExprList getList() const;
  }];
}

class Op_TensorOf<string predicate, string summary>
    : Type<CPred<"::straightline::op::isTensor($_self) && (" # predicate # ")">, summary,
           "::mlir::RankedTensorType">;

def Op_Tensor : Op_TensorOf<"true", "tensor of static rank whose dynamic sizes are named by #op.dims">;
def Op_FloatTensor : Op_TensorOf<"::straightline::op::hasFloatElements($_self)",
                                 "tensor of floats whose dynamic sizes are named by #op.dims">;
def Op_BoolTensor : Op_TensorOf<"::straightline::op::hasBoolElements($_self)",
                                "tensor of i1 whose dynamic sizes are named by #op.dims">;
def Op_IndexTensor : Op_TensorOf<"::straightline::op::hasIndexElements($_self)",
                                 "tensor of i64 or i32 whose dynamic sizes are named by #op.dims">;
def Op_ScalarIndex : Op_TensorOf<"::straightline::op::isScalarIndex($_self)", "tensor<i64>">;
def Op_Condition : Op_TensorOf<"::straightline::op::isCondition($_self)", "tensor<i1>">,
    BuildableType<"::mlir::RankedTensorType::get({}, $_builder.getI1Type())">;

/// An f64 or i64 number: a Python scalar.
def Op_ScalarAttr : AnyAttrOf<[F64Attr, I64Attr, BoolAttr], "f64, i64 or bool attribute", "::mlir::Attribute">;

class Op_Base<string mnemonic, list<Trait> traits = []> : Op<Op_Dialect, mnemonic, traits>;

class Op_PureOp<string mnemonic, list<Trait> traits = []> : Op_Base<mnemonic, traits # [Pure]>;

/// Ops whose operands are all required print the same way.
class Op_PlainOp<string mnemonic, list<Trait> traits = []> : Op_PureOp<mnemonic, traits> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

#endif  // STRAIGHTLINE_OP_DIALECT_TD
