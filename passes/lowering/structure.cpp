// SPDX-License-Identifier: Apache-2.0
// Ops that are not fusions: where values come from, views (no code), and data movement.
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/contraction_problem.h"
#include "passes/lowering/lowering.h"

namespace straightline::lowering {

using mlir::AffineExpr;
using mlir::failure;
using mlir::FailureOr;
using mlir::LogicalResult;
using mlir::Operation;
using mlir::success;
using mlir::Value;

namespace {

mlir::Type elementType(Value tensor) {
  return llvm::cast<mlir::RankedTensorType>(tensor.getType()).getElementType();
}

}  // namespace

/// Fusions and index arithmetic print equal elements as literals; anything else reads memory.
static bool readAsMemory(Value tensor) {
  return llvm::any_of(tensor.getUsers(), [](Operation* user) {
    if (user->hasTrait<op::View>()) {
      return readAsMemory(user->getResult(0));
    }
    if (llvm::isa<op::ElementwiseOpInterface>(user)) {
      return false;  // outside a fusion: index arithmetic
    }
    auto fusion = llvm::dyn_cast<op::FusionOp>(user);
    return !fusion || (fusion.getFamily() != "pointwise" && fusion.getFamily() != "row_reduction");
  });
}

LogicalResult Lowering::lowerStructure(Operation* op) {
  if (llvm::isa<op::ParameterOp, op::StateOp, op::ConstantOp>(op)) {
    return success();  // declared when first used
  }
  if (splatOf(op) && !readAsMemory(op->getResult(0))) {
    return success();
  }
  if (op->hasTrait<op::View>()) {
    return lowerView(op);
  }
  return llvm::TypeSwitch<Operation*, LogicalResult>(op)
      .Case<op::FullOp, op::IotaOp>([&](auto) { return lowerConstant(op); })
      .Case([&](op::CloneOp clone) {
        Value from = bufferOf(clone.getX());
        copy(op->getLoc(), from, destination(clone.getResult()), "clone", "the copy was asked for");
        return success();
      })
      .Case([&](op::CatOp cat) { return lowerCat(cat); })
      .Case([&](op::ConstantPadNdOp pad) { return lowerPad(pad); })
      .Case([&](op::SliceScatterOp scatter) { return lowerSliceScatter(scatter); })
      .Case<op::DynamicSliceOp, op::DynamicUpdateSliceOp>([&](auto) { return lowerDynamic(op); })
      .Case<op::MaxPool2dOp, op::AvgPool2dOp>([&](auto) { return lowerPool(op); })
      .Case<op::IndexCopyOp, op::IndexAddOp>([&](auto) { return lowerScatterRows(op); })
      .Case<op::EmbeddingOp, op::GatherOp, op::IndexSelectOp, op::CumsumOp, op::FlipOp>(
          [&](auto) { return lowerIndexing(op); })
      .Case([&](op::TopkOp topk) { return lowerTopk(topk); })
      .Case([&](op::ScaledDotProductAttentionOp attention) { return lowerAttention(attention); })
      .Case<op::LstmSequenceOp, op::GruSequenceOp, op::RnnSequenceOp>(
          [&](auto sequence) { return lowerSequence(sequence); })
      .Case([&](op::AtenOp aten) { return lowerAten(aten); })
      .Default([](Operation* other) -> LogicalResult {
        return other->emitOpError(
            "has no lowering to kernels; decompose_ops or a fusion pass probably lacks a case");
      });
}

LogicalResult Lowering::lowerConstant(Operation* op) {
  Value tensor = op->getResult(0);
  if (buffers_.count(tensor)) {
    return success();
  }
  const Exprs extents = extentsOf(tensor);
  mlir::OpBuilder::InsertionGuard guard(builder_);
  if (llvm::isa<op::ParameterOp, op::StateOp>(op)) {
    Exprs strides = rowMajor(extents);
    if (auto dims = op->getAttrOfType<op::DimsAttr>("op.strides")) {
      strides = llvm::map_to_vector(
          dims.getExprs(), [&](AffineExpr expr) { return rebased(expr, dims.getNames()); });
    }
    builder_.setInsertionPoint(prepare_);
    kernel::BufferType bufferType = type(extents, elementType(tensor), strides);
    if (auto parameter = llvm::dyn_cast<op::ParameterOp>(op)) {
      bind(tensor,
           kernel::ParameterOp::create(builder_, op->getLoc(), bufferType, parameter.getName())
               .getBuffer());
    } else {
      bind(tensor, kernel::StateOp::create(builder_, op->getLoc(), bufferType,
                                           llvm::cast<op::StateOp>(op).getName())
                       .getBuffer());
    }
    return success();
  }
  if (auto constantOp = llvm::dyn_cast<op::ConstantOp>(op)) {
    builder_.setInsertionPoint(prepare_);
    bind(tensor, kernel::ConstantOp::create(builder_, op->getLoc(),
                                            contiguousType(extents, elementType(tensor)),
                                            constantOp.getValue())
                     .getBuffer());
    return success();
  }
  if (isWrittenByLoops(tensor)) {
    return success();
  }
  if (!llvm::isa<op::FullOp, op::IotaOp>(op)) {
    return op->emitOpError("is read before it is lowered");
  }
  return lowerGenerated(op, destination(tensor));
}

/// A full or an iota that some kernel reads as memory: written once where it stands.
LogicalResult Lowering::lowerGenerated(Operation* op, Value place) {
  Value tensor = op->getResult(0);
  const Exprs extents = extentsOf(tensor);
  mlir::OpBuilder::InsertionGuard guard(builder_);
  KernelSpec spec;
  const bool isFull = llvm::isa<op::FullOp>(op);
  spec.op = op->getName().stripDialect().str();
  spec.why = "read as memory by an op that is not elementwise";
  mlir::Type scalar = scalarType(elementType(tensor));
  spec.outputs = {place};
  if (isFull) {
    spec.name = "fill";
    mlir::Attribute value = llvm::cast<op::FullOp>(op).getValue();
    spec.bodies.push_back({"body", {}, [=](mlir::OpBuilder& builder, mlir::ValueRange) {
                             return llvm::SmallVector<Value>{mlir::arith::ConstantOp::create(
                                 builder, builder.getUnknownLoc(), scalarAttribute(value, scalar))};
                           }});
    launchPointwise(op->getLoc(), spec, extents, {stridesOf(typeOf(spec.outputs[0]))});
    return success();
  }
  auto iota = llvm::cast<op::IotaOp>(op);
  spec.name = "iota";
  spec.family = "iota";
  spec.shape = {named("count", number(product(extents))),
                named("stride", number(stridesOf(typeOf(spec.outputs[0]))[0]))};
  mlir::Attribute start = iota.getStart();
  mlir::Attribute step = iota.getStep();
  spec.bodies.push_back(
      {"body", {builder_.getI64Type()}, [=](mlir::OpBuilder& builder, mlir::ValueRange given) {
         const mlir::Location loc = builder.getUnknownLoc();
         Value index = given[0];
         Value first =
             mlir::arith::ConstantOp::create(builder, loc, scalarAttribute(start, scalar));
         Value by = mlir::arith::ConstantOp::create(builder, loc, scalarAttribute(step, scalar));
         if (llvm::isa<mlir::FloatType>(scalar)) {
           index = mlir::arith::SIToFPOp::create(builder, loc, scalar, index);
           Value scaled = mlir::arith::MulFOp::create(builder, loc, index, by);
           return llvm::SmallVector<Value>{
               mlir::arith::AddFOp::create(builder, loc, first, scaled)};
         }
         if (scalar != index.getType()) {
           index = mlir::arith::TruncIOp::create(builder, loc, scalar, index);
         }
         Value scaled = mlir::arith::MulIOp::create(builder, loc, index, by);
         return llvm::SmallVector<Value>{mlir::arith::AddIOp::create(builder, loc, first, scaled)};
       }});
  launch(op->getLoc(), spec);
  return success();
}

// --- views ---------------------------------------------------------------------------------------

Value Lowering::reshapedCopy(Operation* op, Value base, const Exprs& extents) {
  const kernel::BufferType type = contiguousType(extents, typeOf(base).getElementType());
  auto copyInto = [&](Value whole, Value from) {
    // In the old shape: the new storage is row-major in either.
    Value asOld = view(op->getLoc(), whole,
                       contiguousType(extentsOf(typeOf(from)), type.getElementType()), constant(0));
    copy(op->getLoc(), from, asOld, "reshape",
         "the strides of the operand do not allow this shape as a view");
    return whole;
  };
  Operation* storage = root(base).getDefiningOp();
  Value place = wantedDestination(op->getResult(0));
  if (!inPrepare_ && !place && isKnownEarly(op->getResult(0)) && storage &&
      !run_->isAncestor(storage)) {
    Value whole = preparedBuffer(op->getLoc(), type, "prepared.");
    atEndOfPrepare([&] { copyInto(whole, viewInPrepare(base)); });
    return whole;
  }
  return copyInto(place && stridesOf(typeOf(place)) == rowMajor(extents) ? place : slot(type),
                  base);
}

LogicalResult Lowering::lowerView(Operation* op) {
  Value result = op->getResult(0);
  Value base = bufferOf(op->getOperand(0));
  if (buffers_.count(result)) {
    return success();  // its storage was chosen for it (the operand was written there)
  }
  kernel::BufferType from = typeOf(base);
  const Exprs extents = extentsOf(result);
  const Exprs oldStrides = stridesOf(from);
  Exprs strides(extents.size(), constant(0));
  AffineExpr offset = constant(0);
  if (llvm::isa<op::ReshapeOp>(op)) {
    Value reshaped = tryReshape(op->getLoc(), base, extents);
    if (!reshaped) {
      reshaped = reshapedCopy(op, base, extents);
    }
    bind(result, reshaped);
    return success();
  }
  if (llvm::isa<op::ExpandOp>(op)) {
    const size_t added = extents.size() - oldStrides.size();
    const Exprs oldExtents = extentsOf(from);
    for (size_t dim = 0; dim < oldStrides.size(); ++dim) {
      if (oldExtents[dim] != constant(1) || extents[added + dim] == constant(1)) {
        strides[added + dim] = oldStrides[dim];
      }
    }
  } else if (auto permute = llvm::dyn_cast<op::PermuteOp>(op)) {
    for (auto [to, dim] : llvm::enumerate(permute.getDims())) {
      strides[to] = oldStrides[dim];
    }
  } else if (auto slice = llvm::dyn_cast<op::SliceOp>(op)) {
    strides = oldStrides;
    const int64_t dim = slice.getDim();
    offset = oldStrides[dim] * sliceStart(slice.getStart(), extentsOf(from)[dim]);
    strides[dim] = oldStrides[dim] * slice.getStep();
  } else if (auto select = llvm::dyn_cast<op::SelectOp>(op)) {
    const int64_t dim = select.getDim();
    strides = oldStrides;
    strides.erase(strides.begin() + dim);
    offset = oldStrides[dim] * sliceStart(select.getIndex(), extentsOf(from)[dim]);
  } else {
    return op->emitOpError("is a view without a rule for its strides");
  }
  bind(result, view(op->getLoc(), base, type(extents, from.getElementType(), strides), offset));
  return success();
}

AffineExpr Lowering::sliceStart(int64_t start, AffineExpr extent) const {
  if (start < 0) {
    std::optional<int64_t> size = symbolic::constantValue(extent);
    return size ? constant(std::max<int64_t>(0, *size + start)) : extent + start;
  }
  std::optional<int64_t> size = symbolic::constantValue(extent);
  return constant(size ? std::min(start, *size) : start);
}

// --- data movement -------------------------------------------------------------------------------

bool Lowering::isReadInParts(op::CatOp cat) {
  auto attention = cat->hasOneUse()
                       ? llvm::dyn_cast<op::ScaledDotProductAttentionOp>(*cat->getUsers().begin())
                       : op::ScaledDotProductAttentionOp();
  if (!attention || attention->getBlock() != cat->getBlock()) {
    return false;
  }
  // A library takes many queries of 16-bit floats, and wants whole keys: a copy costs less than
  // doing without it.
  constexpr int64_t kManyQueries = 64;
  const Exprs queries = extentsOf(attention.getQ());
  const std::optional<int64_t> count =
      queries.size() < 2 ? std::nullopt : symbolic::constantValue(queries[queries.size() - 2]);
  if (target_.getBackend() != "cpu" &&
      attention.getQ().getType().getElementType().getIntOrFloatBitWidth() == 16 && count &&
      *count >= kManyQueries) {
    return false;
  }
  auto inTwo = [&](Value tensor) {
    auto made = tensor.getDefiningOp<op::CatOp>();
    const bool alongKeys = made && made->hasOneUse() && made->getBlock() == cat->getBlock() &&
                           made.getTensors().size() == 2 &&
                           static_cast<size_t>(made.getDim()) + 2 == extentsOf(tensor).size();
    return alongKeys ? made : op::CatOp();
  };
  op::CatOp keys = inTwo(attention.getK());
  op::CatOp values = inTwo(attention.getV());
  return keys && values && (cat == keys || cat == values) &&
         extentsOf(keys.getTensors()[0]) == extentsOf(values.getTensors()[0]);
}

LogicalResult Lowering::lowerCat(op::CatOp cat) {
  if (isReadInParts(cat)) {
    return success();  // attention reads the parts where they are
  }
  Value whole = destination(cat.getResult());
  const Exprs strides = stridesOf(typeOf(whole));
  const int64_t dim = cat.getDim();
  AffineExpr at = constant(0);
  for (Value part : cat.getTensors()) {
    const Exprs extents = extentsOf(part);
    Value from = bufferOf(part);
    // A part that stands here twice has one place and is copied to the other; its place in another
    // cat says nothing here.
    Value placed =
        llvm::count(cat.getTensors(), part) == 1 ? catPlace_.lookup({cat, part}) : Value();
    if (!placed || !isSamePlace(from, placed)) {
      Value to = view(cat.getLoc(), whole, type(extents, typeOf(whole).getElementType(), strides),
                      at * strides[dim]);
      copy(cat.getLoc(), from, to, "cat", "the part could not be written in place by what made it");
    }
    at = at + extents[dim];
  }
  return success();
}

LogicalResult Lowering::lowerPad(op::ConstantPadNdOp pad) {
  Value whole = destination(pad.getResult());
  const Exprs strides = stridesOf(typeOf(whole));
  Exprs extents = extentsOf(pad.getX());
  Value from = bufferOf(pad.getX());
  Exprs fromStrides = stridesOf(typeOf(from));
  AffineExpr offset = constant(0);
  AffineExpr fromOffset = constant(0);
  const size_t rank = extents.size();
  for (size_t i = 0; i < pad.getPad().size() / 2; ++i) {
    const size_t dim = rank - 1 - i;
    const int64_t before = pad.getPad()[2 * i];
    const int64_t after = pad.getPad()[2 * i + 1];
    offset = offset + strides[dim] * std::max<int64_t>(before, 0);
    fromOffset = fromOffset + fromStrides[dim] * std::max<int64_t>(-before, 0);
    extents[dim] = extents[dim] + std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0);
  }
  KernelSpec fill;
  fill.name = "fill";
  fill.op = "constant_pad_nd";
  fill.why = "the border's value; the inside is copied over it";
  fill.outputs = {whole};
  mlir::Type scalar = scalarType(elementType(pad.getX()));
  mlir::Attribute value = pad.getValue();
  fill.bodies.push_back({"body", {}, [=](mlir::OpBuilder& builder, mlir::ValueRange) {
                           return llvm::SmallVector<Value>{mlir::arith::ConstantOp::create(
                               builder, builder.getUnknownLoc(), scalarAttribute(value, scalar))};
                         }});
  launchPointwise(pad.getLoc(), fill, extentsOf(pad.getResult()), {strides});
  Value inside =
      view(pad.getLoc(), whole, type(extents, typeOf(whole).getElementType(), strides), offset);
  Value source = view(pad.getLoc(), from,
                      type(extents, typeOf(whole).getElementType(), fromStrides), fromOffset);
  copy(pad.getLoc(), source, inside, "constant_pad_nd", "the inside of the padded tensor");
  return success();
}

LogicalResult Lowering::lowerSliceScatter(op::SliceScatterOp scatter) {
  Value from = bufferOf(scatter.getX());
  Value src = bufferOf(scatter.getSrc());
  Value whole = destination(scatter.getResult());
  if (from != whole) {
    copy(scatter.getLoc(), from, whole, "slice_scatter",
         "the old value is still read, or belongs to the caller");
  }
  Exprs strides = stridesOf(typeOf(whole));
  const int64_t dim = scatter.getDim();
  const AffineExpr offset =
      strides[dim] * sliceStart(scatter.getStart(), extentsOf(scatter.getX())[dim]);
  strides[dim] = strides[dim] * scatter.getStep();
  Value part =
      view(scatter.getLoc(), whole,
           type(extentsOf(scatter.getSrc()), typeOf(whole).getElementType(), strides), offset);
  copy(scatter.getLoc(), src, part, "slice_scatter", "the slice that is replaced");
  return success();
}

FailureOr<Value> Lowering::dynamicPart(mlir::Location loc, Value base, Value index, int64_t dim,
                                       Value part) {
  FailureOr<Value> number = indexValue(loc, index);
  if (failed(number)) {
    return failure();
  }
  const std::string name = "i" + std::to_string(usedNames_["index."]++);
  // behind the names of extents
  const AffineExpr position = mlir::getAffineSymbolExpr(names_.size(), context_);
  const Exprs strides = stridesOf(typeOf(base));
  return view(loc, base, type(extentsOf(part), typeOf(base).getElementType(), strides),
              position * strides[dim], {{name, *number}});
}

LogicalResult Lowering::lowerDynamic(Operation* op) {
  if (auto slice = llvm::dyn_cast<op::DynamicSliceOp>(op)) {
    FailureOr<Value> part = dynamicPart(op->getLoc(), bufferOf(slice.getX()), slice.getIndex(),
                                        slice.getDim(), slice.getResult());
    if (succeeded(part)) {
      bind(slice.getResult(), *part);
    }
    return mlir::success(succeeded(part));
  }
  auto update = llvm::cast<op::DynamicUpdateSliceOp>(op);
  if (taken_.contains(update)) {
    return success();  // written already, and the result is bound
  }
  Value from = bufferOf(update.getX());
  Value src = bufferOf(update.getSrc());
  Value whole = destination(update.getResult());
  if (from != whole) {
    copy(op->getLoc(), from, whole, "dynamic_update_slice",
         "the old value is still read, or belongs to the caller");
  }
  FailureOr<Value> part =
      dynamicPart(op->getLoc(), whole, update.getIndex(), update.getDim(), update.getSrc());
  if (failed(part)) {
    return failure();
  }
  copy(op->getLoc(), src, *part, "dynamic_update_slice", "the slice that is replaced");
  return success();
}

LogicalResult Lowering::lowerPool(Operation* op) {
  auto maximum = llvm::dyn_cast<op::MaxPool2dOp>(op);
  auto average = llvm::dyn_cast<op::AvgPool2dOp>(op);
  Value tensor = op->getOperand(0);
  Value from = bufferOf(tensor);
  Value to = destination(op->getResult(0));
  Exprs in = extentsOf(tensor);
  Exprs out = extentsOf(op->getResult(0));
  Exprs inStrides = stridesOf(typeOf(from));
  Exprs outStrides = stridesOf(typeOf(to));
  if (in.size() == 3) {
    in.insert(in.begin(), constant(1));
    out.insert(out.begin(), constant(1));
    inStrides.insert(inStrides.begin(), constant(0));
    outStrides.insert(outStrides.begin(), constant(0));
  }
  auto pair = [&](llvm::ArrayRef<int64_t> values, size_t i) { return number(values[i]); };
  auto kernelSize = maximum ? maximum.getKernelSize() : average.getKernelSize();
  auto stride = maximum ? maximum.getStride() : average.getStride();
  auto padding = maximum ? maximum.getPadding() : average.getPadding();
  const bool channelsLast = inStrides[1] == constant(1) && outStrides[1] == constant(1);
  KernelSpec spec;
  spec.name = op->getName().stripDialect().str();
  spec.family = "pool";
  spec.inputs = {from};
  spec.outputs = {to};
  spec.tune = {named("kind", builder_.getStringAttr(maximum ? "max" : "avg")),
               named("channelsLast", number(channelsLast ? 1 : 0))};
  spec.shape = {named("batch", number(in[0])),
                named("channels", number(in[1])),
                named("inH", number(in[2])),
                named("inW", number(in[3])),
                named("outH", number(out[2])),
                named("outW", number(out[3])),
                named("kernelH", pair(kernelSize, 0)),
                named("kernelW", pair(kernelSize, 1)),
                named("strideH", pair(stride, 0)),
                named("strideW", pair(stride, 1)),
                named("padH", pair(padding, 0)),
                named("padW", pair(padding, 1)),
                named("dilationH", number(maximum ? maximum.getDilation()[0] : 1)),
                named("dilationW", number(maximum ? maximum.getDilation()[1] : 1)),
                named("includePad", number(average && average.getCountIncludePad() ? 1 : 0)),
                named("divisor", number(average ? average.getDivisorOverride().value_or(0) : 0)),
                named("inStride", numbers(inStrides)),
                named("outStride", numbers(outStrides))};
  spec.op = spec.name;
  spec.why = channelsLast ? "native.pool: vectors of channels" : "native.pool: any strides";
  spec.costUs = static_cast<double>(upperBound(product(out))) *
                static_cast<double>(kernelSize[0] * kernelSize[1]) * 0.0001;
  launch(op->getLoc(), spec);
  return success();
}

}  // namespace straightline::lowering
