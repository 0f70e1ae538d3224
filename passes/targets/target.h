// SPDX-License-Identifier: Apache-2.0
// What passes ask of the target of a module. All that is known of a target stands in its folder,
// passes/targets/<name>/, which no other file includes; docs/design/targets.md says how to add one.
#ifndef STRAIGHTLINE_PASSES_TARGETS_TARGET_H
#define STRAIGHTLINE_PASSES_TARGETS_TARGET_H

#include <cstdint>
#include <limits>
#include <string>

#include "dialect/kernel/kernel_dialect.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

namespace straightline {

struct PipelineOptions;

/// The target of a module that names none.
inline constexpr llvm::StringLiteral kDefaultTarget = "cpu";

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
  beforeFusion,    ///< op level: what prepare does is marked
  beforePlanning,  ///< kernel level: every value has a buffer, none has its place
};

/// How a user names a machine of a target: "target=<name>:<machine>".
struct MachineSyntax {
  std::string form;  ///< "cuda:sm_NN"; empty: users do not name this target
  std::string hint;  ///< what follows the form in the message about one that is wrong
};

/// What is true of a machine of a target. The defaults are those of a CPU.
struct TargetFacts {
  // Ops that decompose-ops leaves whole; the options of that pass say what each means.
  bool keepAttention = true;
  int64_t largestAttention = -1;
  bool keepHalfProducts = false;
  int64_t largestCluster = 0;

  // How statements run.
  /// On the queue of a device, which the caller has; not by a team of threads.
  bool hasQueue = false;
  /// A call may launch all statements as one recorded graph.
  bool launchesGraphs = false;
  /// Target::estimateUs says what statements cost, not the lowering.
  bool estimatesStatements = false;
  /// That hold rows in registers to order them; 0: a thread orders a row where it is written.
  int64_t processors = 0;

  // What kernels there are.
  bool roundsToTf32 = false;    ///< products of float32, where the user says so
  bool multipliesBytes = true;  ///< products of 8-bit integers
  bool packsWeights = true;     ///< which therefore have to be known before the first run
  bool groupsProducts = false;  ///< one kernel for products of the same few rows (group-products)
  /// Epilogues of products read and write elements of any type.
  bool hasEpiloguesOfAnyType = false;
  /// Measured choices of convolutions tell images as a caller has them from channels-last ones.
  bool tunesByImageLayout = false;
  /// Of a row: an expensive value that is needed again is kept; otherwise it is computed again.
  bool keepsRowValues = true;
  /// Attention reads shared keys once only where the heads that share them are queries of one head.
  bool mergesHeadsOfOneQuery = true;
  /// So many queries of 16-bit floats want the keys of attention in one piece.
  int64_t queriesForWholeKeys = std::numeric_limits<int64_t>::max();
};

/// A fact that kernels are told with each problem (sl_problem.attributes).
struct ProblemFact {
  const char* name;
  int64_t value;
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

/// By name.
llvm::ArrayRef<const Target*> allTargets();
/// Null when there is none of that name.
const Target* findTarget(llvm::StringRef name);
/// The same for a name that a verifier has seen; ends the process where there is none.
const Target& targetNamed(llvm::StringRef name);
/// Of a null attribute the default target.
const Target& targetNamedBy(kernel::TargetAttr target);

/// The target that op-level passes plan for: module attribute `op.target`, else one thread of
/// x86-64-v3.
kernel::TargetAttr targetOf(mlir::ModuleOp module);
TargetFacts factsOf(kernel::TargetAttr target);
TargetFacts factsOf(mlir::ModuleOp module);

/// Error on `op` and failure where no target of that name is registered.
mlir::LogicalResult verifyTarget(mlir::Operation* op, kernel::TargetAttr target);

}  // namespace straightline

#endif  // STRAIGHTLINE_PASSES_TARGETS_TARGET_H
