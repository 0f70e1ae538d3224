// SPDX-License-Identifier: Apache-2.0
// Chooses a kernel for every contraction by asking the registry, and records it
// (#op.kernel_choice) with the reasons for it and against its rivals. A route of the module
// (#op.options) leaves only kernels that it allows; `prefer=BACKEND` takes that backend's kernel
// wherever it has one that accepts, whatever its cost; `avoid=PROPERTY` never takes a kernel that
// has it. A convolution of image sizes that only a call knows may get other kernels for calls with
// few pixels (#op.small_images). A measured choice of the module, by the key of the problem, comes
// before the cost. With `list` the module gets a row (#op.measurement) for each contraction that
// may be measured. It is an error if no kernel takes a fusion; all are reported before the pass
// fails.
#include "dialect/error_kind.h"
#include "dialect/op/recorded.h"
#include "llvm/ADT/StringSet.h"
#include "passes/contraction_problem.h"
#include "passes/passes.h"
#include "passes/small_images.h"
#include "passes/tuned_choices.h"

namespace straightline::passes {

#define GEN_PASS_DEF_SELECTKERNELS
#include "passes/passes.h.inc"

namespace {

struct SelectKernelsPass : impl::SelectKernelsBase<SelectKernelsPass> {
  using SelectKernelsBase::SelectKernelsBase;

  void runOnOperation() override {
    const kernel::TargetAttr target = targetOf(getOperation());
    bool failedHere = false;
    const std::optional<uint32_t> properties = propertiesNamed(avoid);
    if (!properties) {
      emitUserError(getOperation())
          << "select-kernels: avoid is '" << avoid.getValue() << "', valid are " << propertyNames();
      return signalPassFailure();
    }
    avoided_ = *properties;
    recordResidentBytes(getOperation());
    getOperation().walk([&](op::FusionOp fusion) {
      mlir::Operation* root = contractionRoot(fusion);
      if (!root) {
        return;
      }
      const SelectionConstraints constraints = constraintsFor(root);
      if (!choose(fusion, target, constraints)) {
        failedHere = true;
        return;
      }
      op::setSmallImages(fusion, {});
      const std::string key = choiceKey(fusion, target);
      if (key.empty() && !constraints.route && !targetNamedBy(target).hasQueue()) {
        branchBySize(fusion, target, constraints);
      } else if (!key.empty()) {
        applyMeasured(fusion, target, constraints, key);
        op::setKernelChoice(fusion, op::kernelChoiceOf(fusion).withKey(key));
      }
    });
    if (failedHere) {
      return signalPassFailure();
    }
    if (list) {
      listCandidates(target);
    }
    if (failed(agreeAboutBfloat(target))) {
      return signalPassFailure();
    }
    getOperation().walk([](op::FusionOp fusion) {
      const sl_kernel_desc* kernel = chosenKernel(fusion);
      if (!kernel) {
        return;
      }
      mlir::Operation* root = contractionRoot(fusion);
      const bool isNarrow = has(*kernel, SL_KERNEL_NARROW_INPUTS);
      if (auto matmul = llvm::dyn_cast<op::MatmulOp>(root); matmul && isNarrow) {
        readBfloat(fusion, matmul);
      }
      if (auto linear = llvm::dyn_cast<op::LinearOp>(root)) {
        readStoredWeight(fusion, linear, *kernel);
        if (isNarrow) {
          readBfloat(fusion, linear);
        }
      }
    });
  }

 private:
  SelectionConstraints constraintsFor(mlir::Operation* root, uint32_t alsoAvoided = 0) {
    return {prefer, routeOf(root), avoided_ | alsoAvoided, allow};
  }
  /// Records the kernel that the estimates choose, and why; with none, reports that and answers
  /// false.
  static bool choose(op::FusionOp fusion, kernel::TargetAttr target,
                     const SelectionConstraints& constraints) {
    const op::KernelChoiceAttr before = op::kernelChoiceOf(fusion);
    if (before) {  // of a pass that has run before: the problem is asked about without its variant
      op::setKernelChoice(fusion, op::KernelChoiceAttr::get(fusion.getContext(), before.getKernel(),
                                                            before.getWhy()));
    }
    const KernelChoice choice = chooseKernel(contractionProblem(fusion, target), constraints);
    if (failed(checkRules(contractionRoot(fusion), choice))) {
      return false;
    }
    if (!choice.kernel) {
      emitNoKernel(contractionRoot(fusion), choice, constraints);
      return false;
    }
    const auto chosen =
        op::KernelChoiceAttr::get(fusion.getContext(), choice.kernel->name, choice.why)
            .withAlternatives(choice.alternativesAttr(fusion.getContext()));
    op::setKernelChoice(fusion,
                        before && before.getKey() ? chosen.withKey(before.getKey()) : chosen);
    return true;
  }
  /// Records the kernels for calls with few pixels, where these are other ones.
  static void branchBySize(op::FusionOp fusion, kernel::TargetAttr target,
                           const SelectionConstraints& constraints) {
    const KernelsBySize kernels =
        chooseKernelsBySize(fusion, target, *chosenKernel(fusion), constraints);
    if (kernels.small.empty()) {
      return;
    }
    op::setSmallImages(fusion, kernels.small);
    const op::KernelChoiceAttr choice = op::kernelChoiceOf(fusion);
    const bool isChosen =
        kernels.variant == 0 && choice.getKernel().getValue() == kernels.large->name;
    std::string why = isChosen ? choice.getWhy().str()
                               : std::string(kernels.large->name) + ": least for many pixels";
    for (const op::SmallImagesAttr& each : kernels.small) {
      why += "; below " + std::to_string(each.getBelow()) + " pixels " + each.getKernel().str();
    }
    op::setKernelChoice(fusion, choice.withKernel(kernels.large->name, kernels.variant, why));
  }
  /// Whether it is a linear whose kernel takes x and weight as bfloat16.
  static bool isOfPairs(op::FusionOp fusion) {
    const sl_kernel_desc* kernel = chosenKernel(fusion);
    return kernel && has(*kernel, SL_KERNEL_NARROW_INPUTS) &&
           llvm::isa<op::LinearOp>(contractionRoot(fusion));
  }
  static mlir::Value xOf(op::FusionOp fusion) {
    return fusionInput(fusion, llvm::cast<op::LinearOp>(contractionRoot(fusion)).getX());
  }

  /// A tensor that its fusion rounds to bfloat16 and widens again is kept as bfloat16 when the
  /// kernels of all its readers take that; otherwise those readers whose kernels take it are given
  /// another kernel.
  mlir::LogicalResult agreeAboutBfloat(kernel::TargetAttr target) {
    bool agreed = true;
    getOperation().walk([&](op::FusionOp fusion) {
      if (!isOfPairs(fusion) || isReadAsBfloat(llvm::cast<op::LinearOp>(contractionRoot(fusion)))) {
        return;
      }
      const mlir::Value x = xOf(fusion);
      const bool all =
          bfloatBehind(x).source || llvm::all_of(x.getUses(), [&](mlir::OpOperand& use) {
            auto reader = llvm::dyn_cast<op::FusionOp>(use.getOwner());
            return reader && isOfPairs(reader) && xOf(reader) == x &&
                   llvm::count(reader->getOperands(), x) == 1;
          });
      if (all) {
        return;
      }
      agreed &=
          choose(fusion, target, constraintsFor(contractionRoot(fusion), SL_KERNEL_NARROW_INPUTS));
    });
    return mlir::success(agreed);
  }

  /// Gives the linear its x as bfloat16.
  static void readBfloat(op::FusionOp fusion, op::LinearOp linear) {
    const unsigned input = fusionInputIndex(fusion, linear.getX());
    const mlir::Value x = fusion->getOperand(input);
    Bfloat behind = bfloatBehind(x);
    const mlir::RankedTensorType type =
        linear.getX().getType().clone(mlir::BFloat16Type::get(fusion.getContext()));
    if (behind.source) {
      fusion->setOperand(input, behind.source);
      if (x.use_empty()) {
        x.getDefiningOp()->erase();
      }
    } else if (behind.fusion) {  // else another reader of x has done it
      mlir::Operation* yield = behind.fusion.getBody().front().getTerminator();
      auto convert = yield->getOperand(behind.result).getDefiningOp<op::ToDtypeOp>();
      yield->setOperand(behind.result, convert.getX());
      mlir::Value(x).setType(type);
      if (convert.getResult().use_empty()) {
        convert->erase();
      }
    }
    linear.getX().setType(type);
  }

  /// Gives the product what its operands are widened from.
  static void readBfloat(op::FusionOp fusion, op::MatmulOp matmul) {
    for (mlir::Value operand : matmul->getOperands()) {
      const unsigned input = fusionInputIndex(fusion, operand);
      const mlir::Value widened = fusion->getOperand(input);
      const auto type = llvm::cast<mlir::RankedTensorType>(operand.getType());
      if (type.getElementType().isBF16()) {
        continue;  // both operands are one tensor, or the pass has run before
      }
      fusion->setOperand(input, bfloatBehind(widened).source);
      operand.setType(op::withElementType(type, mlir::BFloat16Type::get(fusion.getContext())));
      if (widened.use_empty() && widened.getDefiningOp()->use_empty()) {
        widened.getDefiningOp()->erase();
      }
    }
  }

  /// Takes the measured choice where there is one that is still a candidate.
  void applyMeasured(op::FusionOp fusion, kernel::TargetAttr target,
                     const SelectionConstraints& constraints, const std::string& key) {
    const std::string text = chosenText(getOperation(), key);
    if (text.empty()) {
      return;
    }
    const op::KernelChoiceAttr estimated = op::kernelChoiceOf(fusion);
    const std::string why = estimated.getWhy().str();
    for (const Candidate& candidate : candidatesOf(fusion, target, constraints)) {
      if (candidate.text() != text) {
        continue;
      }
      op::setKernelChoice(
          fusion, estimated.withMeasured(candidate.kernel->name, candidate.variant, candidate.alone,
                                         "measured: " + text + "; by the estimates " + why));
      return;
    }
    op::setKernelChoice(fusion,
                        estimated.withWhy(why + "; the measured " + text + " is no candidate"));
  }

  void listCandidates(kernel::TargetAttr target) {
    mlir::Builder builder(&getContext());
    llvm::SmallVector<op::MeasurementAttr> rows;
    llvm::StringSet<> seen;
    getOperation().walk([&](op::FusionOp fusion) {
      const op::KernelChoiceAttr choice = op::kernelChoiceOf(fusion);
      const mlir::StringAttr key = choice ? choice.getKey() : mlir::StringAttr();
      if (!key || op::isPrepared(fusion) || !seen.insert(key.getValue()).second) {
        return;
      }
      llvm::SmallVector<mlir::Attribute> candidates;
      llvm::SmallVector<double> atEdgeUs;
      for (const Candidate& candidate :
           candidatesOf(fusion, target, constraintsFor(contractionRoot(fusion)))) {
        candidates.push_back(builder.getStringAttr(candidate.text()));
        atEdgeUs.push_back(candidate.atEdgeUs);
      }
      rows.push_back(op::MeasurementAttr::get(
          &getContext(), key, builder.getStringAttr(moduleOf(fusion)),
          builder.getArrayAttr(candidates), builder.getDenseF64ArrayAttr(atEdgeUs)));
    });
    op::setCandidates(getOperation(), rows);
  }

  /// Where the kernel reads a weight of 16-bit floats or bytes and widens it itself, the linear
  /// reads the stored weight, and no widened copy is kept.
  static void readStoredWeight(op::FusionOp fusion, op::LinearOp linear,
                               const sl_kernel_desc& kernel) {
    const unsigned input = fusionInputIndex(fusion, linear.getWeight());
    const mlir::Value widened = fusion->getOperand(input);
    const mlir::Value stored = storedWeight(widened);
    const auto takes = [&](mlir::Value tensor) {
      const mlir::Type element =
          llvm::cast<mlir::RankedTensorType>(tensor.getType()).getElementType();
      return (inputFacts(kernel, 1).stored & typeBit(element)) != 0;
    };
    if (!stored || !takes(stored) || !linear.getWeight().hasOneUse()) {
      return;
    }
    linear.getWeight().setType(llvm::cast<mlir::RankedTensorType>(stored.getType()));
    fusion->setOperand(input, stored);
    if (widened.use_empty()) {
      widened.getDefiningOp()->erase();
    }
  }

  uint32_t avoided_ = 0;  ///< sl_kernel_properties
};

}  // namespace

}  // namespace straightline::passes
