// SPDX-License-Identifier: Apache-2.0
#include "dialect/kernel/kernel_dialect.h"
#include "dialect/op/canonicalize.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/passes.h"
#include "passes/targets/target.h"
#include "passes/value_builder.h"

namespace straightline::passes {

#define GEN_PASS_DEF_QUANTIZEDLINEARS
#include "passes/passes.h.inc"

using mlir::PatternRewriter;
using mlir::RankedTensorType;
using mlir::Value;
using Extents = ValueBuilder::Extents;

namespace {

bool isByte(mlir::Type element) {
  return element.isSignlessInteger(8) || element.isUnsignedInteger(8);
}

/// Whether the element type holds every difference of two bytes, or of a byte and a zero point.
bool holdsDifferences(mlir::Type element) {
  return element.isF32() || element.isF64() || element.isSignlessInteger(32) ||
         element.isSignlessInteger(64);
}

/// A number for each row of a tensor (all but its last dim), or for all of it.
struct PerRow {
  Value value;              ///< with a last extent of 1, or of no dim
  mlir::TypedAttr literal;  ///< instead of a value
  explicit operator bool() const { return value || literal; }
};

PerRow perRow(Value tensor) {
  if (mlir::TypedAttr literal = op::splatOf(tensor)) {
    return {{}, literal};
  }
  auto expand = tensor.getDefiningOp<op::ExpandOp>();
  if (!expand) {
    return {};
  }
  const RankedTensorType type = expand.getX().getType();
  return type.getRank() == 0 || type.getShape().back() == 1 ? PerRow{expand.getX(), {}} : PerRow();
}

/// (q - zero) * scale of a tensor of bytes q, where zero (integers; absent: none) and scale are the
/// same along each row.
struct Affine {
  Value q;
  PerRow zero, scale;
};

bool isInteger(const PerRow& number) {
  if (number.value) {
    return llvm::isa<mlir::IntegerType>(ValueBuilder::elementOf(number.value));
  }
  if (auto real = llvm::dyn_cast<mlir::FloatAttr>(number.literal)) {
    return real.getValue().isInteger();
  }
  return true;
}

/// The tensor of bytes that `value` is, through conversions that change no number; null when there
/// is none.
Value bytesBehind(Value value) {
  while (!isByte(ValueBuilder::elementOf(value))) {
    auto convert = value.getDefiningOp<op::ToDtypeOp>();
    if (!convert || !holdsDifferences(ValueBuilder::elementOf(value))) {
      return {};
    }
    value = convert.getX();
  }
  return value;
}

/// A zero point as it was before it was converted and expanded.
PerRow zeroPoint(Value tensor) {
  if (PerRow plain = perRow(tensor)) {
    if (plain.literal || isInteger(plain)) {
      return plain;
    }
    // A float that was an integer before it was expanded.
    Value source = plain.value;
    while (!llvm::isa<mlir::IntegerType>(ValueBuilder::elementOf(source))) {
      auto convert = source.getDefiningOp<op::ToDtypeOp>();
      if (!convert || !holdsDifferences(ValueBuilder::elementOf(source))) {
        return {};
      }
      source = convert.getX();
    }
    return {source, {}};
  }
  auto convert = tensor.getDefiningOp<op::ToDtypeOp>();
  return convert && holdsDifferences(ValueBuilder::elementOf(tensor)) ? zeroPoint(convert.getX())
                                                                      : PerRow();
}

/// q - zero of a tensor of bytes, without a scale.
std::optional<Affine> differenceOf(Value tensor) {
  Affine affine;
  affine.q = bytesBehind(tensor);
  if (affine.q) {
    return affine;
  }
  for (auto convert = tensor.getDefiningOp<op::ToDtypeOp>();
       convert && holdsDifferences(ValueBuilder::elementOf(tensor));
       convert = tensor.getDefiningOp<op::ToDtypeOp>()) {
    tensor = convert.getX();
  }
  auto difference = tensor.getDefiningOp<op::SubOp>();
  if (!difference || !holdsDifferences(difference.getType().getElementType())) {
    return std::nullopt;
  }
  affine.q = bytesBehind(difference->getOperand(0));
  affine.zero = zeroPoint(difference->getOperand(1));
  return affine.q && affine.zero && isInteger(affine.zero) ? std::optional(affine) : std::nullopt;
}

std::optional<Affine> affineOf(Value tensor) {
  auto rounded = tensor.getDefiningOp<op::ToDtypeOp>();  // per-token scales are of f64
  if (rounded && ValueBuilder::elementOf(tensor).isF32() &&
      ValueBuilder::elementOf(rounded.getX()).isF64()) {
    tensor = rounded.getX();
  }
  auto product = tensor.getDefiningOp<op::MulOp>();
  if (!product) {
    return std::nullopt;
  }
  for (unsigned place : {0u, 1u}) {
    const PerRow scale = perRow(product->getOperand(1 - place));
    if (!scale) {
      continue;
    }
    if (std::optional<Affine> affine = differenceOf(product->getOperand(place))) {
      affine->scale = scale;
      return affine;
    }
  }
  return std::nullopt;
}

/// Signed bytes and no zero point but a literal 0.
bool isWithoutZero(const Affine& weight) {
  if (!ValueBuilder::elementOf(weight.q).isSignlessInteger(8) || weight.zero.value) {
    return false;
  }
  auto real = llvm::dyn_cast_if_present<mlir::FloatAttr>(weight.zero.literal);
  auto whole = llvm::dyn_cast_if_present<mlir::IntegerAttr>(weight.zero.literal);
  return !weight.zero || (real ? real.getValue().isZero() : whole.getValue().isZero());
}

/// The largest number of products of two differences of bytes whose sum is below 2^31.
int64_t longestSum(const Affine& weight) {
  constexpr int64_t kLargestSum = (int64_t{1} << 31) - 1;
  return kLargestSum / (255 * (isWithoutZero(weight) ? 128 : 255));
}

/// What both writers build of bytes and their numbers.
class BytesWriter {
 protected:
  BytesWriter(PatternRewriter& rewriter, mlir::Location loc) : build_(rewriter, loc) {}

  static bool isScalar(Value value) {
    auto type = llvm::cast<RankedTensorType>(value.getType());
    return type.hasStaticShape() && type.getNumElements() == 1;
  }
  Value scalar(Value value) { return build_.reshape(value, {}); }
  Value numbers(const PerRow& number, mlir::Type element) {
    if (number.value) {
      return build_.toDtype(number.value, element);
    }
    auto real = llvm::dyn_cast<mlir::FloatAttr>(number.literal);
    const double value =
        real ? real.getValueAsDouble()
             : static_cast<double>(
                   llvm::cast<mlir::IntegerAttr>(number.literal).getValue().getSExtValue());
    return build_.full(build_.type(element, {}), value);
  }
  /// Unsigned bytes with their highest bit flipped are the signed ones that are 128 less.
  Value signedBytes(Value q) {
    if (!ValueBuilder::elementOf(q).isUnsignedInteger(8)) {
      return q;
    }
    return build_.toDtype(build_.make<op::BitwiseXorOp>(q, build_.fullLike(q, 128)),
                          build_.builder().getIntegerType(8));
  }
  /// The zero point of the signed bytes as i32; null where it is 0.
  Value zeroOf(const Affine& affine) {
    const int64_t offset = ValueBuilder::elementOf(affine.q).isUnsignedInteger(8) ? 128 : 0;
    const mlir::Type i32 = build_.builder().getI32Type();
    if (!affine.zero || affine.zero.literal) {
      const int64_t zero = (affine.zero ? literalOf(affine.zero) : 0) - offset;
      return zero == 0 ? Value() : build_.full(build_.type(i32, {}), static_cast<double>(zero));
    }
    const Value zero = build_.toDtype(affine.zero.value, i32);
    return offset == 0
               ? zero
               : build_.make<op::SubOp>(zero, build_.fullLike(zero, static_cast<double>(offset)));
  }
  static int64_t literalOf(const PerRow& number) {
    if (auto real = llvm::dyn_cast<mlir::FloatAttr>(number.literal)) {
      return static_cast<int64_t>(real.getValueAsDouble());
    }
    const auto integer = llvm::cast<mlir::IntegerAttr>(number.literal);
    return integer.getType().isUnsignedInteger()
               ? static_cast<int64_t>(integer.getValue().getZExtValue())
               : integer.getValue().getSExtValue();
  }

  ValueBuilder build_;
};

/// Writes the linear over the bytes.
class Writer : BytesWriter {
 public:
  Writer(PatternRewriter& rewriter, op::LinearOp linear)
      : BytesWriter(rewriter, linear.getLoc()),
        linear_(linear),
        result_(build_.extents(linear.getResult())) {}

  /// linear(a - zx, w - zw) in i32.
  Value sumsOfBytes(const Affine& x, const Affine& weight) {
    const Value a = signedBytes(x.q), w = signedBytes(weight.q);
    const mlir::Type i32 = build_.builder().getI32Type();
    const int64_t features = llvm::cast<RankedTensorType>(w.getType()).getDimSize(1);
    Value sums = build_.make<op::LinearOp>(build_.type(i32, result_), a, w, Value());
    const Value zeroX = zeroOf(x), zeroW = zeroOf(weight);
    const bool isOne = !zeroX || isScalar(zeroX);
    if (zeroX) {
      const Value columns = rowSums(w, /*keepdim=*/false);
      // One zero point for all of x is part of a vector over the columns; one for each row is a
      // factor of its own.
      Value moved = isOne ? build_.make<op::MulOp>(
                                columns, build_.expand(scalar(zeroX), build_.extents(columns)))
                          : build_.make<op::MulOp>(wide(columns), build_.expand(zeroX, result_));
      sums = build_.make<op::SubOp>(sums, isOne ? wide(moved) : moved);
    }
    if (zeroW) {
      Value rows = rowSums(a, /*keepdim=*/true);
      if (zeroX) {
        const Value count = build_.fullLike(rows, static_cast<double>(features));
        const Value shift = isOne ? scalar(zeroX) : zeroX;
        rows = build_.make<op::SubOp>(
            rows, build_.make<op::MulOp>(count, build_.expand(shift, build_.extents(rows))));
      }
      sums = build_.make<op::SubOp>(
          sums, build_.make<op::MulOp>(build_.expand(rows, result_), wide(columnVector(zeroW))));
    }
    return sums;
  }

  /// linear((a - zx) * sx, (w - zw) * sw) + bias, the sums in i32.
  Value ofBytes(const Affine& x, const Affine& weight) {
    const Value sums = sumsOfBytes(x, weight);
    const mlir::Type f32 = build_.builder().getF32Type();
    const Value real = build_.toDtype(sums, f32);
    const Value scaleX = numbers(x.scale, f32), scaleW = columnVector(numbers(weight.scale, f32));
    if (isScalar(scaleX)) {
      const Value scale =
          build_.make<op::MulOp>(scaleW, build_.expand(scalar(scaleX), build_.extents(scaleW)));
      return withBias(build_.make<op::MulOp>(real, wide(scale)));
    }
    return withBias(build_.make<op::MulOp>(
        build_.make<op::MulOp>(real, build_.expand(scaleX, result_)), wide(scaleW)));
  }

  /// linear(x, w * sw) + bias, the weight stored as bytes.
  Value ofStoredWeight(const Affine& weight) {
    const mlir::Type f32 = build_.builder().getF32Type();
    const Value sums = build_.make<op::LinearOp>(linear_.getType(), linear_.getX(),
                                                 build_.toDtype(weight.q, f32), Value());
    return withBias(build_.make<op::MulOp>(sums, wide(columnVector(numbers(weight.scale, f32)))));
  }

 private:
  /// [n] or one number, over the result.
  Value wide(Value value) { return build_.expand(value, result_); }
  /// One number a row of the weight, [n, 1] or of no dim, as [n].
  Value columnVector(Value value) {
    return isScalar(value) ? build_.expand(scalar(value), {result_.back()})
                           : build_.reshape(value, {result_.back()});
  }
  /// Sums over the last dim as i32; there are reductions of i64.
  Value rowSums(Value bytes, bool keepdim) {
    const Value whole = build_.toDtype(bytes, build_.builder().getI64Type());
    Extents extents = build_.extents(bytes);
    const int64_t last = static_cast<int64_t>(extents.size()) - 1;
    if (keepdim) {
      extents.back() = build_.number(1);
    } else {
      extents.pop_back();
    }
    const mlir::Type i64 = build_.builder().getI64Type();
    return build_.toDtype(build_.make<op::SumOp>(build_.type(i64, extents), whole,
                                                 llvm::ArrayRef<int64_t>(last), keepdim),
                          build_.builder().getI32Type());
  }
  Value withBias(Value value) {
    return linear_.getBias() ? build_.make<op::AddOp>(value, wide(linear_.getBias())) : value;
  }

  op::LinearOp linear_;
  Extents result_;
};

/// Writes the convolution over the bytes.
class ConvolutionWriter : BytesWriter {
 public:
  ConvolutionWriter(PatternRewriter& rewriter, op::ConvolutionOp convolution)
      : BytesWriter(rewriter, convolution.getLoc()),
        convolution_(convolution),
        result_(build_.extents(convolution.getResult())) {}

  /// convolution(a - zx, w - zw) in i32.
  Value sumsOfBytes(const Affine& x, const Affine& weight) {
    const Value a = signedBytes(x.q), w = signedBytes(weight.q);
    const Value sums = lessZero(x, a, w, result_);
    const Value zeroW = zeroOf(weight);
    if (!zeroW) {
      return sums;
    }
    // zw times the sums of what a pixel reads, as a convolution of one output.
    Extents one = build_.extents(w), pixels = result_;
    one[0] = pixels[1] = build_.number(1);
    const auto ones = mlir::DenseElementsAttr::get(
        build_.type(build_.builder().getIntegerType(8), one), int8_t{1});
    return build_.make<op::SubOp>(
        sums, build_.make<op::MulOp>(
                  build_.expand(lessZero(x, a, build_.make<op::ConstantOp>(ones), pixels), result_),
                  build_.expand(ofChannels(zeroW), result_)));
  }

  /// convolution((a - zx) * sx, (w - zw) * sw) + bias, the sums in i32.
  Value ofBytes(const Affine& x, const Affine& weight) {
    const mlir::Type f32 = build_.builder().getF32Type();
    const Value real = build_.toDtype(sumsOfBytes(x, weight), f32);
    const Value scaleX = scalar(numbers(x.scale, f32));
    Value scale = ofChannels(numbers(weight.scale, f32));
    scale = build_.make<op::MulOp>(scale, build_.expand(scaleX, build_.extents(scale)));
    const Value scaled = build_.make<op::MulOp>(real, build_.expand(scale, result_));
    return convolution_.getBias()
               ? build_.make<op::AddOp>(scaled,
                                        build_.expand(ofChannels(convolution_.getBias()), result_))
               : scaled;
  }

 private:
  /// convolution(a - zx, w) in i32.
  Value lessZero(const Affine& x, Value a, Value w, const Extents& extents) {
    const Value sums = plain(a, w, extents);
    const Value zero = zeroOf(x);
    if (!zero) {
      return sums;
    }
    // Beside the image there is 0, and a is zx less: zx times the weights that meet the image.
    const Value met = weightsMet(x.q, w, extents);
    const Value less =
        build_.make<op::MulOp>(met, build_.expand(scalar(zero), build_.extents(met)));
    return build_.make<op::SubOp>(sums, build_.expand(less, extents));
  }
  Value plain(Value image, Value weight, const Extents& extents) {
    return build_.make<op::ConvolutionOp>(build_.type(build_.builder().getI32Type(), extents),
                                          image, weight, Value(), convolution_.getStride(),
                                          convolution_.getPadding(), convolution_.getDilation(),
                                          false, convolution_.getOutputPadding(), int64_t{1});
  }
  /// [k] or one number as [1, k, 1, 1].
  Value ofChannels(Value value) {
    const Extents extents = {build_.number(1), result_[1], build_.number(1), build_.number(1)};
    return isScalar(value) ? build_.expand(scalar(value), extents) : build_.reshape(value, extents);
  }
  /// Sums of the weights that meet the image: [1, k, ho, wo], or [1, k, 1, 1] without padding.
  Value weightsMet(Value image, Value weight, const Extents& result) {
    if (llvm::all_of(convolution_.getPadding(), [](int64_t width) { return width == 0; })) {
      const mlir::Type i64 = build_.builder().getI64Type();
      const Value sums =
          build_.make<op::SumOp>(build_.type(i64, {result[1]}), build_.toDtype(weight, i64),
                                 llvm::ArrayRef<int64_t>({1, 2, 3}), false);
      return build_.reshape(build_.toDtype(sums, build_.builder().getI32Type()),
                            {build_.number(1), result[1], build_.number(1), build_.number(1)});
    }
    Extents one = build_.extents(image), extents = result;
    one[0] = extents[0] = build_.number(1);
    const Value ones = build_.full(build_.type(build_.builder().getIntegerType(8), one), 1);
    return plain(ones, weight, extents);
  }

  op::ConvolutionOp convolution_;
  Extents result_;
};

bool isOneNumber(const PerRow& number) {
  auto type =
      number.value ? llvm::cast<RankedTensorType>(number.value.getType()) : RankedTensorType();
  return !type || (type.hasStaticShape() && type.getNumElements() == 1);
}
/// One number, or [k, 1, 1, 1].
bool isOfOutputs(const PerRow& number, RankedTensorType weight) {
  if (isOneNumber(number)) {
    return true;
  }
  auto type = llvm::cast<RankedTensorType>(number.value.getType());
  return type.getRank() == weight.getRank() && type.hasStaticShape() &&
         type.getDimSize(0) == weight.getDimSize(0) &&
         type.getNumElements() == weight.getDimSize(0);
}

/// Why a convolution has no form over bytes; empty: it has.
llvm::StringRef whyNoBytes(op::ConvolutionOp convolution, const std::optional<Affine>& x,
                           const std::optional<Affine>& weight) {
  const RankedTensorType image = convolution.getX().getType();
  const RankedTensorType kernel = convolution.getWeight().getType();
  if (!x || !weight) {
    return "no convolution of bytes less zero points";
  }
  if (!isOneNumber(x->zero) || !isOfOutputs(weight->zero, kernel)) {
    return "the image has several zero points, or the weight others than of output channels";
  }
  if (kernel.getRank() != 4 || !kernel.hasStaticShape() || kernel.getNumElements() == 0 ||
      convolution.getTransposed() || convolution.getGroups() != 1 ||
      kernel.getDimSize(1) % 4 != 0 ||
      llvm::any_of(image.getShape().drop_front(), mlir::ShapedType::isDynamic)) {
    return "no 2-d convolution of one group, a multiple of 4 channels, and static sizes";
  }
  return kernel.getNumElements() / kernel.getDimSize(0) > longestSum(*weight)
             ? "sums of i32 may overflow"
             : "";
}

struct QuantizedConvolution : mlir::OpRewritePattern<op::ConvolutionOp> {
  using OpRewritePattern::OpRewritePattern;

  llvm::LogicalResult matchAndRewrite(op::ConvolutionOp convolution,
                                      PatternRewriter& rewriter) const override {
    if (!convolution.getType().getElementType().isF32()) {
      return rewriter.notifyMatchFailure(convolution, "the result is not of f32");
    }
    const std::optional<Affine> x = affineOf(convolution.getX());
    const std::optional<Affine> weight = affineOf(convolution.getWeight());
    llvm::StringRef why = whyNoBytes(convolution, x, weight);
    if (why.empty() && !isOneNumber(x->scale)) {
      why = "the image has several scales";
    }
    if (why.empty() && !isOfOutputs(weight->scale, convolution.getWeight().getType())) {
      why = "the weight's scales are not those of output channels";
    }
    if (!why.empty()) {
      return rewriter.notifyMatchFailure(convolution, why.str());
    }
    rewriter.replaceOp(convolution, ConvolutionWriter(rewriter, convolution).ofBytes(*x, *weight));
    return mlir::success();
  }
};

/// to_dtype(convolution(a - zx, w - zw)), the sums in f64 -> to_dtype of the same in i32.
struct IntegerConvolution : mlir::OpRewritePattern<op::ToDtypeOp> {
  using OpRewritePattern::OpRewritePattern;

  llvm::LogicalResult matchAndRewrite(op::ToDtypeOp convert,
                                      PatternRewriter& rewriter) const override {
    auto convolution = convert.getX().getDefiningOp<op::ConvolutionOp>();
    if (!convolution || !convolution.getType().getElementType().isF64() || convolution.getBias() ||
        !convolution->hasOneUse()) {
      return rewriter.notifyMatchFailure(convert,
                                         "no convolution of f64 without a bias, or others read it");
    }
    const std::optional<Affine> x = differenceOf(convolution.getX());
    const std::optional<Affine> weight = differenceOf(convolution.getWeight());
    const llvm::StringRef why = whyNoBytes(convolution, x, weight);
    if (!why.empty()) {
      return rewriter.notifyMatchFailure(convolution, why.str());
    }
    ValueBuilder build(rewriter, convolution.getLoc());
    const Value sums = ConvolutionWriter(rewriter, convolution).sumsOfBytes(*x, *weight);
    rewriter.replaceOp(convert, build.toDtype(sums, convert.getType().getElementType()));
    return mlir::success();
  }
};

struct QuantizedLinear : mlir::OpRewritePattern<op::LinearOp> {
  using OpRewritePattern::OpRewritePattern;

  llvm::LogicalResult matchAndRewrite(op::LinearOp linear,
                                      PatternRewriter& rewriter) const override {
    const RankedTensorType type = linear.getWeight().getType();
    if (!linear.getType().getElementType().isF32() || !type.hasStaticShape() ||
        type.getNumElements() == 0) {
      return rewriter.notifyMatchFailure(
          linear, "the result is not of f32, or the weight has no static size");
    }
    const std::optional<Affine> weight = affineOf(linear.getWeight());
    if (!weight) {
      return rewriter.notifyMatchFailure(linear, "the weight is not scaled by rows of bytes");
    }
    const std::optional<Affine> x = affineOf(linear.getX());
    const bool isPlain = isWithoutZero(*weight);
    if (x && type.getDimSize(1) <= longestSum(*weight)) {
      rewriter.replaceOp(linear, Writer(rewriter, linear).ofBytes(*x, *weight));
      return mlir::success();
    }
    if (!isPlain) {
      return rewriter.notifyMatchFailure(linear,
                                         "the weight of a linear of floats has zero points");
    }
    rewriter.replaceOp(linear, Writer(rewriter, linear).ofStoredWeight(*weight));
    return mlir::success();
  }
};

/// to_dtype(linear(a - zx, w - zw)), the sums in f64 -> to_dtype of the same in i32.
struct IntegerLinear : mlir::OpRewritePattern<op::ToDtypeOp> {
  using OpRewritePattern::OpRewritePattern;

  llvm::LogicalResult matchAndRewrite(op::ToDtypeOp convert,
                                      PatternRewriter& rewriter) const override {
    auto linear = convert.getX().getDefiningOp<op::LinearOp>();
    if (!linear || !linear.getType().getElementType().isF64() || linear.getBias() ||
        !linear->hasOneUse()) {
      return rewriter.notifyMatchFailure(convert,
                                         "no linear of f64 without a bias, or others read it");
    }
    const RankedTensorType type = linear.getWeight().getType();
    if (!type.hasStaticShape() || type.getNumElements() == 0) {
      return rewriter.notifyMatchFailure(linear, "the weight has no static size");
    }
    const std::optional<Affine> x = differenceOf(linear.getX());
    const std::optional<Affine> weight = differenceOf(linear.getWeight());
    if (!x || !weight) {
      return rewriter.notifyMatchFailure(linear, "no linear of bytes less zero points");
    }
    if (type.getDimSize(1) > longestSum(*weight)) {
      return rewriter.notifyMatchFailure(linear, "sums of i32 may overflow");
    }
    ValueBuilder build(rewriter, linear.getLoc());
    const Value sums = Writer(rewriter, linear).sumsOfBytes(*x, *weight);
    rewriter.replaceOp(convert, build.toDtype(sums, convert.getType().getElementType()));
    return mlir::success();
  }
};

struct QuantizedLinearsPass : impl::QuantizedLinearsBase<QuantizedLinearsPass> {
  void runOnOperation() override {
    if (!factsOf(getOperation()->getParentOfType<mlir::ModuleOp>()).multipliesBytes) {
      return;
    }
    mlir::RewritePatternSet patterns(&getContext());
    patterns.add<IntegerConvolution, IntegerLinear, QuantizedConvolution, QuantizedLinear>(
        &getContext());
    if (failed(mlir::applyPatternsGreedily(getOperation(), std::move(patterns)))) {
      getOperation().emitError() << "quantized-linears: the rewriting does not come to an end";
      signalPassFailure();
    }
  }
};

}  // namespace

}  // namespace straightline::passes
