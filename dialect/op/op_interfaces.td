// SPDX-License-Identifier: Apache-2.0
// Interfaces and traits by which passes treat ops alike.
#ifndef STRAIGHTLINE_OP_INTERFACES_TD
#define STRAIGHTLINE_OP_INTERFACES_TD

include "mlir/IR/OpBase.td"

def ElementwiseOpInterface : OpInterface<"ElementwiseOpInterface"> {
  let cppNamespace = "::straightline::op";
  let description = [{
    One result; element i of the result depends on element i of each operand only.

    - (elementwise_c1) operands and result have equal extents
  }];
  let methods = [InterfaceMethod<[{
      Builds the scalar meaning from one scalar an operand. Elements of an unsigned tensor are passed (and given back)
      as signless integers of the same width; a bool is an i1.
    }], "::mlir::Value", "buildScalar",
    (ins "::mlir::OpBuilder&":$builder, "::mlir::Location":$loc, "::mlir::ValueRange":$scalars)>];
  let verify = [{ return ::straightline::op::verifyElementwise($_op); }];
}

def ReductionOpInterface : OpInterface<"ReductionOpInterface"> {
  let cppNamespace = "::straightline::op";
  let description = [{
    The first operand is read along whole rows: its `getReducedDims`. The result has one element a row, or (softmax and
    the norms) the shape of the operand.
  }];
  let methods = [
    InterfaceMethod<"Dims read as one row, ascending.", "::llvm::SmallVector<int64_t>", "getReducedDims">,
    InterfaceMethod<"The result has the operand's shape.", "bool", "keepsShape">,
    InterfaceMethod<"Reduced dims stay as size 1 (meaningless when keepsShape).", "bool", "keepsReducedDims">,
    InterfaceMethod<"sum, mean, amax, ...: the mnemonic.", "::llvm::StringRef", "getCombineKind">
  ];
}

/// The result is the operand's elements at other places: no arithmetic.
def Op_View : NativeOpTrait<"View"> { let cppNamespace = "::straightline::op"; }
/// linear, matmul, convolution: sums of products, with the operands' own layout of loops.
def Op_Contraction : NativeOpTrait<"Contraction"> { let cppNamespace = "::straightline::op"; }

#endif  // STRAIGHTLINE_OP_INTERFACES_TD
