// SPDX-License-Identifier: Apache-2.0
// What passes ask of the target of a module. All that is known of a target stands in its folder,
// passes/targets/<name>/, which no other file includes; docs/design/targets.md says how to add one.
#ifndef STRAIGHTLINE_PASSES_TARGETS_TARGET_H
#define STRAIGHTLINE_PASSES_TARGETS_TARGET_H

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "dialect/kernel/kernel_dialect.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

namespace straightline {

struct PipelineOptions;

/// The target of a module that names none.
inline constexpr llvm::StringLiteral kDefaultTarget = kernel::kHostBackend;

/// The machine that compiles, for a target that is this machine.
struct HostMachine {
  std::string cpu;  ///< an LLVM CPU name
  int64_t threads = 1;
  int64_t vectorBytes = 32;
  int64_t l1Bytes = 32768;
  int64_t l2Bytes = 1048576;
  bool dotBf16 = false;
  int64_t fmaBytes = 64;
};

/// Places of the pipeline (pipeline.cpp) where a target may add passes.
enum class PipelinePlace {
  afterDecompose,  ///< op level: no op is left that decompose-ops removes; nothing is fused
  beforeFusion,    ///< op level: what prepare does is marked, concatenations of halves are split
  beforePlanning,  ///< kernel level: every value has a buffer, none has its place
};

/// How a user names a machine of a target: "target=<name>:<machine>".
struct MachineSyntax {
  std::string form;  ///< "cuda:sm_NN"; empty: users do not name this target
  std::string hint;  ///< what follows the form in the message about one that is wrong
};

/// What front ends ask of a target before they choose the ops of a graph. A form that the target
/// does not do, or that the framework does faster there, goes through the framework.
struct FrontEndFacts {
  /// Products whose summed dim is a named extent.
  bool sumsNamedExtents = false;
  /// The same of groups of them (grouped products over parts of the summed dim).
  bool sumsNamedGroups = false;
  /// Overlapping windows (unfold) that are copied element by element.
  bool copiesElements = false;
  /// Rolls along several dims that read whole rows through indices, in one pass and launch.
  bool rollsByRows = false;
  /// Convolutions over three dims of few channels with large kernels.
  bool convolvesFewChannels = false;
  /// Factors and systems of matrices with more rows take less time in a framework's library.
  int64_t mostMatrixRows = 128;
  /// The largest number of pairs of an element and a bin that a histogram (histc) compares.
  int64_t mostComparedPairs = int64_t{1} << 17;
  /// The framework's own kernels there compute sums and differences of 16-bit floats in float32,
  /// with numbers beside them as they are; a number that is a tensor is rounded before a product.
  bool computesHalvesWide = false;
  /// The framework's own interpolation there takes the scale that the caller gave, in float32,
  /// whatever the layout, also where sizes stay or double: exceptions on a CPU. (Of images,
  /// nearest interpolation copies a dim whose size stays on both.)
  bool interpolatesByScale = false;
  /// The framework's own linear and cubic interpolation of uint8 there sums integers, one dim after
  /// the other.
  bool resamplesBytesAsIntegers = true;
  /// Calls of the framework run there, so that an op without a kernel can be one.
  bool runsFrameworkOps = true;
};

/// What is true of a machine of a target. The defaults are those of a CPU.
struct TargetFacts {
  FrontEndFacts frontEnd;

  // Ops that decompose-ops leaves whole; the options of that pass say what each means.
  bool keepAttention = true;
  int64_t largestAttention = -1;
  bool keepHalfProducts = false;
  int64_t largestPatchChannels = 0;
  /// Of attention of f32 whose products may be rounded to TF32; also of such attention that is
  /// written as products and a softmax, which becomes one op up to it (fuse-attention). 0: none.
  int64_t largestTf32Head = 0;

  /// The same of written attention of 16-bit floats.
  int64_t largestWrittenHalfHead = 0;

  // How statements run.
  /// Target::estimateUs says what statements cost, not the lowering.
  bool estimatesStatements = false;

  // What kernels there are.
  /// Elementwise kernels and reductions find the row that they write when they run, by a number in
  /// memory.
  bool writesRowsAtIndex = false;
  bool roundsToTf32 = false;    ///< products of float32, where the user says so
  bool multipliesBytes = true;  ///< products of 8-bit integers
  bool packsWeights = true;     ///< which therefore have to be known before the first run
  /// A product with a subnormal factor takes many times as long as another.
  bool hasSlowSubnormals = true;
  bool groupsProducts = false;  ///< one kernel for products of the same rows (group-products)
  /// Epilogues of products read and write elements of any type.
  bool hasEpiloguesOfAnyType = false;
  /// Measured choices of convolutions tell images as a caller has them from channels-last ones.
  bool tunesByImageLayout = false;
  /// An expensive value of a row that is needed again is kept; if false, it is computed again.
  bool keepsRowValues = true;
  /// Attention reads shared keys once only where the heads that share them are queries of one head.
  bool mergesHeadsOfOneQuery = true;
  /// From so many queries of 16-bit floats on, attention reads keys in one piece, not in two parts.
  int64_t queriesForWholeKeys = std::numeric_limits<int64_t>::max();
};

/// A fact that kernels are told with each problem (sl_problem.attributes).
struct ProblemFact {
  const char* name;
  int64_t value;
};

/// All steps of one direction of a recurrent layer (family recurrent_sequence). `gates`: rows of
/// the weight for each unit, 4 of lstm, 3 of gru, 1 of rnn.
struct RecurrentProblem {
  int64_t gates, hidden, batch;
  mlir::Type element;
};

/// The first `k` elements, in order, of each of `rows` rows (family topk; sort: of all `count`).
struct TopkProblem {
  int64_t rows, count, k, elementBytes;
};

/// A setting of a kernel of a family, as its schedule has it.
struct Tunable {
  const char* name;
  int64_t value;
};

/// How kernels of the family topk order rows: in one launch, or in two where a row is divided into
/// parts.
struct TopkPlan {
  int64_t parts = 1;      ///< of a row; the first of two launches works on parts
  int64_t kept = 0;       ///< words that the first launch leaves of each part
  bool merges = false;    ///< the first launch leaves whole parts in order, the second merges them
  int64_t wordBytes = 8;  ///< of an element and its place
  llvm::SmallVector<Tunable> ofParts, ofRow;  ///< of the first launch; of the only or second one
};

class Target {
 public:
  virtual ~Target() = default;

  /// "cuda": the backend of #kernel.target, and of kernels, queues and memory of a device.
  virtual llvm::StringRef name() const = 0;
  /// The same for people: "CUDA".
  virtual llvm::StringRef title() const = 0;

  // --- from a user's text to #kernel.target

  virtual MachineSyntax syntax() const { return {}; }
  /// Whether "target=<name>:<machine>" names a machine.
  virtual bool hasMachine(llvm::StringRef machine) const { return machine.empty(); }
  virtual kernel::TargetAttr attribute(mlir::MLIRContext* context, llvm::StringRef machine,
                                       const HostMachine& host) const = 0;

  // --- what holds for all machines of the target

  /// Statements run on the queue of a device, which the caller has; not by a team of threads.
  virtual bool hasQueue() const { return false; }
  /// A call may launch all statements as one recorded graph.
  virtual bool launchesGraphs() const { return false; }
  /// Rules may give ops to the host (kHostRoute), with copies around them.
  virtual bool sharesWithHost() const { return !hasQueue(); }

  // --- the pipeline

  virtual TargetFacts facts(kernel::TargetAttr target) const = 0;
  /// Adds the passes that modules of this target need at that place.
  virtual void addPasses(PipelinePlace, mlir::OpPassManager&, const PipelineOptions&) const {}
  /// Registers the target's own passes for straightline-opt.
  virtual void registerPasses() const {}

  // --- kernels and statements

  /// The machines for which a measured choice counts.
  virtual std::string measuredOn(kernel::TargetAttr target) const { return target.getCpu().str(); }
  /// In the order in which kernels are told them.
  virtual llvm::SmallVector<ProblemFact> problemFacts(kernel::TargetAttr) const { return {}; }
  /// Whether one kernel runs all steps; otherwise decompose-ops writes a loop over the steps.
  virtual bool hasKernelFor(const RecurrentProblem&, kernel::TargetAttr) const { return false; }
  /// The nearest problem of topk that the target's kernels take; "": they take this one.
  virtual std::string nearestTopk(const TopkProblem&, kernel::TargetAttr) const { return ""; }
  /// For a problem that the kernels take; nullopt: a thread orders a row where it is written.
  virtual std::optional<TopkPlan> planTopk(const TopkProblem&, kernel::TargetAttr) const {
    return std::nullopt;
  }
  /// Whether machine code of a user that was made for `machine` ("sm_80") runs there.
  virtual bool runsMachineCode(llvm::StringRef /*machine*/, kernel::TargetAttr) const {
    return false;
  }
  /// Why the target has no form of a kernel; "" when it has one.
  virtual std::string whyNoForm(kernel::FuncOp) const { return ""; }
  /// Completes the schedule of a kernel that the target has a form of.
  virtual void schedule(kernel::FuncOp, kernel::TargetAttr) const {}
  /// Estimated microseconds of a launch, a library call or a copy: `kernel.cost_us` where it has
  /// that, else the target's own estimate.
  virtual double estimateUs(mlir::Operation* statement) const;
};

/// Called before main by TargetRegistration.
void registerTarget(const Target& target);

/// `static const TargetRegistration<CudaTarget> kRegistration;` in a file of the target's folder.
template <typename T>
struct TargetRegistration {
  TargetRegistration() {
    static const T target;
    registerTarget(target);
  }
};

/// Targets that may appear while the process runs: devices of plug-ins. `all` gives those there are
/// now, which live as long as the process. Called before main.
void registerTargetSource(llvm::SmallVector<const Target*> (*all)());
/// Whether a target of that name has registered itself, in a folder of its own.
bool isOwnTarget(llvm::StringRef name);

/// By name.
llvm::SmallVector<const Target*> allTargets();
/// Null when there is none of that name.
const Target* findTarget(llvm::StringRef name);
/// The same for a name that a verifier has seen; ends the process where there is none.
const Target& targetNamed(llvm::StringRef name);
/// Of a null attribute the default target.
const Target& targetNamedBy(kernel::TargetAttr target);
/// Of a module without attribute `op.target` the default target.
const Target& targetNamedBy(mlir::ModuleOp module);

/// The target that op-level passes plan for: module attribute `op.target`, else one thread of
/// x86-64-v3.
kernel::TargetAttr targetOf(mlir::ModuleOp module);
TargetFacts factsOf(kernel::TargetAttr target);
TargetFacts factsOf(mlir::ModuleOp module);

/// Error on `op` and failure where no target of that name is registered.
mlir::LogicalResult verifyTarget(mlir::Operation* op, kernel::TargetAttr target);

}  // namespace straightline

#endif  // STRAIGHTLINE_PASSES_TARGETS_TARGET_H
