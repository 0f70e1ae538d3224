// SPDX-License-Identifier: Apache-2.0
// Gives every kernel the target's schedule. Prepare copies literals to the device once, because the
// device does not have them. Control flow stays on the host; where a condition depends on data, the
// host has that copied and waits for it:
//
//   %s = load %b[]  ->  copy %b to %h on @stream;  %e = record on @stream;  wait %e on @team;  %s =
//   load %h[]
//
// Numbers that a function gives when it is called, and that another one is called with, are in the
// host's memory: they are written and read while the call enqueues its work.
//
// All kernels and statements without a form for the device are reported, not the first alone. Runs
// before plan_memory.
#include "passes/place_on_stream.h"

#include "dialect/error_kind.h"
#include "dialect/kernel/own.h"
#include "dialect/kernel/recorded.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/IR/Builders.h"

namespace straightline::passes {

namespace {

using kernel::BufferType;
using mlir::LogicalResult;
using mlir::Operation;
using mlir::Value;

constexpr llvm::StringLiteral kQueue = "stream";
constexpr llvm::StringLiteral kHostSpace = "host";

class Placer {
 public:
  Placer(kernel::ProgramOp program, const Target& target, bool hostKernels)
      : program_(program),
        target_(target),
        hostKernels_(hostKernels),
        builder_(program.getContext()) {}

  LogicalResult place() {
    if (program_.lookupSymbol(kQueue)) {
      return program_.emitOpError()
             << "has a queue @" << kQueue << " already, expected the team alone";
    }
    if (failed(check()) || failed(findNumbers())) {
      return mlir::failure();
    }
    team_ = *program_.getBodyBlock()->getOps<kernel::QueueOp>().begin();
    builder_.setInsertionPointAfter(team_);
    auto queue = kernel::QueueOp::create(builder_, team_.getLoc(), kQueue, target_.name());
    stream_ = mlir::FlatSymbolRefAttr::get(queue.getSymNameAttr());
    separateFunctions();
    moveStatements();
    moveStorage();
    readOnHost();
    bridge();
    copyConstants();
    waitBeforePlans();
    return mlir::success();
  }

 private:
  /// Why the device cannot have a statement; "" where it can.
  std::string whyNot(Operation* op) {
    if (auto launch = llvm::dyn_cast<kernel::LaunchOp>(op)) {
      return target_.whyNoForm(llvm::cast<kernel::FuncOp>(launch.getEntryOp()));
    }
    if (auto load = llvm::dyn_cast<kernel::LoadOp>(op); load && !load.getIndices().empty()) {
      return "the host can wait for a single number, not for one of " +
             std::to_string(load.getIndices().size()) + " dims";
    }
    if (auto call = llvm::dyn_cast<kernel::CallOp>(op); call && runsHere(call.getEntryOp())) {
      return "";  // and so do its handle and its plan
    }
    return llvm::isa<kernel::AllocOp, kernel::CallOp, kernel::RecordOp, kernel::WaitOp>(op)
               ? "'" + op->getName().getStringRef().str() + "' has no " + target_.title().str() +
                     " form"
               : "";
  }

  /// Finds the statements that stay on the host: a rule gives them to it (kernel.on_host), or they
  /// have no form and only such statements read what they make. Reports all others without a form.
  LogicalResult check() {
    llvm::SmallVector<std::pair<Operation*, std::string>> formless;
    program_.walk([&](Operation* op) {
      std::string why = whyNot(op);
      auto call = llvm::dyn_cast<kernel::CallOp>(op);
      if (kernel::isOnHost(op) && !(call && runsHere(call.getEntryOp()))) {
        hosted_.insert(op);
      } else if (!why.empty()) {
        formless.emplace_back(op, std::move(why));
      }
    });
    for (bool changed = true; changed;) {
      changed = false;
      llvm::erase_if(formless, [&](const auto& pair) {
        const bool isHosted =
            !hosted_.empty() && llvm::isa<kernel::LaunchOp>(pair.first) &&
            llvm::all_of(llvm::cast<kernel::LaunchOp>(pair.first).getOutputs(), [&](Value output) {
              return isForHost(kernel::storageRoot(output), pair.first);
            });
        changed |= isHosted && hosted_.insert(pair.first);
        return isHosted;
      });
    }
    for (const auto& [op, why] : formless) {
      auto name = op->getAttrOfType<mlir::StringAttr>("op");
      emitUnsupported(op) << (name ? name.getValue() : op->getName().getStringRef()) << " on "
                          << target_.name() << ": " << why;
    }
    program_.walk([&](kernel::PlanOp plan) {
      if (!hosted_.empty() && !runsHere(kernel::lookupEntry(plan, plan.getCalleeAttr()))) {
        hosted_.insert(plan);
      }
    });
    return mlir::success(formless.empty());
  }

  /// Whether a call reads or writes the operand while it is enqueued.
  static bool isNumbers(mlir::OpOperand& operand) {
    auto call = llvm::dyn_cast<kernel::CallOp>(operand.getOwner());
    auto decl = call ? llvm::dyn_cast<kernel::DeclOp>(call.getEntryOp()) : kernel::DeclOp();
    if (!decl) {
      return false;
    }
    const std::optional<size_t> input = numberIn(call.getInputs(), operand);
    const std::optional<size_t> output = numberIn(call.getOutputs(), operand);
    return (input && kernel::isOwnOnHost(decl, false, *input)) ||
           (output && kernel::isOwnOnHost(decl, true, *output));
  }

  /// Finds the storage of such operands. The device has no part in it.
  LogicalResult findNumbers() {
    const mlir::WalkResult walked = program_.walk([&](kernel::CallOp call) {
      for (mlir::OpOperand& operand : call->getOpOperands()) {
        const Value root = isNumbers(operand) ? kernel::storageRoot(operand.get()) : Value();
        if (root && failed(isForCallsAlone(root, call))) {
          return mlir::WalkResult::interrupt();
        }
      }
      return mlir::WalkResult::advance();
    });
    return mlir::failure(walked.wasInterrupted());
  }

  LogicalResult isForCallsAlone(Value root, kernel::CallOp call) {
    constexpr llvm::StringLiteral kNearest =
        "; the nearest supported form is a result of a function that gives numbers, which only "
        "functions that take numbers read";
    const llvm::StringRef name = call.getOp().value_or(call->getName().getStringRef());
    if (!root.getDefiningOp<kernel::SlotOp>()) {
      return emitUnsupported(call) << name << " has numbers on the host but they are "
                                   << "an input, a parameter or an output of the program on "
                                   << target_.name() << kNearest;
    }
    bool isGiven = false;
    llvm::SmallVector<Value> views = {root};
    while (!views.empty()) {
      for (mlir::OpOperand& use : views.pop_back_val().getUses()) {
        if (auto view = llvm::dyn_cast<kernel::ViewOp>(use.getOwner())) {
          views.push_back(view.getResult());
        } else if (!isNumbers(use)) {
          auto other = use.getOwner()->getAttrOfType<mlir::StringAttr>("op");
          return emitUnsupported(call)
                 << name << " has numbers on the host but "
                 << (other ? other.getValue() : use.getOwner()->getName().getStringRef())
                 << " has them on " << target_.name() << kNearest;
        } else {
          isGiven |=
              numberIn(llvm::cast<kernel::CallOp>(use.getOwner()).getOutputs(), use).has_value();
        }
      }
    }
    if (!isGiven) {
      return emitUnsupported(call) << name << " has numbers that no function gives" << kNearest;
    }
    numbers_.insert(root);
    return mlir::success();
  }

  /// Whether storage is used by statements that stay on the host alone; `besides`: and by this one.
  bool isForHost(Value root, Operation* besides = nullptr) {
    if (!root.getDefiningOp() ||
        !llvm::isa<kernel::SlotOp, kernel::PreparedOp>(root.getDefiningOp())) {
      return false;
    }
    llvm::SmallVector<Value> views = {root};
    while (!views.empty()) {
      for (Operation* user : views.pop_back_val().getUsers()) {
        if (auto view = llvm::dyn_cast<kernel::ViewOp>(user)) {
          views.push_back(view.getResult());
        } else if (user != besides && !hosted_.contains(user)) {
          return false;
        }
      }
    }
    return true;
  }

  bool runsHere(Operation* decl) {
    auto backend = decl->getAttrOfType<mlir::StringAttr>(kernel::kRunsOnAttr);
    return backend && backend.getValue() == target_.name();
  }

  /// A kernel of which some launches stay on the host and others do not becomes two.
  void separateFunctions() {
    llvm::DenseMap<Operation*, kernel::FuncOp> ofHost;
    llvm::SetVector<Operation*> onDevice;
    program_.walk([&](kernel::LaunchOp launch) {
      if (!hosted_.contains(launch)) {
        onDevice.insert(launch.getEntryOp());
      }
    });
    program_.walk([&](kernel::LaunchOp launch) {
      Operation* entry = launch.getEntryOp();
      if (!hosted_.contains(launch) || !onDevice.contains(entry)) {
        return;
      }
      kernel::FuncOp& own = ofHost[entry];
      if (!own) {
        builder_.setInsertionPointAfter(entry);
        own = llvm::cast<kernel::FuncOp>(builder_.clone(*entry));
        own.setSymName(own.getSymName().str() + "_on_host");
      }
      launch.setCalleeAttr(mlir::FlatSymbolRefAttr::get(own.getSymNameAttr()));
    });
  }

  BufferType inSpace(mlir::Type type, llvm::StringRef space) {
    auto buffer = llvm::cast<BufferType>(type);
    return BufferType::get(program_.getContext(), buffer.getNames(), buffer.getExtents(),
                           buffer.getElementType(), buffer.getStrides(), space, buffer.getBorder());
  }
  BufferType onDevice(mlir::Type type) { return inSpace(type, target_.name()); }
  BufferType onHost(mlir::Type type) { return inSpace(type, kHostSpace); }

  mlir::ArrayAttr onDevice(mlir::ArrayAttr types) {
    return builder_.getTypeArrayAttr(
        llvm::map_to_vector(types.getAsValueRange<mlir::TypeAttr>(),
                            [&](mlir::Type type) -> mlir::Type { return onDevice(type); }));
  }

  /// The inputs or the outputs of a call, of which numbers stay where they are.
  mlir::ArrayAttr operandsOnDevice(kernel::DeclOp decl, bool areOutputs) {
    llvm::SmallVector<mlir::Type> types;
    const mlir::ArrayAttr given = areOutputs ? decl.getOutputs() : decl.getInputs();
    for (auto [number, type] : llvm::enumerate(given.getAsValueRange<mlir::TypeAttr>())) {
      types.push_back(kernel::isOwnOnHost(decl, areOutputs, number) ? type : onDevice(type));
    }
    return builder_.getTypeArrayAttr(types);
  }

  void moveStatements() {
    llvm::SetVector<Operation*> functions, libraries;
    program_.walk([&](Operation* op) {
      if (hosted_.contains(op)) {
        return;
      }
      if (llvm::isa<kernel::LaunchOp, kernel::CopyOp>(op)) {
        kernel::setCostUs(op, target_.estimateUs(op));
      }
      if (auto launch = llvm::dyn_cast<kernel::LaunchOp>(op)) {
        launch.setQueueAttr(stream_);
        launch.removeTeamAttr();
        functions.insert(launch.getEntryOp());
      } else if (auto copy = llvm::dyn_cast<kernel::CopyOp>(op)) {
        copy.setQueueAttr(stream_);
      } else if (auto call = llvm::dyn_cast<kernel::CallOp>(op)) {
        call.setQueueAttr(stream_);
        call.removeTeamAttr();
        libraries.insert(call.getEntryOp());
      }
    });
    for (Operation* op : libraries) {
      auto decl = llvm::cast<kernel::DeclOp>(op);
      decl.setInputsAttr(operandsOnDevice(decl, false));
      decl.setOutputsAttr(operandsOnDevice(decl, true));
      decl.setWorkspaceAttr(onDevice(decl.getWorkspace()));
    }
    for (Operation* op : functions) {
      auto function = llvm::cast<kernel::FuncOp>(op);
      // In kernels of the device's own a bad index ends the kernel, and the result of a division by
      // zero is undefined, as in torch.
      function.setCanFail(function.getCanFail() && hostKernels_);
      function.setInputsAttr(onDevice(function.getInputs()));
      function.setOutputsAttr(onDevice(function.getOutputs()));
      function.setWorkspaceAttr(onDevice(function.getWorkspace()));
      target_.schedule(function, program_.getTarget());
    }
  }

  void retype(Value value) {
    if (llvm::isa<BufferType>(value.getType())) {
      value.setType(onDevice(value.getType()));
    }
  }

  /// Everything but literals, numbers of calls and what statements on the host keep to themselves.
  void moveStorage() {
    const auto isOfHost = [&](Operation* op) {
      if (op->getNumResults() != 1 || !llvm::isa<BufferType>(op->getResult(0).getType())) {
        return false;
      }
      const Value root = kernel::storageRoot(op->getResult(0));
      return numbers_.contains(root) || (!hosted_.empty() && isForHost(root));
    };
    program_.walk([&](Operation* op) {
      if (llvm::isa<kernel::ConstantOp>(op) || isOfHost(op)) {
        return;
      }
      llvm::for_each(op->getResults(), [&](Value result) { retype(result); });
      for (mlir::Region& region : op->getRegions()) {
        for (mlir::Block& block : region) {
          llvm::for_each(block.getArguments(), [&](Value argument) { retype(argument); });
        }
      }
    });
  }

  /// Copies scalars that the host reads (loop bounds, conditions), and waits for the device.
  void readOnHost() {
    llvm::SmallVector<kernel::LoadOp> loads;
    program_.walk([&](kernel::LoadOp load) { loads.push_back(load); });
    for (kernel::LoadOp load : loads) {
      auto type = llvm::cast<BufferType>(load.getBuffer().getType());
      builder_.setInsertionPoint(load);
      Value host = kernel::SlotOp::create(
          builder_, load.getLoc(),
          BufferType::get(program_.getContext(), type.getNames(), type.getExtents(),
                          type.getElementType(), type.getStrides(), kHostSpace, {}));
      kernel::CopyOp::create(
          builder_, load.getLoc(), load.getBuffer(), host, stream_,
          builder_.getStringAttr("read on the host"),
          builder_.getStringAttr(
              "control flow or a place in memory depends on this number: the call waits for it"));
      waitForStream(load.getLoc());
      load.getBufferMutable().assign(host);
    }
  }

  void copy(Operation* of, Value from, Value to, llvm::StringRef why) {
    auto made = kernel::CopyOp::create(builder_, of->getLoc(), from, to, stream_,
                                       builder_.getStringAttr("copy"), builder_.getStringAttr(why));
    kernel::setCostUs(made, target_.estimateUs(made));
  }

  /// What `later` does from here on comes after what `earlier` has been given so far.
  void order(mlir::Location loc, mlir::FlatSymbolRefAttr earlier, mlir::FlatSymbolRefAttr later) {
    auto done = kernel::RecordOp::create(builder_, loc,
                                         kernel::EventType::get(program_.getContext()), earlier);
    kernel::WaitOp::create(builder_, loc, done.getEvent(), later);
  }
  mlir::FlatSymbolRefAttr team() { return mlir::FlatSymbolRefAttr::get(team_.getSymNameAttr()); }
  void waitForStream(mlir::Location loc) { order(loc, stream_, team()); }

  /// Gives statements that stay on the host copies of what they read and write:
  ///
  ///   launch @k(%x) outs(%y) on @team  ->  copy %x to %h on @stream;  wait
  ///                                        launch @k(%h) outs(%g) on @team
  ///                                        copy %g to %y on @stream;  wait
  void bridge() {
    struct Twin {
      Value device, host;
      bool isRead = false, isWritten = false;
    };
    for (Operation* op : hosted_) {
      llvm::MapVector<Value, Twin> twins;
      for (mlir::OpOperand& operand : op->getOpOperands()) {
        auto type = llvm::dyn_cast<BufferType>(operand.get().getType());
        if (!type || type.getSpace() != target_.name()) {
          continue;
        }
        Twin& twin = twins[operand.get()];
        if (!twin.host) {
          builder_.setInsertionPoint(op);
          twin = {operand.get(), kernel::SlotOp::create(builder_, op->getLoc(), onHost(type))};
        }
        const std::optional<size_t> output = numberIn(outputsOf(op), operand);
        twin.isWritten |= output.has_value();
        twin.isRead |= output ? kernel::isOutputRead(entryOf(op), *output)
                              : !numberIn(workspaceOf(op), operand);
        operand.set(twin.host);
      }
      builder_.setInsertionPoint(op);
      if (llvm::any_of(twins, [](const auto& pair) { return pair.second.isRead; })) {
        order(op->getLoc(), team(), stream_);  // the memory of the copies was the host's before
        for (const auto& [value, twin] : twins) {
          if (twin.isRead) {
            copy(op, twin.device, twin.host, "the op behind it is computed on the host");
          }
        }
        waitForStream(op->getLoc());
      }
      builder_.setInsertionPointAfter(op);
      if (llvm::any_of(twins, [](const auto& pair) { return pair.second.isWritten; })) {
        order(op->getLoc(), team(), stream_);
        for (const auto& [value, twin] : twins) {
          if (twin.isWritten) {
            copy(op, twin.host, twin.device, "the op before it was computed on the host");
          }
        }
        waitForStream(op->getLoc());  // before others use the memory of the copies
      }
    }
  }

  static Operation* entryOf(Operation* op) {
    auto launch = llvm::dyn_cast<kernel::LaunchOp>(op);
    return launch ? launch.getEntryOp() : llvm::cast<kernel::CallOp>(op).getEntryOp();
  }
  /// Of a launch or a call; of a plan, which only reads, none.
  static std::optional<mlir::OperandRange> outputsOf(Operation* op) {
    if (auto launch = llvm::dyn_cast<kernel::LaunchOp>(op)) {
      return launch.getOutputs();
    }
    auto call = llvm::dyn_cast<kernel::CallOp>(op);
    return call ? std::optional(call.getOutputs()) : std::nullopt;
  }
  static std::optional<mlir::OperandRange> workspaceOf(Operation* op) {
    if (auto launch = llvm::dyn_cast<kernel::LaunchOp>(op)) {
      return launch.getWorkspace();
    }
    auto call = llvm::dyn_cast<kernel::CallOp>(op);
    return call ? std::optional(call.getWorkspace()) : std::nullopt;
  }
  static std::optional<size_t> numberIn(std::optional<mlir::OperandRange> range,
                                        mlir::OpOperand& operand) {
    if (!range || range->empty()) {
      return std::nullopt;
    }
    const size_t number = operand.getOperandNumber();
    const size_t first = range->getBeginOperandIndex();
    return number >= first && number < first + range->size() ? std::optional(number - first)
                                                             : std::nullopt;
  }

  /// A plan of the device's own kernels reads parameters, on the team, that the stream brings.
  void waitBeforePlans() {
    if (!target_.sharesWithHost()) {
      return;
    }
    program_.walk([&](kernel::PlanOp plan) {
      if (!hosted_.contains(plan) && !plan.getConstants().empty()) {
        builder_.setInsertionPoint(plan);
        waitForStream(plan.getLoc());
      }
    });
  }

  kernel::PrepareOp prepare() {
    kernel::PrepareOp prepare = program_.getPrepareOp();
    if (!prepare) {
      builder_.setInsertionPoint(program_.getRunOp());
      prepare = kernel::PrepareOp::create(builder_, program_.getLoc());
    }
    return prepare;
  }

  /// A literal becomes prepared data; the runtime waits for prepare as a whole.
  void copyConstants() {
    llvm::SmallVector<kernel::ConstantOp> constants(
        program_.getBodyBlock()->getOps<kernel::ConstantOp>());
    for (auto [number, constant] : llvm::enumerate(constants)) {
      if (constant->use_empty()) {
        continue;
      }
      mlir::Block& early = prepare().getBody().front();
      builder_.setInsertionPoint(prepare());
      Value device = kernel::PreparedOp::create(
          builder_, constant.getLoc(), onDevice(constant->getResult(0).getType()),
          builder_.getStringAttr("constant" + std::to_string(number) + ".device"),
          kernel::ExtentAttr());
      constant->getResult(0).replaceAllUsesWith(device);
      builder_.setInsertionPointToStart(&early);
      kernel::CopyOp::create(
          builder_, constant.getLoc(), constant->getResult(0), device, stream_,
          builder_.getStringAttr("copy"),
          builder_.getStringAttr("once per set of weights: the device does not see host memory"));
    }
  }

  kernel::ProgramOp program_;
  const Target& target_;
  const bool hostKernels_;
  mlir::OpBuilder builder_;
  kernel::QueueOp team_;
  mlir::FlatSymbolRefAttr stream_;
  llvm::SetVector<Operation*> hosted_;  ///< statements that stay on the host
  llvm::DenseSet<Value> numbers_;       ///< storage that calls read and write while they enqueue
};

}  // namespace

LogicalResult placeOnStream(kernel::ProgramOp program, const Target& target, bool hostKernels) {
  return Placer(program, target, hostKernels).place();
}

}  // namespace straightline::passes
