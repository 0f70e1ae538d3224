// SPDX-License-Identifier: Apache-2.0
// Chooses a kernel for every contraction by asking the registry, and records it (op.kernel) with
// the reasons for it and against its rivals (op.why). A route of the module (op.routes) leaves only
// the kernels that it allows; `prefer=BACKEND` takes that backend's kernel wherever it has one that
// accepts, whatever its cost; `avoid=PROPERTY` never takes a kernel that has it. A measured choice
// (op.choices, by the key that is recorded as op.choice) comes before the cost. With `list` the
// module gets op.candidates: what there is to measure. A fusion that no kernel takes is an error;
// all are reported before the pass fails.
#include "dialect/error_kind.h"
#include "dialect/op/op_dialect.h"
#include "llvm/ADT/StringSet.h"
#include "passes/contraction_problem.h"
#include "passes/passes.h"
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
      const std::string key = choiceKey(fusion, target);
      if (!key.empty()) {
        applyMeasured(fusion, target, constraints, key);
        fusion->setAttr("op.choice", mlir::StringAttr::get(&getContext(), key));
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
    return {prefer, routeOf(getOperation(), root->getName().stripDialect()), avoided_ | alsoAvoided,
            allow};
  }
  /// Records the kernel that the estimates choose, and why; with none, reports that and answers
  /// false.
  static bool choose(op::FusionOp fusion, kernel::TargetAttr target,
                     const SelectionConstraints& constraints) {
    fusion->removeAttr(kVariantAttribute);
    fusion->removeAttr("op.alone");
    fusion->removeAttr(kEstimatedAttribute);
    const KernelChoice choice = chooseKernel(contractionProblem(fusion, target), constraints);
    if (!choice.kernel) {
      emitNoKernel(contractionRoot(fusion), choice, constraints);
      return false;
    }
    fusion->setAttr("op.kernel", mlir::StringAttr::get(fusion.getContext(), choice.kernel->name));
    fusion->setAttr("op.why", mlir::StringAttr::get(fusion.getContext(), choice.why));
    return true;
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

  /// A tensor that its fusion rounds to bfloat16 and widens again is kept as bfloat16 when all who
  /// read it take that; otherwise the ones that would are given another kernel.
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
    mlir::Builder builder(&getContext());
    const std::string why = fusion->getAttrOfType<mlir::StringAttr>("op.why").str();
    for (const Candidate& candidate : candidatesOf(fusion, target, constraints)) {
      if (candidate.text() != text) {
        continue;
      }
      fusion->setAttr(kEstimatedAttribute, fusion->getAttr("op.kernel"));
      fusion->setAttr("op.kernel", builder.getStringAttr(candidate.kernel->name));
      fusion->setAttr("op.why",
                      builder.getStringAttr("measured: " + text + "; by the estimates " + why));
      fusion->setAttr(kVariantAttribute, builder.getI64IntegerAttr(candidate.variant));
      if (candidate.alone) {
        fusion->setAttr("op.alone", builder.getBoolAttr(*candidate.alone));
      }
      return;
    }
    fusion->setAttr("op.why",
                    builder.getStringAttr(why + "; the measured " + text + " is no candidate"));
  }

  void listCandidates(kernel::TargetAttr target) {
    mlir::Builder builder(&getContext());
    llvm::SmallVector<mlir::Attribute> rows;
    llvm::StringSet<> seen;
    getOperation().walk([&](op::FusionOp fusion) {
      auto key = fusion->getAttrOfType<mlir::StringAttr>("op.choice");
      if (!key || fusion->hasAttr(op::kPrepare) || !seen.insert(key.getValue()).second) {
        return;
      }
      llvm::SmallVector<mlir::Attribute> candidates;
      llvm::SmallVector<double> atEdgeUs;
      for (const Candidate& candidate :
           candidatesOf(fusion, target, constraintsFor(contractionRoot(fusion)))) {
        candidates.push_back(builder.getStringAttr(candidate.text()));
        atEdgeUs.push_back(candidate.atEdgeUs);
      }
      rows.push_back(builder.getDictionaryAttr(
          {builder.getNamedAttr("key", key),
           builder.getNamedAttr("module", builder.getStringAttr(moduleOf(fusion))),
           builder.getNamedAttr("candidates", builder.getArrayAttr(candidates)),
           builder.getNamedAttr("at_edge_us", builder.getF64ArrayAttr(atEdgeUs))}));
    });
    getOperation()->setAttr(op::kCandidates, builder.getArrayAttr(rows));
  }

  /// For a kernel that widens a weight of 16-bit floats, or of bytes, by itself no widened copy is
  /// kept.
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
