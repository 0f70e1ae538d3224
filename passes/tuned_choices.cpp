// SPDX-License-Identifier: Apache-2.0
#include "passes/tuned_choices.h"

#include "dialect/op/recorded.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/IRMapping.h"
#include "passes/value_builder.h"

namespace straightline {
namespace {

using mlir::Operation;
using mlir::Value;
using passes::channelsLast;

/// Where the estimate of a kernel, in microseconds of one thread, lies between these, it is
/// measured whether the team shares it.
constexpr double kLeastToShareUs = 0.5;
constexpr double kMostToKeepUs = 40.0;

std::string dtypeText(sl_dtype dtype) {
  return (dtype.code == 4   ? "bf"
          : dtype.code == 2 ? "f"
          : dtype.code == 1 ? "u"
                            : "i") +
         std::to_string(dtype.bits);
}

/// "64x320:f32", with "c" behind what is constant.
std::string operandText(const sl_operand& operand) {
  std::string text;
  for (int32_t dim = 0; dim < operand.rank; ++dim) {
    text += (dim == 0 ? "" : "x") + std::to_string(operand.extents[dim]);
  }
  return text + ":" + dtypeText(operand.dtype) + (operand.constant != 0 ? "c" : "");
}

std::string typeText(mlir::Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

bool isStatic(const sl_problem& problem) {
  return llvm::all_of(llvm::ArrayRef(problem.operands, problem.inputs + problem.outputs),
                      [](const sl_operand& operand) {
                        return llvm::all_of(llvm::ArrayRef(operand.extents, operand.rank),
                                            [](int64_t size) { return size != SL_DYNAMIC; });
                      });
}

int64_t rankOf(Value tensor) {
  return llvm::cast<mlir::RankedTensorType>(tensor.getType()).getRank();
}

/// An image, or a signal, of a convolution whose choice depends on its layout: [n, c, h, w].
bool isTunedImage(op::FusionOp fusion, kernel::TargetAttr target, Value tensor) {
  Operation* root = contractionRoot(fusion);
  return factsOf(target).tunesByImageLayout && llvm::isa<op::ConvolutionOp>(root) &&
         !isKnownEarly(tensor) && rankOf(tensor) == rankOf(root->getResult(0));
}

/// Whether the image has the caller's layout, row-major; between convolutions images are channels
/// last (assign_layouts.cpp) and no copy reorders them.
bool isCallersImage(Value image) {
  auto argument = llvm::dyn_cast<mlir::BlockArgument>(image);
  return (argument && llvm::isa<mlir::func::FuncOp>(argument.getOwner()->getParentOp())) ||
         llvm::any_of(image.getUsers(),
                      [](Operation* user) { return llvm::isa<mlir::func::ReturnOp>(user); });
}

/// Adds the distinct variants of the kernel; for the first variant, where the estimate is not
/// clear, both `alone` (thread 0 runs it) and `shared` (the team does).
void addVariants(const sl_kernel_desc& kernel, Problem problem, int64_t threads,
                 std::vector<Candidate>& candidates) {
  const sl_problem first = problem.view();
  const int32_t variants = kernel.variants ? kernel.variants(&first) : 1;
  for (int32_t variant = 0; variant < variants; ++variant) {
    problem.setVariant(variant);
    const sl_problem asked = problem.view();
    Candidate candidate{&kernel,
                        variant,
                        std::nullopt,
                        tuneValues(kernel, problem),
                        kernel.cost(&asked),
                        atEdgeUs(kernel, problem)};
    if (llvm::any_of(candidates, [&](const Candidate& other) {
          return other.kernel == &kernel && other.tune == candidate.tune;
        })) {
      continue;
    }
    candidates.push_back(candidate);
    const double oneThreadUs = candidate.costUs * static_cast<double>(threads);
    if (variant == 0 && kernel.family[0] != '\0' && kernel.whole_team != 0 && threads > 1 &&
        oneThreadUs >= kLeastToShareUs && oneThreadUs <= kMostToKeepUs) {
      candidate.alone = true;
      candidates.push_back(candidate);
      candidate.alone = false;
      candidates.push_back(candidate);
    }
  }
}

}  // namespace

std::string Candidate::text() const {
  std::string text = std::string(kernel->name) + "[";
  for (int32_t i = 0; i < kernel->tunable_count; ++i) {
    text +=
        (i == 0 ? "" : ",") + std::string(kernel->tunables[i].name) + ":" + std::to_string(tune[i]);
  }
  return text + "]" + (!alone ? "" : *alone ? "alone" : "shared");
}

std::vector<Candidate> candidatesOf(op::FusionOp fusion, kernel::TargetAttr target,
                                    const SelectionConstraints& constraints) {
  Problem problem = contractionProblem(fusion, target);
  problem.setVariant(0);
  const KernelChoice first = chooseKernel(problem, constraints);
  std::vector<Candidate> candidates;
  if (!first.kernel) {
    return candidates;
  }
  addVariants(*first.kernel, problem, target.getThreads(), candidates);
  SelectionConstraints alike = constraints;
  alike.target = first.target;  // those behind it are for ops that it does not take
  forEachKernel([&](const sl_kernel_desc& kernel) {
    if (&kernel != first.kernel && mayTake(kernel, problem, alike)) {
      addVariants(kernel, problem, target.getThreads(), candidates);
    }
  });
  return candidates;
}

std::string choiceKey(op::FusionOp fusion, kernel::TargetAttr target) {
  const Problem problem = contractionProblem(fusion, target);
  const sl_problem view = problem.view();
  if (!isStatic(view)) {
    return "";
  }
  Operation* root = contractionRoot(fusion);
  std::string key = root->getName().stripDialect().str() + "(";
  for (int32_t i = 0; i < view.inputs + view.outputs; ++i) {
    key += (i == 0 ? "" : i == view.inputs ? ")->" : ",") + operandText(view.operands[i]);
  }
  if (llvm::isa<op::ConvolutionOp>(root)) {
    for (int32_t i = 0; i < view.attribute_count; ++i) {
      const llvm::StringRef name = view.attributes[i].name;
      if (name.contains('_') || name == "groups" || name == "transposed") {
        key += "," + name.str() + ":" + std::to_string(view.attributes[i].value);
      }
    }
  }
  if (auto linear = llvm::dyn_cast<op::LinearOp>(root)) {
    const StoredOperands stored = storedOperands(fusion, linear);
    key += stored.weightElement != linear.getResult().getType().getElementType()
               ? ",weight:" + typeText(stored.weightElement)
               : "";
    key += stored.bothBfloat ? ",x:bf16" : "";
  }
  if (auto matmul = llvm::dyn_cast<op::MatmulOp>(root)) {
    key += isOfBfloat(fusion, matmul) ? ",bf16" : "";
  }
  for (Operation& op : fusion.getBody().front().without_terminator()) {
    key += &op == root ? "" : "+" + op.getName().stripDialect().str();
  }
  auto isTurned = [&](Value tensor) {
    return isTunedImage(fusion, target, tensor) && isCallersImage(tensor);
  };
  for (auto [i, input] : llvm::enumerate(fusion.getInputs())) {
    key += isTurned(input) ? ",turned" + std::to_string(i) : "";
  }
  key += llvm::any_of(fusion.getResults(), isTurned) ? ",turned" : "";
  for (int32_t i = 0; i < view.attribute_count; ++i) {
    key += llvm::StringRef(view.attributes[i].name) == "tf32" && view.attributes[i].value != 0
               ? ",tf32"
               : "";
  }
  return key + (problem.atEdge() ? ",edge" : "") + "@" + targetNamedBy(target).measuredOn(target);
}

namespace {

/// The types of a fusion's tensors as the module of a measurement has them: as they are stored.
class StoredTypes {
 public:
  explicit StoredTypes(op::FusionOp fusion)
      : fusion_(fusion),
        target_(targetOf(fusion->getParentOfType<mlir::ModuleOp>())),
        matmul_(llvm::dyn_cast<op::MatmulOp>(contractionRoot(fusion))) {
    auto linear = llvm::dyn_cast<op::LinearOp>(contractionRoot(fusion));
    stored_ = linear ? storedOperands(fusion, linear) : StoredOperands();
    isOfPairs_ = matmul_ && isOfBfloat(fusion, matmul_);
  }

  bool isChannelsLast(Value tensor) const {
    return isTunedImage(fusion_, target_, tensor) && !isCallersImage(tensor);
  }

  mlir::RankedTensorType inMemory(Value tensor) const {
    auto type = llvm::cast<mlir::RankedTensorType>(tensor.getType());
    return isChannelsLast(tensor)
               ? type.clone(mlir::applyPermutation(type.getShape(), channelsLast(type.getRank())))
               : type;
  }

  mlir::Type ofInput(Value input) {
    mlir::RankedTensorType type = inMemory(input);
    const mlir::Type bfloat = mlir::BFloat16Type::get(fusion_.getContext());
    if (isOfPairs_ && (input == fusionInput(fusion_, matmul_.getA()) ||
                       input == fusionInput(fusion_, matmul_.getB()))) {
      return type.clone(bfloat);
    }
    return input == stored_.weight                    ? type.clone(stored_.weightElement)
           : input == stored_.x && stored_.bothBfloat ? type.clone(bfloat)
                                                      : type;
  }

 private:
  op::FusionOp fusion_;
  kernel::TargetAttr target_;
  op::MatmulOp matmul_;
  StoredOperands stored_;
  bool isOfPairs_ = false;
};

}  // namespace

std::string moduleOf(op::FusionOp fusion) {
  mlir::MLIRContext* context = fusion.getContext();
  mlir::OpBuilder builder(context);
  const mlir::Location loc = builder.getUnknownLoc();
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(loc);
  StoredTypes types(fusion);
  auto whole = fusion->getParentOfType<mlir::ModuleOp>();
  const kernel::TargetAttr target = targetOf(whole);
  llvm::SmallVector<mlir::Type> arguments;
  for (Value input : fusion.getInputs()) {
    if (!isKnownEarly(input)) {
      arguments.push_back(types.ofInput(input));
    }
  }
  const auto resultTypes = llvm::map_to_vector(
      fusion.getResults(), [&](Value result) -> mlir::Type { return types.inMemory(result); });
  builder.setInsertionPointToEnd(module->getBody());
  auto function = mlir::func::FuncOp::create(builder, loc, "forward",
                                             builder.getFunctionType(arguments, resultTypes));
  builder.setInsertionPointToEnd(function.addEntryBlock());
  mlir::IRMapping mapping;
  unsigned argument = 0;
  for (auto [i, input] : llvm::enumerate(fusion.getInputs())) {
    Value made;
    if (!isKnownEarly(input)) {
      op::setNameOfArgument(function, argument, "x" + std::to_string(argument));
      made = function.getArgument(argument++);
    } else if (Operation* literal = input.getDefiningOp();
               llvm::isa<op::ConstantOp, op::FullOp>(literal)) {
      made = builder.clone(*literal)->getResult(0);
    } else {
      made = op::ParameterOp::create(builder, loc, types.ofInput(input), "p" + std::to_string(i));
    }
    if (types.isChannelsLast(input)) {
      made = op::PermuteOp::create(builder, loc, input.getType(), made,
                                   mlir::invertPermutationVector(channelsLast(rankOf(input))));
    }
    if (made.getType() != input.getType()) {
      made = op::ToDtypeOp::create(builder, loc, input.getType(), made);
    }
    mapping.map(fusion.getBody().front().getArgument(i), made);
  }
  for (Operation& op : fusion.getBody().front().without_terminator()) {
    builder.clone(op, mapping);
  }
  llvm::SmallVector<Value> results;
  for (auto [i, value] : llvm::enumerate(fusion.getBody().front().getTerminator()->getOperands())) {
    op::setNameOfResult(function, i, "y" + std::to_string(i));
    Value result = mapping.lookupOrDefault(value);
    if (types.isChannelsLast(fusion.getResult(i))) {
      result =
          op::PermuteOp::create(builder, loc, resultTypes[i], result, channelsLast(rankOf(result)));
    }
    results.push_back(result);
  }
  mlir::func::ReturnOp::create(builder, loc, results);
  // The kernels compete for the caches with the other layers of the whole model.
  if (const std::optional<int64_t> bytes = op::residentBytesOf(whole)) {
    op::setResidentBytes(*module, *bytes);
  }
  if (targetNamedBy(target).launchesGraphs() && !contractionProblem(fusion, target).atEdge()) {
    // a module of this contraction alone would have the caller's tensors as its operands
    op::setOptions(*module, op::optionsOf(*module).withLaunch("stream"));
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream);
  return text;
}

std::string chosenText(mlir::ModuleOp module, llvm::StringRef key) {
  const mlir::DictionaryAttr choices = op::optionsOf(module).getChoices();
  auto text = choices && !key.empty() ? choices.getAs<mlir::StringAttr>(key) : mlir::StringAttr();
  return text ? text.str() : "";
}

void setChoices(mlir::ModuleOp module,
                llvm::ArrayRef<std::pair<std::string, std::string>> choices) {
  mlir::Builder builder(module.getContext());
  llvm::SmallVector<mlir::NamedAttribute> entries;
  for (const auto& [key, text] : choices) {
    entries.push_back(builder.getNamedAttr(key, builder.getStringAttr(text)));
  }
  if (!entries.empty()) {
    op::setOptions(module, op::optionsOf(module).withChoices(builder.getDictionaryAttr(entries)));
  }
}

}  // namespace straightline
