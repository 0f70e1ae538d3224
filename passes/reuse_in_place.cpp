// SPDX-License-Identifier: Apache-2.0
// Lets a kernel write its result over an operand that nobody reads any more, where the kernel says
// that the two may share storage element by element (its ties).
//
//   launch @relu(%a) outs(%b), %a dead afterwards  ->  launch @relu(%a) outs(%a)
//
// Refuses: storage that is not a slot, different types, another operand of the same statement in
// the same storage that is not tied to the result, an operand that is read again (also by the next
// round of a loop) or that something else touches which may run at the same time (kernel.step), a
// result that an earlier statement writes (its border apart), or whose border the first statement
// of a step writes.
#include "llvm/ADT/STLExtras.h"
#include "passes/live_ranges.h"
#include "passes/passes.h"
#include "passes/step_order.h"

namespace straightline::passes {

#define GEN_PASS_DEF_REUSEINPLACE
#include "passes/passes.h.inc"

namespace {

using mlir::Operation;
using mlir::Value;

bool isZeroBorder(Operation* op) {
  auto launch = llvm::dyn_cast<kernel::LaunchOp>(op);
  auto function = launch ? llvm::dyn_cast_if_present<kernel::FuncOp>(
                               kernel::lookupEntry(op, launch.getCalleeAttr()))
                         : kernel::FuncOp();
  return function && function.getSchedule().getFamily() == "zero_border";
}

struct ReuseInPlacePass : impl::ReuseInPlaceBase<ReuseInPlacePass> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<kernel::ProgramOp>()) {
      reuse(program.getRunOp().getBody());
      if (kernel::PrepareOp prepare = program.getPrepareOp()) {
        reuse(prepare.getBody());
      }
    }
  }

  void reuse(mlir::Region& region) {
    llvm::SmallVector<Operation*> calls;
    region.walk<mlir::WalkOrder::PreOrder>(
        [&](kernel::KernelCallInterface call) { calls.push_back(call); });
    for (Operation* op : calls) {
      auto call = llvm::cast<kernel::KernelCallInterface>(op);
      for (kernel::Tie tie : call.getTies()) {
        if (tryTie(region, call, tie)) {
          break;  // operands have changed: one reuse a statement
        }
      }
    }
  }

  bool tryTie(mlir::Region& region, kernel::KernelCallInterface call, kernel::Tie tie) {
    Value input = call.getInputs()[tie.input];
    Value output = call.getOutputs()[tie.output];
    auto from = input.getDefiningOp<kernel::SlotOp>();
    auto to = output.getDefiningOp<kernel::SlotOp>();
    if (!from || !to || from == to || input.getType() != output.getType()) {
      return false;
    }
    const LiveRanges ranges(region);
    Operation* statement = call.getOperation();
    const int64_t here = ranges.position(statement);
    const LiveRange inputRange = ranges.of(input);
    if (inputRange.last > here || !StepOrder(region).isBefore(input, statement)) {
      return false;
    }
    // Another operand in the operand's storage, or in the result's, is only safe when tied to this
    // result.
    for (auto [i, other] : llvm::enumerate(call.getInputs())) {
      const bool shares =
          kernel::storageRoot(other) == input || kernel::storageRoot(other) == output;
      const bool tied =
          llvm::is_contained(call.getTies(), kernel::Tie{static_cast<int64_t>(i), tie.output});
      if (shares && !tied) {
        return false;
      }
    }
    for (auto [i, other] : llvm::enumerate(call.getOutputs())) {
      if (static_cast<int64_t>(i) != tie.output && kernel::storageRoot(other) == input) {
        return false;
      }
    }
    // The result must not be written before, but for its border, which the operand has already.
    llvm::SmallVector<Operation*> borders;
    for (Operation* user : LiveRanges::users(output)) {
      if (ranges.position(user) >= here) {
        continue;
      }
      if (!isZeroBorder(user) || user->getBlock() != statement->getBlock() ||
          user->hasAttr(kernel::kStepAttr)) {
        return false;
      }
      borders.push_back(user);
    }
    if (ranges.of(output).first < here && borders.empty()) {
      return false;  // its live range begins before: a loop around the statement keeps it alive
    }
    for (Operation* border : borders) {
      border->erase();
    }
    output.replaceAllUsesWith(input);
    to.erase();
    return true;
  }
};

}  // namespace

}  // namespace straightline::passes
