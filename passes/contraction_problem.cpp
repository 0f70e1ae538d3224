// SPDX-License-Identifier: Apache-2.0
#include "passes/contraction_problem.h"

#include <algorithm>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace straightline {

using mlir::Operation;
using mlir::Value;

Operation* contractionRoot(op::FusionOp fusion) {
  for (Operation& op : fusion.getBody().front().without_terminator()) {
    if (op.hasTrait<op::Contraction>()) {
      return &op;
    }
  }
  return nullptr;
}

const sl_kernel_desc* chosenKernel(op::FusionOp fusion) {
  const op::KernelChoiceAttr choice = op::kernelChoiceOf(fusion);
  return choice ? findKernel(choice.getKernel().getValue()) : nullptr;
}

unsigned fusionInputIndex(op::FusionOp, Value argument) {
  return llvm::cast<mlir::BlockArgument>(argument).getArgNumber();
}

Value fusionInput(op::FusionOp fusion, Value argument) {
  return fusion.getInputs()[fusionInputIndex(fusion, argument)];
}

namespace {

/// Whether extents of a tensor are only known per call.
bool hasNamedExtents(Value tensor) {
  auto type = llvm::dyn_cast<mlir::RankedTensorType>(tensor.getType());
  auto dims = type ? llvm::dyn_cast_if_present<op::DimsAttr>(type.getEncoding()) : op::DimsAttr();
  return dims && !dims.getNames().empty();
}

}  // namespace

bool isKnownEarly(Value tensor) {
  Operation* op = tensor.getDefiningOp();
  if (!op) {
    return false;
  }
  if (llvm::isa<op::ParameterOp>(op)) {
    auto function = op->getParentOfType<mlir::func::FuncOp>();
    return !function || !op::hasLiveParameters(function);
  }
  return op::isPrepared(op) || llvm::isa<op::ConstantOp>(op) ||
         (op->hasTrait<op::View>() && !hasNamedExtents(tensor) && isKnownEarly(op->getOperand(0)));
}

namespace {

/// Whether a value is an argument of the function (not of a loop or a fusion) that no result
/// overwrites.
bool isReadOnlyArgument(Value value) {
  auto argument = llvm::dyn_cast<mlir::BlockArgument>(value);
  auto function =
      argument ? llvm::dyn_cast<mlir::func::FuncOp>(argument.getOwner()->getParentOp()) : nullptr;
  if (!function) {
    return false;
  }
  const mlir::StringAttr name = op::nameOfArgument(function, argument.getArgNumber());
  for (unsigned result = 0; result < function.getNumResults(); ++result) {
    const std::optional<op::Tie> tie = op::tieOf(function, result);
    if (tie && !tie->isState && (!name || tie->name == name.getValue())) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool isFixedInRun(Value tensor) {
  Operation* op = tensor.getDefiningOp();
  while (op && op->hasTrait<op::View>() && !isKnownEarly(op->getResult(0))) {
    tensor = op->getOperand(0);
    op = tensor.getDefiningOp();
  }
  return op ? isKnownEarly(tensor) || llvm::isa<op::ParameterOp>(op) : isReadOnlyArgument(tensor);
}

namespace {

/// The values that receive an operand of a terminator: results of the loop or branch that it ends,
/// and arguments of the loop's next iteration.
llvm::SmallVector<Value> takersOf(mlir::OpOperand& handed) {
  Operation* parent = handed.getOwner()->getParentOp();
  const unsigned number = handed.getOperandNumber();
  return llvm::TypeSwitch<Operation*, llvm::SmallVector<Value>>(parent)
      .Case<op::IfOp>(
          [&](op::IfOp op) -> llvm::SmallVector<Value> { return {op->getResult(number)}; })
      .Case<op::ForOp>([&](op::ForOp loop) -> llvm::SmallVector<Value> {
        // behind the counter
        return {loop.getResult(number), loop.getBody().getArgument(number + 1)};
      })
      .Case<op::WhileOp>([&](op::WhileOp loop) -> llvm::SmallVector<Value> {
        if (handed.getOwner()->getParentRegion() == &loop.getCondition()) {
          return {};  // whether it goes on
        }
        return {loop.getResult(number), loop.getBody().getArgument(number)};
      })
      .Default([](Operation*) -> llvm::SmallVector<Value> { return {}; });
}

/// Whether `tensor`, a view of it, or what a loop or a branch makes of it by handing it on, is a
/// result of the function.
bool isResult(Value tensor) {
  llvm::SmallVector<Value> open = {tensor};
  llvm::SmallPtrSet<Value, 4> seen;
  while (!open.empty()) {
    const Value value = open.pop_back_val();
    if (!seen.insert(value).second) {
      continue;
    }
    for (mlir::OpOperand& use : value.getUses()) {
      Operation* user = use.getOwner();
      if (llvm::isa<mlir::func::ReturnOp>(user)) {
        return true;
      }
      if (user->hasTrait<mlir::OpTrait::IsTerminator>()) {
        open.append(takersOf(use));
      } else if (user->hasTrait<op::View>()) {
        open.push_back(user->getResult(0));
      }
    }
  }
  return false;
}

}  // namespace

bool isAtGraphEdge(Value tensor) {
  Operation* parent = tensor.getParentRegion()->getParentOp();
  auto module = parent->getParentOfType<mlir::ModuleOp>();
  if (!module || !targetNamedBy(module).launchesGraphs() || op::optionsOf(module).getLaunch()) {
    return false;
  }
  Value whole = tensor;
  while (whole.getDefiningOp() && whole.getDefiningOp()->hasTrait<op::View>()) {
    whole = whole.getDefiningOp()->getOperand(0);
  }
  auto argument = llvm::dyn_cast<mlir::BlockArgument>(whole);
  return (argument && llvm::isa<mlir::func::FuncOp>(argument.getOwner()->getParentOp())) ||
         isResult(tensor);
}

namespace {

llvm::SmallVector<int64_t> sizesOf(Value tensor) {
  auto type = llvm::cast<mlir::RankedTensorType>(tensor.getType());
  return llvm::map_to_vector(type.getShape(), [](int64_t size) -> int64_t {
    return mlir::ShapedType::isDynamic(size) ? SL_DYNAMIC : size;
  });
}

llvm::SmallVector<int64_t> rowMajor(llvm::ArrayRef<int64_t> sizes) {
  llvm::SmallVector<int64_t> strides(sizes.size(), 1);
  for (int64_t dim = static_cast<int64_t>(sizes.size()) - 2; dim >= 0; --dim) {
    strides[dim] = strides[dim + 1] == SL_DYNAMIC || sizes[dim + 1] == SL_DYNAMIC
                       ? SL_DYNAMIC
                       : strides[dim + 1] * sizes[dim + 1];
  }
  return strides;
}

mlir::Type elementOf(Value tensor) {
  return llvm::cast<mlir::RankedTensorType>(tensor.getType()).getElementType();
}

void addTensor(Problem& problem, Value tensor, bool isConstant) {
  const llvm::SmallVector<int64_t> sizes = sizesOf(tensor);
  problem.addOperand(elementOf(tensor), sizes, rowMajor(sizes), isConstant);
}

/// An image or a weight of a convolution in 2-D terms; images are channels last, as assign_layouts
/// will make them.
void addConvolutionTensor(Problem& problem, mlir::Type element, llvm::SmallVector<int64_t> sizes,
                          bool isImage, bool isConstant) {
  if (sizes.size() == 3) {
    sizes.insert(sizes.begin() + 2, 1);
  }
  llvm::SmallVector<int64_t> strides = rowMajor(sizes);
  if (isImage && sizes.size() == 4) {
    const llvm::SmallVector<int64_t> last = rowMajor({sizes[0], sizes[2], sizes[3], sizes[1]});
    strides = {last[0], last[3], last[1], last[2]};
  }
  problem.addOperand(element, sizes, strides, isConstant);
}

int64_t productOf(llvm::ArrayRef<int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes) {
    product = product == SL_DYNAMIC || size == SL_DYNAMIC ? SL_DYNAMIC : product * size;
  }
  return product;
}

/// Attribute resident: bytes of weights that a call reads, where the module says so.
void addResident(Problem& problem, op::FusionOp fusion) {
  auto module = fusion->getParentOfType<mlir::ModuleOp>();
  const std::optional<int64_t> bytes =
      module ? op::residentBytesOf(module) : std::optional<int64_t>();
  if (bytes && !targetNamedBy(module).hasQueue()) {
    problem.addAttribute("resident", *bytes);
  }
}

}  // namespace

void addTf32(Problem& problem, mlir::ModuleOp module, llvm::StringRef kind) {
  const mlir::StringAttr kinds = module ? op::optionsOf(module).getTf32() : mlir::StringAttr();
  if (kinds && kinds.getValue().contains(kind)) {
    problem.addAttribute("tf32", 1);
  }
}

void recordResidentBytes(mlir::ModuleOp module) {
  if (op::residentBytesOf(module)) {
    return;
  }
  llvm::SmallPtrSet<void*, 32> seen;
  int64_t bytes = 0;
  module.walk([&](op::FusionOp fusion) {
    Operation* root = contractionRoot(fusion);
    if (!root || op::isPrepared(fusion)) {
      return;
    }
    for (Value input : fusion.getInputs()) {
      auto type = llvm::cast<mlir::RankedTensorType>(input.getType());
      if (isKnownEarly(input) && type.hasStaticShape() &&
          seen.insert(input.getAsOpaquePointer()).second) {
        const Value stored = storedWeight(input);
        bytes +=
            type.getNumElements() * elementOf(stored ? stored : input).getIntOrFloatBitWidth() / 8;
      }
    }
  });
  op::setResidentBytes(module, bytes);
}

ConvolutionGeometry convolutionGeometry(op::ConvolutionOp convolution) {
  const llvm::SmallVector<int64_t> x = sizesOf(convolution.getX());
  const llvm::SmallVector<int64_t> y = sizesOf(convolution.getResult());
  const llvm::SmallVector<int64_t> weight = sizesOf(convolution.getWeight());
  const bool oneD = x.size() == 3;
  auto along = [&](llvm::ArrayRef<int64_t> values, int64_t plain) {
    return oneD ? std::pair<int64_t, int64_t>(plain, values[0])
                : std::pair<int64_t, int64_t>(values[0], values[1]);
  };
  ConvolutionGeometry g{};
  g.n = x[0];
  g.c = x[1];
  std::tie(g.h, g.w) = along(llvm::ArrayRef<int64_t>(x).drop_front(2), 1);
  g.k = y[1];
  std::tie(g.ho, g.wo) = along(llvm::ArrayRef<int64_t>(y).drop_front(2), 1);
  std::tie(g.kh, g.kw) = along(llvm::ArrayRef<int64_t>(weight).drop_front(2), 1);
  std::tie(g.strideH, g.strideW) = along(convolution.getStride(), 1);
  std::tie(g.padH, g.padW) = along(convolution.getPadding(), 0);
  std::tie(g.dilationH, g.dilationW) = along(convolution.getDilation(), 1);
  g.groups = convolution.getGroups();
  g.transposed = convolution.getTransposed();
  return g;
}

Value storedWeight(Value weight) {
  Operation* made = weight.getDefiningOp();
  Value source;
  if (auto widened = llvm::dyn_cast_if_present<op::ToDtypeOp>(made)) {
    source = widened.getX();
  } else if (auto fusion = llvm::dyn_cast_if_present<op::FusionOp>(made);
             fusion && fusion->getNumOperands() == 1) {
    auto body = fusion.getBody().front().without_terminator();
    if (llvm::hasSingleElement(body) && llvm::isa<op::ToDtypeOp>(*body.begin())) {
      source = fusion->getOperand(0);
    }
  }
  if (!source || !elementOf(weight).isF32() || !isKnownEarly(source)) {
    return {};
  }
  const mlir::Type stored = elementOf(source);
  auto module = source.getDefiningOp()->getParentOfType<mlir::ModuleOp>();
  const bool takesBytes = !module || factsOf(module).multipliesBytes;
  return stored.isBF16() || stored.isF16() || (takesBytes && stored.isSignlessInteger(8)) ? source
                                                                                          : Value();
}

Bfloat bfloatBehind(Value x) {
  auto widens = [](Operation* op) {
    auto convert = llvm::dyn_cast_if_present<op::ToDtypeOp>(op);
    const bool right =
        convert && elementOf(convert.getResult()).isF32() && elementOf(convert.getX()).isBF16();
    return right ? convert : op::ToDtypeOp();
  };
  if (op::ToDtypeOp convert = widens(x.getDefiningOp())) {
    return {convert.getX(), {}, 0};
  }
  auto fusion = x.getDefiningOp<op::FusionOp>();
  if (!fusion) {
    return {};
  }
  const unsigned result = llvm::cast<mlir::OpResult>(x).getResultNumber();
  op::ToDtypeOp convert =
      widens(fusion.getBody().front().getTerminator()->getOperand(result).getDefiningOp());
  if (!convert) {
    return {};
  }
  if (auto argument = llvm::dyn_cast<mlir::BlockArgument>(convert.getX())) {
    return {fusionInput(fusion, argument), {}, 0};
  }
  return {{}, fusion, result};
}

bool isReadAsBfloat(op::LinearOp linear) {
  return elementOf(linear.getX()).isBF16() && elementOf(linear.getResult()).isF32();
}

bool isOfBfloat(op::FusionOp fusion, op::MatmulOp matmul) {
  return llvm::all_of(matmul->getOperands(), [&](Value operand) {
    if (elementOf(operand).isBF16()) {
      return true;
    }
    const bool isReadHereAlone =
        llvm::all_of(operand.getUsers(), [&](Operation* user) { return user == matmul; });
    const Value source = bfloatBehind(fusionInput(fusion, operand)).source;
    // A value that prepare computes before the widening does not exist during a run.
    Operation* maker = source ? source.getDefiningOp() : nullptr;
    return isReadHereAlone && source && !(maker && op::isPrepared(maker));
  });
}

StoredOperands storedOperands(op::FusionOp fusion, op::LinearOp linear) {
  StoredOperands operands{
      fusionInput(fusion, linear.getX()), fusionInput(fusion, linear.getWeight()), {}, false};
  const Value stored = storedWeight(operands.weight);
  operands.weightElement = elementOf(stored ? stored : operands.weight);
  operands.bothBfloat =
      isReadAsBfloat(linear) || (stored && operands.weightElement.isBF16() &&
                                 linear.getWeight().hasOneUse() && bfloatBehind(operands.x));
  return operands;
}

/// Adds the sizes and steps of a convolution.
static void addGeometry(Problem& problem, const ConvolutionGeometry& g) {
  const std::pair<const char*, int64_t> values[] = {{"n", g.n},
                                                    {"c", g.c},
                                                    {"h", g.h},
                                                    {"w", g.w},
                                                    {"k", g.k},
                                                    {"ho", g.ho},
                                                    {"wo", g.wo},
                                                    {"kh", g.kh},
                                                    {"kw", g.kw},
                                                    {"stride_h", g.strideH},
                                                    {"stride_w", g.strideW},
                                                    {"pad_h", g.padH},
                                                    {"pad_w", g.padW},
                                                    {"dilation_h", g.dilationH},
                                                    {"dilation_w", g.dilationW},
                                                    {"groups", g.groups},
                                                    {"transposed", g.transposed ? 1 : 0}};
  for (auto [name, value] : values) {
    problem.addAttribute(name, value);
  }
}

namespace {

/// What a pass takes, by the bytes that it moves, which computes what is fused behind a product;
/// 0 where a library may add all of it itself: a bias, a residual, ReLU or GELU by tanh, and one
/// result of the product's type.
double passBehindUs(op::FusionOp fusion, Operation* root) {
  constexpr double kBeginUs = 1.0, kCachedBytes = 40e6, kCachedBytesPerUs = 5.5e6,
                   kBytesPerUs = 3.9e6;
  const auto mayBeAdded = [&](Operation& op) {
    auto gelu = llvm::dyn_cast<op::GeluOp>(op);
    return &op == root || llvm::isa<op::ToDtypeOp, op::AddOp, op::ReluOp>(op) ||
           (gelu && gelu.getApproximate() == "tanh");
  };
  auto type = llvm::cast<mlir::RankedTensorType>(root->getResult(0).getType());
  const bool isOfProductsType =
      fusion.getNumResults() == 1 && elementOf(fusion.getResult(0)) == type.getElementType();
  if (!type.hasStaticShape() ||
      (isOfProductsType &&
       llvm::all_of(fusion.getBody().front().without_terminator(), mayBeAdded))) {
    return 0;
  }
  const auto bytesOf = [](Value tensor) {
    auto type = llvm::cast<mlir::RankedTensorType>(tensor.getType());
    return type.hasStaticShape()
               ? static_cast<double>(type.getNumElements() * type.getElementTypeBitWidth() / 8)
               : 0;
  };
  double bytes = bytesOf(root->getResult(0));
  for (Value result : fusion.getResults()) {
    bytes += bytesOf(result);
  }
  for (auto [input, argument] :
       llvm::zip(fusion.getInputs(), fusion.getBody().front().getArguments())) {
    const bool isOfProduct = llvm::is_contained(argument.getUsers(), root);
    bytes += isOfProduct ? 0 : bytesOf(input);
  }
  return kBeginUs + bytes / (bytes < kCachedBytes ? kCachedBytesPerUs : kBytesPerUs);
}

}  // namespace

/// The problem of a convolution with these sizes, without a variant. The caller's image never
/// reaches a library, so it is at no graph's edge: one of our kernels reorders it first or last.
static Problem convolutionProblem(op::FusionOp fusion, kernel::TargetAttr target,
                                  const ConvolutionGeometry& g) {
  auto convolution = llvm::cast<op::ConvolutionOp>(contractionRoot(fusion));
  Problem problem("convolution", target);
  for (auto [i, operand] : llvm::enumerate(convolution->getOperands())) {
    const bool isKnown = isKnownEarly(fusionInput(fusion, operand));
    if (i == 0) {
      addConvolutionTensor(problem, elementOf(operand), {g.n, g.c, g.h, g.w}, true, isKnown);
    } else if (i == 1) {
      addConvolutionTensor(problem, elementOf(operand), sizesOf(operand), false, isKnown);
    } else {
      addTensor(problem, operand, isKnown);
    }
  }
  problem.setInputs(static_cast<int32_t>(convolution->getNumOperands()));
  addConvolutionTensor(problem, elementOf(convolution.getResult()), {g.n, g.k, g.ho, g.wo}, true,
                       false);
  addTf32(problem, fusion->getParentOfType<mlir::ModuleOp>(), "convolution");
  addResident(problem, fusion);
  addGeometry(problem, g);
  return problem;
}

Problem contractionProblem(op::FusionOp fusion, kernel::TargetAttr target) {
  Operation* root = contractionRoot(fusion);
  const op::KernelChoiceAttr choice = op::kernelChoiceOf(fusion);
  const auto variant = static_cast<int32_t>(choice ? choice.getVariant() : 0);
  if (auto convolution = llvm::dyn_cast<op::ConvolutionOp>(root)) {
    Problem problem = convolutionProblem(fusion, target, convolutionGeometry(convolution));
    problem.setVariant(variant);
    return problem;
  }
  auto known = [&](Value argument) { return isKnownEarly(fusionInput(fusion, argument)); };
  auto linear = llvm::dyn_cast<op::LinearOp>(root);
  // Where nothing is packed, it does not matter when the weight is known.
  const bool isConstant = linear && (known(linear.getWeight()) || !factsOf(target).packsWeights);
  // The kernel for 8-bit integers packs a weight in each call if it is not known early.
  const bool isLinear = isConstant || (linear && elementOf(linear.getX()).isInteger(8));
  // On a CPU a linear whose weight is computed while running is a matmul with a transposed operand.
  Problem problem(isLinear ? "linear" : "matmul", target);
  for (auto [i, operand] : llvm::enumerate(root->getOperands())) {
    if (isLinear && (i == 1 || (i == 0 && isReadAsBfloat(linear)))) {
      const llvm::SmallVector<int64_t> sizes = sizesOf(operand);
      problem.addOperand(elementOf(isReadAsBfloat(linear) ? linear.getResult() : linear.getX()),
                         sizes, rowMajor(sizes), i == 1 && isConstant);
    } else if (i < 2 && elementOf(operand).isBF16() && elementOf(root->getResult(0)).isF32()) {
      const llvm::SmallVector<int64_t> sizes = sizesOf(operand);
      problem.addOperand(elementOf(root->getResult(0)), sizes, rowMajor(sizes), known(operand));
    } else if (linear && !isLinear && i == 1) {
      llvm::SmallVector<int64_t> sizes = sizesOf(operand);
      std::swap(sizes[0], sizes[1]);  // [n, k] of a linear, [k, n] of a product
      problem.addOperand(elementOf(operand), sizes, rowMajor(sizes), false);
    } else {
      addTensor(problem, operand, known(operand));
    }
  }
  problem.setInputs(static_cast<int32_t>(root->getNumOperands()));
  problem.setVariant(variant);
  addTensor(problem, root->getResult(0), false);
  problem.setAtEdge(
      llvm::any_of(root->getOperands(),
                   [&](Value argument) { return isAtGraphEdge(fusionInput(fusion, argument)); }) ||
      llvm::any_of(fusion.getResults(), isAtGraphEdge));
  addTf32(problem, fusion->getParentOfType<mlir::ModuleOp>(), "matmul");
  addResident(problem, fusion);
  if (targetNamedBy(target).hasQueue()) {
    const double us = passBehindUs(fusion, root);
    problem.setPassBehindUs(us);
    problem.addAttribute("computes_behind", us > 0 ? 1 : 0);
  }
  const llvm::SmallVector<int64_t> result = sizesOf(root->getResult(0));
  const llvm::SmallVector<int64_t> x = sizesOf(root->getOperand(0));
  llvm::ArrayRef<int64_t> leading = llvm::ArrayRef<int64_t>(result).drop_back();
  if (isLinear) {
    const StoredOperands stored = storedOperands(fusion, linear);
    problem.addAttribute("stored_bits", stored.weightElement.getIntOrFloatBitWidth());
    problem.addAttribute("bfloat16", stored.bothBfloat ? 1 : 0);
    problem.addAttribute("m", productOf(leading));
  } else {
    problem.addAttribute("batch", leading.empty() ? 1 : productOf(leading.drop_back()));
    problem.addAttribute("m", leading.empty() ? 1 : leading.back());
    auto matmul = llvm::dyn_cast<op::MatmulOp>(root);
    problem.addAttribute("bfloat16", matmul && isOfBfloat(fusion, matmul) ? 1 : 0);
  }
  problem.addAttribute("n", result.back());
  problem.addAttribute("k", x.back());
  return problem;
}

bool hasOpenImages(op::FusionOp fusion) {
  auto convolution = llvm::dyn_cast<op::ConvolutionOp>(contractionRoot(fusion));
  return convolution && !convolution.getTransposed() &&
         llvm::is_contained(sizesOf(convolution.getResult()), SL_DYNAMIC);
}

Problem contractionProblemAt(op::FusionOp fusion, kernel::TargetAttr target,
                             const ImageSizes& sizes) {
  auto convolution = llvm::cast<op::ConvolutionOp>(contractionRoot(fusion));
  ConvolutionGeometry g = convolutionGeometry(convolution);
  const auto set = [](int64_t& size, int64_t value) { size = size == SL_DYNAMIC ? value : size; };
  const auto setBefore = [&](int64_t& size, int64_t out, int64_t kernel, int64_t stride,
                             int64_t pad, int64_t dilation) {
    set(size, std::max<int64_t>((out - 1) * stride + (kernel - 1) * dilation + 1 - 2 * pad, 1));
  };
  set(g.n, sizes.images);
  set(g.ho, sizes.height);
  set(g.wo, sizes.width);
  setBefore(g.h, g.ho, g.kh, g.strideH, g.padH, g.dilationH);
  setBefore(g.w, g.wo, g.kw, g.strideW, g.padW, g.dilationW);
  return convolutionProblem(fusion, target, g);
}

}  // namespace straightline
