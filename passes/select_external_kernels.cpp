// SPDX-License-Identifier: Apache-2.0
// Gives ops of any kind to external kernels of the registry: an op that one accepts becomes an
// op.external with the choice (#op.kernel_choice) on it. Runs on ops as they were captured, before
// anything takes them apart, so that a library sees a group norm, or a softmax of float16, whole.
// Emitted kernels compete by an estimate of what the op costs as a kernel of its own; a route, or
// `prefer`, comes before it. Why kernels did not get an op is recorded on the op (op.refusals).
//
// Left alone: contractions and attention, for which emitted and external kernels compete in
// select-kernels and in the lowering; views, which cost nothing; index arithmetic of loops.
#include <cstdio>

#include "dialect/error_kind.h"
#include "dialect/op/recorded.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSet.h"
#include "passes/contraction_problem.h"
#include "passes/external_call.h"
#include "passes/external_ops.h"
#include "passes/lowering/context.h"
#include "passes/passes.h"

namespace straightline::passes {

#define GEN_PASS_DEF_SELECTEXTERNALKERNELS
#include "passes/passes.h.inc"

namespace {

using mlir::Operation;
using mlir::Value;

/// Parameters that may not change between calls, literals, and views of these: what a plan may
/// read, whatever later passes do.
bool isKnownBeforePrepare(Value value, bool freeze) {
  Operation* maker = value.getDefiningOp();
  while (maker && maker->hasTrait<op::View>()) {
    maker = maker->getOperand(0).getDefiningOp();
  }
  return maker &&
         (llvm::isa<op::ConstantOp>(maker) || (freeze && llvm::isa<op::ParameterOp>(maker)));
}

/// Microseconds that one thread takes for an element that an emitted kernel reads or writes; as the
/// lowering estimates elementwise kernels, reductions (of two steps) and all others.
double emittedUsPerElement(Operation* operation) {
  return llvm::isa<op::ElementwiseOpInterface>(operation) ? 0.0002
         : llvm::isa<op::ReductionOpInterface>(operation) ? 0.0009
                                                          : 0.0006;
}

struct SelectExternalKernelsPass : impl::SelectExternalKernelsBase<SelectExternalKernelsPass> {
  using SelectExternalKernelsBase::SelectExternalKernelsBase;

  void runOnOperation() override {
    const std::optional<uint32_t> avoided = propertiesNamed(avoid);
    if (!avoided) {
      emitUserError(getOperation()) << "select-external-kernels: avoid is '" << avoid.getValue()
                                    << "', valid are " << propertyNames();
      return signalPassFailure();
    }
    llvm::StringSet<> named;
    forEachKernel([&](const sl_kernel_desc& kernel) {
      if (isExternal(kernel)) {
        named.insert(kernel.op);
      }
    });
    llvm::SmallVector<Operation*> asked;
    getOperation().walk([&](Operation* operation) {
      if (mayBeExternal(operation) &&
          (named.contains(operation->getName().stripDialect()) || routeOf(operation))) {
        asked.push_back(operation);
      }
    });
    bool isSound = true;
    for (Operation* operation : asked) {
      isSound &= absorbed_.contains(operation) || succeeded(consider(operation, *avoided));
    }
    absorbed_.clear();
    if (!isSound) {
      signalPassFailure();
    }
  }

 private:
  /// Why a target that names emitted kernels does not get the op, or "".
  std::string whyNotEmitted(llvm::StringRef target) {
    const llvm::StringRef own = emittingBackend(targetOf(getOperation()).getBackend());
    return own == target ? ""
                         : ("the kernels that are emitted for this program are of " + own).str();
  }

  std::string whyNotHost() {
    const Target& target = targetNamedBy(targetOf(getOperation()));
    return target.sharesWithHost()
               ? ""
               : ("programs for " + target.name() + " give nothing to the cpu").str();
  }

  Problem problemOf(Operation* operation, const ExternalCall& call) {
    const lowering::Sizes sizes(getOperation());
    Problem problem(call.name, targetOf(getOperation()));
    int32_t dynamic = 0;
    const auto add = [&](Value value, bool isConstant) {
      const auto extents = lowering::staticOrDynamic(sizes.extentsOf(value));
      const auto strides = lowering::staticOrDynamic(sizes.rowMajor(sizes.extentsOf(value)));
      problem.addOperand(lowering::elementType(value), extents, strides, isConstant);
      dynamic +=
          static_cast<int32_t>(llvm::count(extents, SL_DYNAMIC) + llvm::count(strides, SL_DYNAMIC));
    };
    for (Value operand : operation->getOperands()) {
      add(operand, isKnownBeforePrepare(operand, freeze));
    }
    for (Value result : operation->getResults()) {
      add(result, false);
    }
    problem.setInputs(static_cast<int32_t>(operation->getNumOperands()));
    problem.setText("", dynamic);
    problem.setAtEdge(llvm::any_of(operation->getOperands(), isAtGraphEdge) ||
                      llvm::any_of(operation->getResults(), isAtGraphEdge));
    addTold(problem, call.told);
    return problem;
  }

  /// What the op is estimated to cost as an emitted kernel of its own; nullopt: there is no such
  /// kernel, or a device has no such estimate before kernels have grids.
  std::optional<double> emittedUs(Operation* operation) {
    const kernel::TargetAttr target = targetOf(getOperation());
    if (targetNamedBy(target).hasQueue() && !compilesHostKernels(target.getBackend())) {
      return std::nullopt;
    }
    const lowering::Sizes sizes(getOperation());
    double elements = 0;
    for (Value value : llvm::concat<Value>(llvm::to_vector(operation->getOperands()),
                                           llvm::to_vector(operation->getResults()))) {
      elements += static_cast<double>(sizes.upperBound(sizes.product(sizes.extentsOf(value))));
    }
    return elements * emittedUsPerElement(operation) / static_cast<double>(target.getThreads());
  }

  /// By the op's rule, or by the estimates.
  mlir::LogicalResult consider(Operation* operation, uint32_t avoided) {
    const std::optional<Route> route = routeOf(operation);
    if (!route) {
      return ask(operation, {prefer, std::nullopt, avoided, allow});
    }
    std::string refusals;
    for (const std::string& target : route->targets) {
      std::string why;
      if (target == kFrameworkRoute) {
        return mlir::success();  // capture has done it where the front end knows such ops
      }
      if (emitsKernels(target)) {
        why = whyNotEmitted(target);
      } else if (target == kHostRoute) {
        why = whyNotHost();
        SelectionConstraints constraints{prefer, route, avoided, allow};
        constraints.target = target;
        // Where no external kernel takes it, one is emitted.
        if (why.empty() && failed(ask(operation, constraints))) {
          return mlir::failure();
        }
      } else {
        SelectionConstraints constraints{prefer, route, avoided, allow};
        constraints.target = target;
        const mlir::FailureOr<std::string> said = ask(operation, constraints);
        if (failed(said)) {
          return mlir::failure();
        }
        why = *said;
      }
      if (why.empty()) {
        return mlir::success();
      }
      refusals += (refusals.empty() ? "" : "; ") + why;
    }
    emitUserError(operation) << operation->getName().stripDialect() << ": route " << route->text()
                             << " cannot be honoured: " << refusals;
    return mlir::failure();
  }

  /// Gives the op to an external kernel where one is to have it. What kernels say that do not is
  /// recorded on the op. Answers why the target of a rule did not get it, or ""; a kernel that
  /// breaks the rules of descriptions is a failure.
  mlir::FailureOr<std::string> ask(Operation* operation, SelectionConstraints constraints) {
    const ExternalCall call = describeCall(operation);
    constraints.whyNot = [&](const sl_kernel_desc& kernel) {
      return whyNotCalled(kernel, operation, call,
                          [&](Value value) { return isKnownBeforePrepare(value, freeze); });
    };
    KernelChoice choice = chooseKernel(problemOf(operation, call), constraints);
    const auto refused = [&] {
      if (mlir::ArrayAttr said = choice.alternativesAttr(operation->getContext(), call.name)) {
        op::addRefusals(operation, said);
      }
    };
    if (failed(checkRules(operation, choice))) {
      return mlir::failure();
    }
    const bool isRouted = constraints.route && constraints.target != kAutoRoute;
    if (!choice.kernel) {
      refused();
      return isRouted ? choice.refusals : std::string();
    }
    const bool isWanted = isRouted || constraints.preferred == choice.kernel->backend;
    std::string why = choice.why;
    if (const std::optional<double> emitted = emittedUs(operation)) {
      char text[96];
      std::snprintf(text, sizeof text, "; emitted kernels: estimated %.2f us", *emitted);
      why += text;
      if (!isWanted && *emitted <= choice.costUs) {
        std::snprintf(text, sizeof text, "estimated %.2f us; emitted kernels: estimated %.2f us",
                      choice.costUs, *emitted);
        choice.alternatives.insert(choice.alternatives.begin(),
                                   {choice.kernel->name, choice.costUs, text});
        refused();
        return std::string();
      }
    }
    replace(operation, call, choice, why);
    return std::string();
  }

  /// The activation behind the op that the kernel does as an epilogue, with its name; null: there
  /// is none. One about which another rule decides stays.
  std::pair<Operation*, llvm::StringRef> activationBehind(Operation* operation,
                                                          const sl_kernel_desc& kernel) {
    const Value result = operation->getResult(0);
    Operation* next = operation->getNumResults() == 1 && result.hasOneUse()
                          ? *result.getUsers().begin()
                          : nullptr;
    if (!next || next->getBlock() != operation->getBlock()) {
      return {};
    }
    const std::optional<Route> own = routeOf(operation), other = routeOf(next);
    if (other && (!own || own->text() != other->text())) {
      return {};
    }
    auto gelu = llvm::dyn_cast<op::GeluOp>(next);
    const llvm::StringRef name = llvm::isa<op::ReluOp>(next)               ? "relu"
                                 : gelu && gelu.getApproximate() == "tanh" ? "gelu_tanh"
                                                                           : "";
    const bool isTaken = !name.empty() &&
                         takesEpilogue(kernel, name, lowering::elementType(result)) &&
                         !needsBiasFor(kernel, name);
    return isTaken ? std::pair(next, name) : std::pair<Operation*, llvm::StringRef>();
  }

  void replace(Operation* operation, const ExternalCall& call, const KernelChoice& choice,
               llvm::StringRef why) {
    mlir::OpBuilder builder(operation);
    const auto [activation, name] = activationBehind(operation, *choice.kernel);
    mlir::NamedAttrList told(call.told);
    if (activation) {
      told.set(kActivation, builder.getStringAttr(name));
    }
    auto external = op::ExternalOp::create(
        builder, operation->getLoc(), operation->getResultTypes(), call.name,
        operation->getOperands(), told.getDictionary(builder.getContext()), call.roles);
    op::setKernelChoice(external,
                        op::KernelChoiceAttr::get(builder.getContext(), choice.kernel->name, why)
                            .withAlternatives(choice.alternativesAttr(builder.getContext())));
    if (activation) {
      activation->replaceAllUsesWith(external);
      activation->erase();
      absorbed_.insert(activation);  // it may be among those that are still to be asked about
    } else {
      operation->replaceAllUsesWith(external);
    }
    operation->erase();
  }

  llvm::DenseSet<Operation*> absorbed_;  ///< erased: epilogues of others
};

}  // namespace

}  // namespace straightline::passes
