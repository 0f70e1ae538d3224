// SPDX-License-Identifier: Apache-2.0
// linear, matmul and convolution with their epilogues. The kernel was chosen by select_kernels (attribute op.kernel); here
// its operands are brought into the form that the kernel's family asks for: weights packed in prepare, rows collapsed,
// activations channels-last with their zero border.
#include "passes/contraction_problem.h"
#include "passes/kernel_choice.h"
#include "passes/lowering/loops.h"

#include "llvm/ADT/STLExtras.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace straightline::lowering {

using mlir::AffineExpr;
using mlir::AffineMap;
using mlir::failure;
using mlir::FailureOr;
using mlir::LogicalResult;
using mlir::Operation;
using mlir::success;
using mlir::Value;

class ContractionLowering {
 public:
  ContractionLowering(Lowering& lowering, op::FusionOp fusion)
      : lowering_(lowering), fusion_(fusion), problem_(contractionProblem(fusion, lowering.target())) {
    root_ = contractionRoot(fusion);
    extents_ = lowering_.extentsOf(fusion.getResult(0));
    identity_ = AffineMap::getMultiDimIdentityMap(extents_.size(), lowering_.context());
  }

  LogicalResult lower() {
    auto name = fusion_->getAttrOfType<mlir::StringAttr>("op.kernel");
    kernel_ = name ? findKernel(name.getValue()) : nullptr;
    if (!kernel_) {
      return fusion_.emitOpError("has no kernel; select_kernels probably lacks a case");
    }
    if (auto why = fusion_->getAttrOfType<mlir::StringAttr>("op.why")) {
      spec_.why = why.str();
    }
    spec_.op = Lowering::opNames(fusion_);
    if (auto choice = fusion_->getAttrOfType<mlir::StringAttr>("op.choice")) {
      spec_.choice = choice.str();
    }
    if (auto alone = fusion_->getAttrOfType<mlir::BoolAttr>("op.alone")) {
      spec_.alone = alone.getValue();
    }
    const sl_problem asked = problem_.view();
    spec_.costUs = kernel_->cost(&asked);
    spec_.costOfTeam = true;
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

 private:
  LogicalResult lowerEmitted() {
    const llvm::StringRef op = kernel_->op;
    return op == "linear" ? lowerLinear() : op == "matmul" ? lowerMatmul() : lowerConvolution();
  }
  AffineExpr constant(int64_t value) { return lowering_.constant(value); }
  int64_t tuneValue(llvm::StringRef key) {
    for (mlir::NamedAttribute entry : spec_.tune) {
      if (entry.getName() == key) {
        return llvm::cast<mlir::IntegerAttr>(entry.getValue()).getInt();
      }
    }
    return 0;
  }
  /// The fusion's input that the root's operand `i` is.
  Value outer(unsigned i) { return fusionInput(fusion_, root_->getOperand(i)); }
  Value outer(Value operand) { return fusionInput(fusion_, operand); }

  // --- epilogue

  Value epilogueBias() {
    if (auto linear = llvm::dyn_cast<op::LinearOp>(root_)) {
      return linear.getBias();
    }
    auto convolution = llvm::dyn_cast<op::ConvolutionOp>(root_);
    return convolution ? convolution.getBias() : Value();
  }
  int64_t channelDim() { return llvm::isa<op::ConvolutionOp>(root_) ? 1 : static_cast<int64_t>(extents_.size()) - 1; }

  LogicalResult findEpilogue() {
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
          scalarType(llvm::cast<mlir::RankedTensorType>(fusion_.getInputs()[operand].getType()).getElementType()),
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

  mlir::OperandRange yielded() { return fusion_.getBody().front().getTerminator()->getOperands(); }
  mlir::Type element() { return llvm::cast<mlir::RankedTensorType>(root_->getResult(0).getType()).getElementType(); }
  /// What the kernel sums products of `element()` in.
  mlir::Type accumulator() {
    return element().getIntOrFloatBitWidth() < 32 ? mlir::Float32Type::get(lowering_.context()) : element();
  }
  /// What the kernel writes.
  mlir::Type written() { return plain_ ? element() : elementOf(fusion_.getResult(0)); }
  /// Whether the kernel is a library's that puts its work on a device's queue.
  bool runsOnQueue() { return onDevice() && spec_.family.empty(); }
  bool onDevice() { return lowering_.target().getBackend() != "cpu"; }

  /// The epilogue operands as buffers of the result's extents (strides 0 where broadcast).
  void bindEpilogue() {
    for (const Access& access : accesses_) {
      Value buffer = lowering_.bufferOf(fusion_.getInputs()[access.operand]);
      epilogueBuffers_.push_back(buffer);
      epilogueStrides_.push_back(lowering_.stridesThrough(buffer, access.map));
    }
  }

  /// Copies epilogue operand `i` to memory laid out as `strides`.
  void materialise(size_t i, const Exprs& strides) {
    mlir::Type type = Lowering::typeOf(epilogueBuffers_[i]).getElementType();
    Value expanded = lowering_.view(fusion_.getLoc(), epilogueBuffers_[i],
                                    lowering_.type(extents_, type, epilogueStrides_[i]), constant(0));
    Value fresh = lowering_.slot(lowering_.type(extents_, type, strides));
    lowering_.copy(fusion_.getLoc(), expanded, fresh, "copy", "the epilogue reads it in the order of the result");
    epilogueBuffers_[i] = fresh;
    epilogueStrides_[i] = strides;
  }

  void addEpilogueBody() {
    llvm::SmallVector<mlir::Type> types = {accumulator()};
    for (Value buffer : epilogueBuffers_) {
      types.push_back(scalarType(Lowering::typeOf(buffer).getElementType()));
    }
    spec_.bodies.push_back({"epilogue", types, [this](mlir::OpBuilder& builder, mlir::ValueRange given) {
      const mlir::Location loc = fusion_.getLoc();
      const bool isWider = this->accumulator() != element();  // rounded once, behind the bias
      Value accumulator = given[0];
      if (epilogueBias()) {
        Value bias = isWider ? mlir::arith::ExtFOp::create(builder, loc, this->accumulator(), given[1]).getResult() : given[1];
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
      return llvm::map_to_vector(yielded(), [&](Value value) { return *evaluator.evaluate(value, identity_); });
    }});
  }

  mlir::Attribute epilogueStrideAttribute(llvm::ArrayRef<Exprs> rows) {
    llvm::SmallVector<mlir::Attribute> attributes;
    for (const Exprs& row : rows) {
      attributes.push_back(lowering_.numbers(row));
    }
    return mlir::ArrayAttr::get(lowering_.context(), attributes);
  }

  /// Kernels take up to four operands beside the accumulator and write one result: on a CPU of their own element type or, where
  /// that is float32, of 16-bit floats; of any type on a device, where an epilogue works on scalars.
  bool epilogueFits() {
    constexpr size_t kMostEpilogueOperands = 4;
    const auto fits = [&](Value tensor) {
      const mlir::Type type = elementOf(tensor);
      const bool widens = spec_.family != "winograd" && element().isF32() && (type.isBF16() || type.isF16());
      return onDevice() || type == element() || widens;
    };
    return accesses_.size() <= kMostEpilogueOperands && fusion_.getNumResults() == 1 && fits(fusion_.getResult(0)) &&
           llvm::all_of(accesses_, [&](const Access& access) { return fits(fusion_.getInputs()[access.operand]); });
  }
  static mlir::Type elementOf(Value tensor) { return llvm::cast<mlir::RankedTensorType>(tensor.getType()).getElementType(); }

  /// The contraction with its bias alone, then an elementwise kernel for the rest.
  LogicalResult lowerInTwo() {
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
  /// Where the contraction's own result is wanted.
  Value wantedPlace() { return plain_ ? plainResult_ : lowering_.destination(fusion_.getResult(0)); }

  // --- packing

  /// The weight in the kernel's own layout: made in prepare when the weight is known then, per call otherwise. One pack
  /// serves every launch that wants the same layout of the same weight.
  Value pack(Value weight, KernelSpec packing, const Exprs& packedExtents) {
    std::string key = packing.family;
    llvm::raw_string_ostream stream(key);
    for (mlir::NamedAttribute entry : packing.tune) {
      stream << "," << entry.getName().getValue() << "=" << entry.getValue();
    }
    Value source = lowering_.bufferOf(weight);
    stream << "," << source.getAsOpaquePointer();
    auto found = lowering_.packs_.find(key);
    if (found != lowering_.packs_.end()) {
      return found->second;
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
    lowering_.packs_[key] = prepared;
    return prepared;
  }

  static std::string weightName(Value weight) {
    while (Operation* op = weight.getDefiningOp()) {
      if (auto parameter = llvm::dyn_cast<op::ParameterOp>(op)) {
        return parameter.getName().str();
      }
      if (op->getNumOperands() == 0) {
        break;
      }
      // A folded weight is named after the parameter that it was made from: its operand of the highest rank.
      weight = *llvm::max_element(op->getOperands(), [](Value a, Value b) {
        return llvm::cast<mlir::RankedTensorType>(a.getType()).getRank() <
               llvm::cast<mlir::RankedTensorType>(b.getType()).getRank();
      });
    }
    return "weight";
  }

  AffineExpr ceilDiv(AffineExpr value, int64_t by) { return (value + (by - 1)).floorDiv(by); }

  // --- linear

  /// Buffer and row stride of a [.., k] operand whose leading dims are one loop; copied when they are not.
  std::pair<Value, AffineExpr> collapseRows(Value buffer, llvm::StringRef why) {
    while (true) {  // once as it is, once as a copy
      Exprs extents = lowering_.extentsOf(Lowering::typeOf(buffer));
      Exprs strides = lowering_.stridesOf(Lowering::typeOf(buffer));
      const AffineExpr last = strides.pop_back_val();
      const AffineExpr lastExtent = extents.pop_back_val();
      auto loops = mergeLoops(makeLoops(lowering_, extents, {strides}));
      if (loops.size() <= 1 && (last == constant(1) || lastExtent == constant(1))) {
        return {buffer, loops.empty() ? lastExtent : loops[0].strides[0]};
      }
      buffer = lowering_.contiguous(fusion_.getLoc(), buffer, why);
    }
  }

  LogicalResult lowerLinear() {
    auto linear = llvm::cast<op::LinearOp>(root_);
    Value weight = outer(linear.getWeight());
    const Exprs weightExtents = lowering_.extentsOf(weight);
    const AffineExpr n = weightExtents[0];
    const AffineExpr k = weightExtents[1];
    Exprs leading(extents_.begin(), extents_.end() - 1);
    const AffineExpr m = lowering_.product(leading);
    auto [x, lda] = collapseRows(lowering_.bufferOf(outer(linear.getX())), "the rows of a linear are one stride apart");
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
    spec_.shape = {lowering_.named("m", lowering_.number(m)), lowering_.named("n", lowering_.number(n)),
                   lowering_.named("k", lowering_.number(k)), lowering_.named("lda", lowering_.number(lda))};
    if (spec_.family == "gemm") {
      KernelSpec packing;
      const int64_t nr = tuneValue("nr");
      const Exprs strides = lowering_.stridesOf(Lowering::typeOf(b));
      packing.family = "pack_gemm";
      packing.name = "pack_gemm" + sizes({n, k});
      packing.tune = {lowering_.named("nr", lowering_.number(nr))};
      if (const int64_t pairs = tuneValue("pairs"); pairs > 1) {
        packing.tune.push_back(lowering_.named("pairs", lowering_.number(pairs)));
      }
      packing.shape = {lowering_.named("n", lowering_.number(n)), lowering_.named("k", lowering_.number(k)),
                       lowering_.named("strideN", lowering_.number(strides[0])),
                       lowering_.named("strideK", lowering_.number(strides[1]))};
      b = pack(weight, packing, {ceilDiv(n, nr), k, constant(nr)});
    } else {
      auto [plain, ldw] = collapseRows(b, "the rows of the weight are one stride apart");
      b = plain;
      spec_.shape.push_back(lowering_.named("ldw", lowering_.number(ldw)));
    }
    spec_.shape.push_back(lowering_.named("ldc", lowering_.number(ldc)));
    spec_.shape.push_back(lowering_.named("epilogueStride", epilogueStrideAttribute(strideRows)));
    spec_.name = spec_.family + sizes({m, n, k}) + suffix();
    return finish(x, b, place.first, direct);
  }

  /// A linear as one product with its weight [n, k] as it is stored, read as [k, n].
  LogicalResult finishAsMatmul(llvm::ArrayRef<AffineExpr> size, std::pair<Value, AffineExpr> x, Value weight,
                               const std::pair<std::pair<Value, AffineExpr>, Value>& result,
                               llvm::ArrayRef<Exprs> epilogueRows) {
    const Exprs weightStrides = lowering_.stridesOf(Lowering::typeOf(weight));
    const AffineExpr none = constant(0);
    const AffineExpr one = constant(1);
    llvm::SmallVector<Exprs> epilogueStrides;
    for (const Exprs& row : epilogueRows) {
      epilogueStrides.push_back({none, none, none, row[0], row[1]});
    }
    auto put = [&](llvm::StringRef key, mlir::Attribute value) { spec_.shape.push_back(lowering_.named(key, value)); };
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
    spec_.name = "linear" + sizes(size) + suffix();
    return finish(x.first, weight, result.first.first, result.second);
  }

  /// Where the kernel writes: the wanted place when its rows are one stride apart, else memory of its own that is copied.
  std::pair<std::pair<Value, AffineExpr>, Value> resultPlace() {
    Value wanted = wantedPlace();
    Exprs strides = lowering_.stridesOf(Lowering::typeOf(wanted));
    Exprs leading(extents_.begin(), extents_.end() - 1);
    const AffineExpr last = strides.pop_back_val();
    auto loops = mergeLoops(makeLoops(lowering_, leading, {strides}));
    if (loops.size() <= 1 && (last == constant(1) || extents_.back() == constant(1))) {
      return {{wanted, loops.empty() ? extents_.back() : loops[0].strides[0]}, wanted};
    }
    Value fresh = lowering_.slot(lowering_.contiguousType(extents_, written()));
    return {{fresh, extents_.back()}, wanted};
  }

  std::string sizes(llvm::ArrayRef<AffineExpr> values) {
    std::string text;
    for (AffineExpr value : values) {
      std::optional<int64_t> size = symbolic::constantValue(value);
      text += (text.empty() ? "_" : "x") + (size ? std::to_string(*size) : std::string("n"));
    }
    return text;
  }

  /// "_bias_relu": what the epilogue does, for the kernel's name.
  std::string suffix() { return (epilogueBias() ? "_bias" : "") + elementwiseNames(); }
  /// "_relu": the same without the bias.
  std::string elementwiseNames() {
    std::string text;
    for (Operation& op : fusion_.getBody().front().without_terminator()) {
      if (&op != root_ && llvm::isa<op::ElementwiseOpInterface>(op)) {
        text += "_" + op.getName().stripDialect().str();
      }
    }
    return text;
  }

  LogicalResult finish(Value a, Value b, Value out, Value wanted) {
    spec_.inputs = {a, b};
    llvm::append_range(spec_.inputs, epilogueBuffers_);
    spec_.outputs = {out};
    addEpilogueBody();
    // The tile is finished in registers before it is stored: an epilogue operand of the result's layout may be overwritten.
    const Exprs outStrides = lowering_.stridesOf(Lowering::typeOf(out));
    for (size_t i = 0; i < epilogueBuffers_.size(); ++i) {
      if (epilogueStrides_[i] == outStrides && lowering_.extentsOf(Lowering::typeOf(epilogueBuffers_[i])) == extents_ &&
          Lowering::typeOf(epilogueBuffers_[i]).getElementType() == Lowering::typeOf(out).getElementType()) {
        spec_.ties.push_back({static_cast<int64_t>(2 + i), 0});
      }
    }
    if (kernel_->workspace) {
      const sl_problem asked = problem_.view();
      if (const int64_t bytes = kernel_->workspace(&asked); bytes > 0) {
        spec_.workspace.push_back(lowering_.slot(
            lowering_.contiguousType({constant(bytes)}, mlir::IntegerType::get(lowering_.context(), 8))));
      }
    }
    lowering_.launch(fusion_.getLoc(), spec_);
    if (out != wanted) {
      lowering_.copy(fusion_.getLoc(), out, wanted, "copy", "the result is wanted in another layout than the kernel writes");
    }
    return success();
  }

  // --- external libraries

  /// Of a library on a device's queue: any strides of which one is 1, the bias of a linear, one activation.
  LogicalResult lowerProductOnQueue() {
    auto linear = llvm::dyn_cast<op::LinearOp>(root_);
    const mlir::Location loc = fusion_.getLoc();
    const int64_t activation = libraryActivation();
    const bool whole = activation >= 0;
    Value wanted = whole ? lowering_.destination(fusion_.getResult(0)) : Value();
    const bool direct = whole && lowering_.stridesOf(Lowering::typeOf(wanted)) == lowering_.rowMajor(extents_);
    Value out = direct ? wanted : lowering_.slot(lowering_.contiguousType(extents_, element()));
    Value a = lowering_.bufferOf(outer(0u));
    Value b = lowering_.bufferOf(outer(1u));
    llvm::SmallVector<mlir::NamedAttribute> attributes;
    auto put = [&](llvm::StringRef key, AffineExpr value) { attributes.push_back(lowering_.named(key, lowering_.number(value))); };
    const Exprs weight = lowering_.extentsOf(Lowering::typeOf(b));
    if (linear) {
      auto [rows, stride] = collapseRows(a, kDense);
      a = rows;
      b = withUnitStride(b);
      const Exprs strides = lowering_.stridesOf(Lowering::typeOf(b));
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
    put("activation", constant(std::max<int64_t>(activation, 0)));
    const sl_problem asked = problem_.view();
    for (int32_t i = 0; i < asked.attribute_count; ++i) {
      if (llvm::StringRef(asked.attributes[i].name) == "tf32") {
        put("tf32", constant(asked.attributes[i].value));
      }
    }
    llvm::SmallVector<Value> inputs = {a, b};
    if (epilogueBias()) {
      inputs.push_back(lowering_.contiguous(loc, lowering_.bufferOf(outer(epilogueBias())), kDense));
    }
    callLibrary(inputs, {}, out, attributes);
    if (!whole) {
      launchRest(out);
    } else if (!direct) {
      lowering_.copy(loc, out, wanted, "copy", "the result is wanted in another layout than the library writes");
    }
    return success();
  }

  /// What the library does behind its product, as it numbers it (CUBLASLT_EPILOGUE_RELU, _GELU); 0: nothing; -1: not all of what
  /// there is to do.
  int64_t libraryActivation() {
    constexpr int64_t kRelu = 2, kGelu = 32;
    // The library's tanh has some 20 bits.
    const auto isGelu = [&](Operation* op) {
      auto gelu = llvm::dyn_cast<op::GeluOp>(op);
      return gelu && gelu.getApproximate() == "tanh" && element().getIntOrFloatBitWidth() == 16;
    };
    if (fusion_.getNumResults() != 1) {
      return -1;
    }
    const Value result = root_->getResult(0);
    if (yielded()[0] == result) {
      return 0;
    }
    auto converted = [](Value value) {  // what 16-bit floats are widened for lies between
      auto cast = llvm::dyn_cast_if_present<op::ToDtypeOp>(value.getDefiningOp());
      return cast && value.hasOneUse() ? cast.getX() : value;
    };
    Operation* last = elementOf(fusion_.getResult(0)) == element() ? converted(yielded()[0]).getDefiningOp() : nullptr;
    if (last && last->getNumOperands() == 1 && last->getOperand(0) != result && result.hasOneUse() &&
        converted(last->getOperand(0)) == result) {
      return llvm::isa<op::ReluOp>(last) ? kRelu : isGelu(last) ? kGelu : -1;
    }
    if (!last || last->getNumOperands() != 1 || last->getOperand(0) != result || !result.hasOneUse()) {
      return -1;
    }
    return llvm::isa<op::ReluOp>(last) ? kRelu : isGelu(last) ? kGelu : -1;
  }

  /// The buffer, or a dense copy where neither of its last two dims lies densely.
  Value withUnitStride(Value buffer) {
    const Exprs strides = lowering_.stridesOf(Lowering::typeOf(buffer));
    const bool isDense = strides.back() == constant(1) || (strides.size() > 1 && strides[strides.size() - 2] == constant(1));
    return isDense ? buffer : lowering_.contiguous(fusion_.getLoc(), buffer, kDense);
  }

  /// Notes the strides of an operand of a batched product, whose leading dims are one loop; copied when they are not.
  Value putBatched(llvm::StringRef name, Value buffer, llvm::SmallVectorImpl<mlir::NamedAttribute>& attributes) {
    auto put = [&](const char* what, AffineExpr value) {
      attributes.push_back(lowering_.named((name + what).str(), lowering_.number(value)));
    };
    auto extents = lowering_.extentsOf(Lowering::typeOf(buffer));
    Exprs strides = lowering_.stridesOf(Lowering::typeOf(buffer));
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
      attributes.push_back(lowering_.named("batch", lowering_.number(batch.empty() ? constant(1) : batch[0].extent)));
    }
    return buffer;
  }

  LogicalResult lowerExternal() {
    if (runsOnQueue()) {
      return lowerProductOnQueue();
    }
    auto linear = llvm::dyn_cast<op::LinearOp>(root_);
    if (!linear) {
      return fusion_.emitOpError() << "kernel " << kernel_->name << " is external, and only linear has a calling rule";
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
    // The library computes x * w^T + b; whatever follows is an elementwise kernel over its result.
    const bool plain = fusion_.getNumResults() == 1 && yielded()[0] == root_->getResult(0);
    Value wanted = plain ? lowering_.destination(fusion_.getResult(0)) : Value();
    Value whole = plain && lowering_.stridesOf(Lowering::typeOf(wanted)) == lowering_.rowMajor(extents_)
                      ? wanted
                      : lowering_.slot(lowering_.contiguousType(extents_, element()));
    Value flat = lowering_.tryReshape(loc, whole, {m, extents_.back()});
    llvm::SmallVector<Value> inputs = {x};
    llvm::append_range(inputs, constants);
    llvm::SmallVector<mlir::NamedAttribute> attributes;
    const sl_problem asked = problem_.view();
    for (int32_t i = 0; i < asked.attribute_count; ++i) {
      attributes.push_back(lowering_.named(asked.attributes[i].name, lowering_.number(asked.attributes[i].value)));
    }
    callLibrary(inputs, constants, flat, attributes);
    if (whole != wanted) {
      launchRest(whole);
    }
    return success();
  }

  /// The buffer of a value known before the first run; when its elements do not lie densely, a dense copy made in prepare.
  Value denseConstant(Value tensor) {
    Value buffer = lowering_.bufferOf(tensor);
    const Exprs extents = lowering_.extentsOf(Lowering::typeOf(buffer));
    if (lowering_.stridesOf(Lowering::typeOf(buffer)) == lowering_.rowMajor(extents) ||
        lowering_.inPrepare()) {
      return lowering_.contiguous(fusion_.getLoc(), buffer, kDense);
    }
    const std::string key = "dense," + std::to_string(reinterpret_cast<uintptr_t>(buffer.getAsOpaquePointer()));
    Value& dense = lowering_.packs_[key];
    if (!dense) {
      dense = preparedBuffer(tensor, ".dense", lowering_.contiguousType(extents, Lowering::typeOf(buffer).getElementType()));
      lowering_.atEndOfPrepare([&] {
        lowering_.copy(fusion_.getLoc(), lowering_.viewInPrepare(buffer), dense, "copy", kDense);
      });
    }
    return dense;
  }
  static constexpr llvm::StringLiteral kDense = "the library takes dense rows";

  /// New storage that prepare fills, named after `tensor`.
  Value preparedBuffer(Value tensor, llvm::StringRef suffix, kernel::BufferType type) {
    return lowering_.preparedBuffer(fusion_.getLoc(), type, weightName(tensor) + suffix.str());
  }

  /// `constants`: those at the end of `inputs` that the plan reads.
  void callLibrary(llvm::ArrayRef<Value> inputs, llvm::ArrayRef<Value> constants, Value out,
                   llvm::ArrayRef<mlir::NamedAttribute> attributes) {
    mlir::OpBuilder builder(lowering_.context());
    const mlir::Location loc = fusion_.getLoc();
    const mlir::StringAttr plan = kernel_->plan_symbol ? builder.getStringAttr(kernel_->plan_symbol) : mlir::StringAttr();
    const mlir::StringAttr destroy = plan ? builder.getStringAttr(plan.getValue() + "_destroy") : mlir::StringAttr();
    builder.setInsertionPointToEnd(lowering_.module_.getBody());
    auto types = [&](llvm::ArrayRef<Value> values) {
      return builder.getTypeArrayAttr(llvm::map_to_vector(values, [](Value value) { return value.getType(); }));
    };
    llvm::SmallVector<bool> isConstant(inputs.size(), true);
    std::fill(isConstant.begin(), isConstant.end() - constants.size(), false);
    const sl_problem asked = problem_.view();
    llvm::SmallVector<Value> workspace;
    if (const int64_t bytes = kernel_->workspace ? kernel_->workspace(&asked) : 0; bytes > 0) {
      workspace.push_back(lowering_.slot(lowering_.contiguousType({constant(bytes)}, builder.getI8Type())));
    }
    std::string name = llvm::StringRef(kernel_->name).str();
    std::replace(name.begin(), name.end(), '.', '_');
    name += "_" + std::to_string(lowering_.usedNames_["decl." + name]++);
    auto decl = kernel::DeclOp::create(builder, loc, builder.getStringAttr(name), types(inputs),
                           mlir::DenseBoolArrayAttr::get(lowering_.context(), isConstant), types({out}),
                           builder.getStrArrayAttr({"write"}), types(workspace), builder.getStringAttr(kernel_->op),
                           builder.getDictionaryAttr(attributes), builder.getStringAttr(kernel_->run_symbol),
                           plan, destroy, kernel_->can_fail ? builder.getUnitAttr() : mlir::UnitAttr());
    if (runsOnQueue()) {
      decl->setAttr(kernel::kRunsOnAttr, builder.getStringAttr(lowering_.target().getBackend()));
    }
    auto queue = mlir::FlatSymbolRefAttr::get(lowering_.context(), lowering_.teamQueue());
    auto callee = mlir::FlatSymbolRefAttr::get(lowering_.context(), name);
    Value handle;
    if (plan) {
      builder.setInsertionPoint(lowering_.prepare_);
      handle = kernel::HandleOp::create(builder, loc, kernel::HandleType::get(lowering_.context()),
                                        builder.getStringAttr(name), destroy);
      llvm::SmallVector<Value> early = llvm::map_to_vector(constants, [&](Value constant) { return lowering_.viewInPrepare(constant); });
      builder.setInsertionPointToEnd(&lowering_.prepare_.getBody().front());
      kernel::PlanOp::create(builder, loc, callee, early, handle, queue);
    }
    auto call = kernel::CallOp::create(lowering_.builder_, loc, callee, inputs, mlir::ValueRange{out}, handle, workspace,
                                       queue, kernel_->whole_team ? mlir::IntegerAttr() : builder.getI64IntegerAttr(1),
                                       builder.getStringAttr(spec_.op), builder.getStringAttr(spec_.why));
    call->setAttr("kernel.cost_us", builder.getF64FloatAttr(spec_.costUs));
    if (!spec_.choice.empty()) {
      call->setAttr("kernel.choice", builder.getStringAttr(spec_.choice));
    }
  }

  /// The epilogue beyond the bias as an elementwise kernel.
  void launchRest(Value from) {
    if (epilogueBias()) {
      accesses_.erase(accesses_.begin());  // the library has added it
    }
    bindEpilogue();
    KernelSpec rest;
    rest.name = "pointwise" + elementwiseNames();
    rest.op = spec_.op;
    rest.why = "what the epilogue of the kernel before it does not take";
    rest.inputs = {from};
    llvm::SmallVector<Exprs> strides = {lowering_.stridesOf(Lowering::typeOf(from))};
    llvm::SmallVector<mlir::Type> types = {element()};
    for (auto [buffer, through] : llvm::zip(epilogueBuffers_, epilogueStrides_)) {
      rest.inputs.push_back(buffer);
      strides.push_back(through);
      types.push_back(scalarType(Lowering::typeOf(buffer).getElementType()));
    }
    for (Value result : fusion_.getResults()) {
      rest.outputs.push_back(lowering_.destination(result));
      strides.push_back(lowering_.stridesOf(Lowering::typeOf(rest.outputs.back())));
    }
    rest.bodies.push_back({"body", types, [this](mlir::OpBuilder& builder, mlir::ValueRange given) {
      ScalarEvaluator evaluator(fusion_, builder, [&](unsigned operand, AccessMap map) {
        return given[1 + (llvm::find(accesses_, Access{operand, map}) - accesses_.begin())];
      });
      evaluator.define(root_->getResult(0), given[0]);
      return llvm::map_to_vector(yielded(), [&](Value value) { return *evaluator.evaluate(value, identity_); });
    }});
    lowering_.launchPointwise(fusion_.getLoc(), rest, extents_, strides);
  }

  // --- matmul (also a linear whose weight is computed while running)

  LogicalResult lowerMatmul() {
    Value a = lowering_.bufferOf(outer(0u));
    Value b = lowering_.bufferOf(outer(1u));
    Exprs aStrides = lowering_.stridesOf(Lowering::typeOf(a));
    Exprs bStrides = lowering_.stridesOf(Lowering::typeOf(b));
    const Exprs aExtents = lowering_.extentsOf(Lowering::typeOf(a));
    if (llvm::isa<op::LinearOp>(root_)) {
      std::swap(bStrides[0], bStrides[1]);                       // [n, k] read as [k, n]
      bStrides.insert(bStrides.begin(), aExtents.size() - 2 < aExtents.size() ? aExtents.size() - std::min<size_t>(2, aExtents.size()) : 0,
                      constant(0));                              // the same for every batch
    }
    if (aExtents.size() == 1) {
      aStrides.insert(aStrides.begin(), constant(0));
    }
    bindEpilogue();
    Value wanted = wantedPlace();
    Value out = wanted;
    Exprs outStrides = lowering_.stridesOf(Lowering::typeOf(out));
    if (outStrides.back() != constant(1) && extents_.back() != constant(1)) {
      out = lowering_.slot(lowering_.contiguousType(extents_, written()));
      outStrides = lowering_.rowMajor(extents_);
    }
    Exprs extents = extents_;
    if (extents.size() == 1) {
      extents.insert(extents.begin(), constant(1));
      outStrides.insert(outStrides.begin(), extents.back());
      for (Exprs& strides : epilogueStrides_) {
        strides.insert(strides.begin(), constant(0));
      }
    }
    const size_t batchDims = extents.size() - 2;
    auto take = [&](const Exprs& strides) { return Exprs(strides.begin(), strides.begin() + batchDims); };
    llvm::SmallVector<Exprs> batchStrides = {take(aStrides), take(bStrides), take(outStrides)};
    for (const Exprs& strides : epilogueStrides_) {
      batchStrides.push_back(take(strides));
    }
    auto batch = mergeLoops(makeLoops(lowering_, take(extents), batchStrides));
    if (batch.size() > 3) {
      return fusion_.emitOpError() << "has " << batch.size() << " separate batch dims; matmul takes up to 3";
    }
    while (batch.size() < 3) {
      batch.insert(batch.begin(), Loop{constant(1), Exprs(batchStrides.size(), constant(0))});
    }
    llvm::SmallVector<Exprs> epilogueRows;
    for (size_t i = 0; i < epilogueBuffers_.size(); ++i) {
      Exprs row = stridesOf(batch, 3 + i);
      row.append(epilogueStrides_[i].begin() + batchDims, epilogueStrides_[i].end());
      epilogueRows.push_back(row);
    }
    const AffineExpr k = aExtents.back();
    auto put = [&](llvm::StringRef key, mlir::Attribute value) { spec_.shape.push_back(lowering_.named(key, value)); };
    put("batch", lowering_.numbers(lowering::extentsOf(batch)));
    put("m", lowering_.number(extents[batchDims]));
    put("n", lowering_.number(extents[batchDims + 1]));
    put("k", lowering_.number(k));
    put("aBatch", lowering_.numbers(stridesOf(batch, 0)));
    put("aRow", lowering_.number(aStrides[batchDims]));
    put("aCol", lowering_.number(aStrides[batchDims + 1]));
    put("bBatch", lowering_.numbers(stridesOf(batch, 1)));
    put("bRow", lowering_.number(bStrides[batchDims]));
    put("bCol", lowering_.number(bStrides[batchDims + 1]));
    put("cBatch", lowering_.numbers(stridesOf(batch, 2)));
    put("cRow", lowering_.number(outStrides[batchDims]));
    put("epilogueStride", epilogueStrideAttribute(epilogueRows));
    spec_.name = "matmul" + sizes({lowering_.product(take(extents)), extents[batchDims], extents[batchDims + 1], k}) + suffix();
    return finish(a, b, out, wanted);
  }

  // --- convolution

  /// A [n, c, h, w] buffer with channels contiguous and at least this border; copied to one when it is not.
  Value channelsLast(Value buffer, llvm::ArrayRef<int64_t> need) {
    kernel::BufferType type = Lowering::typeOf(buffer);
    const Exprs strides = lowering_.stridesOf(type);
    const Exprs extents = lowering_.extentsOf(type);
    bool fits = strides[1] == constant(1) || extents[1] == constant(1);
    for (size_t i = 0; i < need.size(); ++i) {
      fits &= need[i] <= (type.hasBorder() ? type.getBorder()[i] : 0);
    }
    if (fits) {
      return buffer;
    }
    Exprs fresh(4);
    AffineExpr stride = constant(1);
    for (int64_t dim : {1, 3, 2, 0}) {
      fresh[dim] = stride;
      stride = stride * (extents[dim] + (need[2 * dim] + need[2 * dim + 1]));
    }
    llvm::SmallVector<int64_t> border(need);
    if (llvm::all_of(border, [](int64_t width) { return width == 0; })) {
      border.clear();
    }
    Value copied = lowering_.slot(lowering_.type(extents, type.getElementType(), fresh, border));
    if (!border.empty()) {
      lowering_.zeroBorder(fusion_.getLoc(), copied);
    }
    lowering_.copy(fusion_.getLoc(), buffer, copied, "reorder", "the convolution reads channels last, with its border in place");
    return copied;
  }

  /// 1-D convolutions are 2-D ones of height 1.
  Value as2d(Value buffer) {
    kernel::BufferType type = Lowering::typeOf(buffer);
    if (type.getRank() == 4) {
      return buffer;
    }
    Exprs extents = lowering_.extentsOf(type);
    Exprs strides = lowering_.stridesOf(type);
    llvm::SmallVector<int64_t> border(type.getBorder());
    const int64_t around = border.empty() ? 0 : border[4] + border[5];
    if (!border.empty()) {
      border.insert(border.begin() + 4, {0, 0});
    }
    extents.insert(extents.begin() + 2, constant(1));
    strides.insert(strides.begin() + 2, strides[2] * (extents[3] + around));
    return lowering_.view(fusion_.getLoc(), buffer, lowering_.type(extents, type.getElementType(), strides, border), constant(0));
  }

  LogicalResult lowerConvolution() {
    auto convolution = llvm::cast<op::ConvolutionOp>(root_);
    const ConvolutionGeometry g = convolutionGeometry(convolution);
    bindEpilogue();
    const bool oneD = extents_.size() == 3;
    Value in = as2d(lowering_.bufferOf(outer(convolution.getX())));
    Value wanted = wantedPlace();
    Value out = wanted;
    const bool anyLayout = spec_.family == "convolution_direct";
    if (onDevice() && tuneValue("rows") > 0 && (g.c / g.groups > 1 || wholePieces(g) != g.c)) {
      in = wholePieces(g) == g.c ? channelsLast(in, llvm::SmallVector<int64_t>(8, 0)) : paddedImage(in, wholePieces(g));
    }
    if (!anyLayout) {
      in = channelsLast(in, requiredBorder(g, spec_.family, tuneValue("m")));
      if (lowering_.stridesOf(Lowering::typeOf(out))[1] != constant(1)) {
        Exprs strides(extents_.size());
        AffineExpr stride = constant(1);
        const llvm::SmallVector<int64_t> innermostFirst =
            oneD ? llvm::SmallVector<int64_t>{1, 2, 0} : llvm::SmallVector<int64_t>{1, 3, 2, 0};
        for (int64_t dim : innermostFirst) {
          strides[dim] = stride;
          stride = stride * extents_[dim];
        }
        out = lowering_.slot(lowering_.type(extents_, written(), strides));
      }
      const Exprs outStrides = lowering_.stridesOf(Lowering::typeOf(out));
      for (size_t i = 0; i < epilogueBuffers_.size(); ++i) {
        if (epilogueStrides_[i][1] != constant(0) && epilogueStrides_[i][1] != constant(1)) {
          materialise(i, outStrides);
        }
      }
    }
    Value out4 = as2d(out);
    const Exprs inExtents = lowering_.extentsOf(Lowering::typeOf(in));
    const Exprs outExtents = lowering_.extentsOf(Lowering::typeOf(out4));
    const Exprs inStrides = lowering_.stridesOf(Lowering::typeOf(in));
    const Exprs outStrides = lowering_.stridesOf(Lowering::typeOf(out4));
    llvm::SmallVector<Exprs> epilogueRows;
    for (Exprs strides : epilogueStrides_) {
      if (oneD) {
        strides.insert(strides.begin() + 2, constant(0));
      }
      epilogueRows.push_back({strides[0], strides[2], strides[3], strides[1]});
    }
    Value weight = outer(convolution.getWeight());
    Value b = packConvolution(weight, g);
    auto put = [&](llvm::StringRef key, mlir::Attribute value) { spec_.shape.push_back(lowering_.named(key, value)); };
    put("n", lowering_.number(inExtents[0]));
    put("h", lowering_.number(inExtents[2]));
    put("w", lowering_.number(inExtents[3]));
    put("c", lowering_.number(inExtents[1]));
    put("k", lowering_.number(outExtents[1]));
    if (spec_.family != "winograd") {
      put("ho", lowering_.number(outExtents[2]));
      put("wo", lowering_.number(outExtents[3]));
      if (anyLayout) {
        put("kh", lowering_.number(g.kh));
        put("kw", lowering_.number(g.kw));
        put("groups", lowering_.number(g.groups));
      }
      put("strideH", lowering_.number(g.strideH));
      put("strideW", lowering_.number(g.strideW));
      put("padH", lowering_.number(g.padH));
      put("padW", lowering_.number(g.padW));
      put("dilationH", lowering_.number(g.dilationH));
      put("dilationW", lowering_.number(g.dilationW));
    }
    if (anyLayout) {
      put("inStride", lowering_.numbers({inStrides[0], inStrides[2], inStrides[3], inStrides[1]}));
      put("outStride", lowering_.numbers({outStrides[0], outStrides[2], outStrides[3], outStrides[1]}));
      put("weightStride", lowering_.numbers(directWeightStrides(b, g)));
    } else {
      put("inStride", lowering_.numbers({inStrides[0], inStrides[2], inStrides[3]}));
      put("outStride", lowering_.numbers({outStrides[0], outStrides[2], outStrides[3]}));
      if (spec_.family == "winograd") {
        llvm::SmallVector<int64_t> border(8, 0);
        if (Lowering::typeOf(in).hasBorder()) {
          border.assign(Lowering::typeOf(in).getBorder().begin(), Lowering::typeOf(in).getBorder().end());
        }
        put("border", lowering_.numbers({constant(border[4]), constant(border[5]), constant(border[6]), constant(border[7])}));
      }
    }
    put("epilogueStride", epilogueStrideAttribute(epilogueRows));
    spec_.name = spec_.family + sizes({inExtents[0], inExtents[1], inExtents[2], inExtents[3], outExtents[1]}) + "_" +
                 std::to_string(g.kh) + "x" + std::to_string(g.kw) + suffix();
    return finish(in, b, out, wanted);
  }

  Value packConvolution(Value weight, const ConvolutionGeometry& g) {
    Value source = lowering_.bufferOf(weight);
    if (spec_.family == "convolution_direct") {
      return onDevice() && tuneValue("rows") > 0 ? channelsLastWeight(weight, g) : source;
    }
    Exprs strides = lowering_.stridesOf(Lowering::typeOf(source));
    const Exprs extents = lowering_.extentsOf(Lowering::typeOf(source));
    if (strides.size() == 3) {
      strides.insert(strides.begin() + 2, constant(0));
    }
    const int64_t nr = tuneValue("nr");
    KernelSpec packing;
    packing.family = "pack_" + spec_.family;
    packing.name = packing.family + sizes({extents[0], extents[1], constant(g.kh), constant(g.kw)});
    packing.shape = {lowering_.named("o", lowering_.number(extents[0])), lowering_.named("i", lowering_.number(extents[1]))};
    auto put = [&](llvm::StringRef key, mlir::Attribute value) { packing.shape.push_back(lowering_.named(key, value)); };
    if (spec_.family == "convolution") {
      put("kh", lowering_.number(g.kh));
      put("kw", lowering_.number(g.kw));
    }
    put("strideO", lowering_.number(strides[0]));
    put("strideI", lowering_.number(strides[1]));
    put("strideH", lowering_.number(strides[2]));
    put("strideW", lowering_.number(strides[3]));
    if (spec_.family == "convolution") {
      packing.tune = {lowering_.named("nr", lowering_.number(nr))};
      return pack(weight, packing, {ceilDiv(extents[0], nr), constant(g.kh), constant(g.kw), extents[1], constant(nr)});
    }
    const int64_t m = tuneValue("m");
    const int64_t kb = tuneValue("kb");
    packing.tune = {lowering_.named("m", lowering_.number(m)), lowering_.named("nr", lowering_.number(nr)),
                    lowering_.named("kb", lowering_.number(kb))};
    return pack(weight, packing,
                {extents[0].floorDiv(kb), constant((m + 2) * (m + 2)), constant(kb / nr), extents[1], constant(nr)});
  }

  /// Channels in whole pieces of 16 bytes, which the tiles of a device gather at once; those beyond the image's own are zeros.
  int64_t wholePieces(const ConvolutionGeometry& g) {
    const auto piece = static_cast<int64_t>(128 / element().getIntOrFloatBitWidth());
    return g.groups == 1 && g.c > 1 ? (g.c + piece - 1) / piece * piece : g.c;
  }

  /// Strides over `extents`, [n, channels, ...], with the channels innermost.
  Exprs channelsInnermost(const Exprs& extents) {
    llvm::SmallVector<int64_t> innermostFirst = {1};
    for (size_t dim = extents.size() - 1; dim > 1; --dim) {
      innermostFirst.push_back(static_cast<int64_t>(dim));
    }
    innermostFirst.push_back(0);
    Exprs strides(extents.size());
    AffineExpr stride = constant(1);
    for (int64_t dim : innermostFirst) {
      strides[dim] = stride;
      stride = stride * extents[dim];
    }
    return strides;
  }

  /// Copies `from` to `to`, which may have more channels: zeros.
  void copyChannels(Value from, Value to, llvm::StringRef op, llvm::StringRef why) {
    const mlir::Location loc = fusion_.getLoc();
    const mlir::Type elements = Lowering::typeOf(to).getElementType();
    const Exprs inside = lowering_.extentsOf(Lowering::typeOf(from));
    const Exprs strides = lowering_.stridesOf(Lowering::typeOf(to));
    Exprs rest = lowering_.extentsOf(Lowering::typeOf(to));
    if (rest[1] == inside[1]) {
      lowering_.copy(loc, from, to, op, why);
      return;
    }
    rest[1] = rest[1] - inside[1];
    KernelSpec fill;
    fill.name = "fill";
    fill.op = op.str();
    fill.why = "channels beyond the image's own are zeros";
    fill.outputs = {lowering_.view(loc, to, lowering_.type(rest, elements, strides), strides[1] * inside[1])};
    mlir::Type scalar = scalarType(elements);
    fill.bodies.push_back({"body", {}, [=](mlir::OpBuilder& builder, mlir::ValueRange) {
      return llvm::SmallVector<Value>{
          mlir::arith::ConstantOp::create(builder, builder.getUnknownLoc(), builder.getZeroAttr(scalar))};
    }});
    lowering_.launchPointwise(loc, fill, rest, {strides});
    lowering_.copy(loc, from, lowering_.view(loc, to, lowering_.type(inside, elements, strides), constant(0)), op, why);
  }

  Value paddedImage(Value image, int64_t channels) {
    Exprs extents = lowering_.extentsOf(Lowering::typeOf(image));
    extents[1] = constant(channels);
    Value padded = lowering_.slot(lowering_.type(extents, Lowering::typeOf(image).getElementType(), channelsInnermost(extents)));
    copyChannels(image, padded, "reorder", "the convolution reads the channels of a pixel side by side, 16 bytes at a time");
    return padded;
  }

  /// The weight as [k][kh][kw][c], which the tiles of a device read along.
  Value channelsLastWeight(Value weight, const ConvolutionGeometry& g) {
    Value source = lowering_.bufferOf(weight);
    const kernel::BufferType type = Lowering::typeOf(source);
    Exprs extents = lowering_.extentsOf(type);
    const bool isWhole = wholePieces(g) == g.c;
    extents[1] = isWhole ? extents[1] : constant(wholePieces(g));
    const Exprs strides = channelsInnermost(extents);
    const Exprs given = lowering_.stridesOf(type);
    const bool fits = isWhole && llvm::all_of(llvm::seq<size_t>(0, extents.size()), [&](size_t dim) {
      return given[dim] == strides[dim] || extents[dim] == constant(1);
    });
    if (fits) {
      return source;
    }
    const kernel::BufferType wanted = lowering_.type(extents, type.getElementType(), strides);
    constexpr llvm::StringLiteral kWhy = "the convolution reads the channels of a tap side by side";
    if (!isKnownEarly(weight) || lowering_.inPrepare()) {
      Value copied = lowering_.slot(wanted);
      copyChannels(source, copied, "reorder", kWhy);
      return copied;
    }
    const std::string key = "channels last," + std::to_string(reinterpret_cast<uintptr_t>(source.getAsOpaquePointer()));
    Value& prepared = lowering_.packs_[key];
    if (!prepared) {
      prepared = preparedBuffer(weight, ".channels_last", wanted);
      lowering_.atEndOfPrepare([&] { copyChannels(lowering_.viewInPrepare(source), prepared, "pack", kWhy); });
    }
    return prepared;
  }

  /// Strides of the weight as convolution_direct names its dims: group, output, input, kh, kw.
  Exprs directWeightStrides(Value weight, const ConvolutionGeometry& g) {
    Exprs strides = lowering_.stridesOf(Lowering::typeOf(weight));
    const Exprs extents = lowering_.extentsOf(Lowering::typeOf(weight));
    if (strides.size() == 3) {
      strides.insert(strides.begin() + 2, constant(0));
    }
    const AffineExpr perGroup = strides[0] * extents[0].floorDiv(g.groups);
    if (g.transposed) {
      return {perGroup, strides[1], strides[0], strides[2], strides[3]};
    }
    return {perGroup, strides[0], strides[1], strides[2], strides[3]};
  }

  Lowering& lowering_;
  op::FusionOp fusion_;
  Problem problem_;
  Operation* root_;
  const sl_kernel_desc* kernel_ = nullptr;
  Exprs extents_;
  AffineMap identity_;
  llvm::SmallVector<Access> accesses_;
  llvm::SmallVector<Value> epilogueBuffers_;
  llvm::SmallVector<Exprs> epilogueStrides_;
  KernelSpec spec_;
  bool plain_ = false;      ///< only the contraction and its bias are being lowered
  Value plainResult_;
};

LogicalResult Lowering::lowerContraction(op::FusionOp fusion) { return ContractionLowering(*this, fusion).lower(); }

}  // namespace straightline::lowering
