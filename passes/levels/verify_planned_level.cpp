// SPDX-License-Identifier: Apache-2.0
// Computes live ranges and overlaps by itself, from the text of the program and numbers for the
// named extents: a fault of the planner is not repeated here.
#include <limits>
#include <memory>
#include <vector>

#include "dialect/kernel/recorded.h"
#include "llvm/ADT/DynamicAPInt.h"
#include "passes/levels/levels.h"

namespace straightline {

using kernel::BufferType;
using mlir::AffineExpr;
using mlir::LogicalResult;
using mlir::Operation;
using mlir::StringAttr;
using mlir::Value;

namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kMostPoints = 4096;

/// Of any size: bytes at the highest values of several extents exceed 64 bits, which no call
/// reaches and where no two places may seem to overlap.
using Integer = llvm::DynamicAPInt;

/// Values of the named extents.
using Point = llvm::DenseMap<StringAttr, int64_t>;

/// Each value of an extent when `all`, else lowest, highest, the ones beside these, and the middle.
llvm::SmallVector<int64_t> valuesOf(kernel::ExtentOp extent, bool all) {
  const int64_t lowest = extent.getMin();
  const int64_t highest = extent.getMax();
  llvm::SmallVector<int64_t> values;
  if (all) {
    for (int64_t value = lowest; value <= highest; ++value) {
      values.push_back(value);
    }
    return values;
  }
  for (int64_t value :
       {lowest, lowest + 1, lowest + (highest - lowest) / 2, highest - 1, highest}) {
    if (value >= lowest && value <= highest && !llvm::is_contained(values, value)) {
      values.push_back(value);
    }
  }
  return values;
}

/// One of `count` choices, evenly spread over `number` (the finalizer of MurmurHash3); the first
/// and the last one for the numbers 0 and 1.
int64_t chosen(int64_t number, int64_t extent, int64_t count) {
  if (number < 2) {
    return number * (count - 1);
  }
  uint64_t bits = static_cast<uint64_t>(number) << 32 | static_cast<uint64_t>(extent);
  for (uint64_t factor : {0xff51afd7ed558ccdULL, 0xc4ceb9fe1a85ec53ULL}) {
    bits = (bits ^ bits >> 33) * factor;
  }
  return static_cast<int64_t>((bits ^ bits >> 33) % static_cast<uint64_t>(count));
}

/// All values of the extents when there are few, else some of each in all combinations, and of
/// these combinations some when there are many.
llvm::SmallVector<Point> pointsOf(kernel::ProgramOp program) {
  auto limited = [](int64_t total, int64_t count) {
    return count > kMostPoints / total ? kMostPoints + 1 : total * count;
  };
  auto ops = program.getBodyBlock()->getOps<kernel::ExtentOp>();
  llvm::SmallVector<kernel::ExtentOp> extents(ops.begin(), ops.end());
  int64_t total = 1;
  for (kernel::ExtentOp extent : extents) {
    total = limited(
        total, static_cast<int64_t>(extent.getMax()) - static_cast<int64_t>(extent.getMin()) + 1);
  }
  llvm::SmallVector<llvm::SmallVector<int64_t>> values;
  for (kernel::ExtentOp extent : extents) {
    values.push_back(valuesOf(extent, total <= kMostPoints));
  }
  int64_t combinations = 1;
  for (const auto& of : values) {
    combinations = limited(combinations, static_cast<int64_t>(of.size()));
  }
  llvm::SmallVector<Point> points(std::min(combinations, kMostPoints));
  for (auto [number, point] : llvm::enumerate(points)) {
    int64_t rest = static_cast<int64_t>(number);
    for (auto [place, extent] : llvm::enumerate(extents)) {
      const int64_t count = static_cast<int64_t>(values[place].size());
      const int64_t choice =
          combinations <= kMostPoints
              ? rest % count
              : chosen(static_cast<int64_t>(number), static_cast<int64_t>(place), count);
      point[extent.getSymNameAttr()] = values[place][choice];
      rest /= count;
    }
  }
  return points;
}

Integer valueAt(AffineExpr expr, llvm::ArrayRef<StringAttr> names, const Point& point);

/// No computed extent exceeds its bound.
void keepBounds(kernel::ProgramOp program, llvm::MutableArrayRef<Point> points) {
  for (auto extent : program.getBodyBlock()->getOps<kernel::ExtentOp>()) {
    for (Point& point : points) {
      if (kernel::ExtentAttr bound = extent.getBoundAttr()) {
        const Integer most = valueAt(bound.getExpr(), bound.getNames(), point);
        int64_t& value = point[extent.getSymNameAttr()];
        value = most < Integer(value) ? static_cast<int64_t>(most) : value;
      }
    }
  }
}

Integer valueAt(AffineExpr expr, llvm::ArrayRef<StringAttr> names, const Point& point) {
  if (auto constant = llvm::dyn_cast<mlir::AffineConstantExpr>(expr)) {
    return Integer(constant.getValue());
  }
  if (auto symbol = llvm::dyn_cast<mlir::AffineSymbolExpr>(expr)) {
    return Integer(point.lookup(names[symbol.getPosition()]));
  }
  const auto binary = llvm::cast<mlir::AffineBinaryOpExpr>(expr);
  const Integer left = valueAt(binary.getLHS(), names, point);
  const Integer right = valueAt(binary.getRHS(), names, point);
  const bool divides =
      expr.getKind() != mlir::AffineExprKind::Add && expr.getKind() != mlir::AffineExprKind::Mul;
  if (divides && right == Integer(0)) {
    return Integer(0);  // as the runtime computes it (runtime/expression.cpp)
  }
  switch (expr.getKind()) {
    case mlir::AffineExprKind::Add:
      return left + right;
    case mlir::AffineExprKind::Mul:
      return left * right;
    case mlir::AffineExprKind::Mod:
      return llvm::mod(left, right);
    case mlir::AffineExprKind::FloorDiv:
      return llvm::floorDiv(left, right);
    default:
      return llvm::ceilDiv(left, right);
  }
}

kernel::ExtentAttr placeOf(Value buffer) {
  if (auto slot = buffer.getDefiningOp<kernel::SlotOp>()) {
    return slot.getOffsetAttr();
  }
  auto prepared = buffer.getDefiningOp<kernel::PreparedOp>();
  return prepared ? prepared.getOffsetAttr() : kernel::ExtentAttr();
}

/// Where placed buffers begin and end at each point, computed once for each buffer.
class Places {
 public:
  explicit Places(llvm::SmallVector<Point> points) : points_(std::move(points)) {}

  /// Whether the storages of two placed buffers overlap for some extents. Borders belong to the
  /// storage.
  bool overlap(Value a, Value b) {
    if (llvm::cast<BufferType>(a.getType()).getSpace() !=
        llvm::cast<BufferType>(b.getType()).getSpace()) {
      return false;
    }
    return llvm::any_of(llvm::zip_equal(of(a), of(b)), [](const auto& pair) {
      const auto& [one, other] = pair;
      return one.start < other.end && other.start < one.end;
    });
  }

 private:
  struct Place {
    Integer start, end;
  };

  llvm::ArrayRef<Place> of(Value buffer) {
    std::unique_ptr<std::vector<Place>>& known = places_[buffer];
    if (!known) {
      known = std::make_unique<std::vector<Place>>();
      auto type = llvm::cast<BufferType>(buffer.getType());
      const kernel::ExtentAttr place = placeOf(buffer);
      for (const Point& point : points_) {
        const Integer start = valueAt(place.getExpr(), place.getNames(), point);
        known->push_back({start, start + valueAt(type.bytes(), type.getNames(), point)});
      }
    }
    return *known;
  }

  llvm::SmallVector<Point> points_;
  llvm::DenseMap<Value, std::unique_ptr<std::vector<Place>>> places_;
};

LogicalResult verifyPlace(Operation* op, kernel::ExtentAttr place) {
  if (!place) {
    return op->emitOpError() << "has no offset (planned_c1)";
  }
  if (!place.getExpr().isMultipleOf(kAlignment)) {
    return op->emitOpError() << "has offset " << place << ", expected a multiple of " << kAlignment
                             << " (planned_c2)";
  }
  return mlir::success();
}

/// First and last place in the order of the text where a slot's bytes matter, both included.
struct LiveRange {
  int64_t first = -1;
  int64_t last = -1;
};

class LiveRanges {
 public:
  explicit LiveRanges(mlir::Region& region) { walk(region.front()); }

  const llvm::MapVector<Value, LiveRange>& all() const { return ranges_; }

 private:
  void touch(Value slot, int64_t first, int64_t last) {
    LiveRange& range = ranges_[slot];
    range.first = range.first < 0 ? first : std::min(range.first, first);
    range.last = std::max(range.last, last);
  }

  void walk(mlir::Block& block) {
    for (Operation& op : block) {
      const int64_t start = position_++;
      if (op.getNumRegions() == 0) {
        for (const Access& access : accessesOf(&op)) {
          if (access.root.getDefiningOp<kernel::SlotOp>()) {
            const bool isAlways = kernel::isWrittenEarly(&op, access.root);
            touch(access.root, isAlways ? 0 : start,
                  isAlways ? std::numeric_limits<int64_t>::max() : start);
          }
        }
        continue;
      }
      for (mlir::Region& region : op.getRegions()) {
        if (!region.empty()) {
          walk(region.front());
        }
      }
      if (llvm::isa<kernel::ForOp, kernel::WhileOp>(op)) {
        keepThroughLoop(&op, start);
      }
    }
  }

  /// What stands outside of a loop and is used inside may be read by the next iteration.
  void keepThroughLoop(Operation* loop, int64_t start) {
    const int64_t end = position_++;
    for (auto& [slot, range] : ranges_) {
      const bool outside = !loop->isProperAncestor(slot.getDefiningOp());
      if (outside && range.last >= start) {
        touch(slot, start, end);
      }
    }
  }

  llvm::MapVector<Value, LiveRange> ranges_;
  int64_t position_ = 0;
};

LogicalResult verifyPhase(mlir::Region& region, Places& places) {
  LiveRanges ranges(region);
  for (const auto* a = ranges.all().begin(); a != ranges.all().end(); ++a) {
    for (const auto* b = std::next(a); b != ranges.all().end(); ++b) {
      const bool together = a->second.first <= b->second.last && b->second.first <= a->second.last;
      if (together && places.overlap(a->first, b->first)) {
        mlir::InFlightDiagnostic error = b->first.getDefiningOp()->emitOpError()
                                         << "at " << placeOf(b->first) << " overlaps a slot at "
                                         << placeOf(a->first)
                                         << " that is live at the same time (planned_c3)";
        error.attachNote(a->first.getLoc()) << "the other slot";
        return error;
      }
    }
  }
  const MayShare shares = [&](Value a, Value b) {
    const bool slots = a.getDefiningOp<kernel::SlotOp>() && b.getDefiningOp<kernel::SlotOp>();
    return a == b || (slots && places.overlap(a, b));
  };
  if (failed(verifyQueueOrder(region, shares, "planned_c4"))) {
    return mlir::failure();
  }
  return verifyStepOrder(region, shares, "planned_c6");
}

LogicalResult verifyPrepared(kernel::ProgramOp program, Places& places) {
  llvm::SmallVector<kernel::PreparedOp> all(program.getBodyBlock()->getOps<kernel::PreparedOp>());
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (places.overlap(all[i].getBuffer(), all[k].getBuffer())) {
        return all[i].emitOpError()
               << "at " << all[i].getOffsetAttr() << " overlaps the prepared buffer "
               << all[k].getNameAttr() << " at " << all[k].getOffsetAttr() << " (planned_c5)";
      }
    }
  }
  return mlir::success();
}

class VerifyPlannedLevelPass
    : public mlir::PassWrapper<VerifyPlannedLevelPass, mlir::OperationPass<mlir::ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(VerifyPlannedLevelPass)
  llvm::StringRef getArgument() const final { return "verify-planned-level"; }
  llvm::StringRef getDescription() const final {
    return "checks what holds between planning and emission";
  }
  void runOnOperation() final {
    if (failed(verifyPlannedLevel(getOperation()))) {
      signalPassFailure();
    }
    markAllAnalysesPreserved();
  }
};

}  // namespace

LogicalResult verifyPlannedLevel(mlir::ModuleOp module) {
  if (failed(verifyKernelLevel(module))) {
    return mlir::failure();
  }
  kernel::ProgramOp program = *module.getOps<kernel::ProgramOp>().begin();
  mlir::WalkResult placed = program.walk([](Operation* op) {
    auto slot = llvm::dyn_cast<kernel::SlotOp>(op);
    auto prepared = llvm::dyn_cast<kernel::PreparedOp>(op);
    const bool bad = (slot && failed(verifyPlace(op, slot.getOffsetAttr()))) ||
                     (prepared && failed(verifyPlace(op, prepared.getOffsetAttr())));
    return bad ? mlir::WalkResult::interrupt() : mlir::WalkResult::advance();
  });
  if (placed.wasInterrupted()) {
    return mlir::failure();
  }
  llvm::SmallVector<Point> points = pointsOf(program);
  keepBounds(program, points);
  Places places(std::move(points));
  kernel::PrepareOp prepare = program.getPrepareOp();
  if (failed(verifyPrepared(program, places)) ||
      (prepare && failed(verifyPhase(prepare.getBody(), places)))) {
    return mlir::failure();
  }
  return verifyPhase(program.getRunOp().getBody(), places);
}

std::unique_ptr<mlir::Pass> createVerifyPlannedLevelPass() {
  return std::make_unique<VerifyPlannedLevelPass>();
}

}  // namespace straightline
