// SPDX-License-Identifier: Apache-2.0
#include "dialect/kernel/kernel_dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include "dialect/kernel/kernel_dialect.cpp.inc"
#include "dialect/kernel/kernel_interfaces.cpp.inc"

namespace straightline::kernel {

void KernelDialect::initialize() {
  registerTypes();
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "dialect/kernel/kernel_ops.cpp.inc"
      >();
}

mlir::Operation* lookupEntry(mlir::Operation* op, mlir::FlatSymbolRefAttr symbol) {
  auto program = op->getParentOfType<ProgramOp>();
  if (!program) {
    return nullptr;
  }
  mlir::Operation* entry = mlir::SymbolTable::lookupNearestSymbolFrom(program->getParentOp(), symbol);
  return entry && llvm::isa<FuncOp, DeclOp>(entry) ? entry : nullptr;
}

bool isOutputRead(mlir::Operation* entry, unsigned output) {
  if (!entry) {
    return false;
  }
  auto func = llvm::dyn_cast<FuncOp>(entry);
  mlir::ArrayAttr roles = func ? func.getOutputRoles() : llvm::cast<DeclOp>(entry).getOutputRoles();
  return output < roles.size() &&
         llvm::cast<mlir::StringAttr>(roles[output]).getValue() == "readwrite";
}

llvm::SmallVector<Tie> getTies(mlir::Operation* entry) {
  llvm::SmallVector<Tie> ties;
  if (auto func = llvm::dyn_cast_or_null<FuncOp>(entry)) {
    llvm::ArrayRef<int64_t> pairs = func.getTies();
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      ties.push_back({pairs[i], pairs[i + 1]});
    }
  }
  return ties;
}

bool canFail(mlir::Operation* entry) {
  if (auto func = llvm::dyn_cast_or_null<FuncOp>(entry)) {
    return func.getCanFail() || runsOnDevice(func);  // a device may refuse
  }
  auto decl = llvm::dyn_cast_or_null<DeclOp>(entry);
  return decl && decl.getCanFail();
}

bool runsOnDevice(mlir::Operation* entry) { return entry && entry->hasAttr(kBlocksAttr); }

mlir::Value storageRoot(mlir::Value buffer) {
  while (auto view = buffer.getDefiningOp<ViewOp>()) {
    buffer = view.getBase();
  }
  return buffer;
}

}  // namespace straightline::kernel
