// SPDX-License-Identifier: Apache-2.0
// For debugging (pipeline option poison=true): fills the storage of every arena slot, border
// included, before each statement that may be the first to touch it in a run: NaN in floats, all
// bits set in integers. What was there belongs to a buffer that is dead by then, so a program whose
// live ranges, borders and in-place updates are right gives the same results; one that reads a byte
// it has not written gives NaN.
//
//   %a = kernel.slot offset(64) : T
//   kernel.launch @relu(%x) outs(%a)   ->   %v = kernel.view %a (all of its storage)
//                                           kernel.launch @poison(...) outs(%v) {team = 1}
//                                           kernel.launch @relu(%x) outs(%a)
//
// Stands after plan_memory, whose plan it must not change, and before insert_barriers, which sees
// the fills as statements. Leaves alone: memory of devices, bool (a byte that is neither 0 nor 1
// would be a fault of its own).
#include "dialect/kernel/recorded.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/live_ranges.h"
#include "passes/passes.h"

namespace straightline::passes {

#define GEN_PASS_DEF_POISONSLOTS
#include "passes/passes.h.inc"

namespace {

using mlir::Operation;
using mlir::Value;

/// NaN, or the integer with all bits set.
mlir::TypedAttr poisonOf(mlir::Type element) {
  if (auto type = llvm::dyn_cast<mlir::FloatType>(element)) {
    return mlir::FloatAttr::get(type, llvm::APFloat::getNaN(type.getFloatSemantics()));
  }
  const unsigned width = element.getIntOrFloatBitWidth();
  return mlir::IntegerAttr::get(mlir::IntegerType::get(element.getContext(), width),
                                llvm::APInt::getAllOnes(width));
}

/// Statements before which the storage holds no value of this run. A loop counts as one statement,
/// because later iterations read what earlier ones have written. Both branches of an `if` are
/// examined.
void firstTouches(mlir::Block& block, llvm::ArrayRef<Operation*> users,
                  llvm::SmallVectorImpl<Operation*>& firsts) {
  for (Operation& op : block) {
    if (!llvm::any_of(users, [&](Operation* user) { return op.isAncestor(user); })) {
      continue;
    }
    if (!llvm::isa<kernel::IfOp>(op)) {
      firsts.push_back(&op);
      return;
    }
    for (mlir::Region& region : op.getRegions()) {
      if (!region.empty()) {
        firstTouches(region.front(), users, firsts);
      }
    }
    return;
  }
}

struct PoisonSlotsPass : impl::PoisonSlotsBase<PoisonSlotsPass> {
  void runOnOperation() override {
    functions_.clear();
    for (auto program : getOperation().getOps<kernel::ProgramOp>()) {
      auto queues = program.getBodyBlock()->getOps<kernel::QueueOp>();
      queue_ = mlir::FlatSymbolRefAttr::get((*queues.begin()).getSymNameAttr());
      poisonRegion(program.getRunOp().getBody());
      if (kernel::PrepareOp prepare = program.getPrepareOp()) {
        poisonRegion(prepare.getBody());
      }
    }
  }

  void poisonRegion(mlir::Region& region) {
    llvm::SmallVector<kernel::SlotOp> slots;
    region.walk([&](kernel::SlotOp slot) { slots.push_back(slot); });
    for (kernel::SlotOp slot : slots) {
      auto type = llvm::cast<kernel::BufferType>(slot.getBuffer().getType());
      if (type.getSpace() != "host" || type.getElementType().isInteger(1)) {
        continue;
      }
      llvm::SmallVector<Operation*> firsts;
      firstTouches(*slot->getBlock(), LiveRanges::users(slot.getBuffer()), firsts);
      for (Operation* first : firsts) {
        poison(slot.getBuffer(), type, first);
      }
    }
  }

  void poison(Value slot, kernel::BufferType type, Operation* before) {
    mlir::OpBuilder builder(before);
    const mlir::AffineExpr elements = type.bytes().floorDiv(type.elementBytes());
    const symbolic::ExprList extents{llvm::SmallVector<mlir::StringAttr>(type.getNames()),
                                     {elements}};
    auto whole = kernel::BufferType::contiguous(&getContext(), extents, type.getElementType(),
                                                type.getSpace());
    auto offset =
        kernel::ExtentAttr::get(&getContext(), type.getNames(), -type.storageOffsetElems());
    Value storage = kernel::ViewOp::create(builder, before->getLoc(), whole, slot, offset);
    auto launch = kernel::LaunchOp::create(
        builder, before->getLoc(), mlir::FlatSymbolRefAttr::get(fillOf(whole).getSymNameAttr()),
        mlir::ValueRange(), mlir::ValueRange(storage), mlir::ValueRange(), queue_,
        builder.getI64IntegerAttr(1), builder.getStringAttr("poison"),
        builder.getStringAttr("pipeline option poison"));
    kernel::setCostUs(launch, 0);
  }

  /// The kernel that fills a row-major buffer of this type; one for all slots of equal type.
  kernel::FuncOp fillOf(kernel::BufferType type) {
    kernel::FuncOp& function = functions_[type];
    if (function) {
      return function;
    }
    mlir::OpBuilder builder(&getContext());
    builder.setInsertionPointToEnd(getOperation().getBody());
    auto number = [&](mlir::AffineExpr expr) -> mlir::Attribute {
      std::optional<int64_t> value = symbolic::constantValue(expr);
      return value ? mlir::Attribute(builder.getI64IntegerAttr(*value))
                   : mlir::Attribute(kernel::ExtentAttr::get(&getContext(), type.getNames(), expr));
    };
    const llvm::SmallVector<mlir::NamedAttribute> shape = {
        builder.getNamedAttr("extent", builder.getArrayAttr({number(type.getExtents()[0])})),
        builder.getNamedAttr("stride", builder.getArrayAttr({builder.getI64IntegerAttr(1)}))};
    const llvm::SmallVector<mlir::NamedAttribute> tune = {
        builder.getNamedAttr("rank", builder.getI64IntegerAttr(1))};
    auto schedule =
        kernel::ScheduleAttr::get(&getContext(), builder.getStringAttr("fill"), shape, tune);
    const std::string name = "poison_" + std::to_string(functions_.size());
    function = kernel::FuncOp::create(builder, builder.getUnknownLoc(), name, mlir::TypeRange(),
                                      mlir::TypeRange(type), mlir::TypeRange(), schedule, {"body"});
    mlir::Region& region = function.getBodies().front();
    mlir::Block* block = region.empty() ? &region.emplaceBlock() : &region.front();
    mlir::OpBuilder body = mlir::OpBuilder::atBlockEnd(block);
    Value value =
        mlir::arith::ConstantOp::create(body, function.getLoc(), poisonOf(type.getElementType()));
    kernel::YieldOp::create(body, function.getLoc(), value);
    return function;
  }

  mlir::FlatSymbolRefAttr queue_;
  llvm::DenseMap<mlir::Type, kernel::FuncOp> functions_;
};

}  // namespace

}  // namespace straightline::passes
