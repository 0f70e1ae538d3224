// SPDX-License-Identifier: Apache-2.0
#include "passes/fusion_group.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace straightline::passes {

using mlir::Block;
using mlir::Operation;
using mlir::Value;

namespace {

/// Limits of one kernel: compile time and registers, and pointers in one signature.
constexpr size_t kLargestGroup = 64;
constexpr size_t kMostOperands = 12;

/// Free to compute again inside a kernel.
bool isAbsorbed(Operation* operation) {
  return llvm::isa_and_nonnull<op::ExpandOp, op::FullOp>(operation);
}

/// Users of the op's results, as ops of its block.
llvm::SmallVector<Operation*> usersInBlock(Operation* operation) {
  llvm::SmallVector<Operation*> users;
  for (Operation* user : operation->getUsers()) {
    if (Operation* ancestor = operation->getBlock()->findAncestorOpInBlock(*user)) {
      users.push_back(ancestor);
    }
  }
  return users;
}

/// Distinct values read from outside plus values given to the outside.
size_t operandCount(const FusionGroup& group) {
  llvm::DenseSet<Value> inputs;
  size_t results = 0;
  for (Operation* member : group) {
    for (Value operand : member->getOperands()) {
      Operation* maker = operand.getDefiningOp();
      if ((maker && group.contains(maker)) || llvm::isa_and_nonnull<op::FullOp>(maker)) {
        continue;  // a splat literal is written into the body
      }
      inputs.insert(llvm::isa_and_nonnull<op::ExpandOp>(maker) ? maker->getOperand(0) : operand);
    }
    results +=
        llvm::any_of(usersInBlock(member), [&](Operation* user) { return !group.contains(user); })
            ? 1
            : 0;
  }
  return inputs.size() + results;
}

/// Fills the fusion's body.
class BodyWriter {
 public:
  // The body belongs to no op yet, so the builder takes its context from the location.
  BodyWriter(Block& body, mlir::Location loc) : body_(body), builder_(loc.getContext()), loc_(loc) {
    builder_.setInsertionPointToEnd(&body);
  }

  void addInput(Value value) {
    inputs_.push_back(value);
    arguments_.push_back(body_.addArgument(value.getType(), loc_));
  }
  /// A contraction with `takesLeading` reads exactly the leading arguments, one an operand.
  void addOp(Operation* operation, bool takesLeading) {
    llvm::SmallVector<Value> operands;
    for (auto [place, operand] : llvm::enumerate(operation->getOperands())) {
      operands.push_back(takesLeading ? arguments_[place] : inside(operand));
    }
    Operation* copy = builder_.clone(*operation);
    copy->setOperands(operands);
    op::clearPrepared(copy);
    known_.map(operation->getResults(), copy->getResults());
  }
  void setLeading(mlir::ValueRange leading) {
    for (Value value : leading) {
      addInput(value);
    }
  }
  Value lookup(Value value) { return known_.lookup(value); }
  llvm::ArrayRef<Value> inputs() const { return inputs_; }
  mlir::OpBuilder& builder() { return builder_; }

 private:
  Value inside(Value value) {
    if (Value found = known_.lookupOrNull(value)) {
      return found;
    }
    Operation* maker = value.getDefiningOp();
    if (isAbsorbed(maker)) {
      mlir::IRMapping mapping;
      for (Value operand : maker->getOperands()) {
        mapping.map(operand, inside(operand));
      }
      Operation* copy = builder_.clone(*maker, mapping);
      op::clearPrepared(copy);
      known_.map(value, copy->getResult(0));
      return copy->getResult(0);
    }
    addInput(value);
    known_.map(value, arguments_.back());
    return arguments_.back();
  }

  Block& body_;
  mlir::OpBuilder builder_;
  mlir::Location loc_;
  mlir::IRMapping known_;
  llvm::SmallVector<Value> inputs_, arguments_;
};

/// Erases expands and literals that nobody reads any more.
void eraseDead(Block& block) {
  for (Operation& operation : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (mlir::isOpTriviallyDead(&operation)) {
      operation.erase();
    }
  }
}

}  // namespace

bool isIndexArithmetic(Operation* operation) {
  llvm::SmallVector<Operation*> open = {operation};
  bool loopIndex = false;
  while (!open.empty()) {
    Operation* current = open.pop_back_val();
    auto type = llvm::cast<mlir::RankedTensorType>(current->getResult(0).getType());
    if (type.getRank() != 0 || !llvm::isa<mlir::IntegerType>(type.getElementType())) {
      return false;
    }
    if (llvm::isa<op::FullOp, op::ConstantOp>(current)) {
      continue;
    }
    if (!llvm::isa<op::ElementwiseOpInterface>(current)) {
      return false;
    }
    for (Value operand : current->getOperands()) {
      auto argument = llvm::dyn_cast<mlir::BlockArgument>(operand);
      const bool index = argument && argument.getArgNumber() == 0 &&
                         llvm::isa<op::ForOp>(argument.getOwner()->getParentOp());
      loopIndex |= index;
      if (Operation* maker = operand.getDefiningOp()) {
        open.push_back(maker);
      } else if (!index) {
        return false;
      }
    }
  }
  return loopIndex;
}

bool isConvex(const FusionGroup& group) {
  Operation* last =
      *llvm::max_element(group, [](Operation* a, Operation* b) { return a->isBeforeInBlock(b); });
  llvm::SmallVector<Operation*> open;
  llvm::DenseSet<Operation*> seen;
  for (Operation* member : group) {
    for (Operation* user : usersInBlock(member)) {
      if (!group.contains(user) && seen.insert(user).second) {
        open.push_back(user);
      }
    }
  }
  while (!open.empty()) {
    Operation* outside = open.pop_back_val();
    if (!outside->isBeforeInBlock(last)) {
      continue;
    }
    for (Operation* user : usersInBlock(outside)) {
      if (group.contains(user)) {
        return false;
      }
      if (seen.insert(user).second) {
        open.push_back(user);
      }
    }
  }
  return true;
}

bool inSamePhase(Operation* a, Operation* b) { return op::isPrepared(a) == op::isPrepared(b); }

void grow(FusionGroup& group, llvm::function_ref<bool(Operation*)> accepts) {
  bool changed = true;
  auto consider = [&](Operation* candidate) {
    if (!candidate || group.contains(candidate) ||
        candidate->getBlock() != group.front()->getBlock() || group.size() >= kLargestGroup ||
        !inSamePhase(candidate, group.front()) || !accepts(candidate)) {
      return;
    }
    group.insert(candidate);
    if (isConvex(group) && operandCount(group) <= kMostOperands) {
      changed = true;
    } else {
      group.remove(candidate);
    }
  };
  while (changed) {
    changed = false;
    for (size_t place = 0; place < group.size(); ++place) {
      Operation* member = group[place];
      for (Value operand : member->getOperands()) {
        consider(operand.getDefiningOp());
      }
      for (Operation* user : usersInBlock(member)) {
        consider(user);
      }
    }
  }
}

void restoreOrder(op::FusionOp fusion) {
  // The operands stand before the last member, whose place the fusion has taken; the users may
  // stand between the members.
  llvm::SetVector<Operation*> late;
  const auto add = [&](Operation* operation) {
    for (Operation* user : usersInBlock(operation)) {
      if (user->isBeforeInBlock(fusion)) {
        late.insert(user);
      }
    }
  };
  add(fusion);
  for (size_t i = 0; i < late.size(); ++i) {
    add(late[i]);
  }
  llvm::SmallVector<Operation*> ordered = late.takeVector();
  llvm::sort(ordered, [](Operation* a, Operation* b) { return a->isBeforeInBlock(b); });
  for (Operation* operation : llvm::reverse(ordered)) {
    operation->moveAfter(fusion);
  }
}

op::FusionOp outline(const FusionGroup& group, llvm::StringRef family, mlir::ValueRange leading) {
  llvm::SmallVector<Operation*> members(group.begin(), group.end());
  llvm::sort(members, [](Operation* a, Operation* b) { return a->isBeforeInBlock(b); });
  Block* block = members.front()->getBlock();
  mlir::OpBuilder builder(members.back());
  llvm::SmallVector<mlir::Location> locations;
  for (Operation* member : members) {
    locations.push_back(member->getLoc());
  }
  const mlir::Location loc = builder.getFusedLoc(locations);

  auto body = std::make_unique<mlir::Region>();
  BodyWriter writer(body->emplaceBlock(), loc);
  writer.setLeading(leading);
  for (Operation* member : members) {
    writer.addOp(member, !leading.empty() && member->hasTrait<op::Contraction>());
  }
  llvm::SmallVector<Value> results, yielded;
  for (Operation* member : members) {
    for (Value result : member->getResults()) {
      const bool seen = llvm::any_of(result.getUsers(), [&](Operation* user) {
        return !group.contains(block->findAncestorOpInBlock(*user));
      });
      if (seen) {
        results.push_back(result);
        yielded.push_back(writer.lookup(result));
      }
    }
  }
  op::YieldOp::create(writer.builder(), loc, yielded);
  auto fusion = op::FusionOp::create(builder, loc, mlir::TypeRange(mlir::ValueRange(results)),
                                     writer.inputs(), family);
  fusion.getBody().takeBody(*body);
  if (op::isPrepared(members.front())) {
    op::setPrepared(fusion);
  }
  for (auto [old, fresh] : llvm::zip(results, fusion.getResults())) {
    old.replaceAllUsesWith(fresh);
  }
  for (Operation* member : llvm::reverse(members)) {
    member->dropAllUses();
    member->erase();
  }
  restoreOrder(fusion);
  eraseDead(*block);
  return fusion;
}

void forEachBlock(mlir::func::FuncOp function, llvm::function_ref<void(Block&)> fuse) {
  llvm::SmallVector<Block*> blocks;
  function.walk<mlir::WalkOrder::PreOrder>([&](Operation* operation) {
    if (llvm::isa<op::FusionOp>(operation)) {
      return mlir::WalkResult::skip();
    }
    for (mlir::Region& region : operation->getRegions()) {
      for (Block& block : region) {
        blocks.push_back(&block);
      }
    }
    return mlir::WalkResult::advance();
  });
  for (Block* block : blocks) {
    mlir::sortTopologically(block);
    fuse(*block);
  }
}

}  // namespace straightline::passes
