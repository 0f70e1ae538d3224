// SPDX-License-Identifier: Apache-2.0
#include "dialect/element_type.h"
#include "dialect/error_kind.h"
#include "dialect/op/own_kernel.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"
#include "passes/fusion_group.h"
#include "passes/passes.h"
#include "passes/targets/target.h"
#include "straightline/abi/kernel.h"

namespace straightline::passes {

#define GEN_PASS_DEF_VERIFYOPLEVEL
#include "passes/passes.h.inc"

using mlir::Operation;

namespace {

/// The pass that removes such an op, or "".
llvm::StringRef decomposedBy(Operation* operation) {
  if (llvm::isa<op::LstmOp, op::GruOp, op::RnnOp, op::GroupNormOp, op::AdaptiveAvgPool2dOp,
                op::SelectOp, op::SelectScatterOp>(operation)) {
    return "decompose-ops";
  }
  return llvm::isa<op::BatchNormOp>(operation) ? "fold-batch-norm" : "";
}

/// The pass that puts such an op into a fusion, or "".
llvm::StringRef fusedBy(Operation* operation) {
  if (operation->hasTrait<op::Contraction>()) {
    return "fuse-contractions";
  }
  if (llvm::isa<op::ReductionOpInterface>(operation)) {
    return "fuse-reductions";
  }
  return llvm::isa<op::ElementwiseOpInterface>(operation) && !isIndexArithmetic(operation)
             ? "fuse-pointwise"
             : "";
}

/// The float of 8 bits among an op's operands and results, or null.
mlir::Type float8Of(Operation* operation) {
  llvm::SmallVector<mlir::Type> types(operation->getOperandTypes());
  llvm::append_range(types, operation->getResultTypes());
  for (mlir::Type type : types) {
    auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(type);
    if (tensor && float8Code(tensor.getElementType())) {
      return tensor.getElementType();
    }
  }
  return {};
}

bool isPositiveZero(mlir::Attribute value) {
  const auto number = llvm::dyn_cast<mlir::FloatAttr>(value);
  return number && number.getValue().isPosZero();
}

/// Whether an op moves elements whatever they are, or is computed by what others bring.
bool looksAtNoElement(Operation* operation) {
  if (operation->hasTrait<op::View>() || operation->hasTrait<op::Contraction>() ||
      operation->hasTrait<mlir::OpTrait::IsTerminator>() ||
      llvm::isa<op::AtenOp, op::ExternalOp, op::OwnKernelOp, op::IfOp, op::ForOp, op::WhileOp,
                op::ParameterOp, op::StateOp, op::ConstantOp, op::WhereOp>(operation)) {
    return true;
  }
  if (llvm::isa<op::CatOp, op::FlipOp, op::CloneOp, op::SliceScatterOp, op::SelectScatterOp,
                op::DynamicSliceOp, op::DynamicUpdateSliceOp, op::EmbeddingOp, op::GatherOp,
                op::IndexSelectOp, op::IndexCopyOp, op::IndexOp, op::GroupedMatmulOp,
                op::ScaledDotProductAttentionOp>(operation)) {
    return true;
  }
  if (auto put = llvm::dyn_cast<op::IndexPutOp>(operation)) {
    return !put.getAccumulate();
  }
  if (auto scatter = llvm::dyn_cast<op::ScatterOp>(operation)) {
    return scatter.getReduce() == "none";
  }
  if (auto pad = llvm::dyn_cast<op::ConstantPadNdOp>(operation)) {
    return isPositiveZero(pad.getValue());
  }
  if (auto full = llvm::dyn_cast<op::FullOp>(operation)) {
    return isPositiveZero(full.getValue());
  }
  if (auto cast = llvm::dyn_cast<op::ToDtypeOp>(operation)) {
    const mlir::Type from = cast.getX().getType().getElementType();
    const mlir::Type to = cast.getType().getElementType();
    return from == to || from.isInteger(8) || to.isInteger(8);
  }
  return false;
}

struct VerifyOpLevelPass : impl::VerifyOpLevelBase<VerifyOpLevelPass> {
  using VerifyOpLevelBase::VerifyOpLevelBase;

  void runOnOperation() override {
    if (stage != "captured" && stage != "decomposed" && stage != "fused") {
      getOperation().emitError() << "verify-op-level: stage is \"" << stage
                                 << "\" but captured, decomposed or fused is needed";
      return signalPassFailure();
    }
    bool sound = succeeded(
        verifyTarget(getOperation(),
                     llvm::dyn_cast_if_present<kernel::TargetAttr>(op::targetOf(getOperation()))));
    llvm::StringSet<> symbols;
    for (op::SymbolOp symbol : getOperation().getOps<op::SymbolOp>()) {
      symbols.insert(symbol.getSymName());
    }
    getOperation().walk([&](Operation* operation) {
      sound &= isOfLevel(operation) && hasSoundValues(operation, symbols) && isOfStage(operation) &&
               isOfOnePhase(operation) &&
               (stage != "captured" ||
                (hasElementsToChoose(operation) && computesWithoutFloat8(operation)));
    });
    for (mlir::func::FuncOp function : getOperation().getOps<mlir::func::FuncOp>()) {
      sound &= hasUniqueNames(function);
      if (stage == "captured") {
        noteStrides(function);
      }
    }
    if (!sound) {
      signalPassFailure();
    }
  }

 private:
  /// Records the strides of a state's storage on the result that overwrites it; lower-to-kernel
  /// needs them where no op reads the state any more.
  static void noteStrides(mlir::func::FuncOp function) {
    llvm::StringMap<op::DimsAttr> strides;
    function.walk([&](op::StateOp state) {
      if (const op::DimsAttr given = op::stridesOf(state)) {
        strides[state.getName()] = given;
      }
    });
    for (unsigned index = 0; index < function.getNumResults() && !strides.empty(); ++index) {
      const std::optional<op::Tie> tie = op::tieOf(function, index);
      auto noted = tie && tie->isState ? strides.find(tie->name) : strides.end();
      if (noted != strides.end()) {
        op::setStridesOfResult(function, index, noted->second);
      }
    }
  }

  bool isOfLevel(Operation* operation) {
    const llvm::StringRef dialect = operation->getName().getDialectNamespace();
    if (llvm::isa<mlir::ModuleOp>(operation) || (dialect == "op" && operation->isRegistered()) ||
        dialect == "func") {
      return true;
    }
    operation->emitError() << "'" << operation->getName()
                           << "' is no op of the op level: capture must write op.* only";
    return false;
  }

  bool hasSoundValues(Operation* operation, const llvm::StringSet<>& symbols) {
    llvm::SmallVector<mlir::Type> types(operation->getResultTypes());
    for (mlir::Region& region : operation->getRegions()) {
      for (mlir::Block& block : region) {
        llvm::append_range(types, block.getArgumentTypes());
      }
    }
    for (mlir::NamedAttribute attribute : operation->getAttrs()) {
      const auto dims = llvm::dyn_cast<op::DimsAttr>(attribute.getValue());
      for (mlir::StringAttr name : dims ? dims.getNames() : llvm::ArrayRef<mlir::StringAttr>()) {
        if (!symbols.contains(name.getValue())) {
          operation->emitError() << "extent '" << name.getValue() << "' of the attribute "
                                 << attribute.getName().getValue() << " has no op.symbol";
          return false;
        }
      }
    }
    for (mlir::Type type : types) {
      if (!op::isTensor(type)) {
        operation->emitError() << "type " << type
                               << " is no tensor of static rank, known elements and named extents";
        return false;
      }
      if (!isOfHoldableSize(operation, llvm::cast<mlir::RankedTensorType>(type))) {
        return false;
      }
      for (mlir::StringAttr name : op::extentsOf(llvm::cast<mlir::RankedTensorType>(type)).names) {
        if (!symbols.contains(name.getValue())) {
          operation->emitError() << "extent '" << name.getValue() << "' of " << type
                                 << " has no op.symbol";
          return false;
        }
      }
    }
    return true;
  }

  /// Whether a buffer's description can hold the sizes, and 64 bits the addresses.
  bool isOfHoldableSize(Operation* operation, mlir::RankedTensorType type) {
    if (type.getRank() > SL_MAX_RANK) {
      emitUnsupported(operation) << type << " has rank " << type.getRank()
                                 << "; the nearest supported form has rank " << SL_MAX_RANK;
      return false;
    }
    int64_t bytes = 8;
    bool fits = true;
    for (int64_t size : type.getShape()) {
      fits &= mlir::ShapedType::isDynamic(size) ||
              !llvm::MulOverflow(bytes, std::max<int64_t>(size, 1), bytes);
    }
    if (!fits) {
      emitUserError(operation) << type << " is larger than any memory";
    }
    return fits;
  }

  /// Whether a maximum or minimum is over at least one element: over none it has no value.
  bool hasElementsToChoose(Operation* operation) {
    if (!llvm::isa<op::AmaxOp, op::AminOp, op::ArgmaxOp, op::ArgminOp>(operation)) {
      return true;
    }
    const auto type = llvm::cast<mlir::RankedTensorType>(operation->getOperand(0).getType());
    for (int64_t dim : llvm::cast<op::ReductionOpInterface>(operation).getReducedDims()) {
      if (type.getDimSize(dim) == 0) {
        emitUserError(operation) << "'" << operation->getName() << "' over dim " << dim << " of "
                                 << type << ", which has size 0, has no result";
        return false;
      }
    }
    return true;
  }

  /// Kernels move floats of 8 bits as bytes: what would compute with them has no right answer.
  bool computesWithoutFloat8(Operation* operation) {
    const mlir::Type type =
        operation->getName().getDialectNamespace() == "op" ? float8Of(operation) : mlir::Type();
    if (!type || looksAtNoElement(operation)) {
      return true;
    }
    emitUnsupported(operation)
        << operation->getName().stripDialect() << " of " << type
        << ", of which programs move elements and compute nothing; the nearest supported form: "
           "their bits, by to_dtype to ui8, or floats of 16 bits";
    return false;
  }

  bool isOfStage(Operation* operation) {
    const bool decomposed = stage != "captured";
    if (llvm::StringRef pass = decomposedBy(operation); decomposed && !pass.empty()) {
      operation->emitError() << "'" << operation->getName() << "' is left at stage " << stage
                             << ": is " << pass << " missing?";
      return false;
    }
    const bool inside = llvm::isa_and_nonnull<op::FusionOp>(operation->getParentOp());
    if (llvm::StringRef pass = fusedBy(operation); stage == "fused" && !inside && !pass.empty()) {
      operation->emitError() << "'" << operation->getName()
                             << "' stands outside a fusion at stage fused: is " << pass
                             << " missing?";
      return false;
    }
    return true;
  }

  /// An op of prepare reads no value that only a run computes.
  bool isOfOnePhase(Operation* operation) {
    if (!op::isPrepared(operation)) {
      return true;
    }
    if (!llvm::isa<mlir::func::FuncOp>(operation->getParentOp())) {
      operation->emitError()
          << "'" << operation->getName()
          << "' is marked op.prepare but stands within a loop, a branch or a fusion";
      return false;
    }
    const bool early = llvm::all_of(operation->getOperands(), [](mlir::Value operand) {
      Operation* maker = operand.getDefiningOp();
      return maker && (op::isPrepared(maker) || llvm::isa<op::ParameterOp, op::ConstantOp>(maker));
    });
    if (!early) {
      operation->emitError() << "'" << operation->getName()
                             << "' is marked op.prepare but reads what only a run has";
      return false;
    }
    return true;
  }

  bool isUnique(mlir::func::FuncOp function, llvm::StringSet<>& names, mlir::StringAttr name,
                llvm::StringRef kind) {
    if (!name || names.insert(name.getValue()).second) {
      return true;
    }
    function.emitError() << "two " << kind << "s have the name \"" << name.getValue() << "\"";
    return false;
  }

  bool hasUniqueNames(mlir::func::FuncOp function) {
    bool sound = true;
    llvm::StringSet<> inputs, results;
    for (unsigned index = 0; index < function.getNumArguments(); ++index) {
      sound &= isUnique(function, inputs, op::nameOfArgument(function, index), "input");
    }
    for (unsigned index = 0; index < function.getNumResults(); ++index) {
      sound &= isUnique(function, results, op::nameOfResult(function, index), "result");
    }
    llvm::StringMap<mlir::Type> stored;
    function.walk([&](Operation* operation) {
      if (!llvm::isa<op::ParameterOp, op::StateOp>(operation)) {
        return;
      }
      const llvm::StringRef name = operation->getAttrOfType<mlir::StringAttr>("name").getValue();
      const mlir::Type type = operation->getResult(0).getType();
      const mlir::Type first = stored.try_emplace(name, type).first->second;
      if (first != type) {
        operation->emitError() << "\"" << name << "\" is read as " << type << " and as " << first;
        sound = false;
      }
    });
    return sound;
  }
};

}  // namespace

}  // namespace straightline::passes
