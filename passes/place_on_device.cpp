// SPDX-License-Identifier: Apache-2.0
// Moves all statements of a program to the queue of a device with its own memory space. Slots and
// prepared buffers move there; parameters and literals get a copy on the device, made in prepare;
// inputs are copied in at the start of run and results copied out at its end. The team waits for
// the last copy, so that a call returns with its results in host memory.
//
//   launch @k(%x, %p) outs(%y) on @team  ->  copy %x to %d on @device
//                                            launch @k(%d, %q) outs(%e) on @device
//                                            copy %e to %y on @device;  record on @device;  wait on
//                                            @team
//
// Everything runs on one queue, in order, so no statement needs an event but the last. Runs before
// plan_memory, which plans each space by itself. Refused as unsupported: control flow, reads of
// scalars, memory of run-time size, library calls, updates in place of inputs and states, and host
// storage whose elements do not lie densely.
#include "dialect/error_kind.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "passes/passes.h"

namespace straightline::passes {

#define GEN_PASS_DEF_PLACEONDEVICE
#include "passes/passes.h.inc"

namespace {

using kernel::BufferType;
using mlir::LogicalResult;
using mlir::Operation;
using mlir::Value;

constexpr llvm::StringLiteral kQueue = "device";

class Placer {
 public:
  Placer(kernel::ProgramOp program, llvm::StringRef backend, llvm::StringRef space)
      : program_(program), backend_(backend), space_(space), builder_(program.getContext()) {}

  LogicalResult place() {
    if (failed(check())) {
      return mlir::failure();
    }
    addQueue();
    moveStorage();
    copyConstants();
    copyInputs();
    copyOutputs();
    moveStatements();
    return mlir::success();
  }

 private:
  // --- what is refused

  LogicalResult check() {
    if (program_.lookupSymbol(kQueue)) {
      return program_.emitOpError()
             << "has a queue @" << kQueue << " already, expected the team alone";
    }
    mlir::WalkResult result = program_.walk([&](Operation* op) {
      return failed(checkOp(op)) ? mlir::WalkResult::interrupt() : mlir::WalkResult::advance();
    });
    if (result.wasInterrupted()) {
      return mlir::failure();
    }
    kernel::RunOp run = program_.getRunOp();
    for (auto [position, mutated] : llvm::enumerate(run.getMutatedInputs())) {
      if (mutated) {
        return emitUnsupported(run) << "run updates the input " << run.getInputNames()[position]
                                    << " in place; that on a device with its own memory";
      }
    }
    for (Value argument : run.getBody().getArguments()) {
      if (!isStoredDensely(argument)) {
        return emitUnsupported(run) << "run has an argument of type " << argument.getType()
                                    << "; copying other than dense rows to a device";
      }
    }
    return mlir::success();
  }

  LogicalResult checkOp(Operation* op) {
    if (llvm::isa<kernel::ParameterOp, kernel::ConstantOp>(op) &&
        !isStoredDensely(op->getResult(0))) {
      return emitUnsupported(op) << op->getName().stripDialect() << " has type "
                                 << op->getResult(0).getType()
                                 << "; copying other than dense rows to a device";
    }
    if (llvm::isa<kernel::StateOp, kernel::HandleOp, kernel::AllocOp, kernel::CallOp,
                  kernel::PlanOp, kernel::LoadOp, kernel::CheckOp, kernel::IfOp, kernel::ForOp,
                  kernel::WhileOp, kernel::RecordOp, kernel::WaitOp>(op)) {
      return emitUnsupported(op) << op->getName().stripDialect()
                                 << " cannot be placed; this statement on the device '" << backend_
                                 << "'";
    }
    return mlir::success();
  }

  static bool isStoredDensely(Value buffer) {
    auto type = llvm::cast<BufferType>(buffer.getType());
    return type.isContiguous() && !type.hasBorder();
  }

  // --- types and queues

  BufferType onDevice(mlir::Type type) {
    auto buffer = llvm::cast<BufferType>(type);
    return BufferType::get(program_.getContext(), buffer.getNames(), buffer.getExtents(),
                           buffer.getElementType(), buffer.getStrides(), space_,
                           buffer.getBorder());
  }
  mlir::ArrayAttr onDevice(mlir::ArrayAttr types) {
    llvm::SmallVector<mlir::Type> moved;
    for (mlir::Type type : types.getAsValueRange<mlir::TypeAttr>()) {
      moved.push_back(onDevice(type));
    }
    return builder_.getTypeArrayAttr(moved);
  }

  void addQueue() {
    team_ = *program_.getBodyBlock()->getOps<kernel::QueueOp>().begin();
    builder_.setInsertionPointAfter(team_);
    auto queue = kernel::QueueOp::create(builder_, team_.getLoc(), kQueue, backend_);
    device_ = mlir::FlatSymbolRefAttr::get(queue.getSymNameAttr());
  }

  kernel::PrepareOp prepare() {
    kernel::PrepareOp prepare = program_.getPrepareOp();
    if (!prepare) {
      builder_.setInsertionPoint(program_.getRunOp());
      prepare = kernel::PrepareOp::create(builder_, program_.getLoc());
    }
    return prepare;
  }

  // --- storage

  void retype(Value buffer) {
    buffer.setType(onDevice(buffer.getType()));
    for (Operation* user : buffer.getUsers()) {
      if (auto view = llvm::dyn_cast<kernel::ViewOp>(user)) {
        retype(view.getResult());
      }
    }
  }

  void moveStorage() {
    program_.walk([&](Operation* op) {
      if (llvm::isa<kernel::SlotOp, kernel::PreparedOp>(op)) {
        retype(op->getResult(0));
      }
    });
  }

  /// Users other than the return, through views; inside `region` when given.
  static bool isUsedByStatements(Value buffer, mlir::Region* region = nullptr) {
    return llvm::any_of(buffer.getUsers(), [&](Operation* user) {
      if (auto view = llvm::dyn_cast<kernel::ViewOp>(user)) {
        return isUsedByStatements(view.getResult(), region);
      }
      return !llvm::isa<kernel::ReturnOp>(user) &&
             (!region || region->isAncestor(user->getParentRegion()));
    });
  }

  /// All statements use `device` instead of `host`; what the caller gets back stays.
  void redirect(Value host, Value device) {
    for (mlir::OpOperand& use : llvm::make_early_inc_range(host.getUses())) {
      auto view = llvm::dyn_cast<kernel::ViewOp>(use.getOwner());
      if (!view) {
        if (!llvm::isa<kernel::ReturnOp>(use.getOwner())) {
          use.set(device);
        }
        continue;
      }
      if (!isUsedByStatements(view.getResult())) {
        continue;
      }
      builder_.setInsertionPoint(view);
      auto moved = llvm::cast<kernel::ViewOp>(builder_.clone(*view));
      moved.getBaseMutable().assign(device);
      moved.getResult().setType(onDevice(view.getResult().getType()));
      redirect(view.getResult(), moved.getResult());
      if (view->use_empty()) {
        view.erase();
      }
    }
  }

  kernel::CopyOp copy(mlir::Location loc, Value from, Value to, llvm::StringRef why) {
    return kernel::CopyOp::create(builder_, loc, from, to, device_, builder_.getStringAttr("copy"),
                                  builder_.getStringAttr(why));
  }

  /// Parameters and literals: prepared data when run reads them, scratch of prepare when only
  /// prepare does.
  void copyConstants() {
    llvm::SmallVector<Operation*> owners;
    for (Operation& op : *program_.getBodyBlock()) {
      if (llvm::isa<kernel::ParameterOp, kernel::ConstantOp>(op) &&
          isUsedByStatements(op.getResult(0))) {
        owners.push_back(&op);
      }
    }
    if (owners.empty()) {
      return;
    }
    mlir::Block& early = prepare().getBody().front();
    mlir::Operation* first = early.empty() ? nullptr : &early.front();
    for (auto [number, owner] : llvm::enumerate(owners)) {
      Value host = owner->getResult(0);
      BufferType type = onDevice(host.getType());
      auto toPrepare = [&] {
        first ? builder_.setInsertionPoint(first) : builder_.setInsertionPointToEnd(&early);
      };
      auto parameter = llvm::dyn_cast<kernel::ParameterOp>(owner);
      Value device;
      if (isUsedByStatements(host, &program_.getRunOp().getBody())) {
        const std::string name =
            parameter ? parameter.getName().str() : "constant" + std::to_string(number);
        builder_.setInsertionPoint(prepare());
        device = kernel::PreparedOp::create(builder_, owner->getLoc(), type,
                                            builder_.getStringAttr(name + ".device"),
                                            kernel::ExtentAttr());
      } else {
        toPrepare();
        device = kernel::SlotOp::create(builder_, owner->getLoc(), type);
      }
      redirect(host, device);
      toPrepare();
      copy(owner->getLoc(), host, device,
           "once per set of weights: the device does not see host memory");
    }
    builder_.setInsertionPointToEnd(&early);
    waitForDevice(prepare().getLoc());
  }

  void copyInputs() {
    kernel::RunOp run = program_.getRunOp();
    mlir::Block& block = run.getBody().front();
    Operation* first = &block.front();
    for (Value input : run.getInputs()) {
      if (!isUsedByStatements(input)) {
        continue;
      }
      builder_.setInsertionPoint(first);
      Value device = kernel::SlotOp::create(builder_, run.getLoc(), onDevice(input.getType()));
      redirect(input, device);
      builder_.setInsertionPoint(first);
      copy(run.getLoc(), input, device, "the device does not see host memory");
    }
  }

  void copyOutputs() {
    kernel::RunOp run = program_.getRunOp();
    mlir::Block& block = run.getBody().front();
    for (Value output : run.getOutputs()) {
      builder_.setInsertionPointToStart(&block);
      Value device = kernel::SlotOp::create(builder_, run.getLoc(), onDevice(output.getType()));
      redirect(output, device);
      builder_.setInsertionPoint(block.getTerminator());
      copy(run.getLoc(), device, output, "results belong to host memory");
    }
    builder_.setInsertionPoint(block.getTerminator());
    waitForDevice(run.getLoc());
  }

  void waitForDevice(mlir::Location loc) {
    auto done = kernel::RecordOp::create(builder_, loc,
                                         kernel::EventType::get(program_.getContext()), device_);
    kernel::WaitOp::create(builder_, loc, done.getEvent(),
                           mlir::FlatSymbolRefAttr::get(team_.getSymNameAttr()));
  }

  // --- statements

  void moveStatements() {
    llvm::SetVector<Operation*> kernels;
    program_.walk([&](Operation* op) {
      if (auto launch = llvm::dyn_cast<kernel::LaunchOp>(op)) {
        launch.setQueueAttr(device_);
        launch.removeTeamAttr();
        kernels.insert(launch.getEntryOp());
      } else if (auto copied = llvm::dyn_cast<kernel::CopyOp>(op)) {
        copied.setQueueAttr(device_);
      }
    });
    for (Operation* op : kernels) {
      auto function = llvm::cast<kernel::FuncOp>(op);
      function.setInputsAttr(onDevice(function.getInputs()));
      function.setOutputsAttr(onDevice(function.getOutputs()));
      function.setWorkspaceAttr(onDevice(function.getWorkspace()));
    }
  }

  kernel::ProgramOp program_;
  llvm::StringRef backend_;
  llvm::StringRef space_;
  mlir::OpBuilder builder_;
  kernel::QueueOp team_;
  mlir::FlatSymbolRefAttr device_;
};

struct PlaceOnDevicePass : impl::PlaceOnDeviceBase<PlaceOnDevicePass> {
  using PlaceOnDeviceBase::PlaceOnDeviceBase;

  void runOnOperation() override {
    if (backend.empty() || space.empty()) {
      getOperation().emitError() << "place-on-device needs a backend and its memory space but has '"
                                 << backend << "' and '" << space << "'";
      return signalPassFailure();
    }
    for (auto program : getOperation().getOps<kernel::ProgramOp>()) {
      if (failed(Placer(program, backend, space).place())) {
        return signalPassFailure();
      }
    }
  }
};

}  // namespace

}  // namespace straightline::passes
