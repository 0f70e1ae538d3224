// SPDX-License-Identifier: Apache-2.0
// Contractions that a library computes: its operands, its plan in prepare and its call.
#include "llvm/ADT/STLExtras.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/lowering/contraction.h"

namespace straightline::lowering {

using mlir::AffineExpr;
using mlir::LogicalResult;
using mlir::Operation;
using mlir::success;
using mlir::Value;

LogicalResult ContractionLowering::lowerProductOnQueue() {
  auto linear = llvm::dyn_cast<op::LinearOp>(root_);
  const mlir::Location loc = fusion_.getLoc();
  const std::optional<llvm::StringRef> activation = libraryActivation();
  const Value residual = activation ? Value() : denseResidual();
  const bool whole = activation || residual;
  Value wanted = whole ? lowering_.destination(fusion_.getResult(0)) : Value();
  const bool direct = whole && lowering_.stridesOf(typeOf(wanted)) == lowering_.rowMajor(extents_);
  Value out = direct ? wanted : lowering_.slot(lowering_.contiguousType(extents_, element()));
  Value a = lowering_.bufferOf(outer(0u));
  Value b = lowering_.bufferOf(outer(1u));
  llvm::SmallVector<mlir::NamedAttribute> attributes;
  auto put = [&](llvm::StringRef key, AffineExpr value) {
    attributes.push_back(lowering_.named(key, lowering_.number(value)));
  };
  const Exprs weight = lowering_.extentsOf(typeOf(b));
  if (linear) {
    auto [rows, stride] = collapseRows(a, kDense);
    a = rows;
    b = withUnitStride(b);
    const Exprs strides = lowering_.stridesOf(typeOf(b));
    Exprs leading(extents_.begin(), extents_.end() - 1);
    put("m", lowering_.product(leading));
    put("k", weight[1]);
    put("aRow", stride);
    put("bRow", strides[1]);
    put("bCol", strides[0]);
  } else {
    put("m", extents_.size() > 1 ? extents_[extents_.size() - 2] : constant(1));
    put("k", weight[weight.size() - 2]);
    a = putBatched("a", withUnitStride(a), attributes);
    b = putBatched("b", withUnitStride(b), attributes);
    putBatched("c", out, attributes);
  }
  put("n", extents_.back());
  tellActivation(activation.value_or(""), attributes);
  const sl_problem asked = problem_.view();
  for (int32_t i = 0; i < asked.attribute_count; ++i) {
    if (llvm::StringRef(asked.attributes[i].name) == "tf32") {
      put("tf32", constant(asked.attributes[i].value));
    }
  }
  llvm::SmallVector<Value> inputs = {a, b};
  if (epilogueBias()) {
    inputs.push_back(lowering_.contiguous(loc, lowering_.bufferOf(outer(epilogueBias())), kDense));
  } else if (residual && needsBiasFor(*kernel_, "residual")) {
    inputs.push_back(zeroBias(extents_.back()));
  }
  if (residual) {
    inputs.push_back(residual);
  }
  callLibrary(inputs, {}, out, attributes);
  if (!whole) {
    launchRest(out);
  } else if (!direct) {
    lowering_.copy(loc, out, wanted, "copy",
                   "the result is wanted in another layout than the library writes");
  }
  return success();
}

std::optional<llvm::StringRef> ContractionLowering::libraryActivation() {
  if (fusion_.getNumResults() != 1) {
    return std::nullopt;
  }
  const Value result = root_->getResult(0);
  if (yielded()[0] == result) {
    return "";
  }
  auto converted = [](Value value) {  // looks through the widening of 16-bit floats
    auto cast = llvm::dyn_cast_if_present<op::ToDtypeOp>(value.getDefiningOp());
    return cast && value.hasOneUse() ? cast.getX() : value;
  };
  Operation* last = elementOf(fusion_.getResult(0)) == element()
                        ? converted(yielded()[0]).getDefiningOp()
                        : nullptr;
  if (!last || last->getNumOperands() != 1 || !result.hasOneUse() ||
      converted(last->getOperand(0)) != result) {
    return std::nullopt;
  }
  auto gelu = llvm::dyn_cast<op::GeluOp>(last);
  const llvm::StringRef name = llvm::isa<op::ReluOp>(last)               ? "relu"
                               : gelu && gelu.getApproximate() == "tanh" ? "gelu_tanh"
                                                                         : "";
  return !name.empty() && takesEpilogue(*kernel_, name, element())
             ? std::optional<llvm::StringRef>(name)
             : std::nullopt;
}

Value ContractionLowering::denseResidual() {
  if (!llvm::isa<op::LinearOp>(root_)) {
    return {};
  }
  const AddAndRelu epilogue = addAndRelu();
  if (!epilogue.isAll || !epilogue.residual || epilogue.hasRelu) {
    return {};
  }
  const Exprs rowMajor = lowering_.rowMajor(extents_);
  const Value residual = lowering_.bufferOf(outer(epilogue.residual));
  const bool isDense =
      lowering_.stridesOf(typeOf(residual)) == rowMajor &&
      lowering_.stridesOf(typeOf(lowering_.destination(fusion_.getResult(0)))) == rowMajor;
  return isDense ? residual : Value();
}

ContractionLowering::AddAndRelu ContractionLowering::addAndRelu() {
  const AddAndRelu other;
  const Value result = root_->getResult(0);
  const auto isPassing = [&](mlir::Type type) { return type == element() || type.isF32(); };
  // 16-bit floats are widened, and rounded between ops, where the library computes in float32 and
  // rounds at the end.
  const auto before = [&](Value value) {
    auto cast = llvm::dyn_cast_if_present<op::ToDtypeOp>(value.getDefiningOp());
    while (cast && isPassing(elementOf(cast.getX())) && isPassing(elementOf(value)) &&
           (value.hasOneUse() || llvm::isa<mlir::BlockArgument>(cast.getX()))) {
      value = cast.getX();
      cast = llvm::dyn_cast_if_present<op::ToDtypeOp>(value.getDefiningOp());
    }
    return value;
  };
  if (fusion_.getNumResults() != 1 || elementOf(fusion_.getResult(0)) != element()) {
    return other;
  }
  AddAndRelu found;
  found.isAll = true;
  Value value = before(yielded()[0]);
  if (auto relu = value.getDefiningOp<op::ReluOp>();
      relu && value.hasOneUse() && takesEpilogue(*kernel_, "relu", element())) {
    found.hasRelu = true;
    value = before(relu.getX());
  }
  if (auto add = value.getDefiningOp<op::AddOp>();
      add && value.hasOneUse() && takesEpilogue(*kernel_, "residual", element())) {
    const bool isFirst = before(add->getOperand(0)) == result;
    Value added = before(add->getOperand(isFirst ? 1 : 0));
    value = before(add->getOperand(isFirst ? 0 : 1));
    auto argument = llvm::dyn_cast<mlir::BlockArgument>(added);
    if (!argument || argument.getType() != result.getType()) {
      return other;
    }
    found.residual = argument;
  }
  return value == result && result.hasOneUse() ? found : other;
}

void ContractionLowering::tellActivation(llvm::StringRef name,
                                         llvm::SmallVectorImpl<mlir::NamedAttribute>& attributes) {
  if (!name.empty()) {
    attributes.push_back(
        lowering_.named("activation", mlir::StringAttr::get(lowering_.context(), name)));
  }
}

Value ContractionLowering::denseChannelsLast(Value buffer, llvm::StringRef why) {
  const kernel::BufferType type = typeOf(buffer);
  if (isDenseChannelsLast(type)) {
    return buffer;
  }
  const Exprs extents = lowering_.extentsOf(type);
  Value copied =
      lowering_.slot(lowering_.type(extents, type.getElementType(), channelsInnermost(extents)));
  lowering_.copy(fusion_.getLoc(), buffer, copied, "reorder", why);
  return copied;
}

bool ContractionLowering::isDenseChannelsLast(kernel::BufferType type) {
  const Exprs extents = lowering_.extentsOf(type);
  const Exprs strides = lowering_.stridesOf(type);
  const Exprs dense = channelsInnermost(extents);
  return llvm::all_of(llvm::seq<size_t>(0, extents.size()), [&](size_t dim) {
    return strides[dim] == dense[dim] || extents[dim] == constant(1);
  });
}

Value ContractionLowering::zeroBias(AffineExpr count) {
  const kernel::BufferType type = lowering_.contiguousType({count}, element());
  const auto fill = [&](Value to) {
    KernelSpec spec;
    spec.name = "fill";
    spec.op = "fill";
    spec.why = "a residual or a ReLU by the library comes with a bias";
    spec.outputs = {to};
    mlir::Type scalar = scalarType(element());
    spec.bodies.push_back({"body", {}, [=](mlir::OpBuilder& builder, mlir::ValueRange) {
                             return llvm::SmallVector<Value>{mlir::arith::ConstantOp::create(
                                 builder, builder.getUnknownLoc(), builder.getZeroAttr(scalar))};
                           }});
    lowering_.launchPointwise(fusion_.getLoc(), spec, {count}, {{constant(1)}});
  };
  if (lowering_.inPrepare()) {
    Value zeros = lowering_.slot(type);
    fill(zeros);
    return zeros;
  }
  std::string key = "zero bias,";
  llvm::raw_string_ostream(key) << count << "," << element();
  Value& prepared = lowering_.shared(key);
  if (!prepared) {
    prepared = lowering_.preparedBuffer(fusion_.getLoc(), type, "no_bias.");
    lowering_.atEndOfPrepare([&] { fill(prepared); });
  }
  return prepared;
}

LogicalResult ContractionLowering::lowerConvolutionOnQueue() {
  auto convolution = llvm::cast<op::ConvolutionOp>(root_);
  constexpr llvm::StringLiteral kWhy = "the library reads dense pixels, channels last";
  const ConvolutionGeometry g = convolutionGeometry(convolution);
  const mlir::Location loc = fusion_.getLoc();
  const AddAndRelu epilogue = addAndRelu();
  Value wanted = epilogue.isAll ? lowering_.destination(fusion_.getResult(0)) : Value();
  const bool direct = wanted && isDenseChannelsLast(typeOf(wanted));
  Value out =
      direct ? wanted
             : lowering_.slot(lowering_.type(extents_, element(), channelsInnermost(extents_)));
  Value image = lowering_.bufferOf(outer(convolution.getX()));
  image =
      wholePieces(g) == g.c ? denseChannelsLast(image, kWhy) : paddedImage(image, wholePieces(g));
  llvm::SmallVector<Value> inputs = {image, channelsLastWeight(outer(convolution.getWeight()), g)};
  if (epilogueBias()) {
    inputs.push_back(lowering_.contiguous(loc, lowering_.bufferOf(outer(epilogueBias())), kDense));
  } else if ((epilogue.residual && needsBiasFor(*kernel_, "residual")) ||
             (epilogue.hasRelu && needsBiasFor(*kernel_, "relu"))) {
    inputs.push_back(zeroBias(extents_[1]));
  }
  if (epilogue.residual) {
    const Value residual = outer(epilogue.residual);
    const bool isImage = residual == outer(convolution.getX()) && wholePieces(g) == g.c;
    inputs.push_back(isImage ? image : denseChannelsLast(lowering_.bufferOf(residual), kWhy));
  }
  llvm::SmallVector<mlir::NamedAttribute> attributes;
  const sl_problem asked = problem_.view();
  for (int32_t i = 0; i < problem_.ownAttributes(); ++i) {  // without the target's attributes
    const llvm::StringRef name = asked.attributes[i].name;
    attributes.push_back(lowering_.named(
        name, lowering_.number(name == "c" ? wholePieces(g) : asked.attributes[i].value)));
  }
  tellActivation(epilogue.hasRelu ? "relu" : "", attributes);
  if (kernel_->rule && kernel_->rule->tells_workspace != 0) {
    attributes.push_back(
        lowering_.named("workspace_bytes", lowering_.number(kernel_->workspace(&asked))));
  }
  callLibrary(inputs, {}, out, attributes);
  if (!epilogue.isAll) {
    launchRest(out);
  } else if (!direct) {
    lowering_.copy(loc, out, wanted, "copy",
                   "the result is wanted in another layout than the library writes");
  }
  return success();
}

Value ContractionLowering::withUnitStride(Value buffer) {
  const Exprs strides = lowering_.stridesOf(typeOf(buffer));
  const bool isDense = strides.back() == constant(1) ||
                       (strides.size() > 1 && strides[strides.size() - 2] == constant(1));
  return isDense ? buffer : lowering_.contiguous(fusion_.getLoc(), buffer, kDense);
}

Value ContractionLowering::putBatched(llvm::StringRef name, Value buffer,
                                      llvm::SmallVectorImpl<mlir::NamedAttribute>& attributes) {
  auto put = [&](const char* what, AffineExpr value) {
    attributes.push_back(lowering_.named((name + what).str(), lowering_.number(value)));
  };
  auto extents = lowering_.extentsOf(typeOf(buffer));
  Exprs strides = lowering_.stridesOf(typeOf(buffer));
  const size_t dims = std::max<size_t>(extents.size(), 2) - 2;
  auto batch = mergeLoops(makeLoops(lowering_, Exprs(extents.begin(), extents.begin() + dims),
                                    {Exprs(strides.begin(), strides.begin() + dims)}));
  if (batch.size() > 1) {
    buffer = lowering_.contiguous(fusion_.getLoc(), buffer, kDense);
    return putBatched(name, buffer, attributes);
  }
  put("Batch", batch.empty() ? constant(0) : batch[0].strides[0]);
  put("Row", strides.size() > 1 ? strides[strides.size() - 2] : extents.back());
  put("Col", strides.back());
  if (name == "c") {
    attributes.push_back(
        lowering_.named("batch", lowering_.number(batch.empty() ? constant(1) : batch[0].extent)));
  }
  return buffer;
}

LogicalResult ContractionLowering::lowerExternal() {
  if (runsOnQueue()) {
    return llvm::isa<op::ConvolutionOp>(root_) ? lowerConvolutionOnQueue() : lowerProductOnQueue();
  }
  if (llvm::isa<op::ConvolutionOp>(root_)) {
    return lowerExternalConvolution();
  }
  auto linear = llvm::dyn_cast<op::LinearOp>(root_);
  if (!linear || llvm::StringRef(kernel_->op) == "matmul") {
    return lowerExternalProduct();
  }
  const mlir::Location loc = fusion_.getLoc();
  Value weight = outer(linear.getWeight());
  Exprs leading(extents_.begin(), extents_.end() - 1);
  const AffineExpr m = lowering_.product(leading);
  Value x = lowering_.contiguous(loc, lowering_.bufferOf(outer(linear.getX())), kDense);
  x = lowering_.tryReshape(loc, x, {m, lowering_.extentsOf(weight)[1]});
  llvm::SmallVector<Value> constants = {denseConstant(weight)};
  if (linear.getBias()) {
    constants.push_back(denseConstant(outer(linear.getBias())));
  }
  // The library computes x * w^T + b and an activation that it has; whatever else follows is an
  // elementwise kernel over its result.
  const std::optional<llvm::StringRef> activation = hostActivation();
  Value wanted = activation ? lowering_.destination(fusion_.getResult(0)) : Value();
  Value whole = activation && lowering_.stridesOf(typeOf(wanted)) == lowering_.rowMajor(extents_)
                    ? wanted
                    : lowering_.slot(lowering_.contiguousType(extents_, element()));
  Value flat = lowering_.tryReshape(loc, whole, {m, extents_.back()});
  llvm::SmallVector<Value> inputs = {x};
  llvm::append_range(inputs, constants);
  llvm::SmallVector<mlir::NamedAttribute> attributes;
  const sl_problem asked = problem_.view();
  for (int32_t i = 0; i < asked.attribute_count; ++i) {
    attributes.push_back(
        lowering_.named(asked.attributes[i].name, lowering_.number(asked.attributes[i].value)));
  }
  tellActivation(activation.value_or(""), attributes);
  callLibrary(inputs, constants, flat, attributes);
  finishExternal(whole, wanted);
  return success();
}

LogicalResult ContractionLowering::lowerExternalProduct() {
  const mlir::Location loc = fusion_.getLoc();
  const std::optional<llvm::StringRef> activation = hostActivation();
  Value wanted = activation ? lowering_.destination(fusion_.getResult(0)) : Value();
  Value whole = wanted && lowering_.stridesOf(typeOf(wanted)) == lowering_.rowMajor(extents_)
                    ? wanted
                    : lowering_.slot(lowering_.contiguousType(extents_, element()));
  llvm::SmallVector<Value> inputs;
  for (Value operand : root_->getOperands()) {
    Value buffer = lowering_.bufferOf(outer(operand));
    if (llvm::isa<op::LinearOp>(root_) && inputs.size() == 1) {
      Exprs extents = lowering_.extentsOf(typeOf(buffer)),
            strides = lowering_.stridesOf(typeOf(buffer));
      std::swap(extents[0], extents[1]);
      std::swap(strides[0], strides[1]);
      buffer =
          lowering_.view(loc, buffer, lowering_.type(extents, element(), strides), constant(0));
    }
    inputs.push_back(lowering_.contiguous(loc, buffer, kDense));
  }
  llvm::SmallVector<mlir::NamedAttribute> attributes;
  const sl_problem asked = problem_.view();
  for (int32_t i = 0; i < problem_.ownAttributes(); ++i) {  // without the target's attributes
    attributes.push_back(
        lowering_.named(asked.attributes[i].name, lowering_.number(asked.attributes[i].value)));
  }
  tellActivation(activation.value_or(""), attributes);
  callLibrary(inputs, {}, whole, attributes);
  finishExternal(whole, wanted);
  return success();
}

LogicalResult ContractionLowering::lowerExternalConvolution() {
  auto convolution = llvm::cast<op::ConvolutionOp>(root_);
  constexpr llvm::StringLiteral kWhy = "the library reads dense pixels, channels last";
  const std::optional<llvm::StringRef> activation = hostActivation();
  Value wanted = activation ? lowering_.destination(fusion_.getResult(0)) : Value();
  Value whole =
      wanted && isDenseChannelsLast(typeOf(wanted))
          ? wanted
          : lowering_.slot(lowering_.type(extents_, element(), channelsInnermost(extents_)));
  llvm::SmallVector<Value> inputs = {
      denseChannelsLast(lowering_.bufferOf(outer(convolution.getX())), kWhy)};
  llvm::SmallVector<Value> constants = {denseConstant(outer(convolution.getWeight()))};
  if (convolution.getBias()) {
    constants.push_back(denseConstant(outer(convolution.getBias())));
  }
  llvm::append_range(inputs, constants);
  llvm::SmallVector<mlir::NamedAttribute> attributes;
  const sl_problem asked = problem_.view();
  for (int32_t i = 0; i < problem_.ownAttributes(); ++i) {  // without the target's attributes
    attributes.push_back(
        lowering_.named(asked.attributes[i].name, lowering_.number(asked.attributes[i].value)));
  }
  tellActivation(activation.value_or(""), attributes);
  callLibrary(inputs, constants, whole, attributes);
  finishExternal(whole, wanted);
  return success();
}

std::optional<llvm::StringRef> ContractionLowering::hostActivation() {
  const std::optional<llvm::StringRef> activation = libraryActivation();
  const bool lacksBias =
      activation && !activation->empty() && needsBiasFor(*kernel_, *activation) && !epilogueBias();
  return lacksBias ? std::nullopt : activation;
}

void ContractionLowering::finishExternal(Value whole, Value wanted) {
  if (!wanted) {
    launchRest(whole);
  } else if (whole != wanted) {
    lowering_.copy(fusion_.getLoc(), whole, wanted, "copy",
                   "the result is wanted in another layout than the library writes");
  }
}

Value ContractionLowering::denseConstant(Value tensor) {
  Value buffer = lowering_.bufferOf(tensor);
  const Exprs extents = lowering_.extentsOf(typeOf(buffer));
  if (lowering_.stridesOf(typeOf(buffer)) == lowering_.rowMajor(extents) || lowering_.inPrepare()) {
    return lowering_.contiguous(fusion_.getLoc(), buffer, kDense);
  }
  const std::string key =
      "dense," + std::to_string(reinterpret_cast<uintptr_t>(buffer.getAsOpaquePointer()));
  Value& dense = lowering_.shared(key);
  if (!dense) {
    dense = preparedBuffer(tensor, ".dense",
                           lowering_.contiguousType(extents, typeOf(buffer).getElementType()));
    lowering_.atEndOfPrepare([&] {
      lowering_.copy(fusion_.getLoc(), lowering_.viewInPrepare(buffer), dense, "copy", kDense);
    });
  }
  return dense;
}

void ContractionLowering::callLibrary(llvm::ArrayRef<Value> inputs, llvm::ArrayRef<Value> constants,
                                      Value out, llvm::ArrayRef<mlir::NamedAttribute> attributes) {
  lowering_.callLibrary(fusion_.getLoc(), {*kernel_, problem_, spec_}, inputs, constants, out,
                        attributes);
}

}  // namespace straightline::lowering
