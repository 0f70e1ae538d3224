// SPDX-License-Identifier: Apache-2.0
#include "codegen/statement_walk.h"

#include "codegen/cpp_text.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace straightline::codegen {

using mlir::LogicalResult;
using mlir::Operation;

namespace {

class Walk {
 public:
  Walk(const ProgramIndex& index, bool profile, StatementPrinter& printer)
      : index_(index), profile_(profile), printer_(printer) {}

  LogicalResult block(mlir::Block& block) {
    for (Operation& op : block) {
      const bool timed =
          profile_ &&
          llvm::isa<kernel::LaunchOp, kernel::CallOp, kernel::CopyOp, kernel::PlanOp>(op);
      comment(&op);
      step(&op);
      if (timed) {
        printer_.profile(number(&op), true);
      }
      if (failed(statement(&op))) {
        return mlir::failure();
      }
      if (timed) {
        printer_.profile(number(&op), false);
      }
      if (mayFail(&op)) {
        printer_.stopIfFailed(number(&op), isInLibrary(&op));
      }
    }
    printer_.endBlock(block);
    return mlir::success();
  }

 private:
  int number(Operation* op) const { return index_.statementNumber(op); }

  static bool mayFail(Operation* op) {
    auto call = llvm::dyn_cast<kernel::KernelCallInterface>(op);
    return (call && call.canFail()) || llvm::isa<kernel::PlanOp, kernel::AllocOp>(op);
  }

  /// Whether thread 0 alone runs the statement, which may start threads of its own.
  static bool isInLibrary(Operation* op) {
    auto call = llvm::dyn_cast<kernel::CallOp>(op);
    return (call && llvm::cast<kernel::KernelCallInterface>(op).getTeamSize() == 1) ||
           llvm::isa<kernel::PlanOp>(op);
  }

  void step(Operation* op) {
    auto number = op->getAttrOfType<mlir::IntegerAttr>(kernel::kStepAttr);
    if (!number) {
      return;
    }
    mlir::FlatSymbolRefAttr symbol;  // a loop's statements are on one queue
    op->walk([&](Operation* inner) {
      auto own = inner->getAttrOfType<mlir::FlatSymbolRefAttr>("queue");
      symbol = own ? own : symbol;
    });
    printer_.step(queue(symbol), number.getInt(),
                  op->getAttrOfType<mlir::DenseI64ArrayAttr>(kernel::kAfterAttr).asArrayRef());
  }

  /// "linear, relu: fc (model.py:12)".
  void comment(Operation* op) {
    if (llvm::isa<kernel::SlotOp, kernel::ViewOp, kernel::SizeOp, kernel::ReturnOp,
                  kernel::ConditionOp, kernel::BarrierOp>(op) ||
        !llvm::isa<kernel::KernelDialect>(op->getDialect())) {
      return;
    }
    auto name = op->getAttrOfType<mlir::StringAttr>("op");
    const std::string what = name ? name.str() : op->getName().stripDialect().str();
    const std::string source = sourceOf(op->getLoc());
    std::string text = what + (source.empty() ? "" : ": " + source);
    llvm::replace(text, '\n', ' ');
    llvm::replace(text, '\r', ' ');
    llvm::replace(text, '\\', '/');  // a backslash at the end of a // comment would continue it
    printer_.comment(text);
  }

  LogicalResult statement(Operation* op) {
    return llvm::TypeSwitch<Operation*, LogicalResult>(op)
        .Case<kernel::SlotOp, kernel::ReturnOp, mlir::arith::ConstantOp>(
            [](auto) { return mlir::success(); })
        .Case<kernel::LaunchOp, kernel::CallOp>([&](auto call) { return entryCall(call); })
        .Case<kernel::PlanOp>([&](auto plan) { return planCall(plan); })
        .Case<kernel::CopyOp>([&](auto copy) {
          printer_.copy(copy, queue(copy.getQueueAttr()));
          return mlir::success();
        })
        .Case<kernel::BarrierOp>([&](auto) {
          printer_.barrier();
          return mlir::success();
        })
        .Case<kernel::RecordOp>([&](auto record) {
          printer_.record(record, queue(record.getQueueAttr()));
          return mlir::success();
        })
        .Case<kernel::WaitOp>([&](auto wait) {
          printer_.wait(wait, queue(wait.getQueueAttr()));
          return mlir::success();
        })
        .Case<kernel::CheckOp>([&](auto check) {
          printer_.check(check, number(check));
          return mlir::success();
        })
        .Case<kernel::AllocOp>([&](auto alloc) {
          printer_.alloc(alloc);
          return mlir::success();
        })
        .Case<kernel::ViewOp>([&](auto view) {
          printer_.view(view);
          return mlir::success();
        })
        .Case<kernel::SizeOp>([&](auto size) {
          printer_.size(size);
          return mlir::success();
        })
        .Case<kernel::SetExtentOp>([&](auto set) {
          printer_.setExtent(set, number(set));
          return mlir::success();
        })
        .Case<kernel::LoadOp>([&](auto load) {
          printer_.load(load);
          return mlir::success();
        })
        .Case<kernel::ConditionOp>([&](auto condition) {
          printer_.condition(condition);
          return mlir::success();
        })
        .Case<kernel::IfOp>([&](auto branch) { return ifStatement(branch); })
        .Case<kernel::ForOp>([&](auto loop) { return forLoop(loop); })
        .Case<kernel::WhileOp>([&](auto loop) { return whileLoop(loop); })
        .Default([&](Operation* scalar) {
          return printer_.scalar(scalar, *index_.entries().of(scalar));
        });
  }

  QueueUse queue(mlir::FlatSymbolRefAttr symbol) const {
    const int number = index_.queueNumber(symbol);
    return {number, kernel::QueueOp(index_.queues()[number]).isTeam()};
  }

  LogicalResult entryCall(kernel::KernelCallInterface call) {
    const EntryPoint& entry = *index_.entries().of(call);
    printer_.call({call, entry, queue(call.getQueueSymbol()), call.getTeamSize() == 1,
                   call.getHandleOrNull(), llvm::to_vector(call.getInputs()),
                   llvm::to_vector(call.getOutputs()), llvm::to_vector(call.getWorkspace()),
                   scalarValuesOf(call)});
    return mlir::success();
  }

  LogicalResult planCall(kernel::PlanOp plan) {
    printer_.call({plan,
                   *index_.entries().of(plan),
                   queue(plan.getQueueAttr()),
                   true,
                   plan.getHandle(),
                   llvm::to_vector(plan.getConstants()),
                   {},
                   {},
                   {}});
    return mlir::success();
  }

  LogicalResult ifStatement(kernel::IfOp op) {
    printer_.beginIf(op);
    if (failed(block(op.getThenRegion().front()))) {
      return mlir::failure();
    }
    if (!op.getElseRegion().empty()) {
      printer_.beginElse();
      if (failed(block(op.getElseRegion().front()))) {
        return mlir::failure();
      }
    }
    printer_.endIf();
    return mlir::success();
  }

  LogicalResult forLoop(kernel::ForOp loop) {
    printer_.beginFor(loop);
    if (failed(block(loop.getBody().front()))) {
      return mlir::failure();
    }
    printer_.endLoop(number(loop));
    return mlir::success();
  }

  LogicalResult whileLoop(kernel::WhileOp loop) {
    printer_.beginWhile();
    if (failed(block(loop.getBefore().front())) || failed(block(loop.getBody().front()))) {
      return mlir::failure();
    }
    printer_.endLoop(number(loop));
    return mlir::success();
  }

  const ProgramIndex& index_;
  bool profile_;
  StatementPrinter& printer_;
};

}  // namespace

LogicalResult walkStatements(mlir::Region& region, const ProgramIndex& index, bool profile,
                             StatementPrinter& printer) {
  return Walk(index, profile, printer).block(region.front());
}

}  // namespace straightline::codegen
