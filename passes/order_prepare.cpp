// SPDX-License-Identifier: Apache-2.0
// Moves statements of prepare that fill scratch to just before the first one that reads it.
//
//   launch @scale(%w0) outs(%a); launch @scale(%w1) outs(%b); launch @pack(%a) ...; launch
//   @pack(%b) ...
//     ->  launch @scale(%w0) outs(%a); launch @pack(%a) ...; launch @scale(%w1) outs(%b); launch
//         @pack(%b) ...
//
// Lowering makes the values in the order of the operations and packs them where their readers
// stand, which would keep a second copy of all weights alive; this way there is one of the largest,
// and it is read while it lies in the caches.
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/passes.h"

namespace straightline::passes {

#define GEN_PASS_DEF_ORDERPREPARE
#include "passes/passes.h.inc"

namespace {

using mlir::Operation;
using mlir::Value;

/// The storage that a statement of prepare, nested ones included, touches and writes.
struct Accesses {
  llvm::DenseSet<Value> touched;
  llvm::DenseSet<Value> written;

  explicit Accesses(Operation* statement) {
    statement->walk([&](Operation* op) {
      for (Value operand : op->getOperands()) {
        touched.insert(kernel::storageRoot(operand));
      }
      if (auto call = llvm::dyn_cast<kernel::KernelCallInterface>(op)) {
        for (Value output : call.getOutputs()) {
          written.insert(kernel::storageRoot(output));
        }
        for (Value workspace : call.getWorkspace()) {
          written.insert(kernel::storageRoot(workspace));
        }
      } else if (op->getNumRegions() == 0) {
        for (Value operand : op->getOperands()) {
          written.insert(kernel::storageRoot(operand));  // not known better
        }
      }
    });
  }

  bool mustStayBefore(const Accesses& later) const {
    return llvm::any_of(written, [&](Value root) { return later.touched.contains(root); }) ||
           llvm::any_of(touched, [&](Value root) { return later.written.contains(root); });
  }
};

struct OrderPreparePass : impl::OrderPrepareBase<OrderPreparePass> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<kernel::ProgramOp>()) {
      if (kernel::PrepareOp prepare = program.getPrepareOp()) {
        order(prepare.getBody().front());
      }
    }
  }

  static bool fillsScratch(Operation* op) {
    auto launch = llvm::dyn_cast<kernel::LaunchOp>(op);
    return launch && llvm::all_of(launch.getOutputs(), [](Value output) {
             return kernel::storageRoot(output).getDefiningOp<kernel::SlotOp>() != nullptr;
           });
  }

  /// Goes from the last statement to the first, so that the readers of a statement are in their
  /// final places before the statement moves.
  static void order(mlir::Block& block) {
    llvm::SmallVector<Operation*> statements;
    for (Operation& op : block) {
      if (!llvm::isa<kernel::SlotOp, kernel::ViewOp>(op)) {
        statements.push_back(&op);
      }
    }
    llvm::DenseMap<Operation*, Accesses> accesses;
    for (Operation* op : statements) {
      accesses.try_emplace(op, op);
    }
    for (Operation* op : llvm::reverse(statements)) {
      if (!fillsScratch(op)) {
        continue;
      }
      const Accesses& own = accesses.find(op)->second;
      for (Operation* next = op->getNextNode(); next; next = next->getNextNode()) {
        const auto found = accesses.find(next);
        if (found != accesses.end() && own.mustStayBefore(found->second)) {
          op->moveBefore(next);
          break;
        }
      }
    }
  }
};

}  // namespace

}  // namespace straightline::passes
