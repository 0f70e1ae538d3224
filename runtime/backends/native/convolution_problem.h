// SPDX-License-Identifier: Apache-2.0
// The "convolution" problem (operands and attributes: native.cpp), read once for the kernels that
// answer it.
#ifndef STRAIGHTLINE_BACKENDS_NATIVE_CONVOLUTION_PROBLEM_H
#define STRAIGHTLINE_BACKENDS_NATIVE_CONVOLUTION_PROBLEM_H

#include <algorithm>

#include "backends/native/problem.h"

namespace sl::native {

struct ConvolutionProblem {
  int64_t n, c, h, w, k, kh, kw, ho, wo;
  int64_t strideH, strideW, padH, padW, dilationH, dilationW, groups, transposed;

  explicit ConvolutionProblem(const sl_problem* p)
      : n(extent(operandOf(p, 0), 0)),
        c(extent(operandOf(p, 0), 1)),
        h(extent(operandOf(p, 0), 2)),
        w(extent(operandOf(p, 0), 3)),
        k(extent(output(p), 1)),
        kh(extent(operandOf(p, 1), 2)),
        kw(extent(operandOf(p, 1), 3)),
        ho(extent(output(p), 2)),
        wo(extent(output(p), 3)),
        strideH(attribute(p, "stride_h", 1)),
        strideW(attribute(p, "stride_w", 1)),
        padH(attribute(p, "pad_h", 0)),
        padW(attribute(p, "pad_w", 0)),
        dilationH(attribute(p, "dilation_h", 1)),
        dilationW(attribute(p, "dilation_w", 1)),
        groups(attribute(p, "groups", 1)),
        transposed(attribute(p, "transposed", 0)) {}

  int64_t depth() const { return c / groups * kh * kw; }
  int64_t pixels() const { return isOpen() || n == kUnknown ? kUnknown : n * ho * wo; }
  /// Whether an image's height or width is only known at a call.
  bool isOpen() const { return h == kUnknown || w == kUnknown || ho == kUnknown || wo == kUnknown; }
};

/// What all convolution kernels need: float32 (or float64 where `wide`), rank 4, a static weight
/// and static channels. The batch and the sizes of the images may be dynamic.
inline int32_t acceptsConvolution(const sl_problem* p, bool wide, char* reason, size_t bytes) {
  if (!needsOperands(p, 2, reason, bytes) || !acceptsFloats(p, 2, wide, reason, bytes)) {
    return 0;
  }
  const sl_operand* ranked[] = {&operandOf(p, 0), &operandOf(p, 1), &output(p)};
  for (const sl_operand* o : ranked) {
    if (o->rank != 4) {
      return refuse(reason, bytes, "an operand has rank %d, needs 4", o->rank);
    }
    const bool isWeight = o == ranked[1];
    for (int32_t d = isWeight ? 0 : 1; d < (isWeight ? 4 : 2); ++d) {
      if (o->extents[d] == SL_DYNAMIC) {
        return refuse(reason, bytes,
                      "dim %d of %s is dynamic, only the batch and image sizes may be", d,
                      isWeight ? "the weight" : "an image");
      }
    }
  }
  return 1;
}

/// For kernels over NHWC activations: groups = 1, not transposed, channels contiguous, constant
/// weight.
inline int32_t acceptsChannelsLast(const sl_problem* p, char* reason, size_t bytes) {
  const ConvolutionProblem c(p);
  if (c.groups != 1) {
    return refuse(reason, bytes, "groups=%lld, needs 1", static_cast<long long>(c.groups));
  }
  if (c.transposed != 0) {
    return refuse(reason, bytes, "transposed convolution");
  }
  if (operandOf(p, 0).strides[1] != 1 && c.c > 1) {
    return refuse(reason, bytes, "channel stride of x is %lld, needs 1",
                  static_cast<long long>(operandOf(p, 0).strides[1]));
  }
  if (output(p).strides[1] != 1 && c.k > 1) {
    return refuse(reason, bytes, "channel stride of the output is %lld, needs 1",
                  static_cast<long long>(output(p).strides[1]));
  }
  if (operandOf(p, 1).constant == 0) {
    return refuse(reason, bytes, "weight is not constant, so it cannot be packed before the run");
  }
  return 1;
}

/// What the taps of a kernel over channels last read beside the image.
inline void borderOfTaps(const sl_problem* p, int32_t operand, int64_t* widths) {
  if (operand != 0) {
    return;
  }
  const ConvolutionProblem c(p);
  // Where the size is not known: the last tap lies within the padded image.
  const auto after = [](int64_t size, int64_t out, int64_t stride, int64_t kernel, int64_t dilation,
                        int64_t pad) {
    if (size == kUnknown || out == kUnknown) {
      return pad;
    }
    return std::max<int64_t>(0, (out - 1) * stride + (kernel - 1) * dilation - pad - (size - 1));
  };
  widths[4] = c.padH;
  widths[5] = after(c.h, c.ho, c.strideH, c.kh, c.dilationH, c.padH);
  widths[6] = c.padW;
  widths[7] = after(c.w, c.wo, c.strideW, c.kw, c.dilationW, c.padW);
}

}  // namespace sl::native

#endif  // STRAIGHTLINE_BACKENDS_NATIVE_CONVOLUTION_PROBLEM_H
