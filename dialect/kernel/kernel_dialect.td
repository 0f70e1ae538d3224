// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_DIALECT_KERNEL_DIALECT_TD
#define STRAIGHTLINE_DIALECT_KERNEL_DIALECT_TD

include "mlir/IR/OpBase.td"

def Kernel_Dialect : Dialect {
  let name = "kernel";
  let cppNamespace = "::straightline::kernel";
  let summary = "buffers and statements: what will run, one to one";
  let description =
      [{
    An exit dialect. One op per kind of statement; every choice (kernel, layout, order, address) is
    an attribute here, so that printing C++ or a statement table is one walk without decisions.

    What passes record for each other, kernel.* on ops, is verified (recorded.h):

    - (recorded_c1) the name is a known one
    - (recorded_c2) it stands on an op that may have it
    - (recorded_c3) its value is of its type
    - (recorded_c4) none stands on an argument or a result
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let extraClassDeclaration =
      [{
    void registerTypes();
    void registerAttributes();
  }];
}

class Kernel_Op<string mnemonic, list<Trait> traits = []> : Op<Kernel_Dialect, mnemonic, traits>;

#endif
