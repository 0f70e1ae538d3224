// SPDX-License-Identifier: Apache-2.0
// A device that exists in tests alone: it has kernels of the families pointwise and topk.
// All that makes it a target is in this folder.
#include "passes/targets/target.h"

#include "mlir/IR/Builders.h"
#include "mlir/Pass/Pass.h"
#include "passes/place_on_stream.h"

namespace straightline {

namespace {

/// Records how many ops there are to fuse.
struct CountOps final : mlir::PassWrapper<CountOps, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CountOps)
  llvm::StringRef getArgument() const override { return "simulated-count-ops"; }

  void runOnOperation() override {
    int64_t ops = 0;
    getOperation().walk(
        [&](mlir::Operation* op) { ops += op->getName().getDialectNamespace() == "op" ? 1 : 0; });
    getOperation()->setAttr("simulated.ops", mlir::Builder(&getContext()).getI64IntegerAttr(ops));
  }
};

struct PlaceOnSimulated final
    : mlir::PassWrapper<PlaceOnSimulated, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PlaceOnSimulated)
  llvm::StringRef getArgument() const override { return "place-on-simulated"; }

  void runOnOperation() override {
    for (auto program : getOperation().getOps<kernel::ProgramOp>()) {
      if (failed(passes::placeOnStream(program, targetNamed("simulated")))) {
        return signalPassFailure();
      }
    }
  }
};

class SimulatedTarget final : public Target {
 public:
  llvm::StringRef name() const override { return "simulated"; }
  llvm::StringRef title() const override { return "simulated"; }

  MachineSyntax syntax() const override { return {"simulated:vN", ", N from 1 to 9"}; }
  bool hasMachine(llvm::StringRef machine) const override {
    return machine.size() == 2 && machine[0] == 'v' && machine[1] >= '1' && machine[1] <= '9';
  }
  kernel::TargetAttr attribute(mlir::MLIRContext* context, llvm::StringRef machine,
                               const HostMachine&) const override {
    const HostMachine none;
    return kernel::TargetAttr::get(context, name(), machine, none.threads, none.vectorBytes,
                                   none.l1Bytes, none.l2Bytes, 0, none.fmaBytes);
  }

  bool hasQueue() const override { return true; }
  bool launchesGraphs() const override { return true; }

  TargetFacts facts(kernel::TargetAttr) const override {
    TargetFacts facts;
    facts.keepAttention = false;
    facts.estimatesStatements = true;
    facts.frontEnd.sumsNamedExtents = true;
    facts.frontEnd.mostComparedPairs = 99;
    return facts;
  }

  void addPasses(PipelinePlace place, mlir::OpPassManager& manager,
                 const PipelineOptions&) const override {
    if (place == PipelinePlace::afterDecompose) {
      manager.addPass(std::make_unique<CountOps>());
    } else if (place == PipelinePlace::beforePlanning) {
      manager.addPass(std::make_unique<PlaceOnSimulated>());
    }
  }

  std::string nearestTopk(const TopkProblem& problem, kernel::TargetAttr) const override {
    return problem.count > 16 ? "rows of at most 16" : "";
  }
  std::optional<TopkPlan> planTopk(const TopkProblem& problem, kernel::TargetAttr) const override {
    TopkPlan plan;
    plan.ofRow = {{"held", problem.count}};
    return plan;
  }

  std::string whyNoForm(kernel::FuncOp function) const override {
    const llvm::StringRef family = function.getSchedule().getFamily();
    return family == "pointwise" || family == "topk"
               ? ""
               : "kernels of family '" + family.str() + "' have no simulated form";
  }

  /// Of v2: two elements at once.
  void schedule(kernel::FuncOp function, kernel::TargetAttr target) const override {
    mlir::Builder builder(function.getContext());
    kernel::ScheduleAttr schedule = function.getSchedule();
    llvm::SmallVector<mlir::NamedAttribute> tune(schedule.getTune());
    tune.push_back(
        builder.getNamedAttr("width", builder.getI64IntegerAttr(target.getCpu()[1] - '0')));
    function->setAttr(kernel::kBlocksAttr, kernel::ExtentAttr::get(function.getContext(), 1));
    function->setAttr(kernel::kThreadsAttr, builder.getI64IntegerAttr(1));
    function.setScheduleAttr(kernel::ScheduleAttr::get(function.getContext(), schedule.getFamily(),
                                                       schedule.getShape(), tune));
  }

  double estimateUs(mlir::Operation*) const override { return 7; }
};

const TargetRegistration<SimulatedTarget> kRegistration;

}  // namespace

}  // namespace straightline
