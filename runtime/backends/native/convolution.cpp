// SPDX-License-Identifier: Apache-2.0
// native.convolution: implicit GEMM over NHWC activations with a zero border.
#include "backends/native/convolution_problem.h"
#include "backends/native/native.h"

namespace sl::native {
namespace {

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  return acceptsConvolution(p, false, reason, bytes) && acceptsChannelsLast(p, reason, bytes) ? 1
                                                                                              : 0;
}

double cost(const sl_problem* p) {
  const ConvolutionProblem c(p);
  return convolutionMicroseconds(c.pixels(), c.k, c.depth(), machineOf(p));
}

void tune(const sl_problem* p, int64_t* values) {
  const ConvolutionProblem c(p);
  const ConvolutionChoice x =
      convolutionVariant(p->variant, c.pixels(), c.k, c.depth(), machineOf(p));
  values[0] = x.mr;
  values[1] = x.nr;
  values[2] = c.kh;
  values[3] = c.kw;
  values[4] = x.mc;
  values[5] = x.prefetch.lines;
  values[6] = x.prefetch.streams;
}

constexpr sl_tunable kTunables[] = {
    {"mr", 6, 1, 14},   {"nr", 16, 8, 64},      {"kh", 3, 1, 4096},           {"kw", 3, 1, 4096},
    {"mc", 96, 1, 480}, {"prefetch", 0, 0, 16}, {"prefetchStreams", 1, 1, 16}};

constexpr sl_operand_facts kOperands[] = {
    {"x", SL_TYPE_F32 | SL_TYPE_F64, 0, SL_LAYOUT_CHANNELS_LAST, SL_LAYOUT_CHANNELS_LAST, 0, 0},
    {"weight", SL_TYPE_F32 | SL_TYPE_F64, 0, 0, 0, SL_OPERAND_PACKED, 0},
    {"bias", SL_TYPE_F32 | SL_TYPE_F64, 0, 0, 0, SL_OPERAND_OPTIONAL, 0},
    {"y", SL_TYPE_F32 | SL_TYPE_F64, 0, SL_LAYOUT_CHANNELS_LAST, SL_LAYOUT_CHANNELS_LAST,
     SL_OPERAND_OUTPUT, 0}};

}  // namespace

extern constinit const sl_kernel_desc convolutionKernel = EmittedKernel{
    .name = "native.convolution",
    .backend = "native",
    .op = "convolution",
    .family = "convolution",
    .summary = "implicit GEMM over NHWC, packed weight, border in the buffer, epilogue fused",
    .accepts = accepts,
    .cost = cost,
    .tunables = kTunables,
    .tune = tune,
    .variants = [](const sl_problem*) { return kConvolutionVariants; },
    .operands = kOperands,
    .epilogues = kElementwise,
    .border = borderOfTaps,
};

}  // namespace sl::native
