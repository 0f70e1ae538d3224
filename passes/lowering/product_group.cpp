// SPDX-License-Identifier: Apache-2.0
// Groups of products (passes/group_products.cpp) as one launch of family gemv_group or, of many
// rows, matmul_group: what makes the rows (gemv_group alone), then an epilogue for each part. A
// part is a result of the fusion, with the linears that it depends on.
#include "llvm/ADT/STLExtras.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/contraction_problem.h"
#include "passes/lowering/context.h"
#include "passes/lowering/loops.h"
#include "passes/lowering/scalar_evaluator.h"

namespace straightline::lowering {

using mlir::AffineExpr;
using mlir::AffineMap;
using mlir::failure;
using mlir::FailureOr;
using mlir::LogicalResult;
using mlir::Operation;
using mlir::success;
using mlir::Value;

namespace {

/// Limits of the family (codegen/kernels/gemv_group.h).
constexpr size_t kMostRowInputs = 6;
constexpr size_t kMostOperands = 4;

mlir::Type elementOf(Value tensor) {
  return llvm::cast<mlir::RankedTensorType>(tensor.getType()).getElementType();
}

/// An operand of the kernel that is walked by rows and by the elements of a row.
struct RowOperand {
  Access access;
  Value buffer;
  AffineExpr row, element;  ///< strides
};

struct Part {
  Value yielded;
  llvm::SmallVector<op::LinearOp> linears;
  llvm::SmallVector<Access> accesses;
  llvm::SmallVector<RowOperand> operands;
  llvm::SmallVector<Value> weights;
  llvm::SmallVector<AffineExpr> weightStrides;
  Value out, wanted;
  AffineExpr outStride;
};

class ProductGroup {
 public:
  ProductGroup(LoweringContext& lowering, op::FusionOp fusion)
      : lowering_(lowering), fusion_(fusion) {}

  LogicalResult lower() {
    if (failed(collect()) || failed(findAccesses())) {
      return failure();
    }
    bind();
    spec_.family = chosenKernel(fusion_)->family;
    buildBodies();
    buildSchedule();
    addWorkspace();
    lowering_.launch(fusion_.getLoc(), spec_);
    for (Part& part : parts_) {
      if (part.out != part.wanted) {
        lowering_.copy(fusion_.getLoc(), part.out, part.wanted, "copy",
                       "the result is wanted in another layout than the kernel writes");
      }
    }
    return success();
  }

 private:
  mlir::Block& body() { return fusion_.getBody().front(); }
  Exprs extentsOf(Value tensor) { return lowering_.extentsOf(tensor); }
  AffineMap identity(Value tensor) {
    return AffineMap::getMultiDimIdentityMap(
        llvm::cast<mlir::RankedTensorType>(tensor.getType()).getRank(), lowering_.context());
  }

  LogicalResult collect() {
    for (Operation& op : body().without_terminator()) {
      if (auto reduction = llvm::dyn_cast<op::ReductionOpInterface>(&op)) {
        reductions_.push_back(reduction);
      }
    }
    for (Value yielded : body().getTerminator()->getOperands()) {
      Part part{yielded, {}, {}, {}, {}, {}, {}, {}, {}};
      findLinears(yielded, part);
      parts_.push_back(part);
    }
    rows_ = parts_[0].linears[0].getX();
    for (Part& part : parts_) {
      for (op::LinearOp linear : part.linears) {
        if (linear.getX() != rows_ || part.linears.size() != parts_[0].linears.size()) {
          return fusion_.emitOpError(
              "has products of different rows, or parts of different numbers of them");
        }
      }
    }
    return success();
  }

  void findLinears(Value value, Part& part) {
    Operation* op = value.getDefiningOp();
    if (auto linear = llvm::dyn_cast_if_present<op::LinearOp>(op)) {
      if (!llvm::is_contained(part.linears, linear)) {
        part.linears.push_back(linear);
      }
    } else if (op) {
      llvm::for_each(op->getOperands(), [&](Value operand) { findLinears(operand, part); });
    }
  }

  // --- what is read

  LogicalResult findAccesses() {
    mlir::Block scratch;
    mlir::OpBuilder builder(lowering_.context());
    builder.setInsertionPointToEnd(&scratch);
    auto into = [&](llvm::SmallVectorImpl<Access>& accesses) {
      return [&](unsigned operand, AccessMap map) -> Value {
        if (!llvm::is_contained(accesses, Access{operand, map})) {
          accesses.push_back({operand, map});
        }
        return scratch.addArgument(scalarType(elementOf(fusion_.getInputs()[operand])),
                                   fusion_.getLoc());
      };
    };
    bool whole = true;
    llvm::SmallVector<Value> results;
    for (size_t stage = 0; stage <= reductions_.size(); ++stage) {
      whole = whole && succeeded(rowScalar(builder, stage, results, into(rowAccesses_)));
      if (stage < reductions_.size()) {
        results.push_back(scratch.addArgument(
            scalarType(elementOf(reductions_[stage]->getResult(0))), fusion_.getLoc()));
      }
    }
    for (Part& part : parts_) {
      for (op::LinearOp linear : part.linears) {
        if (Value bias = linear.getBias()) {
          part.accesses.push_back({fusionInputIndex(fusion_, bias), biasMap(linear)});
        }
      }
      llvm::SmallVector<Value> sums(part.linears.size());
      for (Value& sum : sums) {
        sum = scratch.addArgument(elementOf(part.linears[0].getResult()), fusion_.getLoc());
      }
      whole = whole && succeeded(ending(builder, part, sums, into(part.accesses)));
      whole = whole && part.accesses.size() <= kMostOperands;
    }
    scratch.dropAllReferences();
    return success(whole && rowAccesses_.size() <= kMostRowInputs);
  }

  AffineMap biasMap(op::LinearOp linear) {
    const auto rank = llvm::cast<mlir::RankedTensorType>(linear.getResult().getType()).getRank();
    return AffineMap::get(rank, 0, mlir::getAffineDimExpr(rank - 1, lowering_.context()),
                          lowering_.context());
  }

  /// What stage `stage` reduces; behind the last one an element of the rows.
  FailureOr<Value> rowScalar(mlir::OpBuilder& builder, size_t stage, mlir::ValueRange results,
                             ScalarEvaluator::Leaf leaf) {
    ScalarEvaluator evaluator(fusion_, builder, std::move(leaf));
    for (size_t i = 0; i < stage; ++i) {
      evaluator.define(reductions_[i]->getResult(0), results[i]);
    }
    return evaluator.evaluate(
        stage < reductions_.size() ? reductions_[stage]->getOperand(0) : rows_, identity(rows_));
  }

  /// The result of a part, given its sums with their biases.
  FailureOr<Value> ending(mlir::OpBuilder& builder, Part& part, mlir::ValueRange sums,
                          ScalarEvaluator::Leaf leaf) {
    ScalarEvaluator evaluator(fusion_, builder, std::move(leaf));
    for (auto [linear, sum] : llvm::zip(part.linears, sums)) {
      evaluator.define(linear.getResult(), sum);
    }
    return evaluator.evaluate(part.yielded, identity(part.yielded));
  }

  // --- buffers

  /// An operand by rows, as it lies where its leading dims are one loop, else as a row-major copy.
  RowOperand rowOperand(Access access, const Exprs& extents, bool anyStep) {
    Value buffer = lowering_.bufferOf(fusion_.getInputs()[access.operand]);
    Exprs strides = lowering_.stridesThrough(buffer, access.map);
    const Exprs leading(extents.begin(), extents.end() - 1);
    auto loops =
        mergeLoops(makeLoops(lowering_, leading, {Exprs(strides.begin(), strides.end() - 1)}));
    const AffineExpr step = strides.back();
    const bool fits = loops.size() <= 1 &&
                      (anyStep || step == lowering_.constant(0) || step == lowering_.constant(1));
    if (fits) {
      return {access, buffer, loops.empty() ? lowering_.constant(0) : loops[0].strides[0], step};
    }
    mlir::Type type = typeOf(buffer).getElementType();
    Value expanded = lowering_.view(fusion_.getLoc(), buffer,
                                    lowering_.type(extents, type, strides), lowering_.constant(0));
    Value fresh = lowering_.slot(lowering_.contiguousType(extents, type));
    lowering_.copy(fusion_.getLoc(), expanded, fresh, "copy",
                   "the rows of a product are one stride apart");
    return {access, fresh, extents.back(), lowering_.constant(1)};
  }

  void bind() {
    for (const Access& access : rowAccesses_) {
      rowOperands_.push_back(rowOperand(access, extentsOf(rows_), true));
    }
    for (auto [i, part] : llvm::enumerate(parts_)) {
      const Exprs extents = extentsOf(part.yielded);
      for (op::LinearOp linear : part.linears) {
        Value weight = lowering_.bufferOf(fusionInput(fusion_, linear.getWeight()));
        if (lowering_.stridesOf(typeOf(weight)).back() != lowering_.constant(1)) {
          weight = lowering_.contiguous(fusion_.getLoc(), weight,
                                        "the rows of the weight are one stride apart");
        }
        part.weights.push_back(weight);
        part.weightStrides.push_back(lowering_.stridesOf(typeOf(weight))[0]);
      }
      for (const Access& access : part.accesses) {
        part.operands.push_back(rowOperand(access, extents, false));
      }
      bindResult(part, fusion_.getResult(i), extents);
    }
  }

  void bindResult(Part& part, Value result, const Exprs& extents) {
    part.wanted = lowering_.destination(result);
    Exprs strides = lowering_.stridesOf(typeOf(part.wanted));
    const AffineExpr step = strides.pop_back_val();
    auto loops =
        mergeLoops(makeLoops(lowering_, Exprs(extents.begin(), extents.end() - 1), {strides}));
    const bool fits = loops.size() <= 1 &&
                      (step == lowering_.constant(1) || extents.back() == lowering_.constant(1));
    part.out =
        fits ? part.wanted : lowering_.slot(lowering_.contiguousType(extents, elementOf(result)));
    part.outStride = fits && !loops.empty() ? loops[0].strides[0] : extents.back();
  }

  // --- the kernel

  mlir::Type sumType() {
    const mlir::Type element = elementOf(parts_[0].linears[0].getResult());
    return element.getIntOrFloatBitWidth() < 32 ? mlir::Float32Type::get(lowering_.context())
                                                : element;
  }

  /// Whether the rows are read as they lie: family matmul_group makes none.
  bool readsRows() const { return spec_.family == "matmul_group"; }

  void buildBodies() {
    llvm::SmallVector<mlir::Type> types;
    for (const RowOperand& operand : rowOperands_) {
      types.push_back(scalarType(typeOf(operand.buffer).getElementType()));
    }
    const size_t inputs = types.size();
    for (size_t stage = 0; !readsRows() && stage <= reductions_.size(); ++stage) {
      const bool isLast = stage == reductions_.size();
      spec_.bodies.push_back(
          {isLast ? "element" : "stage" + std::to_string(stage), types,
           [=, this](mlir::OpBuilder& builder, mlir::ValueRange given) {
             auto leaf = [&](unsigned operand, AccessMap map) {
               return given[llvm::find(rowAccesses_, Access{operand, map}) - rowAccesses_.begin()];
             };
             return llvm::SmallVector<Value>{
                 *rowScalar(builder, stage, given.drop_front(inputs), leaf)};
           }});
      if (!isLast) {
        types.push_back(scalarType(elementOf(reductions_[stage]->getResult(0))));
      }
    }
    for (auto [i, part] : llvm::enumerate(parts_)) {
      addEpilogue(i, part);
    }
  }

  void addEpilogue(size_t number, Part& part) {
    llvm::SmallVector<mlir::Type> types(part.linears.size(), sumType());
    for (const RowOperand& operand : part.operands) {
      types.push_back(scalarType(typeOf(operand.buffer).getElementType()));
    }
    spec_.bodies.push_back(
        {"epilogue" + std::to_string(number), types,
         [this, &part](mlir::OpBuilder& builder, mlir::ValueRange given) {
           const mlir::Location loc = fusion_.getLoc();
           const mlir::Type element = elementOf(part.linears[0].getResult());
           const auto operands = given.drop_front(part.linears.size());
           const auto operandOf = [&](const Access& access) {
             return operands[llvm::find(part.accesses, access) - part.accesses.begin()];
           };
           llvm::SmallVector<Value> sums;
           for (auto [linear, sum] : llvm::zip(part.linears, given)) {
             Value value = sum;
             if (Value bias = linear.getBias()) {
               Value added = operandOf({fusionInputIndex(fusion_, bias), biasMap(linear)});
               added = added.getType() == value.getType()
                           ? added
                           : mlir::arith::ExtFOp::create(builder, loc, value.getType(), added)
                                 .getResult();
               value = mlir::arith::AddFOp::create(builder, loc, value, added);
             }
             // Rounded once, behind the bias.
             sums.push_back(
                 value.getType() == element
                     ? value
                     : mlir::arith::TruncFOp::create(builder, loc, element, value).getResult());
           }
           auto leaf = [&](unsigned operand, AccessMap map) {
             return operandOf(Access{operand, map});
           };
           return llvm::SmallVector<Value>{*ending(builder, part, sums, leaf)};
         }});
  }

  mlir::Attribute number(int64_t value) { return lowering_.number(value); }
  mlir::Attribute strings(llvm::ArrayRef<llvm::StringRef> values) {
    return mlir::ArrayAttr::get(
        lowering_.context(),
        llvm::map_to_vector(values, [&](llvm::StringRef value) -> mlir::Attribute {
          return mlir::StringAttr::get(lowering_.context(), value);
        }));
  }
  mlir::Attribute array(llvm::ArrayRef<mlir::Attribute> values) {
    return mlir::ArrayAttr::get(lowering_.context(), values);
  }

  void buildTune() {
    const mlir::DictionaryAttr chosen = op::kernelChoiceOf(fusion_).getTunables();
    auto put = [&](llvm::StringRef key, mlir::Attribute value) {
      spec_.tune.push_back(lowering_.named(key, value));
    };
    llvm::SmallVector<mlir::Attribute> operands, earlyInputs;
    bool early = true;
    for (Part& part : parts_) {
      operands.push_back(number(static_cast<int64_t>(part.operands.size())));
      for (auto [linear, weight] : llvm::zip_equal(part.linears, part.weights)) {
        early = early && lowering_.isFixedInRun(fusionInput(fusion_, linear.getWeight()), weight);
      }
    }
    for (const RowOperand& operand : rowOperands_) {
      const Value input = fusion_.getInputs()[operand.access.operand];
      earlyInputs.push_back(number(lowering_.isFixedInRun(input, operand.buffer) ? 1 : 0));
    }
    llvm::SmallVector<llvm::StringRef> combine, values;
    for (op::ReductionOpInterface reduction : reductions_) {
      const llvm::StringRef kind = reduction.getCombineKind();
      combine.push_back(kind == "amax" ? "max" : kind == "amin" ? "min" : kind);
      values.push_back(elementOf(reduction->getOperand(0)).isF64() ? "f64" : "f32");
    }
    if (readsRows()) {
      for (llvm::StringRef key : {"rows", "columns", "threads", "stages", "tf32"}) {
        put(key, chosen.get(key));
      }
      put("early", number(lowering_.earliness(fusion_, early)));
      put("parts", number(static_cast<int64_t>(parts_.size())));
      put("weights", number(static_cast<int64_t>(parts_[0].linears.size())));
      put("operands", array(operands));
      return;
    }
    for (llvm::StringRef key : {"rows", "lanes", "threads", "unroll"}) {
      put(key, chosen.get(key));
    }
    put("mr", lowering_.number(rowCount()));
    put("depth", lowering_.number(extentsOf(rows_).back()));
    put("parts", number(static_cast<int64_t>(parts_.size())));
    put("weights", number(static_cast<int64_t>(parts_[0].linears.size())));
    put("operands", array(operands));
    put("early", number(early ? 1 : 0));
    put("inputs", number(static_cast<int64_t>(rowOperands_.size())));
    put("earlyInputs", array(earlyInputs));
    put("stages", number(static_cast<int64_t>(reductions_.size())));
    put("combine", strings(combine));
    put("value", strings(values));
    for (llvm::StringRef key : {"rowThreads", "vector"}) {
      put(key, chosen.get(key));
    }
  }

  void addWorkspace() {
    if (const mlir::Attribute bytes = op::kernelChoiceOf(fusion_).getTunables().get("workspace")) {
      spec_.workspace.push_back(lowering_.workspace(llvm::cast<mlir::IntegerAttr>(bytes).getInt()));
    }
  }

  AffineExpr rowCount() {
    Exprs extents = extentsOf(rows_);
    extents.pop_back();
    return lowering_.product(extents);
  }

  void buildSchedule() {
    spec_.op = opNames(fusion_);
    const op::KernelChoiceAttr choice = op::kernelChoiceOf(fusion_);
    spec_.why = choice.getWhy().str();
    spec_.costUs = choice.getCostUs().getValueAsDouble();
    spec_.ownCost = true;
    buildTune();
    auto pair = [&](AffineExpr a, AffineExpr b) { return lowering_.numbers({a, b}); };
    llvm::SmallVector<mlir::Attribute> rowStrides, weightStrides, operandStrides;
    Exprs n, outStrides;
    std::string sizes;
    for (const RowOperand& operand : rowOperands_) {
      spec_.inputs.push_back(operand.buffer);
      rowStrides.push_back(pair(operand.row, operand.element));
    }
    for (Part& part : parts_) {
      n.push_back(extentsOf(part.linears[0].getWeight())[0]);
      sizes += (sizes.empty() ? "" : "_") + std::to_string(*symbolic::constantValue(n.back()));
      outStrides.push_back(part.outStride);
      llvm::append_range(spec_.inputs, part.weights);
      weightStrides.push_back(lowering_.numbers(part.weightStrides));
    }
    for (const Part& part : parts_) {
      llvm::SmallVector<mlir::Attribute> strides;
      for (const RowOperand& operand : part.operands) {
        strides.push_back(pair(operand.row, operand.element));
        addTie(part, operand);
        spec_.inputs.push_back(operand.buffer);
      }
      operandStrides.push_back(array(strides));
      spec_.outputs.push_back(part.out);
    }
    spec_.shape = {lowering_.named("m", lowering_.number(rowCount())),
                   lowering_.named("k", lowering_.number(extentsOf(rows_).back()))};
    if (readsRows()) {
      spec_.shape.push_back(lowering_.named("aRow", lowering_.number(rowOperands_[0].row)));
      spec_.shape.push_back(lowering_.named("aCol", lowering_.number(rowOperands_[0].element)));
    } else {
      spec_.shape.push_back(lowering_.named("stride", array(rowStrides)));
    }
    llvm::append_range(spec_.shape, llvm::ArrayRef<mlir::NamedAttribute>{
                                        lowering_.named("n", lowering_.numbers(n)),
                                        lowering_.named("ldw", array(weightStrides)),
                                        lowering_.named("ldc", lowering_.numbers(outStrides)),
                                        lowering_.named("epilogueStride", array(operandStrides))});
    spec_.name = std::string(reductions_.empty() ? "" : "rows_") + "products_" + sizes + "x" +
                 std::to_string(*symbolic::constantValue(extentsOf(rows_).back()));
  }

  /// A result is finished in registers before it is stored: an operand of its layout may be
  /// overwritten.
  void addTie(const Part& part, const RowOperand& operand) {
    const kernel::BufferType in = typeOf(operand.buffer), out = typeOf(part.out);
    if (operand.row == part.outStride && operand.element == lowering_.constant(1) &&
        in.getElementType() == out.getElementType() &&
        lowering_.extentsOf(in) == lowering_.extentsOf(out)) {
      spec_.ties.push_back(
          {static_cast<int64_t>(spec_.inputs.size()), static_cast<int64_t>(spec_.outputs.size())});
    }
  }

  LoweringContext& lowering_;
  op::FusionOp fusion_;
  Value rows_;  ///< as the products read them
  llvm::SmallVector<op::ReductionOpInterface> reductions_;
  llvm::SmallVector<Part, 4> parts_;
  llvm::SmallVector<Access> rowAccesses_;
  llvm::SmallVector<RowOperand> rowOperands_;
  KernelSpec spec_;
};

LogicalResult lowerProductGroup(op::FusionOp fusion, LoweringContext& context) {
  return ProductGroup(context, fusion).lower();
}

}  // namespace

void registerProductGroupRules(RuleSet& rules) {
  rules.addFamily("product_group", lowerProductGroup);
}

}  // namespace straightline::lowering
