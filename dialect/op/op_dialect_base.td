// SPDX-License-Identifier: Apache-2.0
// The `op` dialect itself.
#ifndef STRAIGHTLINE_OP_DIALECT_BASE_TD
#define STRAIGHTLINE_OP_DIALECT_BASE_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/TensorEncoding.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialect/op/op_interfaces.td"

def Op_Dialect : Dialect {
  let name = "op";
  let cppNamespace = "::straightline::op";
  let summary = "tensor values: what a captured graph computes";
  let description = [{
    Ops are named after ATen. Operands are tensors of static rank, scalar arguments are attributes with ATen's names.
    Dtypes are promoted and shapes are broadcast by the importer, so passes never guess. Dims are counted from 0.
    `op.prepare` (unit attribute) marks an op that depends on parameters and constants only.
    Every verifier numbers its constraints; the number stands at the end of the message, as in `(linear_c1)`.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasCanonicalizer = 1;
  let hasConstantMaterializer = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
  }];
}

#endif  // STRAIGHTLINE_OP_DIALECT_BASE_TD
