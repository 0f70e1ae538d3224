// SPDX-License-Identifier: Apache-2.0
// Says which statements of a program on an NVIDIA device its graph may run at once (kernel.step,
// kernel.after), where that is estimated to save enough. The order of the text stays right, and is
// what everything else runs.
//
//   launch @a(%x) outs(%s); launch @b(%s) outs(%t); launch @c(%x) outs(%u); launch @d(%t, %u)
//   outs(%y)
//   ->  @a {step = 0, after = []}, @b, @c {step = 1, after = []}, @d {step = 2, after = [0, 1]}
//
//   1. Which statement needs which: two that touch the same elements, one of them writing, stay in
//      order.
//   2. A branch is a chain of statements without a fork or a join. It becomes a lane of its own
//      where it is long, and so is what may run beside it: see `isWorthALane`. What belongs to no
//      lane goes with what reads it, and the statements of a lane stay one behind the other.
//   3. Small kernels between the same two kernels (the norms of queries and keys) run at once where
//      all of these start early anyway.
//   4. A statement comes behind the one before it in its lane and behind what it needs of others;
//      what follows from the rest is left out.
//
// Refuses: programs that are no graph (control flow that depends on data, work on the host), work
// of other libraries than those whose calls are known to touch nothing but their operands. A loop
// with a counter is one statement. Runs before reuse-in-place and plan-memory, which give nothing
// that two lanes touch at once the same memory.
#include <algorithm>

#include "dialect/kernel/recorded.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/kernel_facts.h"
#include "passes/levels/levels.h"
#include "passes/pipeline.h"
#include "passes/targets/cuda/architecture.h"
#include "passes/targets/cuda/passes.h"
#include "passes/targets/cuda/schedule.h"

namespace straightline::passes {

#define GEN_PASS_DEF_PLACELANES
#include "passes/targets/cuda/passes.h.inc"

namespace {

using llvm::BitVector;
using mlir::Operation;
using mlir::Value;

// Measured on an H200 (docs/performance/cuda.md, branches): the branches of an inception block, the
// directions of a recurrent layer and a ResNet's downsampling convolution (5 to 7 us) win; what has
// not been measured are many kernels of 2 us beside each other.
constexpr double kShortestLaneUs = 4.5;  ///< of a lane
constexpr double kLeastGainUs = 4.5;     ///< by the lane and what is beside it
/// of a lane's length and the longest chain beside it, the shorter to the longer
constexpr double kLikeness = 0.25;
constexpr double kSmallUs = 4;  ///< a kernel that may run beside one of its kind
constexpr int64_t kUnknownTrips = 16;

struct Unit {
  explicit Unit(Operation* statement) : op(statement) {}
  Operation* op;
  llvm::SmallVector<Access> accesses;
  double us = 0;                      ///< by estimate
  double busyUs = 0;                  ///< of that, as if it had the whole device
  bool waits = false;                 ///< a kernel that may start before the one ahead has ended
  llvm::SmallVector<unsigned> needs;  ///< directly, in order
  BitVector before;                   ///< all that it needs
};

kernel::FuncOp functionOf(Operation* op) {
  auto launch = llvm::dyn_cast<kernel::LaunchOp>(op);
  return launch ? llvm::dyn_cast_if_present<kernel::FuncOp>(launch.getEntryOp()) : kernel::FuncOp();
}

/// Sets the times of one statement.
void estimate(Operation* op, int64_t processors, Unit* unit) {
  kernel::FuncOp function = functionOf(op);
  unit->us = estimateOnCuda(op);
  double share = 0.5;  // of a library's kernel nothing is known
  if (auto blocks = function ? function->getAttrOfType<kernel::ExtentAttr>(kernel::kBlocksAttr)
                             : kernel::ExtentAttr()) {
    const std::optional<int64_t> count = symbolic::constantValue(blocks.getExpr());
    share =
        count ? std::min(1.0, static_cast<double>(*count) / (2.0 * static_cast<double>(processors)))
              : 1.0;
  }
  unit->busyUs = std::max(0.0, unit->us - kKernelUs) * share;
}

int64_t tripsOf(kernel::ForOp loop) {
  const auto number = [](Value value) -> std::optional<int64_t> {
    auto constant = value.getDefiningOp<mlir::arith::ConstantOp>();
    auto attribute =
        constant ? llvm::dyn_cast<mlir::IntegerAttr>(constant.getValue()) : mlir::IntegerAttr();
    return attribute ? std::optional(attribute.getInt()) : std::nullopt;
  };
  const auto lower = number(loop.getLower()), upper = number(loop.getUpper()),
             step = number(loop.getStep());
  return lower && upper && step && *step > 0
             ? std::max<int64_t>(0, (*upper - *lower + *step - 1) / *step)
             : kUnknownTrips;
}

class Placer {
 public:
  Placer(kernel::ProgramOp program, bool every)
      : program_(program),
        every_(every),
        processors_(cudaArchitecture(program.getTarget().getCpu()).processors),
        block_(program.getRunOp().getBody().front()) {}

  void place() {
    if (!gather()) {
      return;
    }
    findNeeds();
    findBranches();
    const bool hasLanes = keepLongBranches();
    const bool hasPairs = spreadSmallOnes();
    if (hasLanes || hasPairs) {
      writeSteps();
    }
  }

 private:
  //===- what there is -----------------------------------------------------===//

  /// Whether the program may be one graph, of which the order is known.
  bool gather() {
    const mlir::WalkResult walked = block_.getParent()->walk([&](Operation* op) {
      if (llvm::isa<kernel::LaunchOp, kernel::CopyOp, kernel::CallOp>(op)) {
        const bool isTold =
            !llvm::isa<kernel::CallOp>(op) || isKnownLibrary(llvm::cast<kernel::CallOp>(op));
        return isTold && isOnDevice(op) ? mlir::WalkResult::advance()
                                        : mlir::WalkResult::interrupt();
      }
      const bool isPlain = llvm::isa<kernel::SlotOp, kernel::ViewOp, kernel::SizeOp, kernel::ForOp,
                                     kernel::ReturnOp>(op);
      return isPlain || op->getDialect()->getNamespace() == "arith" ? mlir::WalkResult::advance()
                                                                    : mlir::WalkResult::interrupt();
    });
    if (walked.wasInterrupted()) {
      return false;
    }
    for (Operation& op : block_) {
      Unit unit(&op);
      op.walk([&](Operation* inner) { unit.accesses.append(accessesOf(inner)); });
      if (unit.accesses.empty()) {
        continue;
      }
      if (auto loop = llvm::dyn_cast<kernel::ForOp>(op)) {
        estimateLoop(loop, &unit);
      } else {
        estimate(&op, processors_, &unit);
        const kernel::FuncOp function = functionOf(&op);
        unit.waits = function && startsEarlyOnCuda(function);
      }
      units_.push_back(std::move(unit));
    }
    return units_.size() > 1;
  }

  void estimateLoop(kernel::ForOp loop, Unit* unit) {
    for (Operation& op : loop.getBody().front()) {
      Unit inner(&op);
      if (auto nested = llvm::dyn_cast<kernel::ForOp>(op)) {
        estimateLoop(nested, &inner);
      } else if (llvm::isa<kernel::LaunchOp, kernel::CopyOp, kernel::CallOp>(op)) {
        estimate(&op, processors_, &inner);
      }
      unit->us += inner.us * static_cast<double>(tripsOf(loop));
      unit->busyUs += inner.busyUs * static_cast<double>(tripsOf(loop));
    }
  }

  /// Its calls touch their operands and workspace alone, and two may run at once. An op of a
  /// framework may do anything.
  static bool isKnownLibrary(kernel::CallOp call) {
    auto decl = llvm::dyn_cast_if_present<kernel::DeclOp>(call.getEntryOp());
    const sl_kernel_desc* kernel = decl ? findKernelOfRun(decl.getRun()) : nullptr;
    return kernel && has(*kernel, SL_KERNEL_CONCURRENT);
  }

  bool isOnDevice(Operation* op) {
    auto queue = op->getAttrOfType<mlir::FlatSymbolRefAttr>("queue");
    auto found =
        queue ? program_.lookupSymbol<kernel::QueueOp>(queue.getAttr()) : kernel::QueueOp();
    return found && found.getBackend() == "cuda";
  }

  //===- 1. which needs which ----------------------------------------------===//

  struct Past {
    unsigned unit;
    Access access;
  };

  void findNeeds() {
    // by storage: reads, writes
    llvm::DenseMap<Value, std::pair<llvm::SmallVector<Past>, llvm::SmallVector<Past>>> past;
    for (auto [number, unit] : llvm::enumerate(units_)) {
      BitVector found(units());
      for (const Access& access : unit.accesses) {
        auto& [reads, writes] = past[access.root];
        const auto look = [&](llvm::ArrayRef<Past> earlier) {
          for (const Past& other : earlier) {
            if (!found.test(other.unit) && kernel::mayOverlap(other.access.buffer, access.buffer)) {
              found.set(other.unit);
            }
          }
        };
        look(writes);
        if (access.writes) {
          look(reads);
        }
      }
      for (const Access& access : unit.accesses) {
        auto& [reads, writes] = past[access.root];
        (access.writes ? writes : reads).push_back({static_cast<unsigned>(number), access});
      }
      unit.needs = reduced(found, &unit.before, [&](unsigned other) -> const BitVector& {
        return units_[other].before;
      });
    }
    after_.assign(units(), BitVector(units()));
    for (unsigned number = 0; number < units(); ++number) {
      for (unsigned other : units_[number].before.set_bits()) {
        after_[other].set(number);
      }
    }
  }

  unsigned units() const { return static_cast<unsigned>(units_.size()); }

  /// Those of `all` that do not follow from another of them; `before` becomes all of them with what
  /// is before each.
  static llvm::SmallVector<unsigned> reduced(
      const BitVector& all, BitVector* before,
      llvm::function_ref<const BitVector&(unsigned)> beforeOf) {
    llvm::SmallVector<unsigned> kept;
    *before = BitVector(all.size());
    for (int place = all.find_last(); place >= 0;
         place = all.find_prev(static_cast<unsigned>(place))) {
      const auto number = static_cast<unsigned>(place);
      if (!before->test(number)) {
        kept.push_back(number);
        *before |= beforeOf(number);
        before->set(number);
      }
    }
    std::reverse(kept.begin(), kept.end());
    return kept;
  }

  //===- 2. branches and lanes ---------------------------------------------===//

  void findBranches() {
    llvm::SmallVector<unsigned> readers(units(), 0);
    for (const Unit& unit : units_) {
      for (unsigned need : unit.needs) {
        ++readers[need];
      }
    }
    for (unsigned number = 0; number < units(); ++number) {
      const Unit& unit = units_[number];
      if (unit.needs.size() == 1 && readers[unit.needs[0]] == 1) {
        branchOf_.push_back(branchOf_[unit.needs[0]]);
        branches_[branchOf_.back()].push_back(number);
      } else {
        branchOf_.push_back(static_cast<unsigned>(branches_.size()));
        branches_.push_back({number});
      }
    }
  }

  /// By estimate: with all that may run beside it, it takes so much less time than one order that
  /// more is won than edges without early starts may lose, and neither is short or a small part of
  /// the other.
  bool isWorthALane(llvm::ArrayRef<unsigned> branch) const {
    if (every_) {
      return true;
    }
    BitVector beside(units(), true);
    double length = 0, busy = 0;
    for (unsigned number : branch) {
      beside.reset(units_[number].before);
      beside.reset(after_[number]);
      beside.reset(number);
      length += units_[number].us;
      busy += units_[number].busyUs;
    }
    double all = length, longest = 0;
    llvm::SmallVector<double> ends(units(), 0);
    for (unsigned number : beside.set_bits()) {
      for (unsigned need : units_[number].needs) {
        ends[number] = std::max(ends[number], ends[need]);
      }
      ends[number] += units_[number].us;
      longest = std::max(longest, ends[number]);
      all += units_[number].us;
      busy += units_[number].busyUs;
    }
    const double gain = all - std::max({length, longest, busy});
    const auto [shorter, longer] = std::minmax(length, longest);
    return shorter >= kShortestLaneUs && shorter >= kLikeness * longer && gain >= kLeastGainUs;
  }

  /// Whether there is more than one lane.
  bool keepLongBranches() {
    constexpr int kNone = -1;
    llvm::SmallVector<int> laneOfBranch;
    int lanes = 0;
    for (const auto& branch : branches_) {
      laneOfBranch.push_back(isWorthALane(branch) ? lanes++ : kNone);
    }
    laneOf_.assign(units(), kNone);
    for (unsigned number = 0; number < units(); ++number) {
      laneOf_[number] = laneOfBranch[branchOf_[number]];
    }
    // With what reads it first; what nobody reads with what it needs last; the rest has a lane of
    // its own.
    for (unsigned number = units(); number-- > 0;) {
      for (unsigned reader = number + 1; laneOf_[number] == kNone && reader < units(); ++reader) {
        laneOf_[number] =
            llvm::is_contained(units_[reader].needs, number) ? laneOf_[reader] : kNone;
      }
    }
    for (unsigned number = 0; number < units(); ++number) {
      const Unit& unit = units_[number];
      laneOf_[number] = laneOf_[number] == kNone && !unit.needs.empty() ? laneOf_[unit.needs.back()]
                                                                        : laneOf_[number];
    }
    for (int& lane : laneOf_) {
      lane = lane == kNone ? lanes : lane;
    }
    lanes_ = static_cast<unsigned>(lanes) + 1;
    return llvm::any_of(laneOf_, [&](int lane) { return lane != laneOf_[0]; });
  }

  //===- 3. small kernels beside each other --------------------------------===//

  /// p, a, b, w one behind the other in a lane, where a and b need p, w needs both, and all may
  /// start early.
  bool spreadSmallOnes() {
    std::vector<llvm::SmallVector<unsigned>> members(lanes_);
    for (unsigned number = 0; number < units(); ++number) {
      members[static_cast<unsigned>(laneOf_[number])].push_back(number);
    }
    bool any = false;
    for (const auto& lane : members) {
      for (size_t i = 1; i + 2 < lane.size(); ++i) {
        if (areSiblings(lane[i - 1], lane[i], lane[i + 1], lane[i + 2])) {
          laneOf_[lane[i + 1]] = static_cast<int>(lanes_++);
          any = true;
          ++i;
        }
      }
    }
    return any;
  }

  bool areSiblings(unsigned ahead, unsigned a, unsigned b, unsigned behind) const {
    const auto isSmall = [&](unsigned number) {
      return units_[number].us <= kSmallUs &&
             llvm::is_contained({"pointwise", "row_reduction"}, familyOf(number));
    };
    const auto needs = [&](unsigned number, unsigned other) {
      return llvm::is_contained(units_[number].needs, other);
    };
    return isSmall(a) && isSmall(b) && units_[ahead].waits && units_[behind].waits &&
           units_[a].busyUs + units_[b].busyUs <= kSmallUs && needs(a, ahead) && needs(b, ahead) &&
           needs(behind, a) && needs(behind, b);
  }

  llvm::StringRef familyOf(unsigned number) const {
    kernel::FuncOp function = functionOf(units_[number].op);
    return function ? function.getSchedule().getFamily().getValue() : llvm::StringRef();
  }

  //===- 4. steps ----------------------------------------------------------===//

  void writeSteps() {
    std::vector<BitVector> before(units());
    std::vector<llvm::SmallVector<unsigned>> edges;
    llvm::SmallVector<int> last(lanes_, -1);  // of each lane
    for (unsigned number = 0; number < units(); ++number) {
      BitVector all(units());
      for (unsigned need : units_[number].needs) {
        all.set(need);
      }
      int& ahead = last[static_cast<unsigned>(laneOf_[number])];
      if (ahead >= 0) {
        all.set(static_cast<unsigned>(ahead));
      }
      ahead = static_cast<int>(number);
      edges.push_back(reduced(all, &before[number],
                              [&](unsigned other) -> const BitVector& { return before[other]; }));
    }
    const auto isBehindLast = [&](unsigned number) {
      return number == 0 ? edges[number].empty()
                         : edges[number] == llvm::SmallVector<unsigned>{number - 1};
    };
    BitVector ends(units()), begins(units());  // steps
    for (unsigned number = 0; number < units(); ++number) {
      if (!isBehindLast(number)) {
        begins.set(number);
        for (unsigned other : edges[number]) {
          ends.set(other);
        }
      }
    }
    if (begins.none()) {
      return;
    }
    begins.set(0);
    for (unsigned number : ends.set_bits()) {
      if (number + 1 < units()) {
        begins.set(number + 1);
      }
    }
    mlir::Builder builder(program_.getContext());
    llvm::SmallVector<int64_t> stepOf;
    int64_t step = -1;
    for (unsigned number = 0; number < units(); ++number) {
      Operation* op = units_[number].op;
      if (begins.test(number)) {
        llvm::SmallVector<int64_t> after =
            llvm::map_to_vector(edges[number], [&](unsigned other) { return stepOf[other]; });
        op->setAttr(kernel::kStepAttr, builder.getI64IntegerAttr(++step));
        op->setAttr(kernel::kAfterAttr, builder.getDenseI64ArrayAttr(after));
      }
      stepOf.push_back(step);
    }
    writeLanes(before);
  }

  /// Numbers for people: a lane that has ended before another begins leaves it its number.
  void writeLanes(llvm::ArrayRef<BitVector> before) {
    mlir::Builder builder(program_.getContext());
    llvm::SmallVector<int> shown(lanes_, -1);
    llvm::SmallVector<int> lastOfShown, lastOfLane(lanes_, -1);
    for (unsigned number = 0; number < units(); ++number) {
      lastOfLane[static_cast<unsigned>(laneOf_[number])] = static_cast<int>(number);
    }
    for (unsigned number = 0; number < units(); ++number) {
      const auto lane = static_cast<unsigned>(laneOf_[number]);
      if (shown[lane] < 0) {
        size_t place = 0;
        while (place < lastOfShown.size() &&
               !before[number].test(static_cast<unsigned>(lastOfShown[place]))) {
          ++place;
        }
        lastOfShown.resize(std::max(lastOfShown.size(), place + 1));
        lastOfShown[place] = lastOfLane[lane];
        shown[lane] = static_cast<int>(place);
      }
      const auto attribute = builder.getI64IntegerAttr(shown[lane]);
      units_[number].op->walk([&](Operation* op) {
        if (!accessesOf(op).empty()) {
          op->setAttr(kernel::kLaneAttr, attribute);
        }
      });
    }
  }

  kernel::ProgramOp program_;
  bool every_;
  int64_t processors_;
  mlir::Block& block_;
  std::vector<Unit> units_;
  std::vector<BitVector> after_;  ///< of each unit, those that need it
  llvm::SmallVector<unsigned> branchOf_;
  std::vector<llvm::SmallVector<unsigned>> branches_;
  llvm::SmallVector<int> laneOf_;
  unsigned lanes_ = 0;
};

struct PlaceLanesPass : impl::PlaceLanesBase<PlaceLanesPass> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<kernel::ProgramOp>()) {
      Placer(program, kernel::placesEveryLane(getOperation())).place();
    }
  }
};

}  // namespace

}  // namespace straightline::passes
