// SPDX-License-Identifier: Apache-2.0
// The pipeline: all passes in their order, each with the reason for its place. A verifier stands at
// every boundary of levels.
#include "passes/pipeline.h"

#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "passes/levels/levels.h"
#include "passes/passes.h"
#include "passes/sharing/passes.h"
#include "passes/targets/target.h"

namespace straightline {

namespace {

/// Shows the module to whoever asked for it, and changes nothing.
class GroupEnd final : public mlir::PassWrapper<GroupEnd, mlir::OperationPass<mlir::ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(GroupEnd)
  GroupEnd(std::string name, std::function<void(llvm::StringRef, mlir::ModuleOp)> show)
      : name_(std::move(name)), show_(std::move(show)) {}
  void runOnOperation() override {
    show_(name_, getOperation());
    markAllAnalysesPreserved();
  }

 private:
  std::string name_;
  std::function<void(llvm::StringRef, mlir::ModuleOp)> show_;
};

void addTargetPasses(PipelinePlace place, mlir::OpPassManager& manager,
                     const PipelineOptions& options) {
  targetNamedBy(options.target).addPasses(place, manager, options);
}

void endGroup(mlir::OpPassManager& manager, const PipelineOptions& options, const char* name) {
  if (options.afterGroup) {
    manager.addPass(std::make_unique<GroupEnd>(name, options.afterGroup));
  }
}

/// Op level, simplification: from what the front end captured to what kernels can be chosen for.
void buildSimplifyPhase(mlir::OpPassManager& manager, const PipelineOptions& options) {
  // 1. A front end's mistake is reported as such, before any pass can make it unrecognisable.
  manager.addPass(passes::createVerifyOpLevel({"captured"}));
  // 2. Identities and dead ops first: decompositions below then see each value once.
  manager.addPass(mlir::createCanonicalizerPass());
  manager.addPass(mlir::createCSEPass());
  // 3. External kernels take whole ops: before anything merges them or takes them apart.
  manager.addPass(passes::createSelectExternalKernels(
      {options.freeze, options.prefer, options.avoid, options.allow}));
  // 4. Before any kernel asks for a border: a padded copy of an activation would only be copied
  //    into a bordered one.
  manager.addNestedPass<mlir::func::FuncOp>(passes::createFoldPad());
  // 5. Before decomposing, because it wants to see batch norms whole; what it cannot fold it writes
  //    as a multiply-add.
  manager.addNestedPass<mlir::func::FuncOp>(passes::createFoldBatchNorm());
  const TargetFacts facts = factsOf(options.target);
  const bool allowsTf32 = facts.roundsToTf32 && llvm::StringRef(options.tf32).contains("matmul");
  // 6. Before decomposing, which leaves attention whole, and before 16-bit floats are widened.
  manager.addNestedPass<mlir::func::FuncOp>(passes::createFuseAttention(
      {allowsTf32 ? facts.largestTf32Head : 0, facts.largestWrittenHalfHead}));
  // 7. Everything without a kernel of its own becomes ops that have one.
  passes::DecomposeOpsOptions decompose;
  decompose.keepAttention = facts.keepAttention;
  decompose.largestAttention = facts.largestAttention;
  decompose.keepHalfProducts = facts.keepHalfProducts;
  if (allowsTf32) {
    decompose.largestTf32Head = facts.largestTf32Head;
  }
  decompose.largestPatchChannels = facts.largestPatchChannels;
  manager.addNestedPass<mlir::func::FuncOp>(passes::createDecomposeOps(decompose));
  manager.addPass(mlir::createCanonicalizerPass());
  manager.addPass(mlir::createCSEPass());
  // 8. Behind the widening of 16-bit floats, so that there is one form of a linear.
  manager.addNestedPass<mlir::func::FuncOp>(passes::createQuantizedLinears());
  // 9. Behind 8, which sums up weights where they are read; before they are split off into prepare.
  manager.addNestedPass<mlir::func::FuncOp>(passes::createHoistInvariants());
  manager.addPass(mlir::createCanonicalizerPass());
  manager.addPass(mlir::createCSEPass());
  addTargetPasses(PipelinePlace::afterDecompose, manager, options);
  manager.addPass(passes::createVerifyOpLevel({"decomposed"}));
}

/// Op level, grouping: what is done once, what is one kernel, which kernel, in which memory order.
void buildGroupPhase(mlir::OpPassManager& manager, const PipelineOptions& options) {
  // 1. Before fusion: a fusion lies wholly in prepare or wholly in run.
  manager.addNestedPass<mlir::func::FuncOp>(passes::createSplitPrepare({options.freeze}));
  // 2. Before fusion, which cannot put ops on both sides of a concatenation into one kernel; after
  //    1, so that what prepare makes is left whole.
  manager.addNestedPass<mlir::func::FuncOp>(passes::createSplitConcatenations());
  // 3. After 1, which says what is live.
  addTargetPasses(PipelinePlace::beforeFusion, manager, options);
  // 4. Contractions take their epilogues first, for saving a pass over the result is worth the most
  //    there; reductions take what is left around them; the rest is elementwise.
  manager.addNestedPass<mlir::func::FuncOp>(passes::createFuseContractions());
  manager.addNestedPass<mlir::func::FuncOp>(passes::createFuseReductions());
  manager.addNestedPass<mlir::func::FuncOp>(passes::createFusePointwise());
  manager.addPass(passes::createVerifyOpLevel({"fused"}));
  // 5. Fusion needs softmax and norms as single ops; all that follows takes sums and maxima.
  manager.addPass(passes::createDecomposeReductions());
  // 6. The kernel decides the layout that it reads and writes, so it is chosen first.
  manager.addPass(passes::createSelectKernels(
      {options.prefer, options.avoid, options.allow, options.listCandidates}));
  // 7. What got the kernel for few rows may share one with its neighbours; all the others stay as
  //    they were chosen.
  manager.addPass(passes::createGroupProducts({options.prefer, options.avoid, options.allow}));
  manager.addPass(passes::createAssignLayouts());
}

/// Kernel level: from here every value has a buffer; nothing may introduce tensors.
void buildKernelPhase(mlir::OpPassManager& manager, const PipelineOptions& options) {
  manager.addPass(passes::createLowerToKernel());
  manager.addPass(createVerifyKernelLevelPass());
  // Before kernels are shared, while sizes are numbers, and before statements are ordered: there
  // are fewer.
  manager.addPass(passes::createFusePrologues());
  manager.addPass(passes::createOrderPrepare());
  // 1. Before planning, for each memory space has its own plan. The order of the two queues is
  //    checked at once.
  if (!options.device.backend.empty()) {
    manager.addPass(passes::createPlaceOnDevice({options.device.backend, options.device.space}));
    manager.addPass(createVerifyKernelLevelPass());
  }
  addTargetPasses(PipelinePlace::beforePlanning, manager, options);
  // After placing, which adds prepared data, and before kernels are shared: a function then says
  // by itself what it computes.
  if (options.sharesPrepared) {
    passes::SharePreparedOptions share;
    share.before.assign(options.preparedBefore.begin(), options.preparedBefore.end());
    manager.addPass(passes::createSharePrepared(share));
  }
  // After placing: these leave kernels of a device alone.
  manager.addPass(passes::createBandPools());
  manager.addPass(passes::createShareKernels());
  // 2. In place before planning: fewer slots with longer lives make the smaller arena.
  manager.addPass(passes::createReuseInPlace());
  manager.addPass(passes::createPlanMemory());
  if (options.poison) {
    manager.addPass(passes::createPoisonSlots());
  }
  // 3. After planning, because two slots in the same place are a reason for a barrier too.
  manager.addPass(passes::createInsertBarriers());
  // Copies of run, for the passes before this one read sizes of kernels as numbers.
  manager.addPass(passes::createShareKernels({/*copies=*/true}));
  // 4. Checks the plan anew from the buffers and their uses, not from what the planner believes.
  manager.addPass(createVerifyPlannedLevelPass());
}

}  // namespace

void buildPipeline(mlir::OpPassManager& manager, const PipelineOptions& options) {
  buildSimplifyPhase(manager, options);
  endGroup(manager, options, "simplified");
  buildGroupPhase(manager, options);
  endGroup(manager, options, "grouped");
  buildKernelPhase(manager, options);
  endGroup(manager, options, "kernel");
}

void buildKernelLevelPipeline(mlir::OpPassManager& manager, const PipelineOptions& options) {
  manager.addPass(createVerifyKernelLevelPass());
  manager.addPass(passes::createPlanMemory());
  manager.addPass(passes::createInsertBarriers());
  manager.addPass(createVerifyPlannedLevelPass());
  endGroup(manager, options, "kernel");
}

void registerKernelPasses() {
  mlir::PassPipelineRegistration<>(
      "straightline-pipeline", "all passes from the op level to the planned kernel level",
      [](mlir::OpPassManager& manager) { buildPipeline(manager, {}); });
}

}  // namespace straightline
