// SPDX-License-Identifier: Apache-2.0
// Small kernels that do not need each other become one launch, of whose grid each has a part
// (kernel.parts). A kernel of a few blocks takes as long as its launch: 1 to 2 us.
//
//   launch @rows_16(%q) outs(%a);  launch @rows_8(%k) outs(%b)
//   ->  launch @rows_16_and_rows_8(%q, %k) outs(%a, %b), blocks = those of both
//
// Such are the norms of queries and keys beside the row of values that is written into a cache, and
// the tables of a rotary embedding beside a token's mask. They may be of several families: a block
// runs the kernel of its part alone.
//
//   1. The first kernel of a group keeps its place, the others move to it; only launches stand
//      between, at most kReach. A kernel moves where it has nothing in common with those that it
//      passes. One that needs nothing that the run makes (the scale of a batch norm whose
//      parameters are live) moves to another such from anywhere behind it.
//   2. A kernel joins where it needs about the same work as the group: what one needs and the other
//      does not takes at most kMostApartUs. So two branches that place-branches would run
//      concurrently never wait for each other.
//   3. All parts have blocks of as many threads: those of a part whose number is fixed, else the
//      most; above kMostResized only where all had so many.
//
// Refuses kernels above kSmallUs by estimate, and groups of more blocks than the device has
// processors: these fill it by themselves. A measured choice of a kernel is looked up by its
// launch, so such a launch stays alone.
#include <algorithm>
#include <map>

#include "dialect/kernel/recorded.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/targets/cuda/architecture.h"
#include "passes/targets/cuda/dependences.h"
#include "passes/targets/cuda/passes.h"
#include "passes/targets/cuda/schedule.h"

namespace straightline::passes {

#define GEN_PASS_DEF_GROUPLAUNCHES
#include "passes/targets/cuda/passes.h.inc"

namespace {

using llvm::BitVector;
using mlir::Operation;
using mlir::Value;

constexpr double kSmallUs = 4;  ///< a kernel that may be a part
/// Of work that one part needs and another does not; below the shortest branch of place-branches.
constexpr double kMostApartUs = 4.2;
constexpr unsigned kReach = 16;  ///< statements from the first part to the last
constexpr size_t kMostParts = 8;
constexpr size_t kMostFreeParts = 32;  ///< of parts that need nothing of the run
/// Threads of a block that a kernel made for fewer is given: in larger blocks each has fewer
/// registers than its schedule counts on.
constexpr int64_t kMostResized = 512;
constexpr size_t kMostOperands = 64;  ///< of a launch

struct Unit {
  Operation* op = nullptr;
  kernel::LaunchOp launch;  ///< null: another statement, which no kernel passes
  // Of a kernel that may be a part, else null:
  kernel::FuncOp function;
  mlir::Attribute queue;
  PartGrid grid{0, 0, false};
  double us = 0;
  BitVector direct;      ///< what it needs
  BitVector before;      ///< the same, also through others
  bool isTaken = false;  ///< it is a part of a group
};

/// Functions of the module: what groups and their parts are called.
class Functions {
 public:
  explicit Functions(mlir::ModuleOp module) : symbols_(module) {}

  /// The function in blocks of so many threads.
  kernel::FuncOp withThreads(kernel::FuncOp function, const PartGrid& grid, int64_t threads) {
    if (grid.threads == threads) {
      return function;
    }
    kernel::FuncOp& found = resized_[{function, threads}];
    if (!found) {
      mlir::Builder builder(function.getContext());
      found = function.clone();
      found.setSymName((function.getSymName() + "_by_" + llvm::Twine(threads)).str());
      found->setAttr(kernel::kThreadsAttr, builder.getI64IntegerAttr(threads));
      found->setAttr(kernel::kBlocksAttr,
                     kernel::ExtentAttr::get(builder.getContext(), grid.blocksOf(threads)));
      insertBehind(function, found);
    }
    return found;
  }

  /// The function of a launch with these parts.
  kernel::FuncOp ofParts(llvm::ArrayRef<kernel::FuncOp> parts, mlir::Location loc) {
    kernel::FuncOp& found = groups_[std::vector<Operation*>(parts.begin(), parts.end())];
    if (!found) {
      found = makeGroup(parts, loc);
    }
    return found;
  }

  /// Removes those that nothing launches any more and that are no part.
  void removeUnused(mlir::ModuleOp module, llvm::ArrayRef<kernel::FuncOp> mayBeUnused) {
    llvm::SmallPtrSet<Operation*, 16> used;
    module.walk([&](kernel::LaunchOp launch) { used.insert(launch.getEntryOp()); });
    for (const auto& [parts, _] : groups_) {
      used.insert(parts.begin(), parts.end());
    }
    for (kernel::FuncOp function : mayBeUnused) {
      if (used.insert(function).second) {
        symbols_.erase(function);
      }
    }
  }

 private:
  void insertBehind(kernel::FuncOp place, kernel::FuncOp function) {
    symbols_.insert(function, std::next(mlir::Block::iterator(place)));
  }

  static std::string nameOf(llvm::ArrayRef<kernel::FuncOp> parts) {
    if (llvm::all_equal(parts)) {
      kernel::FuncOp part = parts.front();
      return part.getSymName().str() + "_times_" + std::to_string(parts.size());
    }
    return llvm::join(llvm::map_range(parts, [](kernel::FuncOp part) { return part.getSymName(); }),
                      "_and_");
  }

  kernel::FuncOp makeGroup(llvm::ArrayRef<kernel::FuncOp> parts, mlir::Location loc) {
    kernel::FuncOp first = parts.front();
    mlir::OpBuilder builder(first.getContext());
    llvm::SmallVector<mlir::Type> inputs, outputs;
    llvm::SmallVector<mlir::Attribute> roles;
    llvm::SmallVector<kernel::Tie> ties;
    int64_t blocks = 0;
    for (kernel::FuncOp part : parts) {
      for (kernel::Tie tie : kernel::getTies(part)) {
        ties.push_back({tie.input + static_cast<int64_t>(inputs.size()),
                        tie.output + static_cast<int64_t>(outputs.size())});
      }
      llvm::append_range(inputs, part.getInputs().getAsValueRange<mlir::TypeAttr>());
      llvm::append_range(outputs, part.getOutputs().getAsValueRange<mlir::TypeAttr>());
      llvm::append_range(roles, part.getOutputRoles());
      blocks += *kernel::blocksOf(part).getConstant();
    }
    auto group = kernel::FuncOp::create(
        builder, loc, nameOf(parts), inputs, outputs, mlir::TypeRange(),
        kernel::ScheduleAttr::get(builder.getContext(), first.getSchedule().getFamily(), {}, {}),
        llvm::ArrayRef<llvm::StringRef>(), ties);
    group.setOutputRolesAttr(builder.getArrayAttr(roles));
    group->setAttr(kernel::kBlocksAttr, kernel::ExtentAttr::get(builder.getContext(), blocks));
    group->setAttr(kernel::kThreadsAttr, first->getAttr(kernel::kThreadsAttr));
    kernel::setEarlyStart(group, kernel::EarlyStart::atEntry);
    insertBehind(parts.back(), group);  // which may give it another name
    kernel::setParts(group, parts);
    return group;
  }

  mlir::SymbolTable symbols_;
  std::map<std::pair<Operation*, int64_t>, kernel::FuncOp> resized_;
  std::map<std::vector<Operation*>, kernel::FuncOp> groups_;
};

/// Groups the launches of one block.
class Grouper {
 public:
  Grouper(mlir::Block& block, int64_t processors, Functions& functions)
      : block_(block), processors_(processors), functions_(functions) {}

  /// Returns the functions of the launches that became parts.
  llvm::SmallVector<kernel::FuncOp> group() {
    gather();
    for (unsigned first = 0; first < units_.size(); ++first) {
      if (!units_[first].function || units_[first].isTaken) {
        continue;
      }
      const llvm::SmallVector<unsigned> parts = partsFrom(first);
      if (parts.size() > 1) {
        launchTogether(parts);
      }
    }
    return std::move(replaced_);
  }

 private:
  void gather() {
    std::vector<llvm::SmallVector<Access>> accesses;
    for (Operation& op : block_) {
      llvm::SmallVector<Access> own;
      op.walk([&](Operation* inner) { own.append(accessesOf(inner)); });
      const bool isStatement = !own.empty() || op.getNumRegions() > 0 ||
                               llvm::isa<kernel::WaitOp, kernel::RecordOp, kernel::CheckOp>(op);
      if (isStatement) {
        accesses.push_back(std::move(own));
        units_.push_back(unitOf(&op));
      }
    }
    const std::vector<BitVector> found = dependencesOf(accesses);
    for (auto [number, unit] : llvm::enumerate(units_)) {
      unit.direct = unit.before = found[number];
      for (const unsigned other : found[number].set_bits()) {
        unit.before |= units_[other].before;
      }
    }
  }

  static Unit unitOf(Operation* op) {
    Unit unit;
    unit.op = op;
    unit.launch = llvm::dyn_cast<kernel::LaunchOp>(op);
    unit.us = estimateOnCuda(op);
    auto function =
        unit.launch ? llvm::cast<kernel::FuncOp>(unit.launch.getEntryOp()) : kernel::FuncOp();
    const std::optional<PartGrid> grid =
        function && kernel::runsOnDevice(function) ? partGridOf(function) : std::nullopt;
    if (grid && unit.us <= kSmallUs && kernel::choiceKeyOf(op).empty() &&
        !op->hasAttr(kernel::kStepAttr)) {
      unit.function = function;
      unit.queue = unit.launch.getQueueAttr();
      unit.grid = *grid;
    }
    return unit;
  }

  llvm::SmallVector<unsigned> partsFrom(unsigned first) const {
    llvm::SmallVector<unsigned> parts = {first};
    const unsigned end = std::min<unsigned>(first + kReach, static_cast<unsigned>(units_.size()));
    for (unsigned number = first + 1; number < end && parts.size() < kMostParts; ++number) {
      if (!units_[number].launch) {
        break;
      }
      if (mayJoin(parts, number)) {
        parts.push_back(number);
      }
    }
    if (llvm::all_of(parts, [&](unsigned part) { return units_[part].before.none(); })) {
      addFree(parts);
    }
    return parts;
  }

  /// Adds kernels that need nothing of the run, from anywhere behind.
  void addFree(llvm::SmallVector<unsigned>& parts) const {
    for (unsigned number = parts.back() + 1;
         number < units_.size() && parts.size() < kMostFreeParts; ++number) {
      if (units_[number].before.none() && mayJoin(parts, number)) {
        parts.push_back(number);
      }
    }
  }

  bool mayJoin(llvm::ArrayRef<unsigned> parts, unsigned number) const {
    const Unit& unit = units_[number];
    const Unit& first = units_[parts.front()];
    return unit.function && !unit.isTaken && unit.queue == first.queue &&
           mayMove(parts.front(), number) && needsTheSame(parts, number) && fits(parts, number);
  }

  /// Whether the kernel may stand where the first part does. Parts of earlier groups stand before.
  bool mayMove(unsigned first, unsigned number) const {
    const Unit& unit = units_[number];
    for (unsigned other = first; other < number; ++other) {
      if (unit.direct.test(other) && !units_[other].isTaken) {
        return false;
      }
    }
    return llvm::all_of(unit.op->getOperands(),
                        [&](Value operand) { return mayStandBefore(operand, units_[first].op); });
  }

  static bool isBehind(Operation* op, Operation* place) {
    return op && op->getBlock() == place->getBlock() && place->isBeforeInBlock(op);
  }

  /// Whether the value is there before `place`, or what makes it may move there.
  static bool mayStandBefore(Value value, Operation* place) {
    Operation* maker = value.getDefiningOp();
    return !isBehind(maker, place) ||
           (llvm::isa<kernel::SlotOp, kernel::ViewOp, mlir::arith::ConstantOp>(maker) &&
            llvm::all_of(maker->getOperands(),
                         [&](Value operand) { return mayStandBefore(operand, place); }));
  }

  static void moveBefore(Value value, Operation* place) {
    Operation* maker = value.getDefiningOp();
    if (isBehind(maker, place)) {
      llvm::for_each(maker->getOperands(), [&](Value operand) { moveBefore(operand, place); });
      maker->moveBefore(place);
    }
  }

  bool needsTheSame(llvm::ArrayRef<unsigned> parts, unsigned number) const {
    return llvm::all_of(parts, [&](unsigned part) {
      double apartUs = 0;
      for (const BitVector* more : {&units_[part].before, &units_[number].before}) {
        BitVector apart = *more;
        apart.reset(more == &units_[part].before ? units_[number].before : units_[part].before);
        for (const unsigned other : apart.set_bits()) {
          apartUs += units_[other].us;
        }
      }
      return apartUs <= kMostApartUs;
    });
  }

  /// The threads of the blocks of all; 0: there is no such number.
  int64_t threadsOf(llvm::ArrayRef<unsigned> parts) const {
    int64_t fixed = 0, most = 0;
    for (const unsigned part : parts) {
      const PartGrid& grid = units_[part].grid;
      if (grid.isFixed && fixed != 0 && fixed != grid.threads) {
        return 0;
      }
      fixed = grid.isFixed ? grid.threads : fixed;
      most = std::max(most, grid.threads);
    }
    return fixed != 0 ? fixed : most;
  }

  bool fits(llvm::ArrayRef<unsigned> parts, unsigned number) const {
    llvm::SmallVector<unsigned> all(parts);
    all.push_back(number);
    const int64_t threads = threadsOf(all);
    int64_t blocks = 0;
    size_t operands = 0;
    for (const unsigned part : all) {
      const PartGrid& grid = units_[part].grid;
      if (threads == 0 || (threads != grid.threads && threads > kMostResized)) {
        return false;
      }
      blocks += grid.blocksOf(threads);
      operands += units_[part].op->getNumOperands();
    }
    return blocks <= processors_ && operands <= kMostOperands;
  }

  void launchTogether(llvm::ArrayRef<unsigned> parts) {
    kernel::LaunchOp first = units_[parts.front()].launch;
    const int64_t threads = threadsOf(parts);
    llvm::SmallVector<kernel::FuncOp> functions;
    llvm::SmallVector<mlir::Location> locations;
    llvm::SmallVector<Value> inputs, outputs;
    llvm::SmallVector<std::string> ops, whys;
    double us = 0;
    for (const unsigned part : parts) {
      Unit& unit = units_[part];
      unit.isTaken = true;
      functions.push_back(functions_.withThreads(unit.function, unit.grid, threads));
      replaced_.push_back(unit.function);
      locations.push_back(unit.op->getLoc());
      llvm::for_each(unit.op->getOperands(), [&](Value operand) { moveBefore(operand, first); });
      llvm::append_range(inputs, unit.launch.getInputs());
      llvm::append_range(outputs, unit.launch.getOutputs());
      addText(unit.op, "op", ops);
      addText(unit.op, "why", whys);
      us = std::max(us, unit.us);
    }
    whys.erase(std::unique(whys.begin(), whys.end()), whys.end());
    mlir::OpBuilder builder(first);
    const mlir::Location loc = builder.getFusedLoc(locations);
    auto launch = kernel::LaunchOp::create(
        builder, loc,
        mlir::FlatSymbolRefAttr::get(functions_.ofParts(functions, loc).getSymNameAttr()), inputs,
        outputs, mlir::ValueRange(), first.getQueueAttr(), mlir::IntegerAttr(),
        ops.empty() ? mlir::StringAttr() : builder.getStringAttr(llvm::join(ops, ", ")),
        builder.getStringAttr(std::to_string(parts.size()) +
                              " kernels that do not need each other are one launch" +
                              (whys.empty() ? "" : ": " + llvm::join(whys, "; "))));
    kernel::setCostUs(launch, us);
    for (const unsigned part : parts) {
      units_[part].op->erase();
    }
    units_[parts.front()].op = launch;
    units_[parts.front()].launch = launch;
    noteTogether(parts, us);
  }

  /// What needs a part needs all from now on, and they take as long as the longest.
  void noteTogether(llvm::ArrayRef<unsigned> parts, double us) {
    BitVector needs(static_cast<unsigned>(units_.size())), all = needs;
    for (const unsigned part : parts) {
      all.set(part);
      needs |= units_[part].before;
      units_[part].us = part == parts.front() ? us : 0;
    }
    for (const unsigned part : parts) {
      units_[part].before = needs;
    }
    needs |= all;
    for (Unit& unit : units_) {
      if (unit.before.anyCommon(all)) {
        unit.before |= needs;
      }
    }
  }

  static void addText(Operation* op, llvm::StringRef name, llvm::SmallVector<std::string>& to) {
    if (auto text = op->getAttrOfType<mlir::StringAttr>(name)) {
      to.push_back(text.str());
    }
  }

  mlir::Block& block_;
  int64_t processors_;
  Functions& functions_;
  std::vector<Unit> units_;
  llvm::SmallVector<kernel::FuncOp> replaced_;
};

struct GroupLaunchesPass : impl::GroupLaunchesBase<GroupLaunchesPass> {
  void runOnOperation() override {
    Functions functions(getOperation());
    llvm::SmallVector<kernel::FuncOp> replaced;
    for (auto program : getOperation().getOps<kernel::ProgramOp>()) {
      const int64_t processors = cudaArchitecture(program.getTarget().getCpu()).processors;
      program.getRunOp().walk([&](mlir::Block* block) {
        llvm::append_range(replaced, Grouper(*block, processors, functions).group());
      });
    }
    functions.removeUnused(getOperation(), replaced);
  }
};

}  // namespace

}  // namespace straightline::passes
