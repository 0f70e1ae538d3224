// SPDX-License-Identifier: Apache-2.0
#include "dialect/kernel/kernel_dialect.h"
#include "dialect/op/canonicalize.h"
#include "dialect/op/recorded.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/passes.h"
#include "passes/phase.h"
#include "passes/targets/target.h"
#include "passes/value_builder.h"

namespace straightline::passes {

#define GEN_PASS_DEF_QUANTIZEDLINEARS
#include "passes/passes.h.inc"

using mlir::AffineExpr;
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
  /// Zeros around it, of an image: widths in ATen's order, the last dim first.
  llvm::SmallVector<int64_t> pad = {};
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

/// Groups up to which each is a convolution of bytes by itself, and its least channels. Others have
/// too little for a panel: depthwise convolutions are of floats, whose sums are exact.
constexpr int64_t kMostGroups = 32;
constexpr int64_t kLeastOfGroup = 4;

/// Writes the convolution over the bytes, a signal as an image of one row.
class ConvolutionWriter : BytesWriter {
 public:
  ConvolutionWriter(PatternRewriter& rewriter, op::ConvolutionOp convolution)
      : BytesWriter(rewriter, convolution.getLoc()),
        convolution_(convolution),
        result_(asImage(build_.extents(convolution.getResult()))) {}

  /// convolution(a - zx, w - zw) in i32.
  Value sumsOfBytes(const Affine& x, const Affine& weight) {
    return ofResult(imageSums(x, weight));
  }

  /// The same as a convolution of f32, whose sums are below 2^24.
  Value sumsOfFloats(const Affine& x, const Affine& weight) {
    const mlir::Type f32 = build_.builder().getF32Type();
    const Value image = padded(difference(x, f32), x.pad);
    const Extents extents = build_.extents(convolution_.getResult());
    return build_.make<op::ConvolutionOp>(
        build_.type(f32, extents), image, difference(weight, f32), Value(),
        convolution_.getStride(), convolution_.getPadding(), convolution_.getDilation(), false,
        convolution_.getOutputPadding(), convolution_.getGroups());
  }

  /// convolution((a - zx) * sx, (w - zw) * sw) + bias of its sums without scales, which are exact.
  Value scaledSums(Value sums, const Affine& x, const Affine& weight) {
    const mlir::Type f32 = build_.builder().getF32Type();
    const Extents result = build_.extents(convolution_.getResult());
    const Value real = build_.toDtype(sums, f32);
    const Value scaleX = scalar(numbers(x.scale, f32));
    Value scale = ofChannels(numbers(weight.scale, f32), result);
    scale = build_.make<op::MulOp>(scale, build_.expand(scaleX, build_.extents(scale)));
    const Value scaled = build_.make<op::MulOp>(real, build_.expand(scale, result));
    return convolution_.getBias()
               ? build_.make<op::AddOp>(
                     scaled, build_.expand(ofChannels(convolution_.getBias(), result), result))
               : scaled;
  }

 private:
  Extents asImage(Extents extents) {
    if (extents.size() == 3) {
      extents.insert(extents.begin() + 2, build_.number(1));
    }
    return extents;
  }
  Value asImage(Value value) { return build_.reshape(value, asImage(build_.extents(value))); }
  Value ofResult(Value image) {
    return build_.reshape(image, build_.extents(convolution_.getResult()));
  }
  /// An attribute of each spatial dim of an image.
  llvm::SmallVector<int64_t> ofImage(llvm::ArrayRef<int64_t> numbers, int64_t ofRow) {
    llvm::SmallVector<int64_t> both(numbers);
    if (both.size() == 1) {
      both.insert(both.begin(), ofRow);
    }
    return both;
  }
  /// q - zero as floats.
  Value difference(const Affine& affine, mlir::Type element) {
    const Value whole = build_.toDtype(affine.q, element);
    if (!affine.zero) {
      return whole;
    }
    const Value zero = numbers(affine.zero, element);
    return build_.make<op::SubOp>(
        whole, build_.expand(isScalar(zero) ? scalar(zero) : zero, build_.extents(whole)));
  }
  /// With zeros around it; `widths` in ATen's order, the last dim first.
  Value padded(Value value, llvm::ArrayRef<int64_t> widths) {
    if (llvm::all_of(widths, [](int64_t width) { return width == 0; })) {
      return value;
    }
    Extents extents = build_.extents(value);
    for (size_t i = 0; i < widths.size(); ++i) {
      AffineExpr& extent = extents[extents.size() - 1 - i / 2];
      extent = extent + widths[i];
    }
    const mlir::Type element = ValueBuilder::elementOf(value);
    const mlir::TypedAttr zero = llvm::isa<mlir::FloatType>(element)
                                     ? mlir::TypedAttr(build_.builder().getF64FloatAttr(0))
                                     : mlir::TypedAttr(build_.builder().getI64IntegerAttr(0));
    return build_.make<op::ConstantPadNdOp>(build_.type(element, extents), value, widths, zero);
  }
  /// Channels `first` to `end` of an image or a weight, with zeros up to a multiple of 4.
  Value channels(Value value, int64_t first, int64_t end) {
    const Value part = first == 0 && build_.extents(value)[1] == build_.number(end)
                           ? value
                           : build_.slice(value, 1, first, end);
    return padded(part, {0, 0, 0, 0, 0, (end - first + 3) / 4 * 4 - (end - first)});
  }

  /// As sumsOfBytes, over images.
  Value imageSums(const Affine& x, const Affine& weight) {
    const Value whole = padded(signedBytes(x.q), x.pad);
    const Value a = asImage(whole), w = asImage(signedBytes(weight.q));
    const bool inside = llvm::all_of(convolution_.getPadding(), [](int64_t n) { return n == 0; }) &&
                        llvm::all_of(x.pad, [](int64_t n) { return n == 0; });
    Value ones;  // where the image is; it is everywhere
    if (!inside && zeroOf(x)) {
      Extents one = build_.extents(x.q);
      one[0] = build_.number(1);
      const mlir::Type i8 = build_.builder().getIntegerType(8);
      ones = asImage(padded(build_.full(build_.type(i8, one), 1), x.pad));
    }
    const Value zeroW = zeroOf(weight);
    const Value zeros = zeroW ? ofChannels(zeroW, result_) : Value();
    const int64_t groups = static_cast<int64_t>(convolution_.getGroups());
    const int64_t inputs = dimOf(w, 1), outputs = dimOf(w, 0) / groups;
    llvm::SmallVector<Value> parts;
    for (int64_t g = 0; g < groups; ++g) {
      const Value some = groups == 1 ? w : build_.slice(w, 0, g * outputs, (g + 1) * outputs);
      Value zero = zeros;
      if (zeros && groups > 1 && dimOf(zeros, 1) != 1) {
        zero = build_.slice(zeros, 1, g * outputs, (g + 1) * outputs);
      }
      const auto part = [&](Value image) {
        return image ? channels(image, g * inputs, (g + 1) * inputs) : image;
      };
      parts.push_back(groupSums(x, part(a), part(ones), some, zero));
    }
    return build_.cat(parts, 1);
  }
  static int64_t dimOf(Value value, unsigned dim) {
    return llvm::cast<RankedTensorType>(value.getType()).getDimSize(dim);
  }
  /// The sums of one group. zeroW: [1, k, 1, 1], or null.
  Value groupSums(const Affine& x, Value a, Value ones, Value w, Value zeroW) {
    const int64_t inputs = dimOf(w, 1);
    Extents extents = result_;
    extents[1] = build_.extents(w)[0];
    const Value sums = lessZero(x, a, ones, channels(w, 0, inputs), extents);
    if (!zeroW) {
      return sums;
    }
    // zw times the sums of what a pixel reads, as a convolution of one output.
    Extents one = build_.extents(w), pixels = extents;
    one[0] = pixels[1] = build_.number(1);
    const auto all = mlir::DenseElementsAttr::get(
        build_.type(build_.builder().getIntegerType(8), one), int8_t{1});
    const Value weight = channels(build_.make<op::ConstantOp>(all), 0, inputs);
    const Value read = lessZero(x, a, ones, weight, pixels);
    return build_.make<op::SubOp>(
        sums, build_.make<op::MulOp>(build_.expand(read, extents), build_.expand(zeroW, extents)));
  }
  /// convolution(a - zx, w) in i32.
  Value lessZero(const Affine& x, Value a, Value ones, Value w, const Extents& extents) {
    const Value sums = plain(a, w, extents);
    const Value zero = zeroOf(x);
    if (!zero) {
      return sums;
    }
    // Beside the image there is 0, and a is zx less: zx times the weights that meet the image.
    const Value met = weightsMet(ones, w, extents);
    const Value less =
        build_.make<op::MulOp>(met, build_.expand(scalar(zero), build_.extents(met)));
    return build_.make<op::SubOp>(sums, build_.expand(less, extents));
  }
  Value plain(Value image, Value weight, const Extents& extents) {
    return build_.make<op::ConvolutionOp>(
        build_.type(build_.builder().getI32Type(), extents), image, weight, Value(),
        ofImage(convolution_.getStride(), 1), ofImage(convolution_.getPadding(), 0),
        ofImage(convolution_.getDilation(), 1), false, ofImage(convolution_.getOutputPadding(), 0),
        int64_t{1});
  }
  /// [k] or one number over a result, of extent 1 in all other dims.
  Value ofChannels(Value value, const Extents& result) {
    Extents extents(result.size(), build_.number(1));
    extents[1] = result[1];
    return isScalar(value) ? build_.expand(scalar(value), extents) : build_.reshape(value, extents);
  }
  /// Sums of the weights that meet the image: [1, k, ho, wo], or [1, k, 1, 1] without `ones`.
  Value weightsMet(Value ones, Value weight, const Extents& result) {
    if (!ones) {
      const mlir::Type i64 = build_.builder().getI64Type();
      const Value sums =
          build_.make<op::SumOp>(build_.type(i64, {result[1]}), build_.toDtype(weight, i64),
                                 llvm::ArrayRef<int64_t>({1, 2, 3}), false);
      return build_.reshape(build_.toDtype(sums, build_.builder().getI32Type()),
                            {build_.number(1), result[1], build_.number(1), build_.number(1)});
    }
    Extents extents = result;
    extents[0] = build_.number(1);
    return plain(ones, weight, extents);
  }

  op::ConvolutionOp convolution_;
  Extents result_;  ///< as an image
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

/// What `find` says of an image, or of the one that has zeros around its rows and columns.
template <typename Find>
std::optional<Affine> imageOf(Value image, Find find) {
  auto pad = image.getDefiningOp<op::ConstantPadNdOp>();
  if (!pad) {
    return find(image);
  }
  auto zero = llvm::dyn_cast<mlir::FloatAttr>(pad.getValue());
  const int64_t spatial = 2 * (pad.getX().getType().getRank() - 2);
  if (!zero || !zero.getValue().isZero() ||
      llvm::any_of(pad.getPad(), [](int64_t width) { return width < 0; }) ||
      llvm::any_of(pad.getPad().drop_front(std::min<int64_t>(spatial, pad.getPad().size())),
                   [](int64_t width) { return width != 0; })) {
    return std::nullopt;
  }
  std::optional<Affine> affine = find(pad.getX());
  if (affine) {
    affine->pad.assign(pad.getPad().begin(), pad.getPad().end());
  }
  return affine;
}

/// Why a convolution has no exact sums of bytes less zero points; empty: it has.
llvm::StringRef whyNoSums(op::ConvolutionOp convolution, const std::optional<Affine>& x,
                          const std::optional<Affine>& weight) {
  const RankedTensorType kernel = convolution.getWeight().getType();
  if (!x || !weight) {
    return "no convolution of bytes less zero points";
  }
  if (!isOneNumber(x->zero) || !isOfOutputs(weight->zero, kernel)) {
    return "the image has several zero points, or the weight others than of output channels";
  }
  return !kernel.hasStaticShape() || kernel.getNumElements() == 0 || convolution.getTransposed()
             ? "the weight has no static size, or the convolution is transposed"
             : "";
}

/// Products of a result.
int64_t depthOf(op::ConvolutionOp convolution) {
  const RankedTensorType kernel = convolution.getWeight().getType();
  return kernel.getNumElements() / kernel.getDimSize(0);
}

/// Why a convolution with exact sums has no form over bytes; empty: it has.
llvm::StringRef whyNoBytes(op::ConvolutionOp convolution, const Affine& weight) {
  const RankedTensorType kernel = convolution.getWeight().getType();
  const int64_t groups = static_cast<int64_t>(convolution.getGroups());
  const bool isLive = op::hasLiveParameters(convolution->getParentOfType<mlir::func::FuncOp>());
  if (!PhaseAnalysis(!isLive).isPrepared(weight.q)) {
    return "the weight, which is packed, is known in the run alone";
  }
  if (kernel.getRank() < 3 || kernel.getRank() > 4 ||
      llvm::any_of(convolution.getX().getType().getShape().drop_front(),
                   mlir::ShapedType::isDynamic)) {
    return "no convolution over one or two static dims";
  }
  if (groups > 1 && (groups > kMostGroups || kernel.getDimSize(1) < kLeastOfGroup ||
                     kernel.getDimSize(0) / groups < kLeastOfGroup)) {
    return "too many groups, or groups of too few channels";
  }
  return depthOf(convolution) > longestSum(weight) ? "sums of i32 may overflow" : "";
}

/// Whether sums of f32 are exact: below 2^24.
bool isExactInFloats(op::ConvolutionOp convolution, const Affine& weight) {
  const int64_t largest = 255 * (isWithoutZero(weight) ? 128 : 255);
  return depthOf(convolution) * largest <= int64_t{1} << 24;
}

struct QuantizedConvolution : mlir::OpRewritePattern<op::ConvolutionOp> {
  using OpRewritePattern::OpRewritePattern;

  llvm::LogicalResult matchAndRewrite(op::ConvolutionOp convolution,
                                      PatternRewriter& rewriter) const override {
    if (!convolution.getType().getElementType().isF32()) {
      return rewriter.notifyMatchFailure(convolution, "the result is not of f32");
    }
    const std::optional<Affine> x = imageOf(convolution.getX(), affineOf);
    const std::optional<Affine> weight = affineOf(convolution.getWeight());
    llvm::StringRef why = whyNoSums(convolution, x, weight);
    if (why.empty() && !isOneNumber(x->scale)) {
      why = "the image has several scales";
    }
    if (why.empty() && !isOfOutputs(weight->scale, convolution.getWeight().getType())) {
      why = "the weight's scales are not those of output channels";
    }
    const bool ofBytes = why.empty() && whyNoBytes(convolution, *weight).empty();
    if (why.empty() && !ofBytes && !isExactInFloats(convolution, *weight)) {
      why = "neither sums of i32 over bytes nor of f32 are exact";
    }
    if (!why.empty()) {
      return rewriter.notifyMatchFailure(convolution, why.str());
    }
    ConvolutionWriter writer(rewriter, convolution);
    const Value sums = ofBytes ? writer.sumsOfBytes(*x, *weight) : writer.sumsOfFloats(*x, *weight);
    rewriter.replaceOp(convolution, writer.scaledSums(sums, *x, *weight));
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
    const std::optional<Affine> x = imageOf(convolution.getX(), differenceOf);
    const std::optional<Affine> weight = differenceOf(convolution.getWeight());
    llvm::StringRef why = whyNoSums(convolution, x, weight);
    const bool ofBytes = why.empty() && whyNoBytes(convolution, *weight).empty();
    if (why.empty() && !ofBytes && !isExactInFloats(convolution, *weight)) {
      why = "neither sums of i32 over bytes nor of f32 are exact";
    }
    if (!why.empty()) {
      return rewriter.notifyMatchFailure(convolution, why.str());
    }
    ValueBuilder build(rewriter, convolution.getLoc());
    ConvolutionWriter writer(rewriter, convolution);
    const Value sums = ofBytes ? writer.sumsOfBytes(*x, *weight) : writer.sumsOfFloats(*x, *weight);
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

/// to_dtype(linear(a - zx, w - zw)), the sums in f64 -> to_dtype of the same in i32; also with a
/// reshape between them.
struct IntegerLinear : mlir::OpRewritePattern<op::ToDtypeOp> {
  using OpRewritePattern::OpRewritePattern;

  llvm::LogicalResult matchAndRewrite(op::ToDtypeOp convert,
                                      PatternRewriter& rewriter) const override {
    auto reshape = convert.getX().getDefiningOp<op::ReshapeOp>();
    const bool isReshaped = reshape && reshape->hasOneUse();
    auto linear = (isReshaped ? reshape.getX() : convert.getX()).getDefiningOp<op::LinearOp>();
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
    Value sums = Writer(rewriter, linear).sumsOfBytes(*x, *weight);
    if (isReshaped) {
      sums = build.reshape(sums, build.extents(convert.getX()));
    }
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
