// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_DIALECT_KERNEL_DIALECT_TD
#define STRAIGHTLINE_DIALECT_KERNEL_DIALECT_TD

include "mlir/IR/OpBase.td"

def Kernel_Dialect : Dialect {
  let name = "kernel";
  let cppNamespace = "::straightline::kernel";
  let summary = "buffers and statements: what will run, one to one";
  let description = [{
    An exit dialect. One op per kind of statement; every choice (kernel, layout, order, address) is
    an attribute here, so that printing C++ or a statement table is one walk without decisions.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
  let extraClassDeclaration = [{
    void registerTypes();
    void registerAttributes();
  }];
}

class Kernel_Op<string mnemonic, list<Trait> traits = []>
    : Op<Kernel_Dialect, mnemonic, traits>;

#endif
