// SPDX-License-Identifier: Apache-2.0
// native.winograd: 3x3 convolution with stride 1 and padding 1.
#include <cmath>
#include <cstdio>

#include "backends/native/convolution_problem.h"
#include "backends/native/native.h"

namespace sl::native {
namespace {

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  if (!acceptsConvolution(p, false, reason, bytes) || !acceptsChannelsLast(p, reason, bytes)) {
    return 0;
  }
  const ConvolutionProblem c(p);
  if (c.kh != 3 || c.kw != 3) {
    return refuse(reason, bytes, "kernel is %lldx%lld, needs 3x3", static_cast<long long>(c.kh),
                  static_cast<long long>(c.kw));
  }
  if (c.strideH != 1 || c.strideW != 1 || c.dilationH != 1 || c.dilationW != 1) {
    return refuse(reason, bytes, "stride is %lldx%lld and dilation %lldx%lld, needs 1",
                  static_cast<long long>(c.strideH), static_cast<long long>(c.strideW),
                  static_cast<long long>(c.dilationH), static_cast<long long>(c.dilationW));
  }
  if (c.padH != 1 || c.padW != 1) {
    return refuse(reason, bytes, "padding is %lldx%lld, needs 1x1", static_cast<long long>(c.padH),
                  static_cast<long long>(c.padW));
  }
  if (c.c % 16 != 0 || c.k % 16 != 0) {
    return refuse(reason, bytes, "%lld and %lld channels, needs multiples of 16",
                  static_cast<long long>(c.c), static_cast<long long>(c.k));
  }
  return 1;
}

/// With nr = 32 the input is transformed 16 channels at a time, too, so 16 divides in every case.
WinogradChoice choice(const sl_problem* p) {
  const ConvolutionProblem c(p);
  return winogradVariant(p->variant, c.n, c.h, c.w, c.c, c.k, machineOf(p));
}

double cost(const sl_problem* p) { return choice(p).microseconds; }

int64_t workspace(const sl_problem* p) {
  return winogradWorkspaceBytes(ConvolutionProblem(p).c, choice(p), machineOf(p).threads);
}

void tune(const sl_problem* p, int64_t* values) {
  const WinogradChoice x = choice(p);
  values[0] = x.m;
  values[1] = x.tiles;
  values[2] = x.kb;
  values[3] = x.mr;
  values[4] = x.nr;
  values[5] = x.mode;
  values[6] = x.prefetch.lines;
  values[7] = x.prefetch.streams;
}

/// Measured against float64 with normal inputs (points 0, +-3/4, +-3/2): F(4x4) 1.4e-6 at 64
/// channels and 2.1e-6 at 256, F(2x2) 3.0e-7 and 5.2e-7, where a plain float32 sum has 7.2e-7 and
/// 1.1e-6.
void note(const sl_problem* p, char* text, size_t bytes) {
  const bool large = choice(p).m == 4;
  const double growth = std::pow(double(ConvolutionProblem(p).c) / 64.0, large ? 0.29 : 0.4);
  std::snprintf(text, bytes, "F(%dx%d), error about %.1e of the largest result", large ? 4 : 2,
                large ? 4 : 2, (large ? 1.4e-6 : 3.0e-7) * growth);
}

/// Whole tiles read m + 2 rows from one before the image on; with this border no tile needs a
/// patch.
void border(const sl_problem* p, int32_t operand, int64_t* widths) {
  if (operand != 0) {
    return;
  }
  const ConvolutionProblem c(p);
  const int64_t m = choice(p).m;
  const auto beyond = [&](int64_t size) {
    return size == kUnknown ? m : (size + m - 1) / m * m + 1 - size;
  };
  widths[4] = 1;
  widths[5] = beyond(c.h);
  widths[6] = 1;
  widths[7] = beyond(c.w);
}

constexpr sl_tunable kTunables[] = {{"m", 4, 2, 4},         {"tiles", 24, 1, 96},
                                    {"kb", 64, 16, 4096},   {"mr", 6, 1, 14},
                                    {"nr", 16, 16, 32},     {"mode", 0, 0, 1},
                                    {"prefetch", 1, 0, 16}, {"prefetchStreams", 1, 1, 16}};

constexpr sl_operand_facts kOperands[] = {
    {"x", SL_TYPE_F32, 0, SL_LAYOUT_CHANNELS_LAST, SL_LAYOUT_CHANNELS_LAST, 0, 0},
    {"weight", SL_TYPE_F32, 0, 0, 0, SL_OPERAND_PACKED, 0},
    {"bias", SL_TYPE_F32, 0, 0, 0, SL_OPERAND_OPTIONAL, 0},
    {"y", SL_TYPE_F32, 0, SL_LAYOUT_CHANNELS_LAST, SL_LAYOUT_CHANNELS_LAST, SL_OPERAND_OUTPUT, 0}};

}  // namespace

extern constinit const sl_kernel_desc winogradKernel = EmittedKernel{
    .name = "native.winograd",
    .backend = "native",
    .op = "convolution",
    .family = "winograd",
    .summary = "3x3 with 2.25x or 4x fewer multiplications, epilogue fused in the output transform",
    .accepts = accepts,
    .cost = cost,
    .workspace = workspace,
    .tunables = kTunables,
    .tune = tune,
    .note = note,
    .variants = [](const sl_problem*) { return kWinogradVariants; },
    .properties = SL_KERNEL_TRANSFORMS_INPUTS,
    .operands = kOperands,
    .epilogues = kElementwise,
    .border = border,
};

}  // namespace sl::native
