// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_DIALECT_KERNEL_INTERFACES_TD
#define STRAIGHTLINE_DIALECT_KERNEL_INTERFACES_TD

include "mlir/IR/OpBase.td"

def KernelCallInterface : OpInterface<"KernelCallInterface"> {
  let cppNamespace = "::straightline::kernel";
  let description = [{
    What planner, printers, tables and `explain` know about a statement that runs a kernel: `launch`
    (of a kernel.func) and `call` (of a kernel.decl). Roles and ties are said by the entry, which
    is looked up from the module.
  }];
  let methods = [
    InterfaceMethod<"symbol of the kernel.func or kernel.decl",
                    "::mlir::FlatSymbolRefAttr", "getEntry">,
    InterfaceMethod<"symbol of the queue", "::mlir::FlatSymbolRefAttr", "getQueueSymbol">,
    InterfaceMethod<"buffers read", "::mlir::OperandRange", "getInputs">,
    InterfaceMethod<"buffers written (and read where the role is readwrite)",
                    "::mlir::OperandRange", "getOutputs">,
    InterfaceMethod<"scratch buffers, whose elements nothing reads before or after", "::mlir::OperandRange", "getWorkspace">,
    InterfaceMethod<"1: thread 0 alone runs it; 0: every thread of the team", "int64_t", "getTeamSize">,
    InterfaceMethod<"the library handle, or null", "::mlir::Value", "getHandleOrNull">,
    InterfaceMethod<"the entry, or null when the symbol is unknown",
                    "::mlir::Operation*", "getEntryOp", (ins), [{}], [{
      return ::straightline::kernel::lookupEntry($_op.getOperation(), $_op.getEntry());
    }]>,
    InterfaceMethod<"whether output `i` is read as well as written", "bool", "isOutputRead",
                    (ins "unsigned":$i), [{}], [{
      return ::straightline::kernel::isOutputRead(
          ::straightline::kernel::lookupEntry($_op.getOperation(), $_op.getEntry()), i);
    }]>,
    InterfaceMethod<"(input, output) pairs that may share storage element by element",
                    "::llvm::SmallVector<::straightline::kernel::Tie>", "getTies", (ins), [{}], [{
      return ::straightline::kernel::getTies(
          ::straightline::kernel::lookupEntry($_op.getOperation(), $_op.getEntry()));
    }]>,
    InterfaceMethod<"whether the program tests ctx->status after it", "bool", "canFail", (ins), [{}], [{
      return ::straightline::kernel::canFail(
          ::straightline::kernel::lookupEntry($_op.getOperation(), $_op.getEntry()));
    }]>,
  ];
}

#endif
