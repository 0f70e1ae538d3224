// SPDX-License-Identifier: Apache-2.0
// Gives every slot of run and prepare its place in the arena of its space, and every prepared
// buffer its place in the Weights. Where a device may run statements concurrently (kernel.step), a
// slot's place is reused only by a slot whose statements all begin after every statement that
// touches the first has ended. Slots whose sizes are numbers (or bounded closely enough) are placed
// by best fit over their live ranges, the largest first. Of sizes only known per call, those that
// are multiples of one number (an image's elements times a named batch) are placed in the same way
// by their factors, and offsets are multiples of that number; the others share classes: slots of
// one class have disjoint live ranges and equal sizes, and class offsets are sums evaluated per
// call. Where that takes more memory (lines and columns of images are both named), slots of several
// sizes take turns in one place, of which each needs at most a known multiple (size_ratio.h).
// Everything is aligned to 64 bytes; borders are part of the storage.
//
// Algorithm: greedy by size with best-fit gaps, as in Pisarchyk and Lee, "Efficient memory
// management for deep neural net inference" (2020), section 5.2.
#include <cmath>
#include <numeric>

#include "dialect/kernel/computed_extents.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include "passes/live_ranges.h"
#include "passes/passes.h"
#include "passes/size_ratio.h"
#include "passes/step_order.h"

namespace straightline::passes {

#define GEN_PASS_DEF_PLANMEMORY
#include "passes/passes.h.inc"

namespace {

using mlir::AffineExpr;
using mlir::Value;

constexpr int64_t kAlignment = 64;
/// A named size is planned at its bound when all slots together stay below this.
constexpr int64_t kBoundedLimit = int64_t{256} << 20;

/// Smaller factors are not rounded up to a multiple of the alignment: that may cost more than 1/16.
constexpr int64_t kLeastFactor = 16 * kAlignment;

/// `factor` * `rest`, where no constant can be taken out of `rest`.
struct Product {
  int64_t factor;
  AffineExpr rest;
};

Product productOf(AffineExpr expr) {
  if (auto constant = llvm::dyn_cast<mlir::AffineConstantExpr>(expr)) {
    return {constant.getValue(), mlir::getAffineConstantExpr(1, expr.getContext())};
  }
  auto binary = llvm::dyn_cast<mlir::AffineBinaryOpExpr>(expr);
  if (!binary || (binary.getKind() != mlir::AffineExprKind::Mul &&
                  binary.getKind() != mlir::AffineExprKind::Add)) {
    return {1, expr};
  }
  const Product left = productOf(binary.getLHS()), right = productOf(binary.getRHS());
  if (binary.getKind() == mlir::AffineExprKind::Mul) {
    return {left.factor * right.factor, left.rest * right.rest};
  }
  const int64_t common = std::gcd(left.factor, right.factor);
  return common == 0 ? Product{1, expr}
                     : Product{common, left.rest * (left.factor / common) +
                                           right.rest * (right.factor / common)};
}

/// Places in turns are taken where they need at most this part of the memory, and so many bytes
/// less: offsets of the others are numbers more often.
constexpr double kWorthTurns = 0.9, kLeastGain = 1 << 20;
/// Places are multiples of such a part of their first member, and at most so many of it.
constexpr int64_t kParts = 16, kMostTurns = 64;

/// When a slot's bytes matter.
struct Life {
  LiveRange range;           ///< in the order of the text
  StepOrder::Places places;  ///< of what touches it, where something may run at once
};

struct Placed {
  Life life;
  int64_t offset;
  int64_t bytes;
};

class Lives {
 public:
  explicit Lives(mlir::Region& region) : ranges_(region), order_(region) {}
  Life of(Value slot) const { return {ranges_.of(slot), order_.placesOf(slot)}; }
  /// Whether two slots may not share bytes.
  bool together(const Life& a, const Life& b) const {
    if (a.range.overlaps(b.range)) {
      return true;
    }
    return !(a.range.first < b.range.first ? order_.isBefore(a.places, b.places)
                                           : order_.isBefore(b.places, a.places));
  }

 private:
  LiveRanges ranges_;
  StepOrder order_;
};

/// Lowest-waste gap among what is live at the same time.
int64_t bestFit(llvm::ArrayRef<Placed> placed, const Lives& lives, const Life& life,
                int64_t bytes) {
  llvm::SmallVector<const Placed*> live;
  for (const Placed& other : placed) {
    if (lives.together(other.life, life)) {
      live.push_back(&other);
    }
  }
  llvm::sort(live, [](const Placed* a, const Placed* b) { return a->offset < b->offset; });
  int64_t best = -1;
  int64_t bestGap = 0;
  int64_t end = 0;
  for (const Placed* other : live) {
    const int64_t gap = other->offset - end;
    if (gap >= bytes && (best < 0 || gap < bestGap)) {
      best = end;
      bestGap = gap;
    }
    end = std::max(end, other->offset + other->bytes);
  }
  return best >= 0 ? best : end;
}

class Planner {
 public:
  explicit Planner(kernel::ProgramOp program)
      : program_(program), bounds_(program.getExtentBounds()) {
    for (auto extent : program.getBodyBlock()->getOps<kernel::ExtentOp>()) {
      names_.push_back(extent.getSymNameAttr());
    }
  }

  void planPrepared() {
    const auto all = program_.getBodyBlock()->getOps<kernel::PreparedOp>();
    if (llvm::all_of(all, [](kernel::PreparedOp op) { return op.getOffsetAttr() != nullptr; })) {
      return;  // share-prepared has placed them
    }
    llvm::MapVector<mlir::StringRef, AffineExpr> ends;
    for (kernel::PreparedOp prepared : all) {
      auto type = llvm::cast<kernel::BufferType>(prepared.getBuffer().getType());
      auto [end, fresh] = ends.try_emplace(type.getSpace(), zero());
      prepared.setOffsetAttr(attribute(end->second));
      end->second = end->second + aligned(bytesOf(type));
    }
  }

  void planRegion(mlir::Region& region) {
    const Lives lives(region);
    llvm::MapVector<mlir::StringRef, llvm::SmallVector<kernel::SlotOp>> bySpace;
    // erased after the walk: the next op of the walk may be a view of it
    llvm::SmallVector<kernel::SlotOp> unused;
    region.walk([&](kernel::SlotOp slot) {
      if (LiveRanges::users(slot.getBuffer()).empty()) {
        unused.push_back(slot);
      } else {
        bySpace[llvm::cast<kernel::BufferType>(slot.getBuffer().getType()).getSpace()].push_back(
            slot);
      }
    });
    for (kernel::SlotOp slot : unused) {
      eraseUnused(slot);
    }
    for (auto& [space, slots] : bySpace) {
      planSpace(lives, slots);
    }
  }

 private:
  AffineExpr zero() { return mlir::getAffineConstantExpr(0, program_.getContext()); }
  AffineExpr aligned(AffineExpr bytes) {
    return (bytes + (kAlignment - 1)).floorDiv(kAlignment) * kAlignment;
  }
  /// Of a slot: no place is empty.
  static int64_t sizeOf(int64_t bytes) {
    return llvm::alignTo(std::max<int64_t>(bytes, 1), kAlignment);
  }
  kernel::ExtentAttr attribute(AffineExpr expr) {
    return kernel::ExtentAttr::get(program_.getContext(), names_, expr);
  }
  /// Computed extents count with their bounds: no place depends on what a run finds.
  AffineExpr bytesOf(kernel::BufferType type) {
    const kernel::ExtentAttr bytes = kernel::largestOf(program_, type.bytes(), type.getNames());
    return symbolic::rebase(bytes.getExpr(), bytes.getNames(), names_);
  }

  static void eraseUnused(kernel::SlotOp slot) {
    // Only views of it are left.
    llvm::SmallVector<mlir::Operation*> worklist = {slot};
    llvm::SmallVector<mlir::Operation*> order;
    while (!worklist.empty()) {
      mlir::Operation* op = worklist.pop_back_val();
      order.push_back(op);
      llvm::append_range(worklist, op->getUsers());
    }
    for (mlir::Operation* op : llvm::reverse(order)) {
      op->erase();
    }
  }

  void planSpace(const Lives& lives, llvm::ArrayRef<kernel::SlotOp> slots) {
    // Sizes at their bounds; a size without a useful bound stays symbolic.
    llvm::SmallVector<std::pair<kernel::SlotOp, int64_t>> fixed, numbers;
    llvm::SmallVector<kernel::SlotOp> symbolicSlots, named;
    int64_t total = 0;
    for (kernel::SlotOp slot : slots) {
      AffineExpr bytes = bytesOf(llvm::cast<kernel::BufferType>(slot.getBuffer().getType()));
      std::optional<int64_t> constant = symbolic::constantValue(bytes);
      std::optional<symbolic::Bounds> bounds = symbolic::bounds(bytes, names_, bounds_);
      if (constant) {
        numbers.emplace_back(slot, sizeOf(*constant));
      } else {
        named.push_back(slot);
      }
      const bool bounded =
          bounds && bounds->highest <= kBoundedLimit && total + bounds->highest <= kBoundedLimit;
      if (!constant && !bounded) {
        symbolicSlots.push_back(slot);
        continue;
      }
      fixed.emplace_back(slot, sizeOf(constant ? *constant : bounds->highest));
      total += constant ? 0 : fixed.back().second;
    }
    const int64_t end =
        placeByFit(lives, fixed, zero(), mlir::getAffineConstantExpr(1, program_.getContext()));
    planTurns(lives, numbers, named, planSymbolic(lives, symbolicSlots, end));
  }

  /// Places slots by best fit, the largest first, in units of `unit` bytes. Returns where they end.
  int64_t placeByFit(const Lives& lives,
                     llvm::SmallVector<std::pair<kernel::SlotOp, int64_t>>& slots, AffineExpr start,
                     AffineExpr unit) {
    llvm::stable_sort(slots, [](const auto& a, const auto& b) { return a.second > b.second; });
    llvm::SmallVector<Placed> placed;
    int64_t end = 0;
    for (auto [slot, bytes] : slots) {
      Life life = lives.of(slot.getBuffer());
      const int64_t offset = bestFit(placed, lives, life, bytes);
      placed.push_back({std::move(life), offset, bytes});
      end = std::max(end, offset + bytes);
      slot.setOffsetAttr(attribute(start + unit * offset));
    }
    return end;
  }

  /// Those whose sizes are large multiples of one number share memory among themselves; `offset`
  /// becomes where they end. Returns the others.
  llvm::SmallVector<kernel::SlotOp> planMultiples(const Lives& lives,
                                                  llvm::ArrayRef<kernel::SlotOp> slots,
                                                  AffineExpr& offset) {
    llvm::SmallVector<kernel::SlotOp> others;
    llvm::MapVector<AffineExpr, llvm::SmallVector<std::pair<kernel::SlotOp, int64_t>>> groups;
    for (kernel::SlotOp slot : slots) {
      const Product bytes =
          productOf(bytesOf(llvm::cast<kernel::BufferType>(slot.getBuffer().getType())));
      if (bytes.factor < kLeastFactor) {
        others.push_back(slot);
      } else {
        groups[bytes.rest].push_back({slot, llvm::alignTo(bytes.factor, kAlignment)});
      }
    }
    for (auto& [unit, members] : groups) {
      offset = offset + unit * placeByFit(lives, members, offset, unit);
    }
    return others;
  }

  /// Returns where they end.
  AffineExpr planSymbolic(const Lives& lives, llvm::ArrayRef<kernel::SlotOp> slots, int64_t start) {
    struct SizeClass {
      AffineExpr bytes;
      llvm::SmallVector<kernel::SlotOp> members;
      std::vector<Life> lives;
    };
    AffineExpr offset = mlir::getAffineConstantExpr(start, program_.getContext());
    llvm::SmallVector<SizeClass> classes;
    for (kernel::SlotOp slot : planMultiples(lives, slots, offset)) {
      Life life = lives.of(slot.getBuffer());
      const AffineExpr bytes = bytesOf(llvm::cast<kernel::BufferType>(slot.getBuffer().getType()));
      auto* found = llvm::find_if(classes, [&](const SizeClass& candidate) {
        return candidate.bytes == bytes && llvm::none_of(candidate.lives, [&](const Life& other) {
                 return lives.together(other, life);
               });
      });
      if (found == classes.end()) {
        classes.push_back({bytes, {}, {}});
        found = &classes.back();
      }
      found->members.push_back(slot);
      found->lives.push_back(std::move(life));
    }
    for (SizeClass& sizeClass : classes) {
      for (kernel::SlotOp member : sizeClass.members) {
        member.setOffsetAttr(attribute(offset));
      }
      offset = offset + aligned(sizeClass.bytes);
    }
    return offset;
  }

  /// Slots that take turns in one place, which has `parts` / kParts of the first one's bytes.
  struct Turns {
    AffineExpr bytes;
    double typical;  ///< value of `bytes`
    int64_t parts = kParts;
    llvm::SmallVector<kernel::SlotOp> members;
    std::vector<Life> lives;

    double size() const { return typical * double(parts) / double(kParts); }
  };

  /// What a place has to have for one more slot; nullopt: the slot cannot be there.
  static std::optional<int64_t> partsFor(AffineExpr bytes, const Life& life, const Turns& place,
                                         const Lives& lives, SizeRatios& ratios) {
    for (const Life& other : place.lives) {
      if (lives.together(other, life)) {
        return std::nullopt;
      }
    }
    const std::optional<double> ratio = ratios.most(bytes, place.bytes);
    return ratio && *ratio <= double(kMostTurns)
               ? std::optional(std::max(place.parts, int64_t(std::ceil(*ratio * double(kParts)))))
               : std::nullopt;
  }

  /// Slots of several sizes in turns, the largest first. A slot goes where the place grows least,
  /// if by less than its own size.
  std::vector<Turns> turnsOf(const Lives& lives, llvm::ArrayRef<kernel::SlotOp> slots,
                             SizeRatios& ratios) {
    std::vector<std::pair<kernel::SlotOp, AffineExpr>> sorted;
    for (kernel::SlotOp slot : slots) {
      sorted.emplace_back(slot,
                          bytesOf(llvm::cast<kernel::BufferType>(slot.getBuffer().getType())));
    }
    llvm::stable_sort(sorted, [&](const auto& a, const auto& b) {
      return ratios.typical(a.second) > ratios.typical(b.second);
    });
    std::vector<Turns> places;
    for (auto [slot, bytes] : sorted) {
      Life life = lives.of(slot.getBuffer());
      const double own = ratios.typical(bytes);
      int64_t parts = kParts;
      Turns* best = nullptr;
      double least = own;
      for (Turns& place : places) {
        const std::optional<int64_t> needed = partsFor(bytes, life, place, lives, ratios);
        if (!needed) {
          continue;
        }
        const double growth = place.typical * double(*needed - place.parts) / double(kParts);
        if (growth < least || (growth == least && best && place.size() < best->size())) {
          best = &place;
          least = growth;
          parts = *needed;
        }
      }
      if (best) {
        best->parts = parts;
      } else {
        best = &places.emplace_back(Turns{bytes, own, kParts, {}, {}});
      }
      best->members.push_back(slot);
      best->lives.push_back(std::move(life));
    }
    return places;
  }

  /// Places slots anew, `numbers` by fit and those of `named` sizes in turns behind them, where
  /// that takes less memory than what ends at `last`.
  void planTurns(const Lives& lives, llvm::SmallVector<std::pair<kernel::SlotOp, int64_t>>& numbers,
                 llvm::ArrayRef<kernel::SlotOp> named, AffineExpr last) {
    if (named.empty()) {
      return;
    }
    SizeRatios ratios(names_, bounds_);
    const std::vector<Turns> places = turnsOf(lives, named, ratios);
    double total = 0;
    for (const auto& [slot, bytes] : numbers) {
      total += double(bytes);
    }
    for (const Turns& place : places) {
      total += place.size();
    }
    const double before = ratios.typical(last);
    if (total > kWorthTurns * before || total + kLeastGain > before) {
      return;
    }
    const int64_t start =
        placeByFit(lives, numbers, zero(), mlir::getAffineConstantExpr(1, program_.getContext()));
    AffineExpr offset = mlir::getAffineConstantExpr(start, program_.getContext());
    for (const Turns& place : places) {
      for (kernel::SlotOp member : place.members) {
        member.setOffsetAttr(attribute(offset));
      }
      const AffineExpr bytes =
          place.parts == kParts ? place.bytes : (place.bytes * place.parts).ceilDiv(kParts);
      offset = offset + aligned(bytes);
    }
  }

  kernel::ProgramOp program_;
  symbolic::BoundsMap bounds_;
  llvm::SmallVector<mlir::StringAttr> names_;
};

struct PlanMemoryPass : impl::PlanMemoryBase<PlanMemoryPass> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<kernel::ProgramOp>()) {
      Planner planner(program);
      planner.planPrepared();
      planner.planRegion(program.getRunOp().getBody());
      if (kernel::PrepareOp prepare = program.getPrepareOp()) {
        planner.planRegion(prepare.getBody());
      }
    }
  }
};

}  // namespace

}  // namespace straightline::passes
