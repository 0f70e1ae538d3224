// SPDX-License-Identifier: Apache-2.0
// native.convolution_int8: convolution of 8-bit integers over NHWC images with a border of zeros,
// summed in 32 bits, exact modulo 2^32 on every CPU; and the packing of its weight.
#include "backends/native/convolution_problem.h"
#include "backends/native/native.h"

namespace sl::native {
namespace {

bool isByte(sl_dtype t) { return t.code == 0 && t.bits == 8 && t.lanes == 1; }

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  if (!needsOperands(p, 2, reason, bytes)) {
    return 0;
  }
  if (!isByte(operandOf(p, 0).dtype) || !isByte(operandOf(p, 1).dtype)) {
    return refuse(reason, bytes, "x and weight are not both int8");
  }
  if (p->inputs > 2) {
    return refuse(reason, bytes, "%d inputs, needs x and weight alone", p->inputs);
  }
  const sl_operand* ranked[] = {&operandOf(p, 0), &operandOf(p, 1), &output(p)};
  for (const sl_operand* o : ranked) {
    if (o->rank != 4) {
      return refuse(reason, bytes, "an operand has rank %d, needs 4", o->rank);
    }
    for (int32_t d = o == ranked[1] ? 0 : 1; d < 4; ++d) {
      if (o->extents[d] == SL_DYNAMIC) {
        return refuse(reason, bytes, "dim %d of an operand is dynamic, only the batch may be", d);
      }
    }
  }
  const ConvolutionProblem c(p);
  if (c.c % 4 != 0) {
    return refuse(reason, bytes, "%lld channels, needs a multiple of 4",
                  static_cast<long long>(c.c));
  }
  return acceptsChannelsLast(p, reason, bytes);
}

double cost(const sl_problem* p) {
  const ConvolutionProblem c(p);
  return gemmInt8Microseconds(c.pixels(), c.k, c.depth(), false, p->dot_bf16 != 0, machineOf(p));
}

void tune(const sl_problem* p, int64_t* values) {
  const ConvolutionProblem c(p);
  const GemmInt8Choice x = gemmInt8Variant(p->variant, c.pixels(), c.k, c.depth(), machineOf(p));
  values[0] = x.mr;
  values[1] = x.nr;
  values[2] = c.kh;
  values[3] = c.kw;
  values[4] = x.mc;
}

constexpr sl_tunable kTunables[] = {{"mr", 6, 1, 14},
                                    {"nr", 16, 4, 96},
                                    {"kh", 3, 1, 4096},
                                    {"kw", 3, 1, 4096},
                                    {"mc", 96, 1, 480}};

constexpr sl_operand_facts kOperands[] = {
    {"x", SL_TYPE_I8, 0, SL_LAYOUT_CHANNELS_LAST, SL_LAYOUT_CHANNELS_LAST, 0, 0},
    {"weight", SL_TYPE_I8, 0, 0, 0, SL_OPERAND_PACKED, 0},
    {"y", SL_TYPE_I32, 0, SL_LAYOUT_CHANNELS_LAST, SL_LAYOUT_CHANNELS_LAST, SL_OPERAND_OUTPUT, 0}};

int32_t acceptsPacking(const sl_problem* p, char* reason, size_t bytes) {
  if (!needsOperands(p, 1, reason, bytes)) {
    return 0;
  }
  const sl_dtype t = operandOf(p, 0).dtype;
  return isByte(t) ? 1
                   : refuse(reason, bytes, "operand 0 is %s%d, needs int8", dtypeName(t), t.bits);
}

constexpr sl_tunable kPackTunables[] = {{"nr", 16, 4, 96}};

}  // namespace

extern constinit const sl_kernel_desc convolutionInt8Kernel = EmittedKernel{
    .name = "native.convolution_int8",
    .backend = "native",
    .op = "convolution",
    .family = "convolution_int8",
    .summary = "implicit GEMM over NHWC int8, four products a lane summed in int32, epilogue fused",
    .accepts = accepts,
    .cost = cost,
    .tunables = kTunables,
    .tune = tune,
    .variants = [](const sl_problem*) { return 3; },
    .operands = kOperands,
    .epilogues = kElementwise,
    .border = borderOfTaps,
};

extern constinit const sl_kernel_desc packConvolutionInt8Kernel = EmittedKernel{
    .name = "native.pack_convolution_int8",
    .backend = "native",
    .op = "pack_convolution_int8",
    .family = "pack_convolution_int8",
    .summary = "OIHW weight of int8 into panels of nr output channels, four inputs side by side",
    .accepts = acceptsPacking,
    .cost = moveMicroseconds,
    .tunables = kPackTunables,
};

}  // namespace sl::native
