// SPDX-License-Identifier: Apache-2.0
// Gives every kernel the target's schedule. Prepare copies literals to the device once, because the
// device does not have them. Control flow stays on the host; where a condition depends on data, the
// host has that copied and waits for it:
//
//   %s = load %b[]  ->  copy %b to %h on @stream;  %e = record on @stream;  wait %e on @team;  %s =
//   load %h[]
//
// All kernels and statements without a form for the device are reported, not the first alone. Runs
// before plan_memory.
#include "passes/place_on_stream.h"

#include "dialect/error_kind.h"
#include "dialect/kernel/recorded.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/IR/Builders.h"
#include "passes/kernel_facts.h"

namespace straightline::passes {

namespace {

using kernel::BufferType;
using mlir::LogicalResult;
using mlir::Operation;
using mlir::Value;

constexpr llvm::StringLiteral kQueue = "stream";

class Placer {
 public:
  Placer(kernel::ProgramOp program, const Target& target)
      : program_(program), target_(target), builder_(program.getContext()) {}

  LogicalResult place() {
    if (program_.lookupSymbol(kQueue)) {
      return program_.emitOpError()
             << "has a queue @" << kQueue << " already, expected the team alone";
    }
    if (failed(check())) {
      return mlir::failure();
    }
    team_ = *program_.getBodyBlock()->getOps<kernel::QueueOp>().begin();
    builder_.setInsertionPointAfter(team_);
    auto queue = kernel::QueueOp::create(builder_, team_.getLoc(), kQueue, target_.name());
    stream_ = mlir::FlatSymbolRefAttr::get(queue.getSymNameAttr());
    moveStatements();
    moveStorage();
    readOnHost();
    copyConstants();
    return mlir::success();
  }

 private:
  LogicalResult check() {
    bool whole = true;
    program_.walk([&](Operation* op) {
      std::string why;
      if (auto launch = llvm::dyn_cast<kernel::LaunchOp>(op)) {
        why = target_.whyNoForm(llvm::cast<kernel::FuncOp>(launch.getEntryOp()));
      } else if (auto call = llvm::dyn_cast<kernel::CallOp>(op);
                 call && runsHere(call.getEntryOp())) {
        return;  // and so do its handle and its plan
      } else if (auto load = llvm::dyn_cast<kernel::LoadOp>(op);
                 load && !load.getIndices().empty()) {
        why = "the host can wait for a single number, not for one of " +
              std::to_string(load.getIndices().size()) + " dims";
      } else if (llvm::isa<kernel::AllocOp, kernel::CallOp, kernel::RecordOp, kernel::WaitOp>(op)) {
        why = "'" + op->getName().getStringRef().str() + "' has no " + target_.title().str() +
              " form";
      }
      if (!why.empty()) {
        auto name = op->getAttrOfType<mlir::StringAttr>("op");
        emitUnsupported(op) << (name ? name.getValue() : op->getName().getStringRef()) << " on "
                            << target_.name() << ": " << why;
        whole = false;
      }
    });
    return mlir::success(whole);
  }

  bool runsHere(Operation* decl) {
    auto backend = decl->getAttrOfType<mlir::StringAttr>(kernel::kRunsOnAttr);
    return backend && backend.getValue() == target_.name();
  }

  BufferType onDevice(mlir::Type type) {
    auto buffer = llvm::cast<BufferType>(type);
    return BufferType::get(program_.getContext(), buffer.getNames(), buffer.getExtents(),
                           buffer.getElementType(), buffer.getStrides(), target_.name(),
                           buffer.getBorder());
  }

  mlir::ArrayAttr onDevice(mlir::ArrayAttr types) {
    return builder_.getTypeArrayAttr(
        llvm::map_to_vector(types.getAsValueRange<mlir::TypeAttr>(),
                            [&](mlir::Type type) -> mlir::Type { return onDevice(type); }));
  }

  void moveStatements() {
    llvm::SetVector<Operation*> functions, libraries;
    program_.walk([&](Operation* op) {
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
      decl.setInputsAttr(onDevice(decl.getInputs()));
      decl.setOutputsAttr(onDevice(decl.getOutputs()));
      decl.setWorkspaceAttr(onDevice(decl.getWorkspace()));
    }
    for (Operation* op : functions) {
      auto function = llvm::cast<kernel::FuncOp>(op);
      // A kernel that is printed as the host's are tells of a bad index and of a division by zero by
      // its context. In others a bad index ends the kernel, and the result of the division is
      // undefined, as in torch.
      function.setCanFail(function.getCanFail() && compilesHostKernels(target_.name()));
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

  /// Everything but literals.
  void moveStorage() {
    program_.walk([&](Operation* op) {
      if (llvm::isa<kernel::ConstantOp>(op)) {
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
                          type.getElementType(), type.getStrides(), "host", {}));
      kernel::CopyOp::create(
          builder_, load.getLoc(), load.getBuffer(), host, stream_,
          builder_.getStringAttr("read on the host"),
          builder_.getStringAttr(
              "control flow or a place in memory depends on this number: the call waits for it"));
      auto done = kernel::RecordOp::create(builder_, load.getLoc(),
                                           kernel::EventType::get(program_.getContext()), stream_);
      kernel::WaitOp::create(builder_, load.getLoc(), done.getEvent(),
                             mlir::FlatSymbolRefAttr::get(team_.getSymNameAttr()));
      load.getBufferMutable().assign(host);
    }
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
  mlir::OpBuilder builder_;
  kernel::QueueOp team_;
  mlir::FlatSymbolRefAttr stream_;
};

}  // namespace

LogicalResult placeOnStream(kernel::ProgramOp program, const Target& target) {
  return Placer(program, target).place();
}

}  // namespace straightline::passes
