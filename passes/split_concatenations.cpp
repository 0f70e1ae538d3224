// SPDX-License-Identifier: Apache-2.0
// Computes, half by half, elementwise ops that read a concatenation of two halves of one tensor's
// rows, and the ops that made that tensor. All of it is then one kernel, and no data is moved
// (rotary embedding, with the norm before it):
//
//   y = norm(x);  z = y * cos + cat(-y[64:], y[:64]) * sin
//     ->  s = sum(x0 * x0 + x1 * x1);  y0, y1 = ..;  z = cat(y0 * cos0 + -y1 * sin0, y1 * cos1 + y0
//         * sin1)
//
// Values that have another shape or another reader, or depend on parameters only, are computed as
// before, and halves of them are read, which are views. Sums and maxima over the last dim become
// those of both halves together; dims before the last may be permuted or reshaped on the way. Runs
// before fusion, which makes one group of the halves, each written where it is wanted in the
// concatenation.
#include <map>
#include <tuple>
#include <vector>

#include "llvm/ADT/SetVector.h"
#include "passes/fusion_group.h"
#include "passes/passes.h"
#include "passes/value_builder.h"

namespace straightline::passes {

#define GEN_PASS_DEF_SPLITCONCATENATIONS
#include "passes/passes.h.inc"

namespace {

using mlir::Operation;
using mlir::RankedTensorType;
using mlir::Value;
/// The permutes and reshapes between a value and the concatenation, the one next to the
/// concatenation first. Applied from last to first they bring the value into the concatenation's
/// order of dims; all keep the last dim.
using Space = std::vector<Operation*>;

RankedTensorType typeOf(Value value) { return llvm::cast<RankedTensorType>(value.getType()); }
bool sameShape(Value a, Value b) {
  return typeOf(a).getShape() == typeOf(b).getShape() &&
         typeOf(a).getEncoding() == typeOf(b).getEncoding();
}
bool isElementwise(Operation* op) {
  return llvm::isa_and_present<op::ElementwiseOpInterface>(op) && !op::isPrepared(op);
}

/// The half of x's rows that the slice is; -1: none.
int halfOf(op::SliceOp slice, int64_t half) {
  const auto rank = typeOf(slice.getX()).getRank();
  if (static_cast<int64_t>(slice.getDim()) != rank - 1 || slice.getStep() != 1 ||
      typeOf(slice.getX()).getShape().back() != 2 * half ||
      typeOf(slice.getResult()).getShape().back() != half) {
    return -1;
  }
  const int64_t start = static_cast<int64_t>(slice.getStart());
  return start == 0 ? 0 : start == half || start == -half ? 1 : -1;
}

/// One concatenation, and the elementwise ops behind it.
class Splitter {
 public:
  explicit Splitter(op::CatOp cat) : cat_(cat), builder_(cat), make_(builder_, cat.getLoc()) {}

  bool split() {
    if (!fits()) {
      return false;
    }
    // A value with other readers would be computed twice: the halves are read from it instead.
    bool changed = true;
    while (changed) {
      changed = false;
      visited_.clear();
      known_.clear();
      part(last_, {}, 0);
      part(last_, {}, 1);
      for (Operation* op : llvm::to_vector(visited_)) {
        const bool closed =
            op == last_.getDefiningOp() ||
            llvm::all_of(op->getUsers(), [&](Operation* user) { return visited_.contains(user); });
        if (!closed && leaves_.insert(op).second) {
          changed = true;
        }
      }
    }
    if (!visited_.contains(cat_)) {
      return false;
    }
    build();
    return true;
  }

 private:
  /// Two parts of equal size along the last dim, both elementwise from halves of one tensor of the
  /// result's shape.
  bool fits() {
    const RankedTensorType type = typeOf(cat_.getResult());
    const int64_t rank = type.getRank();
    if (cat_.getTensors().size() != 2 || rank == 0 ||
        static_cast<int64_t>(cat_.getDim()) != rank - 1 || type.isDynamicDim(rank - 1) ||
        !sameShape(cat_.getTensors()[0], cat_.getTensors()[1]) || op::isPrepared(cat_)) {
      return false;
    }
    half_ = type.getShape().back() / 2;
    for (Value tensor : cat_.getTensors()) {
      Value base = tensor;
      while (isElementwise(base.getDefiningOp()) && base.getDefiningOp()->getNumOperands() == 1) {
        base = base.getDefiningOp()->getOperand(0);
      }
      auto slice = base.getDefiningOp<op::SliceOp>();
      if (!slice || halfOf(slice, half_) < 0 || (source_ && slice.getX() != source_)) {
        return false;
      }
      source_ = slice.getX();
    }
    last_ = cat_.getResult();
    while (last_.hasOneUse()) {
      Operation* user = *last_.getUsers().begin();
      if (!isElementwise(user) || user->getBlock() != cat_->getBlock() ||
          !sameShape(user->getResult(0), cat_.getResult())) {
        break;
      }
      last_ = user->getResult(0);
    }
    return last_ != cat_.getResult() && sameShape(source_, cat_.getResult());
  }

  int64_t lastDim() { return typeOf(cat_.getResult()).getRank() - 1; }
  RankedTensorType like(Value value, int64_t lastExtent) {
    ValueBuilder::Extents extents = make_.extents(cat_.getResult());
    extents.back() = make_.number(lastExtent);
    return make_.type(ValueBuilder::elementOf(value), extents);
  }
  bool isOpen(Operation* op) {
    return op && !leaves_.contains(op) && op->getBlock() == cat_->getBlock();
  }

  /// `op` with other operands, its result of `type`.
  Value copy(Operation* op, mlir::ValueRange operands, RankedTensorType type) {
    if (!builds_) {
      return {};
    }
    Operation* fresh = builder_.clone(*op);
    fresh->setOperands(operands);
    fresh->getResult(0).setType(type);
    return fresh->getResult(0);
  }
  /// The value in the concatenation's order of dims; the extent of its last dim may differ.
  Value inOrder(Value value, const Space& space) {
    for (Operation* view : llvm::reverse(space)) {
      if (auto permute = llvm::dyn_cast<op::PermuteOp>(view)) {
        value = make_.permute(value, permute.getDims());
        continue;
      }
      ValueBuilder::Extents extents = make_.extents(view->getResult(0));
      extents.back() = make_.extents(value).back();
      value = make_.reshape(value, extents);
    }
    return value;
  }
  /// A view that keeps whole rows.
  static bool keepsRows(Operation* op) {
    if (auto permute = llvm::dyn_cast_if_present<op::PermuteOp>(op)) {
      return permute.getDims().back() == typeOf(permute.getResult()).getRank() - 1;
    }
    auto reshape = llvm::dyn_cast_if_present<op::ReshapeOp>(op);
    return reshape && typeOf(reshape.getX()).getRank() > 0 &&
           typeOf(reshape.getX()).getShape().back() ==
               typeOf(reshape.getResult()).getShape().back();
  }
  Value splat(op::FullOp full, RankedTensorType type) {
    return builds_ ? op::FullOp::create(builder_, full.getLoc(), type, full.getValue()).getResult()
                   : Value();
  }

  /// Half `i` of a value of full rows.
  Value part(Value value, const Space& space, int i) {
    const auto key = std::make_tuple(value.getAsOpaquePointer(), space, i);
    if (auto found = known_.find(key); found != known_.end()) {
      return found->second;
    }
    Value made = makePart(value, space, i);
    known_[key] = made;
    return made;
  }
  Value makePart(Value value, const Space& space, int i) {
    Operation* op = value.getDefiningOp();
    const RankedTensorType type = like(value, half_);
    if (op == cat_) {
      visited_.insert(op);
      return half(cat_.getTensors()[i]);
    }
    if (auto full = llvm::dyn_cast_if_present<op::FullOp>(op)) {
      return splat(full, type);
    }
    if (isOpen(op) && isElementwise(op)) {
      visited_.insert(op);
      llvm::SmallVector<Value> operands;
      for (Value operand : op->getOperands()) {
        operands.push_back(part(operand, space, i));
      }
      return copy(op, operands, type);
    }
    if (isOpen(op) && keepsRows(op)) {
      visited_.insert(op);
      Space inner = space;
      inner.push_back(op);
      return part(op->getOperand(0), inner, i);
    }
    auto expand = llvm::dyn_cast_if_present<op::ExpandOp>(op);
    if (expand && isOpen(op) && isRow(expand.getX(), value)) {
      visited_.insert(op);
      Value one = row(expand.getX(), space);
      return builds_ ? op::ExpandOp::create(builder_, expand.getLoc(), type, one).getResult()
                     : Value();
    }
    return builds_ ? make_.slice(inOrder(value, space), lastDim(), i * half_, (i + 1) * half_)
                   : Value();
  }

  /// A value of half rows: what the concatenation is made of.
  Value half(Value value) {
    Operation* op = value.getDefiningOp();
    if (auto slice = llvm::dyn_cast_if_present<op::SliceOp>(op);
        slice && slice.getX() == source_ && halfOf(slice, half_) >= 0) {
      visited_.insert(op);
      return part(source_, {}, halfOf(slice, half_));
    }
    if (isOpen(op) && isElementwise(op)) {
      visited_.insert(op);
      return copy(
          op, llvm::map_to_vector(op->getOperands(), [&](Value operand) { return half(operand); }),
          typeOf(value));
    }
    return value;
  }

  /// One value a row of `full`, in its rank.
  bool isRow(Value value, Value full) {
    ValueBuilder::Extents extents = make_.extents(full);
    extents.back() = make_.number(1);
    return make_.extents(value) == extents;
  }
  Value row(Value value, const Space& space) {
    const auto key = std::make_tuple(value.getAsOpaquePointer(), space, 2);
    if (auto found = known_.find(key); found != known_.end()) {
      return found->second;
    }
    Value made = makeRow(value, space);
    known_[key] = made;
    return made;
  }
  Value makeRow(Value value, const Space& space) {
    Operation* op = value.getDefiningOp();
    const RankedTensorType type = like(value, 1);
    if (auto full = llvm::dyn_cast_if_present<op::FullOp>(op)) {
      return splat(full, type);
    }
    if (isOpen(op) && isElementwise(op)) {
      visited_.insert(op);
      return copy(op,
                  llvm::map_to_vector(op->getOperands(),
                                      [&](Value operand) { return row(operand, space); }),
                  type);
    }
    auto reduction = llvm::dyn_cast_if_present<op::ReductionOpInterface>(op);
    if (reduction && isOpen(op) && isOfRow(reduction)) {
      visited_.insert(op);
      Value low = part(op->getOperand(0), space, 0), high = part(op->getOperand(0), space, 1);
      return builds_ ? reduced(op, low, high, type) : Value();
    }
    return builds_ ? inOrder(value, space) : Value();
  }
  bool isOfRow(op::ReductionOpInterface reduction) {
    const int64_t last = typeOf(reduction->getOperand(0)).getRank() - 1;
    return llvm::isa<op::SumOp, op::MeanOp, op::AmaxOp, op::AminOp>(reduction) &&
           reduction.keepsReducedDims() &&
           typeOf(reduction->getOperand(0)).getShape().back() == 2 * half_ &&
           reduction.getReducedDims() == llvm::SmallVector<int64_t>{last};
  }
  /// The reduction of both halves.
  Value reduced(Operation* op, Value low, Value high, RankedTensorType type) {
    Value both = llvm::isa<op::AmaxOp>(op)   ? make_.make<op::MaximumOp>(low, high)
                 : llvm::isa<op::AminOp>(op) ? make_.make<op::MinimumOp>(low, high)
                                             : make_.make<op::AddOp>(low, high);
    Value result = copy(op, both, type);
    // views may have changed the rank
    result.getDefiningOp()->setAttr("dims", builder_.getDenseI64ArrayAttr({lastDim()}));
    return llvm::isa<op::MeanOp>(op) ? make_.make<op::MulOp>(result, make_.full(type, 0.5))
                                     : result;
  }

  void build() {
    builds_ = true;
    known_.clear();
    builder_.setInsertionPointAfter(last_.getDefiningOp());
    Value low = part(last_, {}, 0), high = part(last_, {}, 1);
    Value whole = make_.cat({low, high}, lastDim());
    last_.replaceAllUsesWith(whole);
    mlir::Block* block = cat_->getBlock();
    for (Operation& op : llvm::make_early_inc_range(llvm::reverse(*block))) {
      if (visited_.contains(&op) && op.use_empty()) {
        op.erase();
      }
    }
  }

  op::CatOp cat_;
  mlir::OpBuilder builder_;
  ValueBuilder make_;
  int64_t half_ = 0;
  Value source_, last_;
  bool builds_ = false;  ///< false: only determines what would be built
  llvm::SetVector<Operation*> visited_;
  llvm::SmallPtrSet<Operation*, 8> leaves_;
  std::map<std::tuple<void*, Space, int>, Value> known_;
};

struct SplitConcatenationsPass : impl::SplitConcatenationsBase<SplitConcatenationsPass> {
  void runOnOperation() override {
    forEachBlock(getOperation(), [](mlir::Block& block) {
      for (op::CatOp cat : llvm::to_vector(block.getOps<op::CatOp>())) {
        Splitter(cat).split();
      }
    });
  }
};

}  // namespace

}  // namespace straightline::passes
