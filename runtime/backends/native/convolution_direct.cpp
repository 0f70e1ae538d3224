// SPDX-License-Identifier: Apache-2.0
// native.convolution_direct: grouped, depthwise and transposed convolution, and any layout.
#include "backends/native/convolution_problem.h"
#include "backends/native/native.h"

namespace sl::native {
namespace {

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  return acceptsConvolution(p, true, reason, bytes);
}

double cost(const sl_problem* p) {
  const ConvolutionProblem c(p);
  const Machine machine = machineOf(p);
  const int64_t pixels = c.pixels() == kUnknown ? 1024 : c.pixels();
  const bool contiguous = operandOf(p, 0).strides[1] == 1 && output(p).strides[1] == 1;
  // A transposed convolution visits every tap of the kernel but uses 1 / (strideH * strideW) of
  // them.
  const double flops = 2.0 * double(pixels) * double(c.k) * double(c.depth());
  return 0.5 + flops / (machine.peak(operandOf(p, 0).dtype.bits / 8) * (contiguous ? 0.2 : 0.06)) /
                   double(machine.threads);
}

/// Bytes; as depthwisePlanesWorkspace in codegen/kernels/depthwise_planes.h, and the most that it
/// may be where sizes are not known.
int64_t planesWorkspace(const ConvolutionProblem& c, int64_t elementBytes, int64_t vectorBytes) {
  constexpr int64_t kBytes = 16 << 10;
  const int64_t lanes = vectorBytes / elementBytes;
  const int64_t reach = roundUpTo((c.kw - 1) * c.dilationW / c.strideW + 1, lanes) + lanes;
  const int64_t span = (c.kh - 1) * c.dilationH + 1;
  const int64_t room = kBytes / elementBytes / (span * c.strideW) - reach;
  const int64_t strip = std::max<int64_t>(room / (4 * lanes), 1) * 4 * lanes;
  const int64_t columns = c.wo == kUnknown ? strip : std::min(c.wo, strip);
  const int64_t length = (roundUpTo(columns, lanes) + reach) * c.strideW;
  const int64_t taps = c.kh * c.kw * 16;
  if (c.isOpen()) {
    return roundUpTo(std::max(span * length * elementBytes, kBytes) + taps, 128);
  }
  const int64_t most = kBytes / elementBytes / length;
  const int64_t outputs =
      std::min(most > span ? (most - span) / c.strideH + 1 : 1, std::max<int64_t>(c.ho, 1));
  return roundUpTo(((outputs - 1) * c.strideH + span) * length * elementBytes + taps, 128);
}

int64_t workspace(const sl_problem* p) {
  const ConvolutionProblem c(p);
  const Machine machine = machineOf(p);
  const int64_t weights = roundUpTo(c.depth() * machine.vectorBytes, 128);
  const int64_t rows =
      c.c == c.groups ? planesWorkspace(c, operandOf(p, 0).dtype.bits / 8, machine.vectorBytes) : 0;
  return machine.threads * std::max(weights, rows);
}

void tune(const sl_problem* p, int64_t* values) {
  const ConvolutionProblem c(p);
  values[0] = c.transposed;
  values[1] = c.transposed != 0 ? 1 : 4;
  const bool isDense =
      c.strideH == 1 && c.strideW == 1 && c.dilationH == 1 && c.dilationW == 1 && c.kh == c.kw;
  const bool isTaken = c.transposed == 0 && c.c == c.groups && (c.kh == 5 || c.kh == 7);
  values[2] = c.isOpen() && isDense && isTaken ? c.kh : 0;
}

constexpr sl_tunable kTunables[] = {
    {"transposed", 0, 0, 1}, {"pixels", 4, 1, 8}, {"side", 0, 0, 7}};

constexpr sl_operand_facts kOperands[] = {
    {"x", SL_TYPE_F32 | SL_TYPE_F64, 0, SL_LAYOUT_STRIDED, 0, 0, 0},
    {"weight", SL_TYPE_F32 | SL_TYPE_F64, 0, SL_LAYOUT_STRIDED, 0, 0, 0},
    {"bias", SL_TYPE_F32 | SL_TYPE_F64, 0, 0, 0, SL_OPERAND_OPTIONAL, 0},
    {"y", SL_TYPE_F32 | SL_TYPE_F64, 0, SL_LAYOUT_STRIDED, 0, SL_OPERAND_OUTPUT, 0}};

}  // namespace

extern constinit const sl_kernel_desc convolutionDirectKernel = EmittedKernel{
    .name = "native.convolution_direct",
    .backend = "native",
    .op = "convolution",
    .family = "convolution_direct",
    .summary = "any grouping, stride, layout and transposition, vectors over output channels",
    .accepts = accepts,
    .cost = cost,
    .workspace = workspace,
    .tunables = kTunables,
    .tune = tune,
    .operands = kOperands,
    .epilogues = kElementwise,
};

}  // namespace sl::native
