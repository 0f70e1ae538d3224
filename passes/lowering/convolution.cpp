// SPDX-License-Identifier: Apache-2.0
// Convolutions: layouts of the image and of the weight, and what the kernels of the three families
// are told.
#include "llvm/ADT/STLExtras.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/lowering/contraction.h"

namespace straightline::lowering {

using mlir::AffineExpr;
using mlir::LogicalResult;
using mlir::Operation;
using mlir::Value;

Value ContractionLowering::channelsLast(Value buffer, llvm::ArrayRef<int64_t> need) {
  kernel::BufferType type = typeOf(buffer);
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
  lowering_.copy(fusion_.getLoc(), buffer, copied, "reorder",
                 "the convolution reads channels last, with its border in place");
  return copied;
}

Value ContractionLowering::as2d(Value buffer) {
  kernel::BufferType type = typeOf(buffer);
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
  return lowering_.view(fusion_.getLoc(), buffer,
                        lowering_.type(extents, type.getElementType(), strides, border),
                        constant(0));
}

LogicalResult ContractionLowering::lowerConvolution() {
  auto convolution = llvm::cast<op::ConvolutionOp>(root_);
  const ConvolutionGeometry g = convolutionGeometry(convolution);
  bindEpilogue();
  const bool anyLayout = spec_.family == "convolution_direct";
  Value in = as2d(lowering_.bufferOf(outer(convolution.getX())));
  Value wanted = wantedPlace();
  Value out = wanted;
  if (tuneValue("rows") > 0 && (g.c / g.groups > 1 || wholePieces(g) != g.c)) {
    in = wholePieces(g) == g.c ? channelsLast(in, llvm::SmallVector<int64_t>(8, 0))
                               : paddedImage(in, wholePieces(g));
  }
  if (!anyLayout) {
    in = channelsLast(in, borderOf(*kernel_, problem_, 0));
    out = channelsLastResult(out);
  }
  Value out4 = as2d(out);
  llvm::SmallVector<Exprs> epilogueRows;
  for (Exprs strides : epilogueStrides_) {
    if (extents_.size() == 3) {
      strides.insert(strides.begin() + 2, constant(0));
    }
    epilogueRows.push_back({strides[0], strides[2], strides[3], strides[1]});
  }
  Value b = packConvolution(outer(convolution.getWeight()), g, in);
  putConvolutionSizes(g, in, out4);
  putConvolutionStrides(g, in, b, out4);
  spec_.shape.push_back(lowering_.named("epilogueStride", epilogueStrideAttribute(epilogueRows)));
  Exprs sizes = lowering_.extentsOf(typeOf(in));
  sizes.push_back(lowering_.extentsOf(typeOf(out4))[1]);
  spec_.name = spec_.family + sizeName(sizes) + "_" + std::to_string(g.kh) + "x" +
               std::to_string(g.kw) + suffix();
  return finish(in, b, out, wanted);
}

Value ContractionLowering::channelsLastResult(Value out) {
  if (lowering_.stridesOf(typeOf(out))[1] != constant(1)) {
    out = lowering_.slot(lowering_.type(extents_, written(), channelsInnermost(extents_)));
  }
  const Exprs outStrides = lowering_.stridesOf(typeOf(out));
  for (size_t i = 0; i < epilogueBuffers_.size(); ++i) {
    if (epilogueStrides_[i][1] != constant(0) && epilogueStrides_[i][1] != constant(1)) {
      materialise(i, outStrides);
    }
  }
  return out;
}

void ContractionLowering::putConvolutionSizes(const ConvolutionGeometry& g, Value in, Value out) {
  auto put = [&](llvm::StringRef key, auto value) {
    spec_.shape.push_back(lowering_.named(key, lowering_.number(value)));
  };
  const Exprs inExtents = lowering_.extentsOf(typeOf(in));
  const Exprs outExtents = lowering_.extentsOf(typeOf(out));
  put("n", inExtents[0]);
  put("h", inExtents[2]);
  put("w", inExtents[3]);
  put("c", inExtents[1]);
  put("k", outExtents[1]);
  if (spec_.family == "winograd") {
    return;
  }
  put("ho", outExtents[2]);
  put("wo", outExtents[3]);
  if (spec_.family == "convolution_direct") {
    put("kh", g.kh);
    put("kw", g.kw);
    put("groups", g.groups);
  }
  put("strideH", g.strideH);
  put("strideW", g.strideW);
  put("padH", g.padH);
  put("padW", g.padW);
  put("dilationH", g.dilationH);
  put("dilationW", g.dilationW);
}

void ContractionLowering::putConvolutionStrides(const ConvolutionGeometry& g, Value in,
                                                Value weight, Value out) {
  auto put = [&](llvm::StringRef key, const Exprs& values) {
    spec_.shape.push_back(lowering_.named(key, lowering_.numbers(values)));
  };
  const Exprs from = lowering_.stridesOf(typeOf(in));
  const Exprs to = lowering_.stridesOf(typeOf(out));
  if (spec_.family == "convolution_direct") {
    put("inStride", {from[0], from[2], from[3], from[1]});
    put("outStride", {to[0], to[2], to[3], to[1]});
    put("weightStride", directWeightStrides(weight, g));
    return;
  }
  put("inStride", {from[0], from[2], from[3]});
  put("outStride", {to[0], to[2], to[3]});
  if (spec_.family == "winograd") {
    llvm::SmallVector<int64_t> border(8, 0);
    if (typeOf(in).hasBorder()) {
      border.assign(typeOf(in).getBorder().begin(), typeOf(in).getBorder().end());
    }
    put("border",
        {constant(border[4]), constant(border[5]), constant(border[6]), constant(border[7])});
  }
}

Value ContractionLowering::packConvolution(Value weight, const ConvolutionGeometry& g, Value in) {
  Value source = lowering_.bufferOf(weight);
  if (spec_.family == "convolution_direct") {
    return tuneValue("rows") > 0   ? channelsLastWeight(weight, g)
           : tuneValue("taps") > 0 ? tapsFirstWeight(weight, in)
                                   : source;
  }
  Exprs strides = lowering_.stridesOf(typeOf(source));
  const Exprs extents = lowering_.extentsOf(typeOf(source));
  if (strides.size() == 3) {
    strides.insert(strides.begin() + 2, constant(0));
  }
  const int64_t nr = tuneValue("nr");
  KernelSpec packing;
  packing.family = "pack_" + spec_.family;
  packing.name =
      packing.family + sizeName({extents[0], extents[1], constant(g.kh), constant(g.kw)});
  packing.shape = {lowering_.named("o", lowering_.number(extents[0])),
                   lowering_.named("i", lowering_.number(extents[1]))};
  auto put = [&](llvm::StringRef key, mlir::Attribute value) {
    packing.shape.push_back(lowering_.named(key, value));
  };
  const bool inPanels = spec_.family == "convolution" || spec_.family == "convolution_int8";
  if (inPanels) {
    put("kh", lowering_.number(g.kh));
    put("kw", lowering_.number(g.kw));
  }
  put("strideO", lowering_.number(strides[0]));
  put("strideI", lowering_.number(strides[1]));
  put("strideH", lowering_.number(strides[2]));
  put("strideW", lowering_.number(strides[3]));
  if (inPanels) {
    packing.tune = {lowering_.named("nr", lowering_.number(nr))};
    return pack(
        weight, packing,
        {ceilDiv(extents[0], nr), constant(g.kh), constant(g.kw), extents[1], constant(nr)});
  }
  const int64_t m = tuneValue("m");
  const int64_t kb = tuneValue("kb");
  packing.tune = {lowering_.named("m", lowering_.number(m)),
                  lowering_.named("nr", lowering_.number(nr)),
                  lowering_.named("kb", lowering_.number(kb))};
  if (isKnownEarly(weight) && !lowering_.inPrepare()) {
    // Packed once, long before it is read, and more than the caches hold.
    packing.tune.push_back(lowering_.named("stream", lowering_.number(1)));
  }
  return pack(weight, packing,
              {extents[0].floorDiv(kb), constant((m + 2) * (m + 2)), constant(kb / nr), extents[1],
               constant(nr)});
}

int64_t ContractionLowering::wholePieces(const ConvolutionGeometry& g) {
  const auto piece = static_cast<int64_t>(128 / element().getIntOrFloatBitWidth());
  return g.groups == 1 && g.c > 1 ? (g.c + piece - 1) / piece * piece : g.c;
}

Exprs ContractionLowering::channelsInnermost(const Exprs& extents) {
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

void ContractionLowering::copyChannels(Value from, Value to, llvm::StringRef op,
                                       llvm::StringRef why) {
  const mlir::Location loc = fusion_.getLoc();
  const mlir::Type elements = typeOf(to).getElementType();
  const Exprs inside = lowering_.extentsOf(typeOf(from));
  const Exprs strides = lowering_.stridesOf(typeOf(to));
  Exprs rest = lowering_.extentsOf(typeOf(to));
  if (rest[1] == inside[1]) {
    lowering_.copy(loc, from, to, op, why);
    return;
  }
  rest[1] = rest[1] - inside[1];
  KernelSpec fill;
  fill.name = "fill";
  fill.op = op.str();
  fill.why = "channels beyond the image's own are zeros";
  fill.outputs = {
      lowering_.view(loc, to, lowering_.type(rest, elements, strides), strides[1] * inside[1])};
  mlir::Type scalar = scalarType(elements);
  fill.bodies.push_back({"body", {}, [=](mlir::OpBuilder& builder, mlir::ValueRange) {
                           return llvm::SmallVector<Value>{mlir::arith::ConstantOp::create(
                               builder, builder.getUnknownLoc(), builder.getZeroAttr(scalar))};
                         }});
  lowering_.launchPointwise(loc, fill, rest, {strides});
  lowering_.copy(loc, from,
                 lowering_.view(loc, to, lowering_.type(inside, elements, strides), constant(0)),
                 op, why);
}

Value ContractionLowering::paddedImage(Value image, int64_t channels) {
  Exprs extents = lowering_.extentsOf(typeOf(image));
  extents[1] = constant(channels);
  Value padded = lowering_.slot(
      lowering_.type(extents, typeOf(image).getElementType(), channelsInnermost(extents)));
  copyChannels(image, padded, "reorder",
               "the convolution reads the channels of a pixel side by side, 16 bytes at a time");
  return padded;
}

Value ContractionLowering::channelsLastWeight(Value weight, const ConvolutionGeometry& g) {
  Value source = lowering_.bufferOf(weight);
  const kernel::BufferType type = typeOf(source);
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
  return reorderedWeight(weight, lowering_.type(extents, type.getElementType(), strides),
                         ".channels_last",
                         "the convolution reads the channels of a tap side by side");
}

Value ContractionLowering::tapsFirstWeight(Value weight, Value in) {
  Value source = lowering_.bufferOf(weight);
  if (lowering_.stridesOf(typeOf(in))[1] != constant(1) || !isKnownEarly(weight)) {
    return source;
  }
  const Exprs extents = lowering_.extentsOf(typeOf(source));
  Exprs strides(extents.size(), constant(1));
  AffineExpr inner = extents[0];
  for (size_t dim = extents.size(); dim-- > 1;) {
    strides[dim] = inner;
    inner = inner * extents[dim];
  }
  return reorderedWeight(weight, lowering_.type(extents, typeOf(source).getElementType(), strides),
                         ".taps_first", "the convolution reads a tap of all channels side by side");
}

Value ContractionLowering::reorderedWeight(Value weight, kernel::BufferType wanted,
                                           llvm::StringRef suffix, llvm::StringRef why) {
  Value source = lowering_.bufferOf(weight);
  if (!isKnownEarly(weight) || lowering_.inPrepare()) {
    Value copied = lowering_.slot(wanted);
    copyChannels(source, copied, "reorder", why);
    return copied;
  }
  const std::string key =
      suffix.str() + "," + std::to_string(reinterpret_cast<uintptr_t>(source.getAsOpaquePointer()));
  Value& prepared = lowering_.shared(key);
  if (!prepared) {
    prepared = preparedBuffer(weight, suffix, wanted);
    lowering_.atEndOfPrepare(
        [&] { copyChannels(lowering_.viewInPrepare(source), prepared, "pack", why); });
  }
  return prepared;
}

Exprs ContractionLowering::directWeightStrides(Value weight, const ConvolutionGeometry& g) {
  Exprs strides = lowering_.stridesOf(typeOf(weight));
  const Exprs extents = lowering_.extentsOf(typeOf(weight));
  if (strides.size() == 3) {
    strides.insert(strides.begin() + 2, constant(0));
  }
  const AffineExpr perGroup = strides[0] * extents[0].floorDiv(g.groups);
  if (g.transposed) {
    return {perGroup, strides[1], strides[0], strides[2], strides[3]};
  }
  return {perGroup, strides[0], strides[1], strides[2], strides[3]};
}

}  // namespace straightline::lowering
