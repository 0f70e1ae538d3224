// SPDX-License-Identifier: Apache-2.0
// Records which statements of a program on an NVIDIA device its graph may run concurrently
// (kernel.step, kernel.after), where the estimate says that this saves enough time. The order of
// the text stays valid; stream launches, the interpreter and Python use it.
//
//   launch @a(%x) outs(%s); launch @b(%s) outs(%t); launch @c(%x) outs(%u); launch @d(%t, %u)
//   outs(%y)
//   ->  @a {step = 0, after = []}, @b, @c {step = 1, after = []}, @d {step = 2, after = [0, 1]}
//
//   1. Dependences: two statements that touch the same elements, one of them writing, stay in
//      order.
//   2. A chain is a sequence of statements without a fork or a join. A chain becomes a branch where
//      it and the work that can run beside it are long enough: see `isWorthABranch`. A statement
//      outside all branches joins the branch of its first reader. A branch runs in order.
//   3. Two small kernels between the same two kernels (the norms of queries and keys) run
//      concurrently where all four may start early.
//   4. A statement waits for the one before it in its branch and for its dependences in other
//      branches. An edge that follows from other edges is left out.
//
// Refuses: programs that cannot be one graph (control flow that depends on data, work on the host),
// and calls of libraries that may touch more than their operands. A loop with a counter is one
// statement. Runs before reuse-in-place and plan-memory, which never give the same memory to two
// buffers that two branches touch concurrently.
#include <algorithm>

#include "dialect/kernel/recorded.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/kernel_facts.h"
#include "passes/levels/levels.h"
#include "passes/pipeline.h"
#include "passes/targets/cuda/architecture.h"
#include "passes/targets/cuda/dependences.h"
#include "passes/targets/cuda/passes.h"
#include "passes/targets/cuda/schedule.h"

namespace straightline::passes {

#define GEN_PASS_DEF_PLACEBRANCHES
#include "passes/targets/cuda/passes.h.inc"

namespace {

using llvm::BitVector;
using mlir::Operation;
using mlir::Value;

// Measured on an H200 (docs/performance/cuda.md, branches): the branches of an inception block, the
// directions of a recurrent layer and a ResNet's downsampling convolution (5 to 7 us) gain. Many
// concurrent kernels of 2 us have not been measured.
constexpr double kShortestBranchUs = 4.5;  ///< the least length of a branch
constexpr double kLeastGainUs = 4.5;       ///< the least time that a branch saves
/// the least ratio of a branch's length and the longest chain beside it, shorter to longer
constexpr double kLikeness = 0.25;
constexpr double kSmallUs = 4;  ///< a kernel that may run beside one of its kind
constexpr int64_t kUnknownTrips = 16;

struct Unit {
  explicit Unit(Operation* statement) : op(statement) {}
  Operation* op;
  llvm::SmallVector<Access> accesses;
  double us = 0;                      ///< estimated duration
  double busyUs = 0;                  ///< duration times the share of the device that it fills
  bool waits = false;                 ///< a kernel that may start before its predecessor has ended
  llvm::SmallVector<unsigned> needs;  ///< direct dependences, in order
  BitVector before;                   ///< direct and indirect dependences
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
  if (kernel::ExtentAttr blocks = function ? kernel::blocksOf(function) : kernel::ExtentAttr()) {
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
    findChains();
    const bool hasBranches = keepLongChains();
    const bool hasPairs = spreadSmallOnes();
    if (hasBranches || hasPairs) {
      writeSteps();
    }
  }

 private:
  //===- statements --------------------------------------------------------===//

  /// Collects the statements; false where the program cannot be one graph.
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
        unit.waits = function && kernel::earlyStartOf(function) != kernel::EarlyStart::none;
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

  /// Whether the library's calls touch their operands and workspace only, and two may run at once.
  /// An op of a framework may touch anything.
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

  //===- 1. dependences ---------------------------------------------------===//

  void findNeeds() {
    const std::vector<BitVector> found =
        dependencesOf(llvm::map_to_vector(units_, [](const Unit& unit) { return unit.accesses; }));
    for (auto [number, unit] : llvm::enumerate(units_)) {
      unit.needs = reduced(found[number], &unit.before, [&](unsigned other) -> const BitVector& {
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

  /// Returns those of `all` that are not before another one of `all`. Sets `before` to `all` and
  /// everything that is before one of them.
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

  //===- 2. chains and branches -----------------------------------------------===//

  void findChains() {
    llvm::SmallVector<unsigned> readers(units(), 0);
    for (const Unit& unit : units_) {
      for (unsigned need : unit.needs) {
        ++readers[need];
      }
    }
    for (unsigned number = 0; number < units(); ++number) {
      const Unit& unit = units_[number];
      if (unit.needs.size() == 1 && readers[unit.needs[0]] == 1) {
        chainOf_.push_back(chainOf_[unit.needs[0]]);
        chains_[chainOf_.back()].push_back(number);
      } else {
        chainOf_.push_back(static_cast<unsigned>(chains_.size()));
        chains_.push_back({number});
      }
    }
  }

  /// Whether the chain, run concurrently with the work that is independent of it, is estimated to
  /// save more time than the loss of early starts costs. Neither may be short, or short against the
  /// other.
  bool isWorthABranch(llvm::ArrayRef<unsigned> chain) const {
    if (every_) {
      return true;
    }
    BitVector beside(units(), true);
    double length = 0, busy = 0;
    for (unsigned number : chain) {
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
    return shorter >= kShortestBranchUs && shorter >= kLikeness * longer && gain >= kLeastGainUs;
  }

  /// Whether there is more than one branch.
  bool keepLongChains() {
    constexpr int kNone = -1;
    llvm::SmallVector<int> branchOfChain;
    int branches = 0;
    for (const auto& chain : chains_) {
      branchOfChain.push_back(isWorthABranch(chain) ? branches++ : kNone);
    }
    branchOf_.assign(units(), kNone);
    for (unsigned number = 0; number < units(); ++number) {
      branchOf_[number] = branchOfChain[chainOf_[number]];
    }
    // A statement outside all branches joins its first reader; one without readers joins its last
    // dependence; the rest form one more branch.
    for (unsigned number = units(); number-- > 0;) {
      for (unsigned reader = number + 1; branchOf_[number] == kNone && reader < units(); ++reader) {
        branchOf_[number] =
            llvm::is_contained(units_[reader].needs, number) ? branchOf_[reader] : kNone;
      }
    }
    for (unsigned number = 0; number < units(); ++number) {
      const Unit& unit = units_[number];
      branchOf_[number] = branchOf_[number] == kNone && !unit.needs.empty()
                              ? branchOf_[unit.needs.back()]
                              : branchOf_[number];
    }
    for (int& branch : branchOf_) {
      branch = branch == kNone ? branches : branch;
    }
    branches_ = static_cast<unsigned>(branches) + 1;
    return llvm::any_of(branchOf_, [&](int branch) { return branch != branchOf_[0]; });
  }

  //===- 3. small concurrent kernels ----------------------------------------===//

  /// Splits p, a, b, w, consecutive in a branch, where a and b need p, w needs a and b, and all
  /// four may start early.
  bool spreadSmallOnes() {
    std::vector<llvm::SmallVector<unsigned>> members(branches_);
    for (unsigned number = 0; number < units(); ++number) {
      members[static_cast<unsigned>(branchOf_[number])].push_back(number);
    }
    bool any = false;
    for (const auto& branch : members) {
      for (size_t i = 1; i + 2 < branch.size(); ++i) {
        if (areSiblings(branch[i - 1], branch[i], branch[i + 1], branch[i + 2])) {
          branchOf_[branch[i + 1]] = static_cast<int>(branches_++);
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
    llvm::SmallVector<int> last(branches_, -1);  // of each branch
    for (unsigned number = 0; number < units(); ++number) {
      BitVector all(units());
      for (unsigned need : units_[number].needs) {
        all.set(need);
      }
      int& ahead = last[static_cast<unsigned>(branchOf_[number])];
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
    writeBranches(before);
  }

  /// Writes kernel.branch, for readers of the IR. A branch that begins after another has ended
  /// takes over its number.
  void writeBranches(llvm::ArrayRef<BitVector> before) {
    mlir::Builder builder(program_.getContext());
    llvm::SmallVector<int> shown(branches_, -1);
    llvm::SmallVector<int> lastOfShown, lastOfBranch(branches_, -1);
    for (unsigned number = 0; number < units(); ++number) {
      lastOfBranch[static_cast<unsigned>(branchOf_[number])] = static_cast<int>(number);
    }
    for (unsigned number = 0; number < units(); ++number) {
      const auto branch = static_cast<unsigned>(branchOf_[number]);
      if (shown[branch] < 0) {
        size_t place = 0;
        while (place < lastOfShown.size() &&
               !before[number].test(static_cast<unsigned>(lastOfShown[place]))) {
          ++place;
        }
        lastOfShown.resize(std::max(lastOfShown.size(), place + 1));
        lastOfShown[place] = lastOfBranch[branch];
        shown[branch] = static_cast<int>(place);
      }
      const auto attribute = builder.getI64IntegerAttr(shown[branch]);
      units_[number].op->walk([&](Operation* op) {
        if (!accessesOf(op).empty()) {
          op->setAttr(kernel::kBranchAttr, attribute);
        }
      });
    }
  }

  kernel::ProgramOp program_;
  bool every_;
  int64_t processors_;
  mlir::Block& block_;
  std::vector<Unit> units_;
  std::vector<BitVector> after_;  ///< for each unit, those that need it
  llvm::SmallVector<unsigned> chainOf_;
  std::vector<llvm::SmallVector<unsigned>> chains_;
  llvm::SmallVector<int> branchOf_;
  unsigned branches_ = 0;
};

struct PlaceBranchesPass : impl::PlaceBranchesBase<PlaceBranchesPass> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<kernel::ProgramOp>()) {
      Placer(program, kernel::placesEveryBranch(getOperation())).place();
    }
  }
};

}  // namespace

}  // namespace straightline::passes
