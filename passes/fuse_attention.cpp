// SPDX-License-Identifier: Apache-2.0
// Attention that a model writes as two products and a softmax becomes one op.
//
//   %s = op.matmul %q, %kt                            %mask = op.add %bias, %shifted
//   %t = op.mul %s, %scale                            %y = op.scaled_dot_product_attention
//   %u = op.add %t, %bias       (any number)   ->              %q, %k, %v mask %mask
//   %w = op.softmax %u
//   %y = op.matmul %w, %v
//
// A mask may as well be a condition under which scores are kept, the others being -infinity; then
// it is the only one. Scores may be scaled by a literal, or by a tensor that has a number for each
// query or head, which then scales the queries.
//
// Scores may be seen with their leading dims taken apart or joined on the way, as windows of images
// are where each window has a mask of its own: [n * windows, h, l, s] as [n, windows, h, l, s].
// Such a mask [windows, h, l, s] is that of each image by turns.
#include <cmath>
#include <limits>

#include "dialect/op/recorded.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/passes.h"
#include "passes/routes.h"
#include "passes/value_builder.h"

namespace straightline::passes {

#define GEN_PASS_DEF_FUSEATTENTION
#include "passes/passes.h.inc"

using mlir::AffineExpr;
using mlir::Operation;
using mlir::Value;
using Extents = ValueBuilder::Extents;

namespace {

/// The number that all elements are.
std::optional<double> literalOf(Value value) {
  while (Operation* view = value.getDefiningOp()) {
    if (!llvm::isa<op::ExpandOp, op::ReshapeOp>(view)) {
      break;
    }
    value = view->getOperand(0);
  }
  auto full = value.getDefiningOp<op::FullOp>();
  auto number = full ? llvm::dyn_cast<mlir::FloatAttr>(full.getValue()) : mlir::FloatAttr();
  return number ? std::optional<double>(number.getValueAsDouble()) : std::nullopt;
}

/// x * factor.
struct Scaled {
  Value x;
  double factor;
};

/// `value` as a tensor times a literal, or divided by one.
std::optional<Scaled> scaledBy(Value value) {
  if (auto mul = value.getDefiningOp<op::MulOp>()) {
    if (const std::optional<double> factor = literalOf(mul.getY())) {
      return Scaled{mul.getX(), *factor};
    }
    if (const std::optional<double> factor = literalOf(mul.getX())) {
      return Scaled{mul.getY(), *factor};
    }
  }
  auto div = value.getDefiningOp<op::DivOp>();
  const std::optional<double> divisor = div ? literalOf(div.getY()) : std::nullopt;
  return divisor ? std::optional<Scaled>(Scaled{div.getX(), 1 / *divisor}) : std::nullopt;
}

/// Queries or keys before they were multiplied by a literal.
struct Factor {
  Value from;
  double scale = 1;
  llvm::SmallVector<Operation*> views;  ///< between the scaling and the product, the last one first

  /// Looks through views that nothing else reads; without a scaling behind them the value itself.
  explicit Factor(Value value) : from(value) {
    Value at = value;
    for (; at.hasOneUse() && at.getDefiningOp(); at = views.back()->getOperand(0)) {
      if (const std::optional<Scaled> scaled = scaledBy(at)) {
        from = scaled->x;
        scale = scaled->factor;
        return;
      }
      if (!at.getDefiningOp()->hasTrait<op::View>()) {
        break;
      }
      views.push_back(at.getDefiningOp());
    }
    views.clear();
  }

  /// The last view, or what the value is made by.
  Operation* last() const { return views.empty() ? from.getDefiningOp() : views.front(); }

  Value build(mlir::OpBuilder& builder) const {
    Value value = from;
    for (Operation* view : llvm::reverse(views)) {
      mlir::IRMapping operands;
      operands.map(view->getOperand(0), value);
      value = builder.clone(*view, operands)->getResult(0);
    }
    return value;
  }
};

/// A tensor that is added to the scores, or says which of them are kept (bools), and how it is seen
/// as a mask.
struct Mask {
  Value value;
  Extents scores;            ///< of the scores there
  bool isOfDropped = false;  ///< of bools: true where a score becomes -infinity
  bool isWidened = false;    ///< of 16-bit floats, added to the scores in float32
  Value from = nullptr;      ///< before it was repeated to them
  Extents extents = {};      ///< of `from` among the dims of the attention's mask
};

class WrittenAttention {
 public:
  explicit WrittenAttention(op::MatmulOp second) : second_(second) {}

  /// "" where it is one; else why not.
  std::string match(const FuseAttentionOptions& limits) {
    Value weights = second_.getA();
    while (Operation* view = inner(weights)) {
      if (!keepsRows(view) && !isConversion(view)) {
        break;
      }
      weights = view->getOperand(0);
    }
    auto softmax = llvm::dyn_cast_if_present<op::SoftmaxOp>(inner(weights));
    if (!softmax ||
        static_cast<int64_t>(softmax.getDim()) + 1 != softmax.getX().getType().getRank()) {
      return "the factor is no softmax over the last dim that nothing else reads";
    }
    if (!follow(softmax.getX(), /*isScaled=*/false)) {
      return why_;
    }
    const std::string why = whyNotFactors(limits);
    return why.empty() ? whyNotMasks() : why;
  }

  void rewrite(mlir::PatternRewriter& rewriter) {
    ValueBuilder build(rewriter, rewriter.getFusedLoc({first_.getLoc(), second_.getLoc()}));
    auto ofBatch = [&](Value value) {
      Extents extents = batch_;
      llvm::append_range(extents, llvm::ArrayRef<AffineExpr>(space_.of(value)).take_back(2));
      return seenAs<op::ReshapeOp>(build, value, extents);
    };
    const Value q = ofBatch(scaledRows(build, q_->build(rewriter)));
    const Value k = ofBatch(keys(build, k_->build(rewriter)));
    const Value v = ofBatch(second_.getB());
    const Value mask = masks_.empty() ? Value() : buildMask(build);
    const mlir::FloatAttr scale = rewriter.getF64FloatAttr(scale_);
    // Keys and values have the same size, so the result has the queries'.
    const Value attention = build.make<op::ScaledDotProductAttentionOp>(
        q.getType(), q, k, v, mask, /*is_causal=*/false, scale,
        /*empty_is_nan=*/!masks_.empty());
    rewriter.replaceOp(second_,
                       seenAs<op::ReshapeOp>(build, attention, space_.of(second_.getResult())));
  }

 private:
  /// `value` as a view with these extents, of `space_`.
  template <typename View>
  Value seenAs(ValueBuilder& build, Value value, const Extents& extents) {
    const auto type = op::tensorType(ValueBuilder::elementOf(value), space_.list(extents));
    return type == value.getType() ? value : build.make<View>(type, value);
  }

  // --- from the weights to the first product

  /// What makes `value`, where nothing else reads it.
  Operation* inner(Value value) {
    Operation* made = value.getDefiningOp();
    return made && value.hasOneUse() && made->getBlock() == second_->getBlock() ? made : nullptr;
  }

  /// A reshape of the dims before the last two.
  bool keepsRows(Operation* operation) {
    auto reshape = llvm::dyn_cast<op::ReshapeOp>(operation);
    if (!reshape) {
      return false;
    }
    const Extents from = space_.of(reshape.getX()), to = space_.of(reshape.getResult());
    return from.size() >= 2 && to.size() >= 2 &&
           space_.equal(llvm::ArrayRef<AffineExpr>(from).take_back(2),
                        llvm::ArrayRef<AffineExpr>(to).take_back(2));
  }

  /// Between the 16-bit floats of the factors and the float32 of a softmax.
  static bool isConversion(Operation* operation) {
    auto conversion = llvm::dyn_cast<op::ToDtypeOp>(operation);
    if (!conversion) {
      return false;
    }
    const mlir::Type from = ValueBuilder::elementOf(conversion.getX()),
                     to = ValueBuilder::elementOf(conversion.getResult());
    auto isHalf = [](mlir::Type type) { return type.isF16() || type.isBF16(); };
    return (isHalf(from) && to.isF32()) || (from.isF32() && isHalf(to));
  }

  /// Finds the first product, from which `value` is computed by a scaling and sums. `isScaled`:
  /// what `value` becomes is scaled.
  bool follow(Value value, bool isScaled) {
    Operation* made = inner(value);
    if (!made) {
      why_ = "scores are no product, or are read elsewhere";
      return false;
    }
    if (auto product = llvm::dyn_cast<op::MatmulOp>(made)) {
      first_ = product;
      return true;
    }
    if (const std::optional<Scaled> scaled = scaledBy(value)) {
      scale_ *= scaled->factor;
      return follow(scaled->x, /*isScaled=*/true);
    }
    if (keepsRows(made) || isConversion(made)) {
      return follow(made->getOperand(0), isScaled);
    }
    if (auto product = llvm::dyn_cast<op::MulOp>(made)) {
      return followRows(product);
    }
    if (isScaled) {
      why_ = "what is scaled is no product of queries and keys";
      return false;
    }
    if (auto choice = llvm::dyn_cast<op::WhereOp>(made)) {
      return followChoice(choice);
    }
    if (auto sum = llvm::dyn_cast<op::AddOp>(made)) {
      return followSum(sum);
    }
    why_ = "scores are changed by another op than a scaling and masks";
    return false;
  }

  /// follow, for one of two ways: nothing of it is left where it leads nowhere.
  bool tryToFollow(Value scores, bool isScaled) {
    const double scale = scale_;
    const size_t masks = masks_.size(), rowScales = rowScales_.size();
    if (follow(scores, isScaled)) {
      return true;
    }
    scale_ = scale;
    masks_.truncate(masks);
    rowScales_.truncate(rowScales);
    return false;
  }

  /// Scores times a tensor that has one number for each query.
  bool followRows(op::MulOp product) {
    why_ = "scores are scaled by a tensor that is not the same for all keys";
    for (auto [scores, rows] :
         {std::pair(product.getX(), product.getY()), std::pair(product.getY(), product.getX())}) {
      auto wide = rows.getDefiningOp<op::ExpandOp>();
      const Extents own = wide ? space_.of(wide.getX()) : Extents();
      const bool isOfRows = !own.empty() && own.back() == 1;
      if (isOfRows && tryToFollow(scores, /*isScaled=*/true)) {
        rowScales_.push_back(wide.getX());
        // The queries have these dims and elements, too.
        return scores.getType() == first_.getResult().getType();
      }
    }
    return false;
  }

  /// Scores where a condition holds, or where it does not, and -infinity elsewhere.
  bool followChoice(op::WhereOp choice) {
    auto isNothing = [](Value value) {
      const std::optional<double> number = literalOf(value);
      return number && *number == -std::numeric_limits<double>::infinity();
    };
    const bool dropped = isNothing(choice.getX());
    if (!dropped && !isNothing(choice.getY())) {
      why_ = "scores that a condition drops become another number than -infinity";
      return false;
    }
    if (!follow(dropped ? choice.getY() : choice.getX(), /*isScaled=*/false)) {
      return false;
    }
    masks_.push_back({choice.getCondition(), space_.of(choice.getCondition()), dropped});
    return true;
  }

  bool followSum(op::AddOp sum) {
    for (auto [scores, mask] :
         {std::pair(sum.getX(), sum.getY()), std::pair(sum.getY(), sum.getX())}) {
      if (tryToFollow(scores, /*isScaled=*/false)) {
        masks_.push_back({mask, space_.of(mask)});
        return true;
      }
    }
    return false;
  }

  // --- queries, keys, values

  std::string whyNotFactors(const FuseAttentionOptions& limits) {
    const mlir::Type element = ValueBuilder::elementOf(first_.getA());
    const int64_t largest = element.isF32()                       ? limits.largestTf32Head
                            : element.isF16() || element.isBF16() ? limits.largestHalfHead
                                                                  : 0;
    for (Value result : {first_.getResult(), second_.getB(), second_.getResult()}) {
      if (ValueBuilder::elementOf(result) != element) {
        return "queries, values and products differ in their elements";
      }
    }
    if (element.isF16() && !rowScales_.empty()) {
      return "queries of float16 could be out of range with a scale for each";
    }
    q_.emplace(first_.getA());
    k_.emplace(first_.getB());
    scale_ *= q_->scale * k_->scale;
    if (!std::isfinite(scale_) || scale_ == 0) {
      return "the scale is zero, or not finite";
    }
    const Extents q = space_.of(first_.getA()), v = space_.of(second_.getB());
    const std::optional<int64_t> head = symbolic::constantValue(q.back());
    if (q.size() > 4) {
      return "there are more than two dims of images and heads";
    }
    if (!head || *head > largest) {
      return "the head size is named, or larger than one kernel takes";
    }
    if (v.back() != q.back()) {
      return "values and keys differ in their size";
    }
    auto turned = llvm::dyn_cast_if_present<op::PermuteOp>(k_->last());
    const int64_t rank = q.size();
    if (!turned || turned.getDims()[rank - 2] != rank - 1) {
      return "keys do not lie in rows";
    }
    return "";
  }

  /// Keys whose dims before the last two are those of `turned` [.., e, s]: a view of what that was
  /// made from.
  static Value keys(ValueBuilder& build, Value turned) {
    auto permute = turned.getDefiningOp<op::PermuteOp>();
    llvm::SmallVector<int64_t> dims(permute.getDims());
    std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
    return llvm::is_sorted(dims) ? permute.getX() : build.permute(permute.getX(), dims);
  }

  /// Queries times what the scores of each are scaled by.
  Value scaledRows(ValueBuilder& build, Value queries) {
    for (Value scale : rowScales_) {
      queries = build.make<op::MulOp>(queries,
                                      seenAs<op::ExpandOp>(build, scale, space_.of(first_.getA())));
    }
    return queries;
  }

  // --- masks

  static Extents batchOf(llvm::ArrayRef<AffineExpr> extents) {
    return Extents(extents.drop_back(2));
  }

  std::string whyNotMasks() {
    batch_ = batchOf(space_.of(first_.getA()));
    for (const Mask& mask : masks_) {
      if (batch_.size() == 1 && mask.scores.size() == 4) {
        batch_ = batchOf(mask.scores);  // joined heads and images have a mask before they are
      }
    }
    if (!batch_.empty() && !symbolic::constantValue(batch_.back())) {
      return "the number of heads is named";
    }
    for (Mask& mask : masks_) {
      if (!findMask(mask)) {
        return "a mask is no mask of images and heads";
      }
    }
    if (masks_.size() > 1 && llvm::any_of(masks_, isOfBools)) {
      return "a mask is added and another one drops scores";
    }
    if (masks_.size() > 1 && llvm::any_of(masks_, [](const Mask& m) { return m.isWidened; })) {
      return "masks of 16-bit floats are added up in float32";
    }
    return findSum() ? "" : "two masks repeat after different numbers of images";
  }

  static bool isOfBools(const Mask& mask) { return op::hasBoolElements(mask.value.getType()); }

  /// Sets `from`, `extents` and `isWidened`; false where it is no mask.
  bool findMask(Mask& mask) {
    mask.from = mask.value;
    const mlir::Type element = ValueBuilder::elementOf(first_.getA());
    for (Operation* made = mask.from.getDefiningOp(); made; made = mask.from.getDefiningOp()) {
      const bool isWidened = llvm::isa<op::ToDtypeOp>(made) && !isOfBools(mask) &&
                             ValueBuilder::elementOf(mask.from) != element &&
                             ValueBuilder::elementOf(made->getOperand(0)) == element;
      if (!isWidened && !llvm::isa<op::ExpandOp>(made)) {
        break;
      }
      mask.isWidened = mask.isWidened || isWidened;
      mask.from = made->getOperand(0);
    }
    if (ValueBuilder::elementOf(mask.from) != element && !isOfBools(mask)) {
      return false;
    }
    Extents own = space_.of(mask.from);
    own.insert(own.begin(), mask.scores.size() - own.size(),
               mlir::getAffineConstantExpr(1, first_.getContext()));
    const std::optional<Extents> batch = inBatch(batchOf(own), batchOf(mask.scores));
    if (!batch) {
      return false;
    }
    mask.extents = *batch;
    llvm::append_range(mask.extents, llvm::ArrayRef<AffineExpr>(own).take_back(2));
    return true;
  }

  /// Extents `own` among the leading dims `there` of scores (each of them that one, or 1) as those
  /// of a mask.
  std::optional<Extents> inBatch(const Extents& own, const Extents& there) {
    auto isOne = [](AffineExpr extent) { return extent == 1; };
    if (space_.equal(there, batch_)) {
      return own;
    }
    if (llvm::all_of(own, isOne)) {
      return Extents(batch_.size(), mlir::getAffineConstantExpr(1, first_.getContext()));
    }
    if (there.size() == 1 && batch_.size() == 2) {  // joined: [images * heads]
      return batch_;
    }
    if (there.size() != 3 || batch_.size() != 2 || !space_.equal(there[2], batch_[1])) {
      return std::nullopt;
    }
    if (isOne(own[0])) {  // windows of each image
      const std::optional<int64_t> windows = symbolic::constantValue(own[1]);
      const bool divides = windows && *windows > 0 && batch_[0].isMultipleOf(*windows);
      return divides ? std::optional(Extents{own[1], own[2]}) : std::nullopt;
    }
    return space_.equal(own[1], there[1]) ? std::optional(Extents{batch_[0], own[2]})
                                          : std::nullopt;
  }

  /// Sets the extents of the sum of all masks.
  bool findSum() {
    for (const Mask& mask : masks_) {
      if (sum_.empty()) {
        sum_ = mask.extents;
      }
      for (auto [all, own] : llvm::zip(sum_, mask.extents)) {
        if (all != 1 && own != 1 && !space_.equal(all, own)) {
          return false;
        }
        all = all == 1 ? own : all;
      }
    }
    return true;
  }

  Value buildMask(ValueBuilder& build) {
    Value sum;
    for (const Mask& mask : masks_) {
      const Value seen = seenAs<op::ReshapeOp>(build, mask.from, mask.extents);
      if (masks_.size() == 1) {
        return mask.isOfDropped ? build.make<op::LogicalNotOp>(seen.getType(), seen) : seen;
      }
      const Value wide = seenAs<op::ExpandOp>(build, seen, sum_);
      sum = sum ? build.make<op::AddOp>(sum, wide) : wide;
    }
    return sum;
  }

  op::MatmulOp second_, first_;
  op::ExtentSpace space_;
  std::string why_;
  std::optional<Factor> q_, k_;
  double scale_ = 1;
  llvm::SmallVector<Value> rowScales_;  ///< one number for each query or head
  llvm::SmallVector<Mask> masks_;
  Extents batch_;  ///< dims of images and heads of the attention
  Extents sum_;    ///< of its mask
};

struct FuseWrittenAttention : mlir::OpRewritePattern<op::MatmulOp> {
  FuseWrittenAttention(mlir::MLIRContext* context, const FuseAttentionOptions& limits)
      : OpRewritePattern(context), limits(limits) {}

  llvm::LogicalResult matchAndRewrite(op::MatmulOp second,
                                      mlir::PatternRewriter& rewriter) const override {
    // Products that the user gives to others stay what they were written as.
    const auto target = llvm::dyn_cast_if_present<kernel::TargetAttr>(
        op::targetOf(second->getParentOfType<mlir::ModuleOp>()));
    const llvm::StringRef own =
        target ? target.getBackend() : llvm::StringRef(kernel::kHostBackend);
    if (isRoutedElsewhere(second, own) ||
        isRoutedElsewhere(second, own, "scaled_dot_product_attention")) {
      return rewriter.notifyMatchFailure(second, "a route gives it to another backend");
    }
    WrittenAttention written(second);
    if (const std::string why = written.match(limits); !why.empty()) {
      return rewriter.notifyMatchFailure(second, why);
    }
    written.rewrite(rewriter);
    return mlir::success();
  }

  FuseAttentionOptions limits;
};

struct FuseAttentionPass : impl::FuseAttentionBase<FuseAttentionPass> {
  using FuseAttentionBase::FuseAttentionBase;

  void runOnOperation() override {
    if (largestTf32Head == 0 && largestHalfHead == 0) {
      return;
    }
    mlir::RewritePatternSet patterns(&getContext());
    patterns.add<FuseWrittenAttention>(&getContext(),
                                       FuseAttentionOptions{largestTf32Head, largestHalfHead});
    if (failed(mlir::applyPatternsGreedily(getOperation(), std::move(patterns)))) {
      getOperation().emitError() << "fuse-attention: the rewriting does not come to an end";
      signalPassFailure();
    }
  }
};

}  // namespace

}  // namespace straightline::passes
