// SPDX-License-Identifier: Apache-2.0
// Fusions around reductions over common dims: a kernel walks each row once per stage. Stage i
// reduces a value that may use the results of the stages before it; then come the results of a row
// and the results of each element.
//
//   softmax: stage 0 max(x); stage 1 sum(exp(x - r0)), kept; elements kept / r1
#include <limits>

#include "dialect/op/special.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSwitch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/channels_last.h"
#include "passes/lowering/context.h"
#include "passes/lowering/loops.h"
#include "passes/lowering/scalar_evaluator.h"

namespace straightline::lowering {

using mlir::AffineMap;
using mlir::failure;
using mlir::LogicalResult;
using mlir::Operation;
using mlir::success;
using mlir::Value;

namespace {

llvm::StringRef combineName(llvm::StringRef kind) {
  return llvm::StringSwitch<llvm::StringRef>(kind)
      .Case("amax", "max")
      .Case("amin", "min")
      .Default(kind);
}

/// Worth keeping in a row buffer instead of computing it again per later stage.
bool isExpensive(Operation* op) {
  return llvm::isa_and_present<op::ExpOp, op::TanhOp, op::ErfOp, op::GeluOp, op::SigmoidOp,
                               op::SiluOp, op::LogOp, op::PowOp, op::SpecialOp>(op);
}

class RowReduction {
 public:
  RowReduction(LoweringContext& lowering, op::FusionOp fusion)
      : lowering_(lowering), fusion_(fusion) {}

  LogicalResult lower() {
    if (failed(collect()) || failed(findAccesses())) {
      return failure();
    }
    KernelSpec spec;
    bindOperands(spec);
    makeNests();
    chooseColumns();
    buildBodies(spec);
    buildSchedule(spec);
    lowering_.launch(fusion_.getLoc(), spec);
    return success();
  }

 private:
  mlir::Block& body() { return fusion_.getBody().front(); }

  /// The reductions in order, the space they walk, and which results are of a row and which of an
  /// element.
  LogicalResult collect() {
    for (Operation& op : body().without_terminator()) {
      auto reduction = llvm::dyn_cast<op::ReductionOpInterface>(&op);
      if (!reduction) {
        continue;
      }
      if (reduction.keepsShape()) {
        return op.emitOpError(
            "should have been written with sums and maxima by decompose_reductions");
      }
      const Exprs extents = lowering_.extentsOf(op.getOperand(0));
      if (reductions_.empty()) {
        extents_ = extents;
        reduced_ = reduction.getReducedDims();
      } else if (extents != extents_ || reduction.getReducedDims() != reduced_) {
        return op.emitOpError("reduces other dims than the reduction before it in the same fusion");
      }
      reductions_.push_back(reduction);
    }
    if (reductions_.empty()) {
      return fusion_.emitOpError("is of family row_reduction but reduces nothing");
    }
    identity_ = AffineMap::getMultiDimIdentityMap(extents_.size(), lowering_.context());
    for (auto [i, value] : llvm::enumerate(body().getTerminator()->getOperands())) {
      (rowMap(value) ? rowResults_ : elementResults_).push_back(i);
    }
    // The first expensive reduced value that is needed again later is kept.
    const bool keeps = lowering_.facts().keepsRowValues;
    for (auto [i, reduction] : llvm::enumerate(reductions_)) {
      Value value = reduction->getOperand(0);
      const bool again =
          llvm::any_of(value.getUsers(), [&](Operation* user) { return user != reduction; });
      if (keeps && again && isExpensive(value.getDefiningOp()) &&
          llvm::isa<mlir::Float32Type, mlir::Float64Type>(elementType(value))) {
        kept_ = value;
        keptStage_ = i;
        break;
      }
    }
    return success();
  }

  static mlir::Type elementType(Value tensor) {
    return llvm::cast<mlir::RankedTensorType>(tensor.getType()).getElementType();
  }

  /// For a value with one element a row: how the iteration dims index it. Null for a value of the
  /// full space.
  AffineMap rowMap(Value value) {
    const Exprs extents = lowering_.extentsOf(value);
    llvm::SmallVector<mlir::AffineExpr> keep;
    llvm::SmallVector<mlir::AffineExpr> drop;
    Exprs keepExtents;
    Exprs dropExtents;
    for (size_t dim = 0; dim < extents_.size(); ++dim) {
      const bool isReduced = llvm::is_contained(reduced_, static_cast<int64_t>(dim));
      mlir::AffineExpr index = mlir::getAffineDimExpr(dim, lowering_.context());
      keep.push_back(isReduced ? lowering_.constant(0) : index);
      keepExtents.push_back(isReduced ? lowering_.constant(1) : extents_[dim]);
      if (!isReduced) {
        drop.push_back(index);
        dropExtents.push_back(extents_[dim]);
      }
    }
    const unsigned rank = extents_.size();
    if (extents == dropExtents && extents != extents_) {
      return AffineMap::get(rank, 0, drop, lowering_.context());
    }
    if (extents == keepExtents && (extents != extents_ || dependsOnlyOnRows(value))) {
      return AffineMap::get(rank, 0, keep, lowering_.context());
    }
    return {};
  }

  /// The type of a stage's result in the template: integers are reduced in 64 bits.
  static mlir::Type resultType(op::ReductionOpInterface reduction) {
    mlir::Type type = scalarType(elementType(reduction->getResult(0)));
    return llvm::isa<mlir::IntegerType>(type) && !type.isInteger(1)
               ? mlir::IntegerType::get(type.getContext(), 64)
               : type;
  }

  /// Widens an 8-bit number before the template reduces it. The template has one type for ui8 and
  /// i8, so it cannot choose between zero and sign extension.
  Value widened(mlir::OpBuilder& builder, Value scalar, mlir::Type element) {
    if (!scalar.getType().isInteger(8)) {
      return scalar;
    }
    const mlir::Type wide = builder.getI64Type();
    return element.isUnsignedInteger()
               ? mlir::arith::ExtUIOp::create(builder, fusion_.getLoc(), wide, scalar).getResult()
               : mlir::arith::ExtSIOp::create(builder, fusion_.getLoc(), wide, scalar).getResult();
  }

  /// When the reduced dims have one element, shapes do not tell rows from elements: the ops do.
  bool dependsOnlyOnRows(Value value) {
    Operation* op = value.getDefiningOp();
    return op && llvm::isa<op::ReductionOpInterface>(op);
  }

  /// Builds the scalar of `value` with the results of stages before `stage` known.
  Value scalar(mlir::OpBuilder& builder, Value value, AffineMap map, size_t stage,
               mlir::ValueRange stageResults, Value keptScalar, const ScalarEvaluator::Leaf& leaf,
               bool& failedHere) {
    ScalarEvaluator evaluator(fusion_, builder, leaf);
    for (size_t i = 0; i < stage; ++i) {
      evaluator.define(reductions_[i]->getResult(0), stageResults[i]);
    }
    if (keptScalar) {
      evaluator.define(kept_, keptScalar);
    }
    mlir::FailureOr<Value> result = evaluator.evaluate(value, map);
    failedHere |= failed(result);
    return failed(result) ? Value() : *result;
  }

  LogicalResult findAccesses() {
    mlir::Block scratch;
    mlir::OpBuilder builder(lowering_.context());
    builder.setInsertionPointToEnd(&scratch);
    llvm::SmallVector<Value> results;
    for (op::ReductionOpInterface reduction : reductions_) {
      results.push_back(
          scratch.addArgument(scalarType(elementType(reduction->getResult(0))), fusion_.getLoc()));
    }
    auto leaf = [&](unsigned operand, AccessMap map) {
      if (!llvm::is_contained(accesses_, Access{operand, map})) {
        accesses_.push_back({operand, map});
      }
      return scratch.addArgument(scalarType(elementType(fusion_.getInputs()[operand])),
                                 fusion_.getLoc());
    };
    bool failedHere = false;
    for (auto [i, reduction] : llvm::enumerate(reductions_)) {
      scalar(builder, reduction->getOperand(0), identity_, i, results, {}, leaf, failedHere);
    }
    for (unsigned i : elementResults_) {
      scalar(builder, body().getTerminator()->getOperand(i), identity_, reductions_.size(), results,
             {}, leaf, failedHere);
    }
    llvm::SmallVector<Access> all = std::move(accesses_);
    accesses_.clear();
    for (unsigned i : rowResults_) {
      Value value = body().getTerminator()->getOperand(i);
      scalar(builder, value, rowMap(value), reductions_.size(), results, {}, leaf, failedHere);
    }
    rowInputs_ = accesses_.size();
    llvm::erase_if(all,
                   [&](const Access& access) { return llvm::is_contained(accesses_, access); });
    accesses_.insert(accesses_.begin(), all.begin(), all.end());
    // Uses inside scratch must go before the block arguments do.
    scratch.dropAllReferences();
    return failure(failedHere);
  }

  void addStrides(Value buffer, AccessMap map) {
    strides_.push_back(lowering_.stridesThrough(buffer, map));
  }

  void bindOperands(KernelSpec& spec) {
    for (const Access& access : accesses_) {
      Value buffer = lowering_.bufferOf(fusion_.getInputs()[access.operand]);
      spec.inputs.push_back(buffer);
      argumentTypes_.push_back(scalarType(typeOf(buffer).getElementType()));
      addStrides(buffer, access.map);
    }
    for (unsigned i : rowResults_) {
      spec.outputs.push_back(lowering_.destination(fusion_.getResult(i)));
      addStrides(spec.outputs.back(), rowMap(body().getTerminator()->getOperand(i)));
    }
    for (unsigned i : elementResults_) {
      spec.outputs.push_back(lowering_.destination(fusion_.getResult(i)));
      addStrides(spec.outputs.back(), identity_);
    }
    for (size_t input = 0; input < spec.inputs.size(); ++input) {
      for (size_t output = rowResults_.size(); output < spec.outputs.size(); ++output) {
        if (strides_[input] == strides_[spec.inputs.size() + output] &&
            typeOf(spec.inputs[input]).getElementType() ==
                typeOf(spec.outputs[output]).getElementType()) {
          spec.ties.push_back({static_cast<int64_t>(input), static_cast<int64_t>(output)});
        }
      }
    }
  }

  /// Regions in the order of the template: stages, then rows, then elements. Arguments: inputs,
  /// results so far, kept.
  void buildBodies(KernelSpec& spec) {
    auto addBody = [&](std::string name, size_t stage,
                       llvm::SmallVector<std::pair<Value, AffineMap>> values, bool keeps) {
      const bool ofRow = name == "row";
      const size_t skipped = ofRow ? accesses_.size() - rowInputs_ : 0;
      llvm::SmallVector<mlir::Type> arguments(llvm::ArrayRef(argumentTypes_).drop_front(skipped));
      for (size_t i = 0; i < stage; ++i) {
        arguments.push_back(resultType(reductions_[i]));
      }
      const bool readsKept = kept_ && stage > keptStage_ && !ofRow;
      if (readsKept) {
        arguments.push_back(elementType(kept_));
      }
      spec.bodies.push_back(
          {name, arguments, [=, this](mlir::OpBuilder& builder, mlir::ValueRange given) {
             auto leaf = [&](unsigned operand, AccessMap map) {
               return given[llvm::find(accesses_, Access{operand, map}) - accesses_.begin() -
                            skipped];
             };
             llvm::SmallVector<Value> results, reduced;
             bool failedHere = false;
             const mlir::ValueRange stages =
                 given.drop_front(accesses_.size() - skipped).take_front(stage);
             for (auto [i, wide] : llvm::enumerate(stages)) {
               const mlir::Type narrow = scalarType(elementType(reductions_[i]->getResult(0)));
               reduced.push_back(
                   wide.getType() == narrow
                       ? wide
                       : mlir::arith::TruncIOp::create(builder, fusion_.getLoc(), narrow, wide)
                             .getResult());
             }
             for (auto [value, map] : values) {
               results.push_back(scalar(builder, value, map, stage, reduced,
                                        readsKept ? given.back() : Value(), leaf, failedHere));
             }
             if (name.starts_with("stage")) {
               results.front() =
                   widened(builder, results.front(), elementType(values.front().first));
             }
             assert(!failedHere && "findAccesses has evaluated the same values");
             if (keeps) {
               results.push_back(results.front());
             }
             return results;
           }});
    };
    for (auto [i, reduction] : llvm::enumerate(reductions_)) {
      addBody("stage" + std::to_string(i), i, {{reduction->getOperand(0), identity_}},
              kept_ && keptStage_ == i);
    }
    llvm::SmallVector<std::pair<Value, AffineMap>> rows;
    for (unsigned i : rowResults_) {
      Value value = body().getTerminator()->getOperand(i);
      rows.push_back({value, rowMap(value)});
    }
    if (!rows.empty()) {
      addBody("row", reductions_.size(), rows, false);
    }
    llvm::SmallVector<std::pair<Value, AffineMap>> elements;
    for (unsigned i : elementResults_) {
      elements.push_back({body().getTerminator()->getOperand(i), identity_});
    }
    if (!elements.empty()) {
      addBody("element", reductions_.size(), elements, false);
    }
  }

  /// `sl::Value` that a stage reduces in: that of the reduced tensor, narrow types widened.
  static llvm::StringRef valueName(mlir::Type element) {
    if (llvm::isa<mlir::FloatType>(element)) {
      return element.isF64() ? "f64" : "f32";
    }
    return element.isInteger(1) ? "i1" : "i64";
  }

  /// Written only where the template would derive another type from the inputs (the body converts
  /// the type before it reduces).
  void addValueTypes(KernelSpec& spec) {
    llvm::StringRef ofInputs = "i64";
    for (Value input : spec.inputs) {
      mlir::Type element = typeOf(input).getElementType();
      if (llvm::isa<mlir::FloatType>(element) && ofInputs != "f64") {
        ofInputs = valueName(element);
      }
    }
    llvm::SmallVector<mlir::Attribute> values;
    bool differs = false;
    for (op::ReductionOpInterface reduction : reductions_) {
      const llvm::StringRef combine = combineName(reduction.getCombineKind());
      const llvm::StringRef wanted = valueName(elementType(reduction->getOperand(0)));
      differs |= wanted != (combine == "any" || combine == "all" ? "i1" : ofInputs);
      values.push_back(mlir::StringAttr::get(lowering_.context(), wanted));
    }
    if (differs) {
      spec.tune.push_back(
          lowering_.named("value", mlir::ArrayAttr::get(lowering_.context(), values)));
    }
  }

  void makeNests() {  // needs the strides of all operands
    Exprs outerExtents;
    Exprs innerExtents;
    llvm::SmallVector<Exprs> outerStrides(strides_.size());
    llvm::SmallVector<Exprs> innerStrides(strides_.size());
    for (size_t dim = 0; dim < extents_.size(); ++dim) {
      const bool isReduced = llvm::is_contained(reduced_, static_cast<int64_t>(dim));
      (isReduced ? innerExtents : outerExtents).push_back(extents_[dim]);
      for (size_t operand = 0; operand < strides_.size(); ++operand) {
        (isReduced ? innerStrides : outerStrides)[operand].push_back(strides_[operand][dim]);
      }
    }
    outer_ = mergeLoops(makeLoops(lowering_, outerExtents, outerStrides));
    inner_ = mergeLoops(makeLoops(lowering_, innerExtents, innerStrides));
  }

  bool isVector(llvm::ArrayRef<Loop> loops) {
    return loops.empty() || llvm::all_of(loops.back().strides, [&](mlir::AffineExpr stride) {
             return stride == lowering_.constant(0) || stride == lowering_.constant(1);
           });
  }

  /// Bytes of a kept value.
  int64_t keptBytes() {
    return valueName(elementType(reductions_[keptStage_]->getOperand(0))) == "f32" ? 4 : 8;
  }

  /// A kept value whose rows are not contiguous, while their neighbours are: lanes along
  /// neighbouring rows. Without a kept value the template does that by itself.
  void chooseColumns() {
    if (!kept_ || outer_.empty() || isVector(inner_) || !isVector(outer_)) {
      return;
    }
    // Relative times of a group of so many rows (softmax of float32 over the first of two dims,
    // AVX-512); 0: a row by itself.
    struct Variant {
      int64_t lanes;
      double time;
    };
    constexpr Variant kVariants[] = {{0, 0.3}, {8, 1.0}, {16, 1.4}, {32, 2.3}};
    const std::optional<int64_t> run = symbolic::constantValue(outer_.back().extent);
    const std::optional<int64_t> rows =
        symbolic::constantValue(lowering_.product(extentsOf(outer_)));
    if (run == 0) {
      return;
    }
    if (run && rows) {
      double best = std::numeric_limits<double>::infinity();
      for (const Variant& variant : kVariants) {
        const int64_t each = std::max<int64_t>(variant.lanes, 1);
        const int64_t groups = *rows / *run * llvm::divideCeil(*run, each);
        const double time =
            static_cast<double>(llvm::divideCeil(groups, lowering_.target().getThreads())) *
            variant.time;
        if (*run >= each && time < best) {
          best = time;
          columns_ = variant.lanes;
        }
      }
    } else {
      columns_ = 16;  // the template checks whether there are so many columns
    }
    // A kept value that does not fit into a thread's caches is computed again instead.
    constexpr int64_t kMostKept = int64_t(4) << 20;
    const int64_t count = lowering_.upperBound(lowering_.product(extentsOf(inner_)));
    if (columns_ != 0 && count > kMostKept / (columns_ * keptBytes())) {
      kept_ = {};
    }
  }

  void buildSchedule(KernelSpec& spec) {
    const llvm::SmallVector<Loop>& outer = outer_;
    const llvm::SmallVector<Loop>& inner = inner_;
    llvm::SmallVector<mlir::Attribute> strideRows;
    for (size_t operand = 0; operand < strides_.size(); ++operand) {
      strideRows.push_back(mlir::ArrayAttr::get(lowering_.context(),
                                                {lowering_.numbers(stridesOf(outer, operand)),
                                                 lowering_.numbers(stridesOf(inner, operand))}));
    }
    llvm::SmallVector<mlir::Attribute> combine;
    for (op::ReductionOpInterface reduction : reductions_) {
      combine.push_back(
          mlir::StringAttr::get(lowering_.context(), combineName(reduction.getCombineKind())));
    }
    auto count = [&](size_t n) { return lowering_.number(static_cast<int64_t>(n)); };
    spec.family = "row_reduction";
    spec.tune = {lowering_.named("outerRank", count(outer.size())),
                 lowering_.named("innerRank", count(inner.size())),
                 lowering_.named("inputs", count(spec.inputs.size()))};
    if (rowInputs_ > 0) {
      spec.tune.push_back(lowering_.named("rowInputs", count(rowInputs_)));
    }
    spec.tune.append({lowering_.named("rowOutputs", count(rowResults_.size())),
                      lowering_.named("elementOutputs", count(elementResults_.size())),
                      lowering_.named("kept", count(kept_ ? 1 : 0)),
                      lowering_.named("keptStage", count(kept_ ? keptStage_ : 0)),
                      lowering_.named("stages", count(reductions_.size()))});
    if (columns_ != 0) {
      spec.tune.push_back(lowering_.named("columns", count(columns_)));
    }
    spec.tune.push_back(
        lowering_.named("combine", mlir::ArrayAttr::get(lowering_.context(), combine)));
    addValueTypes(spec);
    spec.shape = {lowering_.named("outer", lowering_.numbers(extentsOf(outer))),
                  lowering_.named("inner", lowering_.numbers(extentsOf(inner))),
                  lowering_.named("stride", mlir::ArrayAttr::get(lowering_.context(), strideRows))};
    spec.op = opNames(fusion_);
    std::string kinds;
    for (op::ReductionOpInterface reduction : reductions_) {
      kinds += (kinds.empty() ? "" : "_") + combineName(reduction.getCombineKind()).str();
    }
    spec.name = "rows_" + kinds + sizeName(outer) + (inner.empty() ? "" : "_by" + sizeName(inner));
    spec.why = "emitted.row_reduction: " + std::to_string(reductions_.size()) +
               " stage(s) and what surrounds them in one kernel";
    const double elements = static_cast<double>(lowering_.upperBound(lowering_.product(extents_)));
    spec.costUs = elements * 0.0003 * static_cast<double>(reductions_.size() + 1);
    if (kept_) {
      // One row of values per thread, or a group of rows.
      const int64_t bytes = keptBytes() * std::max<int64_t>(columns_, 1);
      mlir::AffineExpr row = (lowering_.product(extentsOf(inner)) * bytes + 63).floorDiv(64) * 64;
      spec.workspace.push_back(
          lowering_.slot(lowering_.contiguousType({row * lowering_.target().getThreads()},
                                                  mlir::IntegerType::get(lowering_.context(), 8))));
    }
  }

  LoweringContext& lowering_;
  op::FusionOp fusion_;
  llvm::SmallVector<op::ReductionOpInterface> reductions_;
  Exprs extents_;
  llvm::SmallVector<int64_t> reduced_;
  AffineMap identity_;
  llvm::SmallVector<unsigned> rowResults_;
  llvm::SmallVector<unsigned> elementResults_;
  llvm::SmallVector<Access> accesses_;  ///< those of row results last
  size_t rowInputs_ = 0;                ///< how many these are
  llvm::SmallVector<mlir::Type> argumentTypes_;
  llvm::SmallVector<Exprs> strides_;
  Value kept_;
  size_t keptStage_ = 0;
  llvm::SmallVector<Loop> outer_;
  llvm::SmallVector<Loop> inner_;
  int64_t columns_ = 0;  ///< lanes along rows; 0: as the template chooses
};

/// For a reduction over other than the last dims (a reduction of a permuted tensor, permuted back):
/// the order of dims that its users see, which is then also the order in which it is read. Empty
/// for anything else, also where the permuted tensor lies channels last: then its rows are rows.
llvm::SmallVector<int64_t> orderBeforePermute(Value tensor) {
  auto fusion = tensor.getDefiningOp<op::FusionOp>();
  if (tensor.use_empty()) {
    return {};
  }
  auto back = llvm::dyn_cast<op::PermuteOp>(*tensor.getUsers().begin());
  const bool oneOrder = back && llvm::all_of(tensor.getUsers(), [&](Operation* user) {
                          auto permute = llvm::dyn_cast<op::PermuteOp>(user);
                          return permute && permute.getDims() == back.getDims();
                        });
  op::PermuteOp there = oneOrder ? passes::undoneBy(back, fusion) : op::PermuteOp();
  if (!there || passes::liesChannelsLast(there.getX())) {
    return {};
  }
  return llvm::to_vector(back.getDims());
}

LogicalResult lowerRowReduction(op::FusionOp fusion, LoweringContext& context) {
  return RowReduction(context, fusion).lower();
}

}  // namespace

void registerRowReductionRules(RuleSet& rules) {
  Rule& rule = rules.addFamily("row_reduction", lowerRowReduction);
  rule.readsLiterals = true;
  rule.writesRows = true;
  rule.order = orderBeforePermute;
}

}  // namespace straightline::lowering
