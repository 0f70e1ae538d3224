// SPDX-License-Identifier: Apache-2.0
// cudnn.convolution: convolutions of fixed sizes with bias, residual and ReLU by NVIDIA's library. Which of its engines is chosen
// by its heuristics once, when prepare makes the plan; a run enqueues it on the stream of its queue.
//
// The graph is one that the library has compiled engines for, whatever the sizes: the convolution alone, or
// convolution (+ residual) + bias (then ReLU), in this order. So no plan compiles anything. (Chains that begin otherwise, without a
// bias say, are for engines that are compiled when they are planned; of exact float32 there are none.) What lies between is float32.
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <iterator>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/cuda/driver.h"
#include "backends/cuda/tuning.h"
#include "library.h"
#include "straightline/abi/straightline.h"

namespace straightline::cudnn {
namespace {

using sl::native::attribute;
using sl::native::kUnknown;

constexpr int64_t kFullAlignment = 16;  ///< bytes; of addresses that are less aligned an engine of its own is kept
constexpr int64_t kMostElements = (int64_t{1} << 31) - 1;  ///< of a tensor

Type typeOf(sl_dtype dtype) { return dtype.bits == 32 ? kFloat32 : dtype.code == 4 ? kBfloat16 : kFloat16; }

bool isTf32(const sl_problem* p) { return p->operands[0].dtype.bits == 32 && attribute(p, "tf32", 0) != 0; }

/// The numbers of a problem. Image and result are [n][h][w][c], the weight [k][kh][kw][c / groups].
struct Sizes {
  int64_t n, c, h, w, k, ho, wo, kh, kw, strideH, strideW, padH, padW, dilationH, dilationW, groups;

  explicit Sizes(const sl_problem* p)
      : n(attribute(p, "n", 1)), c(attribute(p, "c", 1)), h(attribute(p, "h", 1)), w(attribute(p, "w", 1)),
        k(attribute(p, "k", 1)), ho(attribute(p, "ho", 1)), wo(attribute(p, "wo", 1)), kh(attribute(p, "kh", 1)),
        kw(attribute(p, "kw", 1)), strideH(attribute(p, "stride_h", 1)), strideW(attribute(p, "stride_w", 1)),
        padH(attribute(p, "pad_h", 0)), padW(attribute(p, "pad_w", 0)), dilationH(attribute(p, "dilation_h", 1)),
        dilationW(attribute(p, "dilation_w", 1)), groups(attribute(p, "groups", 1)) {}

  int64_t image() const { return n * c * h * w; }
  int64_t result() const { return n * k * ho * wo; }
  int64_t weight() const { return k * (c / groups) * kh * kw; }
};

/// Zeros behind a dim of the image, so that the library computes the same extent: as many as before it where that will do.
int64_t padAfter(int64_t size, int64_t out, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation) {
  const int64_t reach = dilation * (kernel - 1) + 1;
  const bool isEven = size + 2 * pad >= reach && (size + 2 * pad - reach) / stride + 1 == out;
  return isEven ? pad : std::max<int64_t>(0, (out - 1) * stride + reach - pad - size);
}

//===- description ---------------------------------------------------------===//

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  if (!sl::native::needsOperands(p, 2, reason, bytes) || !cuda::acceptsFloats(p, 2, reason, bytes)) {
    return 0;
  }
  if (p->operands[0].dtype.bits == 64) {
    return sl::native::refuse(reason, bytes, "operand 0 is float64, needs 16 or 32 bits: the library adds no bias to others");
  }
  if (attribute(p, "transposed", 0) != 0) {
    return sl::native::refuse(reason, bytes, "transposed=1, needs 0");
  }
  for (const char* name : {"n", "c", "h", "w", "k", "ho", "wo", "kh", "kw"}) {
    const int64_t value = attribute(p, name, kUnknown);
    if (value == kUnknown) {
      return sl::native::refuse(reason, bytes, "%s is dynamic, needs sizes that are known when it is planned", name);
    }
    if (value < 1) {
      return sl::native::refuse(reason, bytes, "%s=%lld, needs 1 or more", name, static_cast<long long>(value));
    }
  }
  const Sizes sizes(p);
  if (const int64_t most = std::max({sizes.image(), sizes.result(), sizes.weight()}); most > kMostElements) {
    return sl::native::refuse(reason, bytes, "a tensor has %lld elements, at most %lld", static_cast<long long>(most),
                              static_cast<long long>(kMostElements));
  }
  // Where there is a device it is this one that the program is for.
  if (cuda::driver().error.empty()) {
    if (const std::string missing = whyMissing(); !missing.empty()) {
      return sl::native::refuse(reason, bytes, "%s", missing.c_str());
    }
  }
  return 1;
}

/// Fits what was measured on an H200 (bench/results/cuda_convolutions_h200.json), most of it within a third.
double cost(const sl_problem* p) {
  const Sizes s(p);
  const int bits = p->operands[0].dtype.bits;
  const bool isExact = bits == 32 && !isTf32(p);
  const int64_t piece = 128 / bits;
  const int64_t c = s.groups == 1 && s.c > 1 ? cuda::ceilDivide(s.c, piece) * piece : s.c / s.groups;
  constexpr double kPlainEdgesUs = 2.0;  // in a graph no kernel begins before its neighbours have ended
  const double startUs = (isExact ? 10.0 : bits == 32 ? 4.6 : 3.2) + kPlainEdgesUs + cuda::kLaunchUs;
  if (c == 1 && s.groups > 1) {
    return startUs + double(s.result() * s.kh * s.kw) / (bits == 32 ? 160e3 : 215e3);
  }
  const double depth = double(c * s.kh * s.kw);
  const double columns = double(s.groups * cuda::ceilDivide(s.k / s.groups, 64) * 64);  // tiles, full or not
  const double flops = 2 * double(s.n * s.ho * s.wo) * columns * depth;
  const double moveUs = double(s.image() + s.result() + s.weight()) * bits / 8 / 3.0e6;
  if (isExact) {  // the library turns image and result around such a kernel, and does not split long reductions
    return startUs + std::max({0.028 * depth, flops / 15e6, moveUs});
  }
  const bool hasFewChannels = s.groups == 1 && c < 16;
  const double flopsPerUs = (bits == 32 ? 200e6 : 450e6) / (hasFewChannels ? 4 : 1);
  const double padUs = hasFewChannels && bits == 32 ? 4.0 : 0;  // a kernel of its own
  return startUs + padUs + 0.0012 * depth + std::max(flops / flopsPerUs, moveUs);
}

/// What an engine may need that turns or pads all of its operands, within bounds: it is asked for without a device, and an engine that
/// needs more is not taken. All calls of a program share it.
int64_t workspace(const sl_problem* p) {
  constexpr int64_t kLeast = 1 << 20, kMost = 64 << 20;
  const Sizes s(p);
  const int64_t moved = (s.image() + s.result() + s.weight()) * p->operands[0].dtype.bits / 8;
  return (std::clamp(2 * moved, kLeast, kMost) + 255) / 256 * 256;
}

void note(const sl_problem* p, char* text, size_t bytes) {
  std::snprintf(text, bytes, "%sa library: in a graph it is captured again when an address changes",
                isTf32(p) ? "TF32 as torch.backends.cudnn.allow_tf32 says, " : "");
}

//===- plan ----------------------------------------------------------------===//

/// Names of tensors in a graph; those behind kBetween are what lies between its operations.
enum Id : int64_t { kImage = 1, kWeight, kResult, kBias, kResidual, kBetween };

using Dims = std::array<int64_t, 4>;  ///< n, channels, h, w

/// An execution plan for addresses of one alignment, with all that it was made of.
struct Engine {
  std::deque<Descriptor> parts;  ///< of the graph
  Descriptor config, plan, pack;  ///< the pack holds the addresses of the last run
  std::vector<const void*> addresses;
};

struct Plan {
  Engine aligned, unaligned;
  int32_t inputs = 2;
  std::mutex mutex;  ///< of the packs
};

int32_t fail(sl_ctx* ctx, int32_t status, const std::string& text) {
  sl_fail_text(ctx, status, text.c_str());
  return status;
}

/// Builds the graph of a problem, part by part. The parts stay with the engine, the first failure of one is kept.
class GraphBuilder {
 public:
  GraphBuilder(const sl_problem* p, int64_t alignment, Engine* engine)
      : s_(p), type_(typeOf(p->operands[0].dtype)), alignment_(alignment), engine_(engine) {}

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
    Descriptor made(kOperationGraph);
    const Handle handle = library().handle;
    made.put(kGraphHandle, kOfHandle, 1, &handle);
    made.put(kGraphOperations, kOfDescriptor, static_cast<int64_t>(operations_.size()), operations_.data());
    return keep(std::move(made));
  }

  Status status() const { return status_; }

 private:
  Dims resultDims() const { return {s_.n, s_.k, s_.ho, s_.wo}; }

  const Descriptor& keep(Descriptor made) {
    made.finish();
    status_ = status_ == kSuccess ? made.status() : status_;
    return engine_->parts.emplace_back(std::move(made));
  }

  const Descriptor& tensor(int64_t id, Type type, const Dims& d, bool isVirtual) {
    const Dims strides = {d[1] * d[2] * d[3], 1, d[3] * d[1], d[1]};
    Descriptor made(kTensor);
    made.put(kTensorId, {id}).put(kTensorType, kOfDataType, type).put(kTensorDims, d).put(kTensorStrides, strides);
    made.put(kTensorAlignment, {alignment_});
    if (isVirtual) {
      made.put(kTensorVirtual, kOfBoolean, 1, &isVirtual);
    }
    return keep(std::move(made));
  }

  /// What the next operation writes: the result where it is the last one.
  const Descriptor& next() {
    return --left_ == 0 ? tensor(kResult, type_, resultDims(), false) : tensor(kBetween + left_, kFloat32, resultDims(), true);
  }

  const Descriptor& convolution() {
    const Descriptor& image = tensor(kImage, type_, {s_.n, s_.c, s_.h, s_.w}, false);
    const Descriptor& weight = tensor(kWeight, type_, {s_.k, s_.c / s_.groups, s_.kh, s_.kw}, false);
    Descriptor how(kConvolutionDescriptor);
    how.put(kConvolutionCompute, kOfDataType, kFloat32).put(kConvolutionMode, kOfConvolutionMode, kCrossCorrelation);
    how.put(kConvolutionSpatialDims, {2}).put(kConvolutionDilations, {s_.dilationH, s_.dilationW});
    how.put(kConvolutionStrides, {s_.strideH, s_.strideW}).put(kConvolutionPrePaddings, {s_.padH, s_.padW});
    how.put(kConvolutionPostPaddings, {padAfter(s_.h, s_.ho, s_.kh, s_.strideH, s_.padH, s_.dilationH),
                                       padAfter(s_.w, s_.wo, s_.kw, s_.strideW, s_.padW, s_.dilationW)});
    const Descriptor& descriptor = keep(std::move(how));
    const Descriptor& result = next();
    Descriptor operation(kConvolutionForward);
    operation.put(kForwardConvolution, descriptor).put(kForwardX, image).put(kForwardW, weight).put(kForwardY, result);
    operation.put(kForwardAlpha, 1.0f).put(kForwardBeta, 0.0f);
    operations_.push_back(keep(std::move(operation)).raw());
    return result;
  }

  /// What it writes.
  const Descriptor& pointwise(Pointwise mode, const Descriptor& x, const Descriptor* other) {
    Descriptor how(kPointwiseDescriptor);
    how.put(kPointwiseMode, kOfPointwiseMode, mode).put(kPointwisePrecision, kOfDataType, kFloat32);
    if (mode == kRelu) {
      how.put(kPointwiseNan, kOfNanPropagation, 1);
    }
    const Descriptor& descriptor = keep(std::move(how));
    const Descriptor& result = next();
    Descriptor operation(kPointwiseOperation);
    operation.put(kOperationPointwise, descriptor).put(kOperationX, x).put(kOperationY, result);
    if (other) {
      operation.put(kOperationB, *other);
    }
    operations_.push_back(keep(std::move(operation)).raw());
    return result;
  }

  const Sizes s_;
  const Type type_;
  const int64_t alignment_;
  Engine* engine_;
  int left_ = 0;                  ///< operations that are still to come
  std::vector<void*> operations_;
  Status status_ = kSuccess;
};

/// Engines that the heuristic proposes, the best first. None: it knows none, or fails.
std::vector<Descriptor> proposals(const Descriptor& graph, Heuristic mode) {
  Descriptor heuristics(kHeuristics);
  heuristics.put(kHeuristicsGraph, graph).put(kHeuristicsMode, kOfHeuristicMode, mode).finish();
  int64_t count = 0;
  if (!heuristics || library().get(heuristics.raw(), kHeuristicsResults, kOfDescriptor, 0, &count, nullptr) != kSuccess) {
    return {};
  }
  std::vector<Descriptor> configs;
  std::vector<void*> raw;
  for (int64_t i = 0; i < count; ++i) {
    configs.emplace_back(kEngineConfig);
    raw.push_back(configs.back().raw());
  }
  int64_t filled = 0;
  const Status status = library().get(heuristics.raw(), kHeuristicsResults, kOfDescriptor, count, &filled, raw.data());
  configs.resize(status == kSuccess ? std::min(count, filled) : 0);
  return configs;
}

/// Whether the engine sums plain products of the factors as they are, in float32 and always in the same order; with `exact` also
/// none that are rounded to TF32, which is what tensor cores make of float32.
bool sumsPlainProducts(const Descriptor& config, bool exact) {
  constexpr int64_t kMostNotes = 32;
  Descriptor engine(kEngine);
  void* raw = engine.raw();
  int64_t count = 0;
  int notes[kMostNotes];
  if (library().get(config.raw(), kConfigEngine, kOfDescriptor, 1, &count, &raw) != kSuccess ||
      library().get(raw, kEngineNotes, kOfNumericalNote, kMostNotes, &count, notes) != kSuccess) {
    return false;
  }
  return std::none_of(notes, notes + std::min(count, kMostNotes), [&](int note) {
    return note == kDownConvertsInputs || note == kReducedPrecision || note == kNondeterministic || note == kFft ||
           (note >= kWinograd && note <= kLastWinograd) || (exact && note == kTensorCore);
  });
}

/// The first proposal that is fit for the problem and needs no more workspace than there will be. A status of the library.
Status choose(const Descriptor& graph, std::initializer_list<Heuristic> modes, bool exact, int64_t mostWorkspace, Engine* engine) {
  const Handle handle = library().handle;
  for (const Heuristic mode : modes) {
    for (Descriptor& config : proposals(graph, mode)) {
      if (!sumsPlainProducts(config, exact)) {
        continue;
      }
      Descriptor plan(kExecutionPlan);
      plan.put(kPlanHandle, kOfHandle, 1, &handle).put(kPlanConfig, config).finish();
      int64_t needed = 0, count = 0;
      if (plan && library().get(plan.raw(), kPlanWorkspace, kOfInt64, 1, &count, &needed) == kSuccess && needed <= mostWorkspace) {
        engine->config = std::move(config);
        engine->plan = std::move(plan);
        return kSuccess;
      }
    }
  }
  return kNotSupported;
}

Status build(const sl_problem* p, int64_t alignment, std::initializer_list<Heuristic> modes, Engine* engine) {
  GraphBuilder builder(p, alignment, engine);
  const Descriptor& graph = builder.graph(p->inputs, attribute(p, "relu", 0) != 0);
  if (builder.status() != kSuccess) {
    return builder.status();
  }
  const bool exact = p->operands[0].dtype.bits == 32 && !isTf32(p);
  return choose(graph, modes, exact, attribute(p, "workspace_bytes", 0), engine);
}

int32_t makePlan(sl_ctx* ctx, const sl_problem* p, const void* const*, void** handle) {
  const cuda::Entered entered(cuda::driver());
  if (!cuda::driver().error.empty() || !entered) {
    return fail(ctx, SL_UNSUPPORTED, cuda::driver().error.empty() ? "the device's context cannot be entered" : cuda::driver().error);
  }
  if (const Functions& lib = library(); !lib.error.empty()) {
    return fail(ctx, SL_UNSUPPORTED, lib.error);
  }
  const std::lock_guard<std::mutex> lock(handleMutex());
  auto plan = std::make_unique<Plan>();
  plan->inputs = p->inputs;
  if (const Status status = build(p, kFullAlignment, {kByTime, kFallback}, &plan->aligned); status != kSuccess) {
    return fail(ctx, SL_UNSUPPORTED, words("planning a convolution", status));
  }
  // The fast engines want full alignment, whatever the tensors say. None: such addresses are refused when they come.
  build(p, p->operands[0].dtype.bits / 8, {kFallback}, &plan->unaligned);
  *handle = plan.release();
  return SL_OK;
}

//===- run -----------------------------------------------------------------===//

/// Puts the addresses into the engine's pack, unless it has them from the last run.
Status address(Engine* engine, std::vector<const void*> addresses, const void* workspace) {
  addresses.push_back(workspace);
  if (engine->pack && engine->addresses == addresses) {
    return kSuccess;
  }
  static constexpr int64_t kIds[] = {kImage, kWeight, kResult, kBias, kResidual};
  const auto count = static_cast<int64_t>(addresses.size()) - 1;
  Descriptor pack(kVariantPack);
  pack.put(kPackIds, kOfInt64, count, kIds).put(kPackAddresses, kOfAddress, count, addresses.data());
  pack.put(kPackWorkspace, kOfAddress, 1, &workspace).finish();
  engine->pack = std::move(pack);
  engine->addresses = std::move(addresses);
  return engine->pack.status();
}

int32_t run(sl_ctx* ctx, sl_team, void* handle, const void* const* inputs, void* const* outputs, void* workspace) {
  auto* plan = static_cast<Plan*>(handle);
  const Functions& lib = library();
  std::vector<const void*> addresses = {inputs[0], inputs[1], outputs[0]};
  addresses.insert(addresses.end(), inputs + 2, inputs + plan->inputs);
  const bool aligned = std::all_of(addresses.begin(), addresses.end(), [](const void* address) {
    return reinterpret_cast<uintptr_t>(address) % kFullAlignment == 0;
  });
  Engine* engine = aligned ? &plan->aligned : &plan->unaligned;
  if (!engine->plan) {
    return fail(ctx, SL_UNSUPPORTED, "cuDNN: it has no engine for addresses that are not multiples of 16 bytes (cuda.convolution takes any)");
  }
  const std::lock_guard<std::mutex> lock(plan->mutex);
  if (const Status status = address(engine, std::move(addresses), workspace); status != kSuccess) {
    return fail(ctx, SL_DEVICE_ERROR, words("cudnnBackendFinalize of a variant pack", status));
  }
  const std::lock_guard<std::mutex> ofHandle(handleMutex());
  Status status = lib.setStream(lib.handle, sl_cuda_stream());
  if (status != kSuccess) {
    return fail(ctx, SL_DEVICE_ERROR, words("cudnnSetStream", status));
  }
  status = lib.execute(lib.handle, engine->plan.raw(), engine->pack.raw());
  return status == kSuccess ? int32_t{SL_OK} : fail(ctx, SL_DEVICE_ERROR, words("cudnnBackendExecute", status));
}

void destroy(void* handle) { delete static_cast<Plan*>(handle); }

const sl_kernel_desc kKernels[] = {{
    .size = sizeof(sl_kernel_desc),
    .name = "cudnn.convolution",
    .backend = "cudnn",
    .op = "convolution",
    .family = "",
    .summary = "NVIDIA's convolution, with bias, residual and ReLU",
    .accepts = accepts,
    .cost = cost,
    .workspace = workspace,
    .tunables = nullptr,
    .tunable_count = 0,
    .tune = nullptr,
    .can_fail = 1,
    .whole_team = 0,
    .plan_symbol = "sl_cudnn_convolution_plan",
    .plan = reinterpret_cast<void*>(makePlan),
    .run_symbol = "sl_cudnn_convolution_run",
    .run = reinterpret_cast<void*>(run),
    .destroy = destroy,
    .note = note,
    .variants = nullptr,
}};

}  // namespace
}  // namespace straightline::cudnn

extern "C" const sl_backend_desc sl_backend_cudnn = {
    sizeof(sl_backend_desc), SL_ABI_VERSION, "cudnn", straightline::cudnn::kKernels,
    std::size(straightline::cudnn::kKernels), nullptr, "cuda"};
