// SPDX-License-Identifier: Apache-2.0
// Asks the kernel registry (runtime/abi/kernel.h) which kernel should run a problem, and why not
// the others.
#ifndef STRAIGHTLINE_PASSES_KERNEL_CHOICE_H
#define STRAIGHTLINE_PASSES_KERNEL_CHOICE_H

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dialect/kernel/kernel_dialect.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/kernel_facts.h"
#include "passes/routes.h"
#include "passes/targets/target.h"
#include "straightline/abi/kernel.h"

namespace straightline {

/// A problem with owned arrays, in the terms of sl_problem.
class Problem {
 public:
  Problem(std::string op, kernel::TargetAttr target);
  /// `extents` and `strides` may hold SL_DYNAMIC.
  void addOperand(mlir::Type element, llvm::ArrayRef<int64_t> extents,
                  llvm::ArrayRef<int64_t> strides, bool isConstant);
  void setInputs(int32_t inputs) { inputs_ = inputs; }
  void addAttribute(llvm::StringRef name, int64_t value);
  void addNumber(llvm::StringRef name, double value);
  void addText(llvm::StringRef name, llvm::StringRef value);
  /// What the kernel alone reads, and how many numbers it gets per call.
  void setText(std::string text, int32_t sizes) {
    text_ = std::move(text);
    sizes_ = sizes;
  }
  /// Which of a kernel's variants is asked about (sl_kernel_desc.variants).
  void setVariant(int32_t variant) { variant_ = variant; }
  /// `atEdge`: the kernel is part of a device's graph and reads or writes memory of the caller,
  /// whose address may differ from call to call.
  void setAtEdge(bool atEdge) { atEdge_ = atEdge; }
  bool atEdge() const { return atEdge_; }
  /// `us`: what a pass takes that computes what is fused behind the op, for a kernel that does not.
  void setPassBehindUs(double us) { passBehindUs_ = us; }
  double passBehindUs() const { return passBehindUs_; }
  /// Where the program runs: "cpu", or the backend of a device. Only its kernels are asked.
  llvm::StringRef device() const { return target_.getBackend(); }
  /// Whether rules may give the problem to the host, if that is not where the program runs.
  bool sharesWithHost() const;
  /// The host computes it, wherever the program runs.
  void setOnHost() { isOnHost_ = true; }
  /// Valid until the problem changes or goes. Its attributes are its own ones, then the target's
  /// (Target::problemFacts).
  sl_problem view() const;
  int32_t ownAttributes() const { return static_cast<int32_t>(attributes_.size()); }

 private:
  std::string op_;
  kernel::TargetAttr target_;
  std::string text_;
  int32_t sizes_ = 0;
  int32_t variant_ = 0;
  int32_t inputs_ = 0;
  bool atEdge_ = false;
  double passBehindUs_ = 0;
  bool isOnHost_ = false;
  llvm::SmallVector<sl_operand> operands_;
  struct Attribute {
    std::string name;
    sl_attribute_kind kind;
    int64_t value = 0;
    double number = 0;
    std::string text;
  };
  llvm::SmallVector<Attribute> attributes_;
  mutable llvm::SmallVector<sl_attribute> attributeViews_;
};

/// What a kernel said that was not chosen.
struct Alternative {
  std::string kernel;
  std::optional<double> us;  ///< what it would take; nullopt: it does not take the problem
  std::string said;
};

struct KernelChoice {
  const sl_kernel_desc* kernel = nullptr;  ///< null when none takes the problem
  double costUs = 0;
  /// the winner and its rivals with their costs, the refusals with their reasons
  std::string why;
  /// what was said of those that were not taken; empty: nothing worth telling
  std::string others;
  std::string target;    ///< of the route's, the one that names the kernel; kAutoRoute without one
  std::string refusals;  ///< without a kernel: what those of the targets said
  std::vector<Alternative> alternatives;
  /// `alternatives` as passes record them; null: there are none. `op`: by whose name rules give
  /// them work, where that is not the statement's.
  mlir::ArrayAttr alternativesAttr(mlir::MLIRContext* context, llvm::StringRef op = "") const;
  /// which kernel breaks which rule of descriptions, and what to do; empty: none does
  std::string fault;
};

/// What overrides the cost of kernels.
struct SelectionConstraints {
  /// backend whose kernels are taken where they accept; empty: none
  llvm::StringRef preferred;
  std::optional<Route> route;  ///< only kernels that its targets name may be taken
  uint32_t avoided = 0;        ///< sl_kernel_properties: kernels with one of them are not taken
  llvm::StringRef allowed;     ///< backends that may be taken ("native+onednn"); empty: all
  /// Only external kernels are asked, and this comes before their `accepts`: why one does not fit,
  /// or "". Null: all kernels are asked.
  std::function<std::string(const sl_kernel_desc&)> whyNot = nullptr;
  /// The one of the route's targets that is asked; empty: all, one after the other.
  std::string target;
};

/// Extra cost of a library's kernel that reads or writes the caller's memory in a device's graph.
/// For an address that no graph of the frame has, its part of the graph is captured again, which
/// takes some 10 us of the host (an H200, bench/results/h200_0d56e03.json). Most callers' addresses
/// recur, and a frame keeps four graphs: one call in five is assumed to capture.
inline constexpr double kCapturedAgainUs = 2.0;
/// kCapturedAgainUs for a library's kernel that is at the edge of a graph, else 0.
double atEdgeUs(const sl_kernel_desc& kernel, const Problem& problem);
/// The problem's passBehindUs for a library's kernel, else 0.
double passBehindUs(const sl_kernel_desc& kernel, const Problem& problem);

/// The cheapest kernel that accepts, among those that the constraints leave: of a route's targets
/// the first with one that does. If a route leaves none, `why` says which reasons its kernels give.
KernelChoice chooseKernel(const Problem& problem, const SelectionConstraints& constraints = {});
/// Fails with the user's error if a kernel that was asked breaks the rules of descriptions.
mlir::LogicalResult checkRules(mlir::Operation* root, const KernelChoice& choice);
/// Whether chooseKernel may take this kernel for this problem.
bool mayTake(const sl_kernel_desc& kernel, const Problem& problem,
             const SelectionConstraints& constraints);
/// Error on `root` that no kernel takes: unsupported, or with a route the user's.
void emitNoKernel(mlir::Operation* root, const KernelChoice& choice,
                  const SelectionConstraints& constraints);
/// The values of the kernel's tunables for the problem, in the order of its description.
llvm::SmallVector<int64_t> tuneValues(const sl_kernel_desc& kernel, const Problem& problem);
/// The same with their names.
llvm::SmallVector<mlir::NamedAttribute> tuneAttributes(mlir::MLIRContext* context,
                                                       const sl_kernel_desc& kernel,
                                                       const Problem& problem);
/// Zero elements around input `input` that the kernel relies on: pairs (before, after) of dims n,
/// c, h, w of an image.
llvm::SmallVector<int64_t> borderOf(const sl_kernel_desc& kernel, const Problem& problem,
                                    int32_t input);
/// DLPack type of an element.
sl_dtype dtypeOf(mlir::Type element);

}  // namespace straightline

#endif  // STRAIGHTLINE_PASSES_KERNEL_CHOICE_H
