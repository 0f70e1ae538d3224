// SPDX-License-Identifier: Apache-2.0
// topk and sort: the first elements of rows, in order. A thread orders a row where it is written,
// unless the target plans otherwise (Target::planTopk). Where the plan divides a row into parts, a
// first kernel finds the best elements of each part (or sorts it), and a second one finds the best
// of these (or merges them).
//
//   topk(x [152000], k = 50)  ->  launch @topk_parts(x) outs(words [55 * 50]);  launch @topk(words,
//   x) outs(values, indices)
//   sort(x [8192])            ->  launch @sort_parts(x) outs(words [4 * 2048]);  launch
//   @sort(words, x) outs(values, indices)
#include "dialect/error_kind.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/lowering/context.h"
#include "passes/lowering/loops.h"

namespace straightline::lowering {

using mlir::AffineExpr;
using mlir::LogicalResult;
using mlir::success;
using mlir::Value;

namespace {

class TopkLowering {
 public:
  TopkLowering(op::TopkOp topk, LoweringContext& context)
      : topk_(topk),
        context_(context),
        dim_(static_cast<int64_t>(topk.getDim())),
        outer_(without(context.extentsOf(topk.getX()), dim_)),
        count_(context.extentsOf(topk.getX())[dim_]),
        k_(context.extentsOf(topk.getValues())[dim_]),
        rows_(context.upperBound(context.product(outer_))) {}

  LogicalResult lower() {
    x_ = context_.bufferOf(topk_.getX());
    values_ = context_.destination(topk_.getValues());
    Value wanted = context_.destination(topk_.getIndices());
    const Target& target = targetNamedBy(context_.target());
    const TopkProblem problem = {rows_, symbolic::constantValue(count_).value_or(-1),
                                 symbolic::constantValue(k_).value_or(-1),
                                 typeOf(x_).elementBytes()};
    if (const std::string nearest = target.nearestTopk(problem, context_.target());
        !nearest.empty()) {
      return emitUnsupported(topk_)
             << topk_->getName().stripDialect() << " takes " << text(k_) << " of " << text(count_)
             << " elements of " << typeOf(x_).getElementType()
             << "; the nearest supported forms on a device are " << nearest;
    }
    if (const auto planned = target.planTopk(problem, context_.target())) {
      plan_ = *planned;
      indices_ = wanted;
    } else {
      indices_ = inRows(wanted);
    }
    if (plan_.parts > 1) {
      launchParts();
    }
    launchLast();
    if (indices_ != wanted) {
      context_.copy(topk_.getLoc(), indices_, wanted, "copy",
                    "the places are wanted in another layout than they are found in");
    }
    return success();
  }

 private:
  std::string text(AffineExpr size) const {
    std::string text;
    llvm::raw_string_ostream stream(text);
    symbolic::printExpr(stream, size, context_.names());
    return text;
  }

  /// Where a thread puts rows in order, it does so where the indices will be: dense rows.
  Value inRows(Value wanted) {
    if (context_.stridesOf(typeOf(wanted))[dim_] == context_.constant(1)) {
      return wanted;
    }
    const Exprs extents = context_.extentsOf(topk_.getX());
    Exprs strides(extents.size());
    AffineExpr next = k_;
    for (size_t d = extents.size(); d-- > 0;) {
      const bool isDim = static_cast<int64_t>(d) == dim_;
      strides[d] = isDim ? context_.constant(1) : next;
      next = isDim ? next : next * extents[d];
    }
    return context_.slot(context_.type(context_.extentsOf(topk_.getIndices()),
                                       typeOf(wanted).getElementType(), strides));
  }

  /// The first kernel of two: the words of each part.
  void launchParts() {
    KernelSpec spec = describe("_parts");
    Exprs extents = outer_;
    extents.push_back(context_.constant(plan_.parts * plan_.kept * plan_.wordBytes / 8));
    words_ = context_.slot(context_.contiguousType(extents, context_.builder().getI64Type()));
    spec.why = "emitted.topk: " + std::string(plan_.merges ? "each" : "the best of each") + " of " +
               std::to_string(plan_.parts) + " parts of a long row, in order";
    spec.inputs = {x_};
    spec.outputs = {words_};
    setSchedule(spec, {}, {}, plan_.ofParts);
    context_.launch(topk_.getLoc(), spec);
  }

  void launchLast() {
    KernelSpec spec = describe("");
    const bool isCut = plan_.parts > 1;
    spec.why = plan_.merges ? "emitted.topk: sorted parts are merged"
               : isCut      ? "emitted.topk: the best of all parts"
                            : "emitted.topk: a row is put in order where it is held";
    if (isCut) {
      spec.inputs.push_back(words_);
    }
    spec.inputs.push_back(x_);
    spec.outputs = {values_, indices_};
    setSchedule(spec, values_, indices_, plan_.ofRow);
    context_.launch(topk_.getLoc(), spec);
  }

  KernelSpec describe(llvm::StringRef suffix) {
    KernelSpec spec;
    spec.family = "topk";
    spec.op = k_ == count_ ? "sort" : "topk";
    spec.name = spec.op + suffix.str() + sizeName({k_}) + "of" + sizeName({count_}).substr(1);
    // On one thread: a comparison for each element, and insertions into the ordered best.
    const double elements = static_cast<double>(
        context_.upperBound(context_.product(context_.extentsOf(topk_.getX()))));
    spec.costUs = elements * (k_ == count_ ? 0.02 : 0.0008) +
                  static_cast<double>(rows_) * static_cast<double>(context_.upperBound(k_)) * 0.02;
    return spec;
  }

  /// The strides of a result, values or indices; null for the words of a part.
  mlir::Attribute rowStrides(Value buffer) {
    return context_.numbers(buffer ? without(context_.stridesOf(typeOf(buffer)), dim_)
                                   : Exprs(outer_.size(), context_.constant(0)));
  }
  AffineExpr elementStride(Value buffer) {
    return buffer ? context_.stridesOf(typeOf(buffer))[dim_] : context_.constant(0);
  }

  void setSchedule(KernelSpec& spec, Value first, Value second, llvm::ArrayRef<Tunable> tunables) {
    Exprs wordStrides(outer_.size(), context_.constant(0));
    if (words_) {
      wordStrides = context_.stridesOf(typeOf(words_));
      wordStrides.pop_back();
    }
    auto number = [&](llvm::StringRef key, int64_t value) {
      return context_.named(key, context_.number(value));
    };
    spec.tune = {number("rank", static_cast<int64_t>(outer_.size())),
                 number("largest", topk_.getLargest() ? 1 : 0)};
    for (const Tunable& tunable : tunables) {
      spec.tune.push_back(number(tunable.name, tunable.value));
    }
    spec.shape = {
        context_.named("outer", context_.numbers(outer_)),
        context_.named("outerStride", context_.builder().getArrayAttr(
                                          {rowStrides(x_), rowStrides(first), rowStrides(second),
                                           context_.numbers(wordStrides)})),
        context_.named("count", context_.number(count_)),
        context_.named("k", context_.number(k_)),
        number("parts", plan_.parts),
        number("kept", plan_.kept),
        context_.named("stride", context_.numbers({elementStride(x_), elementStride(first),
                                                   elementStride(second)}))};
  }

  op::TopkOp topk_;
  LoweringContext& context_;
  const int64_t dim_;
  const Exprs outer_;
  const AffineExpr count_, k_;  ///< elements of a row, and how many of them are wanted
  const int64_t rows_;
  TopkPlan plan_;  ///< one launch without tunables, where the target has none
  Value x_, values_, indices_;
  Value words_;  ///< of the parts; null until there are some
};

LogicalResult lowerTopk(op::TopkOp topk, LoweringContext& context) {
  return TopkLowering(topk, context).lower();
}

}  // namespace

void registerTopkRules(RuleSet& rules) { rules.add(lowerTopk); }

}  // namespace straightline::lowering
