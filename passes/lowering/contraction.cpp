// SPDX-License-Identifier: Apache-2.0
#include "passes/lowering/contraction.h"

#include "dialect/op/recorded.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace straightline::lowering {

using mlir::AffineExpr;
using mlir::AffineMap;
using mlir::failure;
using mlir::LogicalResult;
using mlir::Operation;
using mlir::success;
using mlir::Value;

ContractionLowering::ContractionLowering(LoweringContext& lowering, op::FusionOp fusion,
                                         Problem problem)
    : lowering_(lowering),
      fusion_(fusion),
      problem_(std::move(problem)),
      root_(contractionRoot(fusion)),
      extents_(lowering_.extentsOf(fusion.getResult(0))),
      identity_(AffineMap::getMultiDimIdentityMap(extents_.size(), lowering_.context())) {}

ContractionLowering::ContractionLowering(LoweringContext& lowering, op::FusionOp fusion)
    : ContractionLowering(lowering, fusion, contractionProblem(fusion, lowering.target())) {}

ContractionLowering::ContractionLowering(LoweringContext& lowering, op::FusionOp fusion,
                                         op::SmallImagesAttr small)
    : ContractionLowering(
          lowering, fusion,
          contractionProblemAt(fusion, lowering.target(),
                               {small.getImages(), small.getHeight(), small.getWidth()})) {
  kernel_ = findKernel(small.getKernel().getValue());
  spec_.why = small.getWhy().str() + ", below " + std::to_string(small.getBelow()) + " pixels";
}

LogicalResult ContractionLowering::lower() {
  const llvm::SmallVector<op::SmallImagesAttr> small = op::smallImagesOf(fusion_);
  return small.empty() ? lowerByKernel() : lowerBySize(small);
}

LogicalResult ContractionLowering::lowerBySize(llvm::ArrayRef<op::SmallImagesAttr> small) {
  if (small.empty()) {
    return lowerByKernel();
  }
  Exprs images = extents_;
  images.erase(images.begin() + channelDim());
  const AffineExpr pixels = lowering_.product(images);
  ContractionLowering few(lowering_, fusion_, small.front());
  if (!few.kernel_) {
    return fusion_.emitOpError("has small images of a kernel that is not there");
  }
  if (lowering_.upperBound(pixels) < small.front().getBelow()) {
    return few.lowerByKernel();
  }
  if (lowering_.lowerBound(pixels) >= small.front().getBelow()) {
    return lowerBySize(small.drop_front());
  }
  for (Value input : fusion_.getInputs()) {
    lowering_.bufferOf(input);  // declared in front of the branch, where both sides see it
  }
  lowering_.destination(fusion_.getResult(0));
  mlir::OpBuilder& builder = lowering_.builder();
  const mlir::Location loc = fusion_.getLoc();
  Value count = kernel::SizeOp::create(
      builder, loc, builder.getIndexType(),
      kernel::ExtentAttr::get(lowering_.context(), lowering_.names(), pixels));
  Value below = mlir::arith::ConstantIndexOp::create(builder, loc, small.front().getBelow());
  Value isFew =
      mlir::arith::CmpIOp::create(builder, loc, mlir::arith::CmpIPredicate::slt, count, below);
  auto branch = kernel::IfOp::create(builder, loc, isFew, true);
  mlir::OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(&branch->getRegion(0).front());
  if (failed(few.lowerByKernel())) {
    return failure();
  }
  builder.setInsertionPointToEnd(&branch->getRegion(1).front());
  return lowerBySize(small.drop_front());
}

void ContractionLowering::describeKernel() {
  spec_.op = opNames(fusion_);
  if (!kernel_) {
    kernel_ = chosenKernel(fusion_);
    const op::KernelChoiceAttr choice = op::kernelChoiceOf(fusion_);
    spec_.why = choice ? choice.getWhy().str() : "";
    spec_.alternatives = choice ? choice.getAlternatives() : mlir::ArrayAttr();
    if (choice && choice.getKey()) {
      spec_.choice = choice.getKey().str();
    }
    if (choice && choice.getAlone()) {
      spec_.alone = choice.getAlone().getValue();
    }
  }
}

LogicalResult ContractionLowering::lowerByKernel() {
  describeKernel();
  if (!kernel_) {
    return fusion_.emitOpError("has no kernel; select_kernels probably lacks a case");
  }
  const sl_problem asked = problem_.view();
  spec_.costUs = kernel_->cost(&asked);
  spec_.ownCost = true;
  spec_.canFail = kernel_->can_fail != 0;
  spec_.wholeTeam = kernel_->whole_team != 0;
  spec_.family = kernel_->family;
  spec_.tune = tuneAttributes(lowering_.context(), *kernel_, problem_);
  if (failed(findEpilogue())) {
    return failure();
  }
  if (!spec_.family.empty() && !epilogueFits()) {
    return lowerInTwo();
  }
  return spec_.family.empty() ? lowerExternal() : lowerEmitted();
}

LogicalResult ContractionLowering::lowerEmitted() {
  const llvm::StringRef op = kernel_->op;
  return op == "linear" ? lowerLinear() : op == "matmul" ? lowerMatmul() : lowerConvolution();
}

int64_t ContractionLowering::tuneValue(llvm::StringRef key) {
  const mlir::NamedAttribute* entry = spec_.tunable(key);
  return entry ? llvm::cast<mlir::IntegerAttr>(entry->getValue()).getInt() : 0;
}

Value ContractionLowering::epilogueBias() {
  if (auto linear = llvm::dyn_cast<op::LinearOp>(root_)) {
    return linear.getBias();
  }
  auto convolution = llvm::dyn_cast<op::ConvolutionOp>(root_);
  return convolution ? convolution.getBias() : Value();
}

LogicalResult ContractionLowering::findEpilogue() {
  if (Value bias = epilogueBias()) {
    AffineExpr channel = mlir::getAffineDimExpr(channelDim(), lowering_.context());
    accesses_.push_back({fusionInputIndex(fusion_, bias),
                         AffineMap::get(extents_.size(), 0, channel, lowering_.context())});
  }
  mlir::Block scratch;
  mlir::OpBuilder builder(lowering_.context());
  builder.setInsertionPointToEnd(&scratch);
  Value accumulator = scratch.addArgument(element(), fusion_.getLoc());
  ScalarEvaluator evaluator(fusion_, builder, [&](unsigned operand, AccessMap map) {
    accesses_.push_back({operand, map});
    return scratch.addArgument(
        scalarType(llvm::cast<mlir::RankedTensorType>(fusion_.getInputs()[operand].getType())
                       .getElementType()),
        fusion_.getLoc());
  });
  evaluator.define(root_->getResult(0), accumulator);
  for (Value value : yielded()) {
    if (failed(evaluator.evaluate(value, identity_))) {
      return failure();
    }
  }
  scratch.dropAllReferences();
  return success();
}

void ContractionLowering::bindEpilogue() {
  for (const Access& access : accesses_) {
    Value buffer = lowering_.bufferOf(fusion_.getInputs()[access.operand]);
    epilogueBuffers_.push_back(buffer);
    epilogueStrides_.push_back(lowering_.stridesThrough(buffer, access.map));
  }
}

void ContractionLowering::materialise(size_t i, const Exprs& strides) {
  mlir::Type type = typeOf(epilogueBuffers_[i]).getElementType();
  Value expanded = lowering_.view(fusion_.getLoc(), epilogueBuffers_[i],
                                  lowering_.type(extents_, type, epilogueStrides_[i]), constant(0));
  Value fresh = lowering_.slot(lowering_.type(extents_, type, strides));
  lowering_.copy(fusion_.getLoc(), expanded, fresh, "copy",
                 "the epilogue reads it in the order of the result");
  epilogueBuffers_[i] = fresh;
  epilogueStrides_[i] = strides;
}

void ContractionLowering::addEpilogueBody() {
  llvm::SmallVector<mlir::Type> types = {accumulator()};
  for (Value buffer : epilogueBuffers_) {
    types.push_back(scalarType(typeOf(buffer).getElementType()));
  }
  spec_.bodies.push_back(
      {"epilogue", types, [this](mlir::OpBuilder& builder, mlir::ValueRange given) {
         const mlir::Location loc = fusion_.getLoc();
         const bool isWider = this->accumulator() != element();  // rounded once, behind the bias
         Value accumulator = given[0];
         if (epilogueBias()) {
           Value bias =
               isWider ? mlir::arith::ExtFOp::create(builder, loc, this->accumulator(), given[1])
                             .getResult()
                       : given[1];
           accumulator = mlir::arith::AddFOp::create(builder, loc, accumulator, bias);
         }
         if (isWider) {
           accumulator = mlir::arith::TruncFOp::create(builder, loc, element(), accumulator);
         }
         ScalarEvaluator evaluator(fusion_, builder, [&](unsigned operand, AccessMap map) {
           // A bias that the epilogue also reads by itself is the same access.
           return given[1 + (llvm::find(accesses_, Access{operand, map}) - accesses_.begin())];
         });
         evaluator.define(root_->getResult(0), accumulator);
         if (plain_) {
           return llvm::SmallVector<Value>{accumulator};
         }
         return llvm::map_to_vector(
             yielded(), [&](Value value) { return *evaluator.evaluate(value, identity_); });
       }});
}

mlir::Attribute ContractionLowering::epilogueStrideAttribute(llvm::ArrayRef<Exprs> rows) {
  llvm::SmallVector<mlir::Attribute> attributes;
  for (const Exprs& row : rows) {
    attributes.push_back(lowering_.numbers(row));
  }
  return mlir::ArrayAttr::get(lowering_.context(), attributes);
}

bool ContractionLowering::epilogueFits() {
  constexpr size_t kMostEpilogueOperands = 4;
  const auto fits = [&](Value tensor) {
    const mlir::Type type = elementOf(tensor);
    const bool widens =
        spec_.family != "winograd" && element().isF32() && (type.isBF16() || type.isF16());
    // Behind sums of 32 bits there are scales, and what is quantized again.
    const bool scales =
        element().isInteger(32) && type.getIntOrFloatBitWidth() <= 32 && !type.isInteger(1);
    // Numbers that are quantized at once.
    const bool quantizes =
        element().isF32() && type.getIntOrFloatBitWidth() == 8 &&
        llvm::is_contained({"gemm", "convolution", "convolution_direct"}, spec_.family);
    return lowering_.facts().hasEpiloguesOfAnyType || type == element() || widens || scales ||
           quantizes;
  };
  return accesses_.size() <= kMostEpilogueOperands && fusion_.getNumResults() == 1 &&
         fits(fusion_.getResult(0)) && llvm::all_of(accesses_, [&](const Access& access) {
           return fits(fusion_.getInputs()[access.operand]);
         });
}

LogicalResult ContractionLowering::lowerInTwo() {
  llvm::SmallVector<Access> all = accesses_;
  accesses_.resize(epilogueBias() ? 1 : 0);
  plain_ = true;
  plainResult_ = lowering_.slot(lowering_.contiguousType(extents_, element()));
  if (failed(lowerEmitted())) {
    return failure();
  }
  plain_ = false;
  accesses_ = all;
  epilogueBuffers_.clear();
  epilogueStrides_.clear();
  launchRest(plainResult_);
  return success();
}

Value ContractionLowering::pack(Value weight, KernelSpec packing, const Exprs& packedExtents) {
  std::string key = packing.family;
  llvm::raw_string_ostream stream(key);
  for (mlir::NamedAttribute entry : packing.tune) {
    stream << "," << entry.getName().getValue() << "=" << entry.getValue();
  }
  Value source = lowering_.bufferOf(weight);
  stream << "," << source.getAsOpaquePointer();
  Value& shared = lowering_.shared(key);
  if (shared) {
    return shared;
  }
  kernel::BufferType packedType = lowering_.contiguousType(packedExtents, elementOf(weight));
  const bool early = isKnownEarly(weight) && !lowering_.inPrepare();
  packing.inputs = {source};
  packing.op = "pack";
  packing.costUs = 10;  // worth the whole team: prepare is done once
  if (!early) {
    packing.outputs = {lowering_.slot(packedType)};
    packing.why = "the weight is computed while running, so it is packed on each call";
    lowering_.launch(fusion_.getLoc(), packing);
    return packing.outputs[0];
  }
  packing.why = "once per set of weights, in the order in which " + spec_.family + " reads them";
  Value prepared = preparedBuffer(weight, ".packed", packedType);
  packing.outputs = {prepared};
  packing.inputs = {lowering_.viewInPrepare(source)};
  lowering_.atEndOfPrepare([&] { lowering_.launch(fusion_.getLoc(), packing); });
  shared = prepared;
  return prepared;
}

std::string ContractionLowering::weightName(Value weight) {
  while (Operation* op = weight.getDefiningOp()) {
    if (auto parameter = llvm::dyn_cast<op::ParameterOp>(op)) {
      return parameter.getName().str();
    }
    if (op->getNumOperands() == 0) {
      break;
    }
    // A folded weight is named after the parameter that it was made from: its operand of the
    // highest rank.
    weight = *llvm::max_element(op->getOperands(), [](Value a, Value b) {
      return llvm::cast<mlir::RankedTensorType>(a.getType()).getRank() <
             llvm::cast<mlir::RankedTensorType>(b.getType()).getRank();
    });
  }
  return "weight";
}

std::pair<Value, AffineExpr> ContractionLowering::collapseRows(Value buffer, llvm::StringRef why) {
  while (true) {  // the second iteration, if there is one, sees a copy
    Exprs extents = lowering_.extentsOf(typeOf(buffer));
    Exprs strides = lowering_.stridesOf(typeOf(buffer));
    const AffineExpr last = strides.pop_back_val();
    const AffineExpr lastExtent = extents.pop_back_val();
    auto loops = mergeLoops(makeLoops(lowering_, extents, {strides}));
    if (loops.size() <= 1 && (last == constant(1) || lastExtent == constant(1))) {
      return {buffer, loops.empty() ? lastExtent : loops[0].strides[0]};
    }
    buffer = lowering_.contiguous(fusion_.getLoc(), buffer, why);
  }
}

LogicalResult ContractionLowering::lowerLinear() {
  auto linear = llvm::cast<op::LinearOp>(root_);
  Value weight = outer(linear.getWeight());
  const Exprs weightExtents = lowering_.extentsOf(weight);
  const AffineExpr n = weightExtents[0];
  const AffineExpr k = weightExtents[1];
  Exprs leading(extents_.begin(), extents_.end() - 1);
  const AffineExpr m = lowering_.product(leading);
  auto [x, lda] = collapseRows(lowering_.bufferOf(outer(linear.getX())),
                               "the rows of a linear are one stride apart");
  bindEpilogue();
  auto [place, direct] = resultPlace();
  const AffineExpr ldc = place.second;
  // Epilogue operands walk the same rows.
  llvm::SmallVector<Exprs> strideRows;
  for (size_t i = 0; i < epilogueBuffers_.size(); ++i) {
    Exprs lead(epilogueStrides_[i].begin(), epilogueStrides_[i].end() - 1);
    auto loops = mergeLoops(makeLoops(lowering_, leading, {lead}));
    AffineExpr inner = epilogueStrides_[i].back();
    if (loops.size() > 1 || (inner != constant(0) && inner != constant(1))) {
      materialise(i, lowering_.rowMajor(extents_));
      strideRows.push_back({extents_.back(), constant(1)});
    } else {
      strideRows.push_back({loops.empty() ? constant(0) : loops[0].strides[0], inner});
    }
  }
  Value b = lowering_.bufferOf(weight);
  if (spec_.family == "matmul") {
    return finishAsMatmul({m, n, k}, {x, lda}, b, {place, direct}, strideRows);
  }
  spec_.shape = {
      lowering_.named("m", lowering_.number(m)), lowering_.named("n", lowering_.number(n)),
      lowering_.named("k", lowering_.number(k)), lowering_.named("lda", lowering_.number(lda))};
  if (spec_.family == "gemm" || spec_.family == "gemm_int8") {
    KernelSpec packing;
    const int64_t nr = tuneValue("nr");
    const Exprs strides = lowering_.stridesOf(typeOf(b));
    packing.family = "pack_" + spec_.family;
    packing.name = packing.family + sizeName({n, k});
    packing.tune = {lowering_.named("nr", lowering_.number(nr))};
    if (const int64_t pairs = tuneValue("pairs"); pairs > 1) {
      packing.tune.push_back(lowering_.named("pairs", lowering_.number(pairs)));
    }
    packing.shape = {lowering_.named("n", lowering_.number(n)),
                     lowering_.named("k", lowering_.number(k)),
                     lowering_.named("strideN", lowering_.number(strides[0])),
                     lowering_.named("strideK", lowering_.number(strides[1]))};
    b = pack(weight, packing,
             {ceilDiv(n, nr), spec_.family == "gemm" ? k : 4 * ceilDiv(k, 4), constant(nr)});
  } else {
    auto [plain, ldw] = collapseRows(b, "the rows of the weight are one stride apart");
    b = plain;
    spec_.shape.push_back(lowering_.named("ldw", lowering_.number(ldw)));
  }
  spec_.shape.push_back(lowering_.named("ldc", lowering_.number(ldc)));
  spec_.shape.push_back(lowering_.named("epilogueStride", epilogueStrideAttribute(strideRows)));
  spec_.name = spec_.family + sizeName({m, n, k}) + suffix();
  return finish(x, b, place.first, direct);
}

LogicalResult ContractionLowering::finishAsMatmul(
    llvm::ArrayRef<AffineExpr> size, std::pair<Value, AffineExpr> x, Value weight,
    const std::pair<std::pair<Value, AffineExpr>, Value>& result,
    llvm::ArrayRef<Exprs> epilogueRows) {
  const Exprs weightStrides = lowering_.stridesOf(typeOf(weight));
  const AffineExpr none = constant(0);
  const AffineExpr one = constant(1);
  llvm::SmallVector<Exprs> epilogueStrides;
  for (const Exprs& row : epilogueRows) {
    epilogueStrides.push_back({none, none, none, row[0], row[1]});
  }
  auto put = [&](llvm::StringRef key, mlir::Attribute value) {
    spec_.shape.push_back(lowering_.named(key, value));
  };
  put("batch", lowering_.numbers({one, one, one}));
  put("m", lowering_.number(size[0]));
  put("n", lowering_.number(size[1]));
  put("k", lowering_.number(size[2]));
  put("aRow", lowering_.number(x.second));
  put("aCol", lowering_.number(one));
  put("bRow", lowering_.number(weightStrides[1]));
  put("bCol", lowering_.number(weightStrides[0]));
  put("cRow", lowering_.number(result.first.second));
  put("epilogueStride", epilogueStrideAttribute(epilogueStrides));
  spec_.name = "linear" + sizeName(size) + suffix();
  return finish(x.first, weight, result.first.first, result.second);
}

std::pair<std::pair<Value, AffineExpr>, Value> ContractionLowering::resultPlace() {
  Value wanted = wantedPlace();
  Exprs strides = lowering_.stridesOf(typeOf(wanted));
  Exprs leading(extents_.begin(), extents_.end() - 1);
  const AffineExpr last = strides.pop_back_val();
  auto loops = mergeLoops(makeLoops(lowering_, leading, {strides}));
  if (loops.size() <= 1 && (last == constant(1) || extents_.back() == constant(1))) {
    return {{wanted, loops.empty() ? extents_.back() : loops[0].strides[0]}, wanted};
  }
  Value fresh = lowering_.slot(lowering_.contiguousType(extents_, written()));
  return {{fresh, extents_.back()}, wanted};
}

std::string ContractionLowering::elementwiseNames() {
  std::string text;
  for (Operation& op : fusion_.getBody().front().without_terminator()) {
    if (&op != root_ && llvm::isa<op::ElementwiseOpInterface>(op)) {
      text += "_" + op.getName().stripDialect().str();
    }
  }
  return text;
}

void ContractionLowering::setEarly(Value b) {
  if (mlir::NamedAttribute* early = spec_.tunable("early")) {
    early->setValue(
        lowering_.number(lowering_.earliness(fusion_, lowering_.isFixedInRun(outer(1u), b))));
  }
}

LogicalResult ContractionLowering::finish(Value a, Value b, Value out, Value wanted) {
  setEarly(b);
  spec_.inputs = {a, b};
  llvm::append_range(spec_.inputs, epilogueBuffers_);
  spec_.outputs = {out};
  addEpilogueBody();
  // The kernel computes a whole tile in registers before it stores the tile, so the result may
  // overwrite an epilogue operand of the same layout.
  const Exprs outStrides = lowering_.stridesOf(typeOf(out));
  for (size_t i = 0; i < epilogueBuffers_.size(); ++i) {
    if (epilogueStrides_[i] == outStrides &&
        lowering_.extentsOf(typeOf(epilogueBuffers_[i])) == extents_ &&
        typeOf(epilogueBuffers_[i]).getElementType() == typeOf(out).getElementType()) {
      spec_.ties.push_back({static_cast<int64_t>(2 + i), 0});
    }
  }
  if (kernel_->workspace) {
    const sl_problem asked = problem_.view();
    if (const int64_t bytes = kernel_->workspace(&asked); bytes > 0) {
      spec_.workspace.push_back(lowering_.workspace(bytes));
    }
  }
  lowering_.launch(fusion_.getLoc(), spec_);
  if (out != wanted) {
    lowering_.copy(fusion_.getLoc(), out, wanted, "copy",
                   "the result is wanted in another layout than the kernel writes");
  }
  return success();
}

void ContractionLowering::launchRest(Value from) {
  if (epilogueBias()) {
    accesses_.erase(accesses_.begin());  // the library has added it
  }
  bindEpilogue();
  KernelSpec rest;
  rest.name = "pointwise" + elementwiseNames();
  rest.op = spec_.op;
  rest.why = "what the epilogue of the kernel before it does not take";
  rest.inputs = {from};
  llvm::SmallVector<Exprs> strides = {lowering_.stridesOf(typeOf(from))};
  llvm::SmallVector<mlir::Type> types = {element()};
  for (auto [buffer, through] : llvm::zip(epilogueBuffers_, epilogueStrides_)) {
    rest.inputs.push_back(buffer);
    strides.push_back(through);
    types.push_back(scalarType(typeOf(buffer).getElementType()));
  }
  for (Value result : fusion_.getResults()) {
    rest.outputs.push_back(lowering_.destination(result));
    strides.push_back(lowering_.stridesOf(typeOf(rest.outputs.back())));
  }
  rest.bodies.push_back(
      {"body", types, [this](mlir::OpBuilder& builder, mlir::ValueRange given) {
         ScalarEvaluator evaluator(fusion_, builder, [&](unsigned operand, AccessMap map) {
           return given[1 + (llvm::find(accesses_, Access{operand, map}) - accesses_.begin())];
         });
         evaluator.define(root_->getResult(0), given[0]);
         return llvm::map_to_vector(
             yielded(), [&](Value value) { return *evaluator.evaluate(value, identity_); });
       }});
  lowering_.launchPointwise(fusion_.getLoc(), rest, extents_, strides);
}

void ContractionLowering::makeDenseForMatvec(Value& a, Value& b) {
  const bool isColumn = extents_.back() == constant(1);
  const bool isLinear = llvm::isa<op::LinearOp>(root_);
  Value& matrix = isColumn ? a : b;
  Value& vector = isColumn ? b : a;
  const AffineExpr one = constant(1);
  const kernel::BufferType vectorType = typeOf(vector);
  const size_t along = lowering_.extentsOf(vectorType).size() - (isColumn && !isLinear ? 2 : 1);
  if (lowering_.stridesOf(vectorType)[along] != one &&
      lowering_.extentsOf(vectorType)[along] != one) {
    vector =
        lowering_.contiguous(fusion_.getLoc(), vector, "the vector of a product is read densely");
  }
  const Exprs strides = lowering_.stridesOf(typeOf(matrix));
  const Exprs extents = lowering_.extentsOf(typeOf(matrix));
  const bool isDense = extents.size() < 2 ||
                       llvm::any_of(
                           llvm::seq<size_t>(extents.size() - 2, extents.size()),
                           [&](size_t dim) { return strides[dim] == one || extents[dim] == one; });
  if (!isDense) {
    matrix = lowering_.contiguous(fusion_.getLoc(), matrix,
                                  "the matrix of a product is read along its rows or its columns");
  }
}

LogicalResult ContractionLowering::finishAsMatvec(const MatmulOperands& operands) {
  const size_t first = operands.extents.size() - 2, second = first + 1;
  const AffineExpr m = operands.extents[first], n = operands.extents[second];
  const bool isColumn = n == constant(1);
  const AffineExpr rows = isColumn ? m : n;
  // An extent of one has no meaningful stride: 1 tells the kernel that elements are contiguous.
  AffineExpr row = isColumn ? operands.aStrides[first] : operands.bStrides[second];
  AffineExpr col = isColumn ? operands.aStrides[second] : operands.bStrides[first];
  if (operands.k == constant(1)) {
    col = constant(1);
  } else if (rows == constant(1) && col != constant(1)) {
    row = constant(1);
  }
  auto put = [&](llvm::StringRef key, mlir::Attribute value) {
    spec_.shape.push_back(lowering_.named(key, value));
  };
  llvm::SmallVector<Exprs> epilogueRows;
  for (const Exprs& strides : operands.epilogueRows) {
    epilogueRows.push_back({strides[0], strides[1], strides[2], strides[isColumn ? 3 : 4]});
  }
  put("batch", lowering_.numbers(lowering::extentsOf(operands.batch)));
  put("rows", lowering_.number(rows));
  put("k", lowering_.number(operands.k));
  put("mBatch", lowering_.numbers(stridesOf(operands.batch, isColumn ? 0 : 1)));
  put("mRow", lowering_.number(row));
  put("mCol", lowering_.number(col));
  put("xBatch", lowering_.numbers(stridesOf(operands.batch, isColumn ? 1 : 0)));
  put("outBatch", lowering_.numbers(stridesOf(operands.batch, 2)));
  put("outStep", lowering_.number(isColumn ? operands.outStrides[first] : constant(1)));
  put("epilogueStride", epilogueStrideAttribute(epilogueRows));
  spec_.name = "matvec" + sizeName({operands.items, m, n, operands.k}) + suffix();
  return finish(isColumn ? operands.a : operands.b, isColumn ? operands.b : operands.a,
                operands.out, operands.wanted);
}

void ContractionLowering::bindMatmul(MatmulOperands& operands) {
  operands.a = lowering_.bufferOf(outer(0u));
  operands.b = lowering_.bufferOf(outer(1u));
  if (spec_.family == "matvec") {
    makeDenseForMatvec(operands.a, operands.b);
  }
  if (tuneValue("pairs") == 2 && lowering_.stridesOf(typeOf(operands.a)).back() != constant(1)) {
    operands.a = lowering_.contiguous(fusion_.getLoc(), operands.a,
                                      "pairs of neighbours along k are one step of the product");
  }
  operands.aStrides = lowering_.stridesOf(typeOf(operands.a));
  operands.bStrides = lowering_.stridesOf(typeOf(operands.b));
  const Exprs aExtents = lowering_.extentsOf(typeOf(operands.a));
  operands.k = aExtents.back();
  if (llvm::isa<op::LinearOp>(root_)) {
    std::swap(operands.bStrides[0], operands.bStrides[1]);  // [n, k] read as [k, n]
    const size_t batchDims = aExtents.size() - std::min<size_t>(2, aExtents.size());
    // the same for every batch
    operands.bStrides.insert(operands.bStrides.begin(), batchDims, constant(0));
  }
  if (aExtents.size() == 1) {
    operands.aStrides.insert(operands.aStrides.begin(), constant(0));
  }
  bindEpilogue();
  operands.wanted = wantedPlace();
  operands.out = operands.wanted;
  operands.outStrides = lowering_.stridesOf(typeOf(operands.out));
  if (operands.outStrides.back() != constant(1) && extents_.back() != constant(1)) {
    operands.out = lowering_.slot(lowering_.contiguousType(extents_, written()));
    operands.outStrides = lowering_.rowMajor(extents_);
  }
  operands.extents = extents_;
  if (extents_.size() == 1) {
    operands.extents.insert(operands.extents.begin(), constant(1));
    operands.outStrides.insert(operands.outStrides.begin(), extents_.back());
    for (Exprs& strides : epilogueStrides_) {
      strides.insert(strides.begin(), constant(0));
    }
  }
}

LogicalResult ContractionLowering::mergeBatch(MatmulOperands& operands) {
  const size_t batchDims = operands.extents.size() - 2;
  auto take = [&](const Exprs& values) { return part(values, 0, batchDims); };
  llvm::SmallVector<Exprs> strides = {take(operands.aStrides), take(operands.bStrides),
                                      take(operands.outStrides)};
  for (const Exprs& epilogue : epilogueStrides_) {
    strides.push_back(take(epilogue));
  }
  operands.items = lowering_.product(take(operands.extents));
  operands.batch = mergeLoops(makeLoops(lowering_, take(operands.extents), strides));
  if (operands.batch.size() > 3) {
    return fusion_.emitOpError() << "has " << operands.batch.size()
                                 << " separate batch dims; matmul takes up to 3";
  }
  while (operands.batch.size() < 3) {
    operands.batch.insert(operands.batch.begin(),
                          Loop{constant(1), Exprs(strides.size(), constant(0))});
  }
  for (size_t i = 0; i < epilogueBuffers_.size(); ++i) {
    Exprs row = stridesOf(operands.batch, 3 + i);
    row.append(epilogueStrides_[i].begin() + batchDims, epilogueStrides_[i].end());
    operands.epilogueRows.push_back(row);
  }
  return success();
}

LogicalResult ContractionLowering::lowerMatmul() {
  MatmulOperands operands;
  bindMatmul(operands);
  if (failed(mergeBatch(operands))) {
    return failure();
  }
  if (spec_.family == "matvec") {
    return finishAsMatvec(operands);
  }
  auto put = [&](llvm::StringRef key, mlir::Attribute value) {
    spec_.shape.push_back(lowering_.named(key, value));
  };
  const size_t row = operands.extents.size() - 2, column = row + 1;
  put("batch", lowering_.numbers(lowering::extentsOf(operands.batch)));
  put("m", lowering_.number(operands.extents[row]));
  put("n", lowering_.number(operands.extents[column]));
  put("k", lowering_.number(operands.k));
  put("aBatch", lowering_.numbers(stridesOf(operands.batch, 0)));
  put("aRow", lowering_.number(operands.aStrides[row]));
  put("aCol", lowering_.number(operands.aStrides[column]));
  put("bBatch", lowering_.numbers(stridesOf(operands.batch, 1)));
  put("bRow", lowering_.number(operands.bStrides[row]));
  put("bCol", lowering_.number(operands.bStrides[column]));
  put("cBatch", lowering_.numbers(stridesOf(operands.batch, 2)));
  put("cRow", lowering_.number(operands.outStrides[row]));
  put("epilogueStride", epilogueStrideAttribute(operands.epilogueRows));
  spec_.name =
      "matmul" +
      sizeName({operands.items, operands.extents[row], operands.extents[column], operands.k}) +
      suffix();
  return finish(operands.a, operands.b, operands.out, operands.wanted);
}

namespace {

LogicalResult lowerContraction(op::FusionOp fusion, LoweringContext& context) {
  return ContractionLowering(context, fusion).lower();
}

}  // namespace

void registerContractionRules(RuleSet& rules) {
  rules.addFamily("gemm", lowerContraction);
  rules.addFamily("matmul", lowerContraction);
  rules.addFamily("convolution", lowerContraction);
}

}  // namespace straightline::lowering
