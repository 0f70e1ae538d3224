// SPDX-License-Identifier: Apache-2.0
#include "passes/kernel_choice.h"

#include <cstdio>

#include "dialect/element_type.h"
#include "dialect/error_kind.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/IR/Builders.h"
#include "passes/targets/target.h"
#include "straightline/abi/straightline.h"

namespace straightline {

sl_dtype dtypeOf(mlir::Type element) {
  const unsigned bits = element.isInteger(1) ? 8 : element.getIntOrFloatBitWidth();
  return {static_cast<uint8_t>(dlpackCode(element)), static_cast<uint8_t>(bits), 1};
}

Problem::Problem(std::string op, kernel::TargetAttr target) : op_(std::move(op)), target_(target) {}

void Problem::addOperand(mlir::Type element, llvm::ArrayRef<int64_t> extents,
                         llvm::ArrayRef<int64_t> strides, bool isConstant) {
  sl_operand operand{};
  operand.dtype = dtypeOf(element);
  operand.rank = static_cast<int32_t>(extents.size());
  llvm::copy(extents, operand.extents);
  llvm::copy(strides, operand.strides);
  operand.constant = isConstant ? 1 : 0;
  operands_.push_back(operand);
}

void Problem::addAttribute(llvm::StringRef name, int64_t value) {
  attributes_.push_back({name.str(), SL_INT, value, 0, {}});
}

void Problem::addNumber(llvm::StringRef name, double value) {
  attributes_.push_back({name.str(), SL_FLOAT, 0, value, {}});
}

void Problem::addText(llvm::StringRef name, llvm::StringRef value) {
  attributes_.push_back({name.str(), SL_TEXT, 0, 0, value.str()});
}

sl_problem Problem::view() const {
  attributeViews_.clear();
  for (const Attribute& attribute : attributes_) {
    attributeViews_.push_back({attribute.name.c_str(), attribute.value, attribute.kind,
                               attribute.number,
                               attribute.kind == SL_TEXT ? attribute.text.c_str() : nullptr});
  }
  for (const ProblemFact& fact : targetNamedBy(target_).problemFacts(target_)) {
    attributeViews_.push_back({fact.name, fact.value, SL_INT, 0, nullptr});
  }
  sl_problem problem{};
  problem.size = sizeof(problem);
  problem.op = op_.c_str();
  problem.operands = operands_.data();
  problem.operand_stride = sizeof(sl_operand);
  problem.attribute_stride = sizeof(sl_attribute);
  problem.inputs = inputs_;
  problem.outputs = static_cast<int32_t>(operands_.size()) - inputs_;
  problem.attributes = attributeViews_.data();
  problem.attribute_count = static_cast<int32_t>(attributeViews_.size());
  problem.threads = static_cast<int32_t>(target_.getThreads());
  problem.vector_bytes = static_cast<int32_t>(target_.getVectorBytes());
  problem.l1_bytes = target_.getL1();
  problem.l2_bytes = target_.getL2();
  problem.text = text_.empty() ? nullptr : text_.c_str();
  problem.sizes = sizes_;
  problem.variant = variant_;
  problem.dot_bf16 = static_cast<int32_t>(target_.getDotBf16());
  problem.fma_bytes = static_cast<int32_t>(target_.getFmaBytes());
  problem.device =
      targetNamedBy(target_).hasQueue() && !isOnHost_ ? target_.getBackend().data() : nullptr;
  return problem;
}

bool Problem::sharesWithHost() const { return targetNamedBy(target_).sharesWithHost(); }

namespace {

std::string microseconds(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f us", value);
  return text;
}

bool backendAllowed(const SelectionConstraints& constraints, llvm::StringRef backend) {
  llvm::SmallVector<llvm::StringRef> backends;
  constraints.allowed.split(backends, '+', -1, false);
  return backends.empty() || llvm::is_contained(backends, backend);
}

/// Asks the kernels of a problem one after the other and keeps what each of them said.
class KernelSelector {
 public:
  /// `target`: the one of the route's that is asked.
  KernelSelector(const Problem& problem, const SelectionConstraints& constraints,
                 llvm::StringRef target)
      : problem_(problem),
        asked_(problem.view()),
        device_(target == kHostRoute ? llvm::StringRef(kernel::kHostBackend) : problem.device()),
        constraints_(constraints),
        target_(target) {
    asked_.device = target == kHostRoute ? nullptr : asked_.device;
  }

  void ask(const sl_kernel_desc& kernel) {
    if (llvm::StringRef(kernel.op) != asked_.op || (constraints_.whyNot && !isExternal(kernel))) {
      return;
    }
    const bool isAllowed = allows(target_, kernel);
    const bool isRouted = target_ != kAutoRoute;
    if (!runsOn(kernel, device_)) {
      const llvm::StringRef device = deviceOf(kernel.backend);
      // kernels for other devices are reported only to a user who asks for one by a route
      if (isRouted && isAllowed) {
        refuse(kernel, ("runs on " + device + ", the program on " + device_).str(), isAllowed);
      }
      isElsewhere_ = true;
      return;
    }
    if (!backendAllowed(constraints_, kernel.backend)) {
      refuse(kernel, "not allowed", isAllowed);
      return;
    }
    if ((constraints_.avoided & kernel.properties) != 0) {
      refuse(kernel, "not wanted", isAllowed);
      return;
    }
    const bool isPreferred =
        !constraints_.preferred.empty() && constraints_.preferred == kernel.backend;
    preferredWasAsked_ |= isPreferred;
    if (const std::string why = constraints_.whyNot ? constraints_.whyNot(kernel) : "";
        !why.empty()) {
      refuse(kernel, why, isAllowed);
      return;
    }
    char reason[256];
    double cost = 0;
    if (const int32_t taken = sl_kernel_ask(&kernel, &asked_, &cost, reason, sizeof reason);
        taken != 1) {
      if (taken == -2) {
        noteFault(kernel, reason);
      }
      if (taken != -1) {
        refuse(kernel, reason, isAllowed);
      } else if (isAllowed) {
        mention(refusals_, kernel.name, reason);
      }
      return;
    }
    const double edge = atEdgeUs(kernel, problem_), behind = passBehindUs(kernel, problem_);
    const double more = edge + behind;
    const std::string estimate =
        "estimated " + microseconds(cost) +
        (behind > 0 ? " and " + microseconds(behind) + " for what is fused behind it" : "") +
        (edge > 0 ? " and " + microseconds(edge) + " at the graph's edge" : "");
    const bool stays =
        winnerIsPreferred_ == isPreferred ? counted_ <= cost + more : winnerIsPreferred_;
    if (!isAllowed || (choice_.kernel && stays)) {
      choice_.alternatives.push_back({kernel.name, cost + more, estimate});
      return;
    }
    if (choice_.kernel) {
      choice_.alternatives.push_back({choice_.kernel->name, counted_, estimate_});
    }
    estimate_ = estimate;
    choice_.kernel = &kernel;
    choice_.costUs = cost;
    counted_ = cost + more;
    winnerIsPreferred_ = isPreferred;
  }

  KernelChoice decide() {
    if (!constraints_.preferred.empty() && !preferredWasAsked_) {
      choice_.alternatives.push_back(
          {constraints_.preferred.str(), std::nullopt,
           "preferred, but no such backend has a kernel for " + std::string(asked_.op)});
    }
    for (const Alternative& other : choice_.alternatives) {
      mention(choice_.others, other.kernel, other.said);
    }
    const std::string routed = constraints_.route ? "route " + constraints_.route->text() : "";
    choice_.fault = fault_;
    if (!choice_.kernel && target_ != kAutoRoute) {
      choice_.why =
          refusals_.empty() ? target_.str() + ": there is no such kernel for it" : refusals_;
      return choice_;
    }
    if (!choice_.kernel) {
      choice_.why = !choice_.others.empty() ? choice_.others
                    : isElsewhere_          ? ("no kernel for it runs on " + device_).str()
                                            : "no backend has a kernel for it";
      return choice_;
    }
    char note[256] = "";
    if (choice_.kernel->note) {
      choice_.kernel->note(&asked_, note, sizeof note);
    }
    choice_.why = std::string(choice_.kernel->name) + ": " + (routed.empty() ? "" : routed + ", ") +
                  (winnerIsPreferred_ ? "preferred, " : "") + estimate_ +
                  (note[0] != '\0' ? ", " : "") + note +
                  (choice_.others.empty() ? "" : " (" + choice_.others + ")");
    return choice_;
  }

 private:
  void refuse(const sl_kernel_desc& kernel, llvm::StringRef reason, bool isAllowed) {
    choice_.alternatives.push_back({kernel.name, std::nullopt, reason.str()});
    if (isAllowed) {
      mention(refusals_, kernel.name, reason);
    }
  }

  void noteFault(const sl_kernel_desc& kernel, llvm::StringRef reason) {
    const char* file = sl_backend_file(kernel.backend);
    fault_ = std::string("kernel '") + kernel.name + "'" +
             (file ? std::string(" of ") + file : "") +
             " breaks the rules of runtime/abi/kernel.h: " + reason.str() +
             (file ? std::string("; `straightline plugin check ") + file +
                         "` shows more, and allow=(..) without '" + kernel.backend +
                         "' compiles without it"
                   : "");
  }

  static void mention(std::string& text, llvm::StringRef name, llvm::StringRef what) {
    text += (text.empty() ? "" : "; ") + name.str() + ": " + what.str();
  }

  const Problem& problem_;
  sl_problem asked_;
  const llvm::StringRef device_;
  const SelectionConstraints& constraints_;
  const llvm::StringRef target_;
  KernelChoice choice_;
  /// microseconds by which kernels are compared: the cost, atEdgeUs and passBehindUs
  double counted_ = 0;
  std::string estimate_;  ///< the same in words
  bool winnerIsPreferred_ = false;
  bool preferredWasAsked_ = false;
  bool isElsewhere_ = false;  ///< another device has a kernel for it
  std::string refusals_;      ///< of the kernels that a route allows
  std::string fault_;
};

}  // namespace

mlir::ArrayAttr KernelChoice::alternativesAttr(mlir::MLIRContext* context,
                                               llvm::StringRef op) const {
  mlir::Builder builder(context);
  llvm::SmallVector<mlir::Attribute> rows;
  for (const Alternative& each : alternatives) {
    llvm::SmallVector<mlir::NamedAttribute> row = {
        builder.getNamedAttr("kernel", builder.getStringAttr(each.kernel)),
        builder.getNamedAttr("said", builder.getStringAttr(each.said))};
    if (!op.empty()) {
      row.push_back(builder.getNamedAttr("op", builder.getStringAttr(op)));
    }
    if (each.us) {
      row.push_back(builder.getNamedAttr("us", builder.getF64FloatAttr(*each.us)));
    }
    rows.push_back(builder.getDictionaryAttr(row));
  }
  return rows.empty() ? mlir::ArrayAttr() : builder.getArrayAttr(rows);
}

KernelChoice chooseKernel(const Problem& problem, const SelectionConstraints& constraints) {
  const std::vector<std::string> one = {constraints.target.empty() ? kAutoRoute
                                                                   : constraints.target};
  const std::vector<std::string>& targets =
      constraints.route && constraints.target.empty() ? constraints.route->targets : one;
  KernelChoice choice;
  std::string refusals;
  for (const std::string& target : targets) {
    if (target == kHostRoute && !problem.sharesWithHost()) {
      choice.why = "programs for " + problem.device().str() + " give nothing to the cpu";
      refusals += (refusals.empty() ? "" : "; ") + choice.why;
      continue;
    }
    KernelSelector selector(problem, constraints, target);
    forEachKernel([&](const sl_kernel_desc& kernel) { selector.ask(kernel); });
    choice = selector.decide();
    choice.target = target;
    if (choice.kernel) {
      return choice;
    }
    refusals += (refusals.empty() ? "" : "; ") + choice.why;
  }
  choice.why = constraints.route
                   ? "route " + constraints.route->text() + " cannot be honoured: " + refusals
                   : refusals;
  choice.refusals = refusals;
  return choice;
}

mlir::LogicalResult checkRules(mlir::Operation* root, const KernelChoice& choice) {
  if (choice.fault.empty()) {
    return mlir::success();
  }
  emitUserError(root) << root->getName().stripDialect() << ": " << choice.fault;
  return mlir::failure();
}

double atEdgeUs(const sl_kernel_desc& kernel, const Problem& problem) {
  // A new address in a graph means a new capture for a library's launches. The nodes of our own
  // kernels get the new address without one.
  return problem.atEdge() && problem.device() != kernel.backend && !runsAnywhere(kernel)
             ? kCapturedAgainUs
             : 0;
}

double passBehindUs(const sl_kernel_desc& kernel, const Problem& problem) {
  return isExternal(kernel) ? problem.passBehindUs() : 0;
}

bool mayTake(const sl_kernel_desc& kernel, const Problem& problem,
             const SelectionConstraints& constraints) {
  const sl_problem asked = problem.view();
  char reason[256];
  double cost = 0;
  return llvm::StringRef(kernel.op) == asked.op && isMadeFor(kernel, problem.device()) &&
         allows(constraints.target.empty() ? llvm::StringRef(kAutoRoute)
                                           : llvm::StringRef(constraints.target),
                kernel) &&
         backendAllowed(constraints, kernel.backend) &&
         (constraints.avoided & kernel.properties) == 0 &&
         sl_kernel_ask(&kernel, &asked, &cost, reason, sizeof reason) == 1;
}

void emitNoKernel(mlir::Operation* root, const KernelChoice& choice,
                  const SelectionConstraints& constraints) {
  mlir::InFlightDiagnostic error = constraints.route ? emitUserError(root) : emitUnsupported(root);
  error << root->getName().stripDialect() << (constraints.route ? ": " : " has no kernel; ")
        << choice.why;
}

llvm::SmallVector<int64_t> borderOf(const sl_kernel_desc& kernel, const Problem& problem,
                                    int32_t input) {
  llvm::SmallVector<int64_t> widths(2 * size_t{SL_MAX_RANK}, 0);
  if (kernel.border) {
    const sl_problem asked = problem.view();
    kernel.border(&asked, input, widths.data());
  }
  widths.resize(8);
  return widths;
}

llvm::SmallVector<int64_t> tuneValues(const sl_kernel_desc& kernel, const Problem& problem) {
  llvm::SmallVector<int64_t> values;
  for (int32_t i = 0; i < kernel.tunable_count; ++i) {
    values.push_back(kernel.tunables[i].fallback);
  }
  if (kernel.tune) {
    const sl_problem asked = problem.view();
    kernel.tune(&asked, values.data());
  }
  return values;
}

llvm::SmallVector<mlir::NamedAttribute> tuneAttributes(mlir::MLIRContext* context,
                                                       const sl_kernel_desc& kernel,
                                                       const Problem& problem) {
  const llvm::SmallVector<int64_t> values = tuneValues(kernel, problem);
  llvm::SmallVector<mlir::NamedAttribute> result;
  for (auto [i, value] : llvm::enumerate(values)) {
    result.push_back({mlir::StringAttr::get(context, kernel.tunables[i].name),
                      mlir::IntegerAttr::get(mlir::IntegerType::get(context, 64), value)});
  }
  return result;
}

}  // namespace straightline
