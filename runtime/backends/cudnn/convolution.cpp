// SPDX-License-Identifier: Apache-2.0
// cudnn.convolution: convolutions of fixed sizes with bias, residual and ReLU by NVIDIA's library.
// Prepare makes the plan once: the library's heuristics choose one of its engines (the first one,
// or the one of the first kVariants that was measured fastest). A run enqueues it on its queue's
// stream.
//
// The graph is one that the library has compiled engines for, whatever the sizes: the convolution
// alone, or convolution (+ residual) + bias (then ReLU), in this order. So no plan compiles
// anything. (Chains that begin otherwise, without a bias say, are for engines that are compiled
// when they are planned; of exact float32 there are none.) What lies between is float32.
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/cuda/tuning.h"
#include "engine.h"
#include "kernels.h"
#include "straightline/abi/straightline.h"

namespace straightline::cudnn {
namespace {

using sl::native::attribute;
using sl::native::kUnknown;
using sl::native::operandOf;

constexpr int32_t kVariants = 6;  ///< so many of the heuristics' engines may be measured
constexpr sl_tunable kTunables[] = {{"variant", 0, 0, kVariants - 1}};

bool isTf32(const sl_problem* p) {
  return operandOf(p, 0).dtype.bits == 32 && attribute(p, "tf32", 0) != 0;
}

/// The numbers of a problem. Image and result are [n][h][w][c], the weight [k][kh][kw][c / groups].
struct Sizes {
  int64_t n, c, h, w, k, ho, wo, kh, kw, strideH, strideW, padH, padW, dilationH, dilationW, groups;

  explicit Sizes(const sl_problem* p)
      : n(attribute(p, "n", 1)),
        c(attribute(p, "c", 1)),
        h(attribute(p, "h", 1)),
        w(attribute(p, "w", 1)),
        k(attribute(p, "k", 1)),
        ho(attribute(p, "ho", 1)),
        wo(attribute(p, "wo", 1)),
        kh(attribute(p, "kh", 1)),
        kw(attribute(p, "kw", 1)),
        strideH(attribute(p, "stride_h", 1)),
        strideW(attribute(p, "stride_w", 1)),
        padH(attribute(p, "pad_h", 0)),
        padW(attribute(p, "pad_w", 0)),
        dilationH(attribute(p, "dilation_h", 1)),
        dilationW(attribute(p, "dilation_w", 1)),
        groups(attribute(p, "groups", 1)) {}

  int64_t image() const { return n * c * h * w; }
  int64_t result() const { return n * k * ho * wo; }
  int64_t weight() const { return k * (c / groups) * kh * kw; }
};

/// Zeros behind a dim of the image, so that the library computes the same extent: as many as before
/// it where that will do.
int64_t padAfter(int64_t size, int64_t out, int64_t kernel, int64_t stride, int64_t pad,
                 int64_t dilation) {
  const int64_t reach = dilation * (kernel - 1) + 1;
  const bool isEven = size + 2 * pad >= reach && (size + 2 * pad - reach) / stride + 1 == out;
  return isEven ? pad : std::max<int64_t>(0, (out - 1) * stride + reach - pad - size);
}

//===- description ---------------------------------------------------------===//

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  if (!sl::native::needsOperands(p, 2, reason, bytes) ||
      !cuda::acceptsFloats(p, 2, reason, bytes)) {
    return 0;
  }
  if (operandOf(p, 0).dtype.bits == 64) {
    return sl::native::refuse(
        reason, bytes,
        "operand 0 is float64, needs 16 or 32 bits: the library adds no bias to others");
  }
  if (attribute(p, "transposed", 0) != 0) {
    return sl::native::refuse(reason, bytes, "transposed=1, needs 0");
  }
  if (const cuda::Target target = cuda::targetOf(p);
      typeOf(operandOf(p, 0).dtype) == kBfloat16 && target.sm < cuda::kFirstWithTf32) {
    return sl::native::refuse(reason, bytes, "bfloat16 on sm_%lld, needs sm_80 or later",
                              static_cast<long long>(target.sm));
  }
  for (const char* name : {"n", "c", "h", "w", "k", "ho", "wo", "kh", "kw"}) {
    const int64_t value = attribute(p, name, kUnknown);
    if (value == kUnknown) {
      return sl::native::refuse(
          reason, bytes, "%s is dynamic, needs sizes that are known when it is planned", name);
    }
    if (value < 1) {
      return sl::native::refuse(reason, bytes, "%s=%lld, needs 1 or more", name,
                                static_cast<long long>(value));
    }
  }
  const Sizes sizes(p);
  if (const int64_t most = std::max({sizes.image(), sizes.result(), sizes.weight()});
      most > kMostElements) {
    return sl::native::refuse(reason, bytes, "a tensor has %lld elements, at most %lld",
                              static_cast<long long>(most), static_cast<long long>(kMostElements));
  }
  return isThere(reason, bytes);
}

/// Fits what was measured on an H200 (bench/results/h200_0d1294c.json), most of it within
/// a third.
double cost(const sl_problem* p) {
  const Sizes s(p);
  const int bits = operandOf(p, 0).dtype.bits;
  const bool isExact = bits == 32 && !isTf32(p);
  const double ofH200 = cuda::targetOf(p).ofH200();
  const int64_t piece = 128 / bits;
  const int64_t c =
      s.groups == 1 && s.c > 1 ? cuda::ceilDivide(s.c, piece) * piece : s.c / s.groups;
  // in a graph no kernel begins before its neighbours have ended
  constexpr double kPlainEdgesUs = 2.0;
  const double startUs = (isExact      ? 10.0
                          : bits == 32 ? 4.6
                                       : 3.2) +
                         kPlainEdgesUs + cuda::kLaunchUs;
  if (c == 1 && s.groups > 1) {
    return startUs + double(s.result() * s.kh * s.kw) / ((bits == 32 ? 160e3 : 215e3) * ofH200);
  }
  const double depth = double(c * s.kh * s.kw);
  // tiles, full or not
  const double columns = double(s.groups * cuda::ceilDivide(s.k / s.groups, 64) * 64);
  const double flops = 2 * double(s.n * s.ho * s.wo) * columns * depth;
  const double moveUs = double(s.image() + s.result() + s.weight()) * bits / 8 / 3.0e6;
  // the library turns image and result around such a kernel, and does not split long reductions
  if (isExact) {
    return startUs + std::max({0.028 * depth, flops / (15e6 * ofH200), moveUs});
  }
  const bool hasFewChannels = s.groups == 1 && c < 16;
  const double flopsPerUs = (bits == 32 ? 200e6 : 450e6) * ofH200 / (hasFewChannels ? 4 : 1);
  const double padUs = hasFewChannels && bits == 32 ? 4.0 : 0;  // a kernel of its own
  return startUs + padUs + 0.0012 * depth + std::max(flops / flopsPerUs, moveUs);
}

/// What an engine may need that turns or pads all of its operands, within bounds: it is asked for
/// without a device, and an engine that needs more is not taken. All calls of a program share it.
int64_t workspace(const sl_problem* p) {
  constexpr int64_t kLeast = 1 << 20, kMost = 64 << 20;
  const Sizes s(p);
  const int64_t moved = (s.image() + s.result() + s.weight()) * operandOf(p, 0).dtype.bits / 8;
  return (std::clamp(2 * moved, kLeast, kMost) + 255) / 256 * 256;
}

void note(const sl_problem* p, char* text, size_t bytes) {
  std::snprintf(text, bytes, "%sa library: in a graph it is captured again when an address changes",
                isTf32(p) ? "TF32 as torch.backends.cudnn.allow_tf32 says, " : "");
}

//===- plan ----------------------------------------------------------------===//

/// Names of tensors in a graph; those behind kBetween are what lies between its operations.
enum Id : int64_t { kImage = 1, kWeight, kResult, kBias, kResidual, kBetween };

/// An execution plan for addresses of one alignment.
struct AlignedEngine {
  Engine engine;
  Pack pack;
};

struct Plan {
  AlignedEngine aligned, unaligned;
  int32_t inputs = 2;
  std::mutex mutex;  ///< of the packs
};

class ConvolutionGraph : GraphBuilder {
 public:
  ConvolutionGraph(const sl_problem* p, int64_t alignment, Engine* engine)
      : GraphBuilder(engine), s_(p), type_(typeOf(operandOf(p, 0).dtype)), alignment_(alignment) {}

  const Descriptor& graph(int32_t inputs, bool hasRelu) {
    const bool isBiased = inputs > 2, hasResidual = inputs > 3;
    left_ = 1 + (isBiased ? 1 : 0) + (hasResidual ? 1 : 0) + (hasRelu ? 1 : 0);
    const Descriptor* last = &convolution();
    if (hasResidual) {
      last = &pointwise(kAdd, *last, &tensor(kResidual, type_, resultDims(), false));
    }
    if (isBiased) {
      last = &pointwise(kAdd, *last, &tensor(kBias, type_, {1, s_.k, 1, 1}, false));
    }
    if (hasRelu) {
      pointwise(kRelu, *last, nullptr);
    }
    return finishGraph();
  }

  using GraphBuilder::status;

 private:
  /// Dims are n, channels, h, w.
  Four resultDims() const { return {s_.n, s_.k, s_.ho, s_.wo}; }

  const Descriptor& tensor(int64_t id, Type type, const Four& d, bool isVirtual) {
    return GraphBuilder::tensor(
        {id, type, d, {d[1] * d[2] * d[3], 1, d[3] * d[1], d[1]}, alignment_, isVirtual});
  }

  /// What the next operation writes: the result where it is the last one.
  const Descriptor& next() {
    return --left_ == 0 ? tensor(kResult, type_, resultDims(), false)
                        : tensor(kBetween + left_, kFloat32, resultDims(), true);
  }

  const Descriptor& convolution() {
    const Descriptor& image = tensor(kImage, type_, {s_.n, s_.c, s_.h, s_.w}, false);
    const Descriptor& weight =
        tensor(kWeight, type_, {s_.k, s_.c / s_.groups, s_.kh, s_.kw}, false);
    Descriptor how(kConvolutionDescriptor);
    how.put(kConvolutionCompute, kOfDataType, kFloat32)
        .put(kConvolutionMode, kOfConvolutionMode, kCrossCorrelation);
    how.put(kConvolutionSpatialDims, {2}).put(kConvolutionDilations, {s_.dilationH, s_.dilationW});
    how.put(kConvolutionStrides, {s_.strideH, s_.strideW})
        .put(kConvolutionPrePaddings, {s_.padH, s_.padW});
    how.put(kConvolutionPostPaddings,
            {padAfter(s_.h, s_.ho, s_.kh, s_.strideH, s_.padH, s_.dilationH),
             padAfter(s_.w, s_.wo, s_.kw, s_.strideW, s_.padW, s_.dilationW)});
    const Descriptor& descriptor = keep(std::move(how));
    const Descriptor& result = next();
    Descriptor operation(kConvolutionForward);
    operation.put(kForwardConvolution, descriptor)
        .put(kForwardX, image)
        .put(kForwardW, weight)
        .put(kForwardY, result);
    operation.put(kForwardAlpha, 1.0f).put(kForwardBeta, 0.0f);
    add(std::move(operation));
    return result;
  }

  /// What it writes.
  const Descriptor& pointwise(Pointwise mode, const Descriptor& x, const Descriptor* other) {
    const Descriptor& result = next();
    GraphBuilder::pointwise({mode, &x, other}, result);
    return result;
  }

  const Sizes s_;
  const Type type_;
  const int64_t alignment_;
  int left_ = 0;  ///< operations that are still to come
};

Status build(DeviceHandle* device, const sl_problem* p, int64_t alignment,
             std::initializer_list<Heuristic> modes, int32_t variant, Engine* engine) {
  engine->device = device;
  ConvolutionGraph builder(p, alignment, engine);
  const Descriptor& graph = builder.graph(p->inputs, sl::native::isText(p, "activation", "relu"));
  if (builder.status() != kSuccess) {
    return builder.status();
  }
  const bool exact = operandOf(p, 0).dtype.bits == 32 && !isTf32(p);
  return choose(graph, modes, exact, attribute(p, "workspace_bytes", 0), variant, engine);
}

int32_t makePlan(sl_ctx* ctx, const sl_problem* p, const void* const*, void** handle) {
  const cuda::OpenDevice& open = cuda::openDevice(ctx->device);
  const cuda::Entered entered(open);
  std::string error;
  DeviceHandle* const device = usable(open, entered, &error);
  if (!device) {
    return fail(ctx, SL_UNSUPPORTED, error);
  }
  const std::lock_guard<std::mutex> lock(device->mutex);
  auto plan = std::make_unique<Plan>();
  plan->inputs = p->inputs;
  if (const Status status = build(device, p, kFullAlignment, {kByTime, kFallback},
                                  std::clamp(p->variant, 0, kVariants - 1), &plan->aligned.engine);
      status != kSuccess) {
    return fail(
        ctx, SL_UNSUPPORTED,
        words("planning a convolution", status) + "; routes={'convolution': 'cuda'} does without");
  }
  // The fast engines want full alignment, whatever the tensors say. None: such addresses are
  // refused when they come.
  build(device, p, operandOf(p, 0).dtype.bits / 8, {kFallback}, 0, &plan->unaligned.engine);
  *handle = plan.release();
  return SL_OK;
}

//===- run -----------------------------------------------------------------===//

int32_t run(sl_ctx* ctx, sl_team, void* handle, const void* const* inputs, void* const* outputs,
            void* workspace) {
  static constexpr int64_t kIds[] = {kImage, kWeight, kResult, kBias, kResidual};
  auto* plan = static_cast<Plan*>(handle);
  std::vector<const void*> addresses = {inputs[0], inputs[1], outputs[0]};
  addresses.insert(addresses.end(), inputs + 2, inputs + plan->inputs);
  AlignedEngine* chosen = areAligned(addresses) ? &plan->aligned : &plan->unaligned;
  if (!chosen->engine.plan) {
    return fail(ctx, SL_UNSUPPORTED,
                "cuDNN: it has no engine for addresses that are not multiples of 16 bytes "
                "(cuda.convolution takes any)");
  }
  const std::lock_guard<std::mutex> lock(plan->mutex);
  const std::span<const int64_t> ids(kIds, addresses.size());
  return enqueue(ctx, chosen->engine, &chosen->pack, ids, std::move(addresses), workspace);
}

void destroy(void* handle) { delete static_cast<Plan*>(handle); }

}  // namespace

constexpr uint32_t kFloats = SL_TYPE_F16 | SL_TYPE_BF16 | SL_TYPE_F32;
constexpr uint32_t kPixels = SL_LAYOUT_CHANNELS_LAST;
constexpr sl_operand_facts kOperands[] = {
    {"x", kFloats, 0, kPixels, kPixels, 0, 16},
    {"weight", kFloats, 0, kPixels, 0, 0, 16},
    {"bias", kFloats, 0, SL_LAYOUT_ROW_MAJOR, 0, SL_OPERAND_OPTIONAL, 0},
    {"residual", kFloats, 0, kPixels, kPixels, SL_OPERAND_OPTIONAL, 0},
    {"y", kFloats, 0, kPixels, kPixels, SL_OPERAND_OUTPUT, 0}};
constexpr sl_epilogue kEpilogues[] = {
    {"bias", 0, 0}, {"residual", 0, SL_EPILOGUE_WITH_BIAS}, {"relu", 0, SL_EPILOGUE_WITH_BIAS}};
constexpr sl_calling_rule kRule = {
    .size = sizeof(sl_calling_rule),
    .attributes = nullptr,
    .attribute_count = 0,
    .tells_workspace = 1,
};

sl_kernel_desc convolutionKernel() {
  return {
      .size = sizeof(sl_kernel_desc),
      .name = "cudnn.convolution",
      .backend = "cudnn",
      .op = "convolution",
      .family = "",
      .summary = "NVIDIA's convolution, with bias, residual and ReLU",
      .accepts = accepts,
      .cost = cost,
      .workspace = workspace,
      .tunables = kTunables,
      .tunable_count = std::size(kTunables),
      .tunable_stride = sizeof(sl_tunable),
      .tune = [](const sl_problem* p, int64_t* values) { values[0] = p->variant; },
      .can_fail = 1,
      .whole_team = 0,
      .plan_symbol = "sl_cudnn_convolution_plan",
      .plan = reinterpret_cast<void*>(makePlan),
      .run_symbol = "sl_cudnn_convolution_run",
      .run = reinterpret_cast<void*>(run),
      .destroy = destroy,
      .note = note,
      .variants = [](const sl_problem*) { return kVariants; },
      .properties = SL_KERNEL_CONCURRENT,
      .operands = kOperands,
      .operand_count = std::size(kOperands),
      .operand_stride = sizeof(sl_operand_facts),
      .epilogues = kEpilogues,
      .epilogue_count = std::size(kEpilogues),
      .epilogue_stride = sizeof(sl_epilogue),
      .rule = &kRule,
  };
}

}  // namespace straightline::cudnn
