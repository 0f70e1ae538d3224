// SPDX-License-Identifier: Apache-2.0
#include "passes/host_edges.h"

#include "dialect/error_kind.h"
#include "mlir/IR/Builders.h"

namespace straightline::passes {

namespace {

using kernel::BufferType;
using mlir::LogicalResult;
using mlir::Operation;
using mlir::Value;

class Edges {
 public:
  Edges(kernel::ProgramOp program, bool freeze)
      : program_(program),
        run_(program.getRunOp()),
        freeze_(freeze),
        builder_(program.getContext()) {}

  LogicalResult add() {
    for (kernel::QueueOp queue : program_.getBodyBlock()->getOps<kernel::QueueOp>()) {
      (queue.isTeam() ? team_ : stream_) = mlir::FlatSymbolRefAttr::get(queue.getSymNameAttr());
    }
    // The first statement, before which twins are made and filled, in the order of the text.
    first_ = &run_.getBody().front().front();
    for (auto [input, mutated] : llvm::zip(run_.getInputs(), run_.getMutatedInputs())) {
      if (mutated && !isDense(input)) {
        return emitUnsupported(run_)
               << "run updates an input of type " << input.getType()
               << " in place, whose elements do not lie densely; that in host memory by a device";
      }
    }
    for (auto [input, mutated] : llvm::zip(run_.getInputs(), run_.getMutatedInputs())) {
      addTwin(input, {.in = true, .out = mutated});
    }
    for (Value output : run_.getOutputs()) {
      addTwin(output, {.in = false, .out = true});
    }
    for (Operation& op : llvm::make_early_inc_range(*program_.getBodyBlock())) {
      if (llvm::isa<kernel::StateOp>(op)) {
        addTwin(op.getResult(0), {.in = true, .out = true});
      } else if (auto parameter = llvm::dyn_cast<kernel::ParameterOp>(op)) {
        addParameter(parameter);
      }
    }
    builder_.setInsertionPoint(run_.getBody().front().getTerminator());
    auto done = kernel::RecordOp::create(builder_, run_.getLoc(),
                                         kernel::EventType::get(program_.getContext()), stream_);
    kernel::WaitOp::create(builder_, run_.getLoc(), done.getEvent(), team_);
    return mlir::success();
  }

 private:
  struct Copies {
    bool in, out;
  };

  static bool isDense(Value buffer) {
    auto type = llvm::cast<BufferType>(buffer.getType());
    int64_t elements = 1;
    for (mlir::AffineExpr extent : type.getExtents()) {
      const std::optional<int64_t> size = symbolic::constantValue(extent);
      if (!size) {
        return type.isContiguous();
      }
      elements *= *size;
    }
    return symbolic::constantValue(type.bytes()) == elements * type.elementBytes();
  }

  BufferType onHost(mlir::Type type) {
    auto buffer = llvm::cast<BufferType>(type);
    return BufferType::get(program_.getContext(), buffer.getNames(), buffer.getExtents(),
                           buffer.getElementType(), buffer.getStrides(), "host",
                           buffer.getBorder());
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

  /// Statements inside `region` (null: all) use `device` instead of `host`; what the caller gets
  /// back stays.
  void redirect(Value host, Value device, mlir::Region* region) {
    for (mlir::OpOperand& use : llvm::make_early_inc_range(host.getUses())) {
      Operation* user = use.getOwner();
      if (region && !region->isAncestor(user->getParentRegion())) {
        continue;
      }
      auto view = llvm::dyn_cast<kernel::ViewOp>(user);
      if (!view) {
        if (!llvm::isa<kernel::ReturnOp>(user)) {
          use.set(device);
        }
        continue;
      }
      if (!isUsedByStatements(view.getResult(), region)) {
        continue;
      }
      builder_.setInsertionPoint(view);
      auto moved = llvm::cast<kernel::ViewOp>(builder_.clone(*view));
      moved.getBaseMutable().assign(device);
      redirect(view.getResult(), moved.getResult(), region);
      if (view->use_empty()) {
        view.erase();
      }
    }
  }

  void moveToHost(Value buffer) {
    buffer.setType(onHost(buffer.getType()));
    for (Operation* user : buffer.getUsers()) {
      if (auto view = llvm::dyn_cast<kernel::ViewOp>(user)) {
        moveToHost(view.getResult());
      }
    }
  }

  Value slotLike(Value buffer, mlir::Location loc) {
    return kernel::SlotOp::create(builder_, loc, llvm::cast<BufferType>(buffer.getType()));
  }

  void copy(Value from, Value to, llvm::StringRef why) {
    kernel::CopyOp::create(builder_, run_.getLoc(), from, to, stream_,
                           builder_.getStringAttr("copy"), builder_.getStringAttr(why));
  }

  /// The twin lives in an arena of run.
  void addTwin(Value host, Copies copies) {
    if (isUsedByStatements(host)) {
      builder_.setInsertionPoint(first_);
      Value device = slotLike(host, run_.getLoc());
      redirect(host, device, &run_.getBody());
      if (copies.in) {
        builder_.setInsertionPoint(first_);
        copy(host, device, "the device does not see host memory");
      }
      if (copies.out) {
        builder_.setInsertionPoint(run_.getBody().front().getTerminator());
        copy(device, host, "results belong to host memory");
      }
    }
    moveToHost(host);
  }

  /// The twin is prepared data where run reads it, scratch of prepare where only prepare does.
  void addParameter(kernel::ParameterOp parameter) {
    Value host = parameter.getResult();
    const bool inRun = isUsedByStatements(host, &run_.getBody());
    if (inRun && !freeze_) {
      builder_.setInsertionPoint(first_);
      Value device = slotLike(host, parameter.getLoc());
      redirect(host, device, &run_.getBody());
      builder_.setInsertionPoint(first_);
      copy(host, device, "parameters are live: the device does not see host memory");
    }
    if (isUsedByStatements(host)) {
      kernel::PrepareOp prepare = preparation();
      mlir::Block& early = prepare.getBody().front();
      const bool isKept = inRun && freeze_;
      Value device;
      if (isKept) {
        builder_.setInsertionPoint(prepare);
        device = kernel::PreparedOp::create(
            builder_, parameter.getLoc(), llvm::cast<BufferType>(host.getType()),
            builder_.getStringAttr(parameter.getName().str() + ".device"), kernel::ExtentAttr());
      } else {
        builder_.setInsertionPointToStart(&early);
        device = slotLike(host, parameter.getLoc());
      }
      redirect(host, device, isKept ? nullptr : &prepare.getBody());
      isKept ? builder_.setInsertionPointToStart(&early)
             : builder_.setInsertionPointAfterValue(device);
      copy(host, device, "once per set of weights: the device does not see host memory");
    }
    moveToHost(host);
  }

  kernel::PrepareOp preparation() {
    kernel::PrepareOp prepare = program_.getPrepareOp();
    if (!prepare) {
      builder_.setInsertionPoint(run_);
      prepare = kernel::PrepareOp::create(builder_, program_.getLoc());
    }
    return prepare;
  }

  kernel::ProgramOp program_;
  kernel::RunOp run_;
  const bool freeze_;
  mlir::OpBuilder builder_;
  mlir::FlatSymbolRefAttr team_, stream_;
  Operation* first_ = nullptr;
};

}  // namespace

LogicalResult addHostEdges(kernel::ProgramOp program, bool freeze) {
  return Edges(program, freeze).add();
}

}  // namespace straightline::passes
