// SPDX-License-Identifier: Apache-2.0
// NVIDIA devices whose stream and memory are the caller's.
#include "passes/targets/target.h"

#include "llvm/ADT/StringExtras.h"
#include "mlir/Transforms/Passes.h"
#include "passes/levels/levels.h"
#include "passes/pipeline.h"
#include "passes/targets/cuda/architecture.h"
#include "passes/targets/cuda/passes.h"
#include "passes/targets/cuda/plan_recurrent_sequence.h"
#include "passes/targets/cuda/plan_topk.h"
#include "passes/targets/cuda/schedule.h"

namespace straightline {

namespace {

class CudaTarget final : public Target {
 public:
  llvm::StringRef name() const override { return "cuda"; }
  llvm::StringRef title() const override { return "CUDA"; }

  MachineSyntax syntax() const override {
    return {"cuda:sm_NN", ", such as cuda:sm_90, with a behind it from " +
                              std::to_string(kFirstWithOwnFeatures) + " on and f from " +
                              std::to_string(kFirstWithFamilies) + " on"};
  }

  /// sm_ and a number of two or three digits; behind it at most an `a` (from sm_90 on) or `f` (from
  /// sm_100 on), as NVRTC takes them.
  bool hasMachine(llvm::StringRef arch) const override {
    if (!arch.consume_front("sm_")) {
      return false;
    }
    const llvm::StringRef digits = arch.take_while(llvm::isDigit);
    const llvm::StringRef suffix = arch.drop_front(digits.size());
    int number = 0;
    if (digits.size() < 2 || digits.size() > 3 || digits.getAsInteger(10, number)) {
      return false;
    }
    return suffix.empty() || (suffix == "a" && number >= kFirstWithOwnFeatures) ||
           (suffix == "f" && number >= kFirstWithFamilies);
  }

  kernel::TargetAttr attribute(mlir::MLIRContext* context, llvm::StringRef arch,
                               const HostMachine&) const override {
    const HostMachine none;  // caches and vectors of the host say nothing about a device
    return kernel::TargetAttr::get(context, name(), arch, none.threads, none.vectorBytes,
                                   none.l1Bytes, none.l2Bytes, 0, none.fmaBytes);
  }

  bool hasQueue() const override { return true; }
  bool launchesGraphs() const override { return true; }

  TargetFacts facts(kernel::TargetAttr target) const override {
    // The kernel for attention is for few queries or little work: measured on an H200, from some
    // 10 us on products and a softmax are faster in f32.
    constexpr int64_t kLargestAttention = 25'000'000;
    TargetFacts facts;
    facts.largestAttention = kLargestAttention;
    facts.keepHalfProducts = true;  // tensor cores take them
    // Kernels for images load 16 bytes of an element's channels: eight of 16-bit floats.
    facts.largestPatchChannels = 7;
    facts.estimatesStatements = true;
    // Older devices have no such instructions, and torch's flags mean nothing there.
    facts.roundsToTf32 = cudaNumber(target.getCpu()) >= kFirstWithTf32;
    facts.largestTf32Head = 64;                                   // of cuda.attention_warps
    facts.largestWrittenHalfHead = facts.roundsToTf32 ? 128 : 0;  // the same kernel, as old
    facts.multipliesBytes = false;
    facts.packsWeights = false;
    facts.hasSlowSubnormals = false;
    facts.groupsProducts = true;
    facts.writesRowsAtIndex = true;
    facts.hasEpiloguesOfAnyType = true;
    facts.tunesByImageLayout = true;
    facts.keepsRowValues = false;  // computing a value again costs less than memory does
    facts.mergesHeadsOfOneQuery = false;
    // cuDNN takes that many, and wants whole keys: a copy costs less than doing without it.
    facts.queriesForWholeKeys = 64;
    facts.frontEnd = {.sumsNamedExtents = true,
                      .sumsNamedGroups = true,
                      .copiesElements = true,
                      .rollsByRows = true,
                      .convolvesFewChannels = true,
                      .mostMatrixRows = 24,
                      .mostComparedPairs = std::numeric_limits<int64_t>::max(),
                      .computesHalvesWide = true,
                      .interpolatesByScale = true,
                      .resamplesBytesAsIntegers = false};
    return facts;
  }

  void addPasses(PipelinePlace place, mlir::OpPassManager& manager,
                 const PipelineOptions& options) const override {
    switch (place) {
      case PipelinePlace::afterDecompose:
        // Before fusion, which gives a linear its epilogue; a factor is folded in prepare.
        manager.addNestedPass<mlir::func::FuncOp>(passes::createFoldLayerScale({options.freeze}));
        // A device has many more places for blocks than there may be rows; behind decompose-ops,
        // which puts what is reduced last.
        manager.addNestedPass<mlir::func::FuncOp>(
            passes::createSplitReductions({options.target.getCpu().str()}));
        manager.addPass(mlir::createCanonicalizerPass());
        manager.addPass(mlir::createCSEPass());
        break;
      case PipelinePlace::beforeFusion:
        // Before fusion, so that what becomes a linear has a linear's epilogue and neighbours. A
        // weight of two products is turned once.
        manager.addNestedPass<mlir::func::FuncOp>(passes::createOrientWeights());
        // Halves of tables are read by now, each half by itself.
        manager.addNestedPass<mlir::func::FuncOp>(passes::createShortenChains());
        manager.addPass(mlir::createCSEPass());
        break;
      case PipelinePlace::beforePlanning:
        manager.addPass(passes::createPlaceOnCuda());
        // Behind placing, which gives kernels their grids; before branches, for which a launch is
        // one statement.
        manager.addPass(passes::createGroupLaunches());
        // Before memory is given: what runs at once may not share it. Poison is in the order of
        // the text alone.
        if (options.graph && options.branches && !options.poison) {
          manager.addPass(passes::createPlaceBranches());
        }
        manager.addPass(createVerifyKernelLevelPass());
        break;
    }
  }

  void registerPasses() const override { passes::registerCudaPasses(); }

  llvm::SmallVector<ProblemFact> problemFacts(kernel::TargetAttr target) const override {
    const CudaArchitecture& device = cudaArchitecture(target.getCpu());
    return {{"sm", cudaNumber(target.getCpu())},
            {"processors", device.processors},
            {"cluster", device.largestCluster},
            {"warpgroups", hasWarpgroups(target.getCpu()) ? 1 : 0}};
  }

  bool hasKernelFor(const RecurrentProblem& problem, kernel::TargetAttr target) const override {
    return passes::cuda::planRecurrentSequence(problem, cudaArchitecture(target.getCpu()))
        .has_value();
  }
  std::string nearestTopk(const TopkProblem& problem, kernel::TargetAttr target) const override {
    return passes::cuda::nearestTopk(problem, cudaArchitecture(target.getCpu()));
  }
  std::optional<TopkPlan> planTopk(const TopkProblem& problem,
                                   kernel::TargetAttr target) const override {
    return passes::cuda::planTopk(problem, cudaArchitecture(target.getCpu()));
  }
  /// An equal or earlier architecture of the same generation; one with a suffix ("sm_90a") runs on
  /// its own devices alone.
  bool runsMachineCode(llvm::StringRef machine, kernel::TargetAttr target) const override {
    llvm::StringRef cpu = target.getCpu();
    unsigned code = 0, device = 0;
    if (!machine.consume_front("sm_") || !cpu.consume_front("sm_") ||
        machine.consumeInteger(10, code) || cpu.consumeInteger(10, device)) {
      return false;
    }
    return machine == "a" ? code == device : code / 10 == device / 10 && code <= device;
  }
  std::string whyNoForm(kernel::FuncOp function) const override {
    return passes::whyNotOnCuda(function);
  }
  void schedule(kernel::FuncOp function, kernel::TargetAttr target) const override {
    passes::scheduleForCuda(function, target.getCpu());
  }
  double estimateUs(mlir::Operation* statement) const override {
    return passes::estimateOnCuda(statement);
  }
};

const TargetRegistration<CudaTarget> kRegistration;

}  // namespace

}  // namespace straightline
