// SPDX-License-Identifier: Apache-2.0
// cudnn.attention: scaled dot-product attention of fixed sizes and 16-bit floats by NVIDIA's
// library, which computes it with tensor cores without storing the scores.
//
// The graph is the one that its engines for attention look for: product, scale (, + mask) (, the
// causal choice), maximum, difference, exp, sum, logarithm and the statistics that come of it
// (which nobody reads, but without which no engine takes the graph), quotient, product. What lies
// between is float32; the weights of the second product are of the type of q. (Order and types are
// what NVIDIA/cudnn-frontend builds for inference, include/cudnn_frontend/node; found sufficient
// with 9.19 and 9.28. One operation for all of it, CUDNN_BACKEND_OPERATION_SDPA_FWD, exists from
// 9.13 on, but is causal from 9.21 on only.) Its engines are compiled by the plan (NVRTC, some 0.4
// s each), so calls of equal sizes share one.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
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
using sl::native::operandOf;
using sl::native::refuse;

constexpr int64_t kPiece = 8;  ///< elements of 16 bits in what the library loads at once
constexpr int64_t kLargestHead = 256;
/// cuDNN's "Attention", Support Matrix: Ampere or newer
constexpr int64_t kFirstWithAttention = 80;
/// Larger heads are supported on others by some versions only (the same matrix from 9.18 on;
/// before, sm_90 alone), and none was tried there.
constexpr int64_t kHeadElsewhere = 128, kMeasured = 90;
constexpr int64_t kMostImages = 65535;  ///< blocks along an axis of the grid
constexpr int64_t kWorkspaceBytes = 1 << 20;

/// The numbers of a problem: q [b][h][s][d], k [b][hk][t][d].
struct Sizes {
  int64_t b, h, s, d, hk, t;

  explicit Sizes(const sl_problem* p)
      : b(operandOf(p, 0).extents[0]),
        h(operandOf(p, 0).extents[1]),
        s(operandOf(p, 0).extents[2]),
        d(operandOf(p, 0).extents[3]),
        hk(operandOf(p, 1).extents[1]),
        t(operandOf(p, 1).extents[2]) {}
};

bool isCausal(const sl_problem* p) { return attribute(p, "is_causal", 0) != 0; }

//===- description ---------------------------------------------------------===//

int32_t acceptsOperand(const sl_problem* p, int32_t i, char* reason, size_t bytes) {
  const sl_operand& o = operandOf(p, i);
  const bool isMask = p->inputs > 3 && i == 3;
  if (o.rank != 4) {
    return refuse(reason, bytes, "operand %d has rank %d, needs 4 (b, h, s, d)", i, o.rank);
  }
  if (const int64_t head = o.extents[3];
      !isMask && head != SL_DYNAMIC && (head % kPiece != 0 || head > kLargestHead)) {
    return refuse(reason, bytes,
                  "head size of operand %d is %lld, needs a multiple of %lld up to %lld", i,
                  static_cast<long long>(head), static_cast<long long>(kPiece),
                  static_cast<long long>(kLargestHead));
  }
  int64_t elements = 1;
  for (int32_t dim = 0; dim < 4; ++dim) {
    if (o.extents[dim] == SL_DYNAMIC) {
      return refuse(
          reason, bytes,
          "extent %d of operand %d is dynamic, needs sizes that are known when it is planned", dim,
          i);
    }
    if (o.extents[dim] < 1) {
      return refuse(reason, bytes, "extent %d of operand %d is %lld, needs 1 or more", dim, i,
                    static_cast<long long>(o.extents[dim]));
    }
    elements *= o.extents[dim];
    const int64_t multiple = dim == 3 || isMask ? 1 : kPiece;
    const bool isRead = o.extents[dim] > 1;
    if (isRead && (o.strides[dim] == SL_DYNAMIC ||
                   (dim == 3 ? o.strides[dim] != 1 : o.strides[dim] % multiple != 0))) {
      return refuse(reason, bytes, "stride of dim %d of operand %d is %lld, needs %s", dim, i,
                    static_cast<long long>(o.strides[dim]), dim == 3 ? "1" : "a multiple of 8");
    }
  }
  if (elements > kMostElements) {
    return refuse(reason, bytes, "operand %d has %lld elements, at most %lld", i,
                  static_cast<long long>(elements), static_cast<long long>(kMostElements));
  }
  return 1;
}

int32_t acceptsMask(const sl_problem* p, char* reason, size_t bytes) {
  const sl_dtype mask = operandOf(p, 3).dtype;
  const bool isOfQ =
      mask.code == operandOf(p, 0).dtype.code && mask.bits == operandOf(p, 0).dtype.bits;
  if (!isOfQ && !sl::native::isFloat(mask, 32)) {
    return refuse(reason, bytes, "mask is %s%d, needs float32 or the type of q",
                  sl::native::dtypeName(mask), mask.bits);
  }
  const int64_t keys = operandOf(p, 1).extents[2];
  // its engine loads several at once all the same
  if (operandOf(p, 3).rank == 4 && operandOf(p, 3).extents[3] != keys) {
    return refuse(reason, bytes, "mask has %lld elements along the keys, needs %lld",
                  static_cast<long long>(operandOf(p, 3).extents[3]), static_cast<long long>(keys));
  }
  return acceptsOperand(p, 3, reason, bytes);
}

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  if (!sl::native::needsOperands(p, 3, reason, bytes) ||
      !cuda::acceptsFloats(p, 3, reason, bytes)) {
    return 0;
  }
  const cuda::Target target = cuda::targetOf(p);
  if (operandOf(p, 0).dtype.bits != 16) {
    return refuse(reason, bytes, "operand 0 is float%d, needs 16 bits", operandOf(p, 0).dtype.bits);
  }
  if (target.sm < kFirstWithAttention) {
    return refuse(reason, bytes, "the program is for sm_%lld, needs sm_80 or later",
                  static_cast<long long>(target.sm));
  }
  if (attribute(p, "parts", 1) != 1) {
    return refuse(reason, bytes, "keys and values come in 2 parts, needs one");
  }
  if (attribute(p, "empty_is_nan", 0) != 0) {
    return refuse(reason, bytes, "a query whose mask keeps no key is NaN, needs zeros");
  }
  if (const int64_t images = attribute(p, "mask_images", 0); images != 0) {
    return refuse(reason, bytes, "the mask has %lld images, needs one or those of q",
                  static_cast<long long>(images));
  }
  for (int32_t i : {0, 1, 2, p->inputs}) {
    if (!acceptsOperand(p, i, reason, bytes)) {
      return 0;
    }
  }
  const Sizes sizes(p);
  if (sizes.d > kHeadElsewhere && target.sm != kMeasured) {
    return refuse(reason, bytes, "head size %lld on sm_%lld, needs at most %lld there",
                  static_cast<long long>(sizes.d), static_cast<long long>(target.sm),
                  static_cast<long long>(kHeadElsewhere));
  }
  if (sizes.h % sizes.hk != 0) {
    return refuse(reason, bytes, "%lld query heads and %lld key heads, needs a multiple",
                  static_cast<long long>(sizes.h), static_cast<long long>(sizes.hk));
  }
  if (sizes.b > kMostImages || sizes.h > kMostImages) {
    return refuse(reason, bytes, "%lld images of %lld heads, at most %lld of each",
                  static_cast<long long>(sizes.b), static_cast<long long>(sizes.h),
                  static_cast<long long>(kMostImages));
  }
  if (p->inputs > 3 && !acceptsMask(p, reason, bytes)) {
    return 0;
  }
  return isThere(reason, bytes);
}

/// Fits what was measured on an H200 (bench/results/h200_77c44f9.json), most of it within a
/// third.
double cost(const sl_problem* p) {
  const Sizes z(p);
  constexpr double kStartUs = 5.5;  // two kernels: one that describes the operands to the other
  // in a graph no kernel begins before its neighbours have ended
  constexpr double kPlainEdgesUs = 2.0;
  constexpr double kUsPerKey = 0.0112;  // keys come one tile after the other
  constexpr double kPowersPerUs = 1.6e6, kFlopsPerUs = 500e6;
  const double tiles =
      double(z.b * z.h) * double(cuda::ceilDivide(z.s, 128)) * double(cuda::ceilDivide(z.t, 128));
  const double pairs = tiles * 128 * 128 * (isCausal(p) && z.s > 128 ? 0.6 : 1.0);
  const double maskUs = p->inputs > 3 ? 4.5 : 0;
  const double perPairUs =
      std::max(1 / kPowersPerUs, 4.0 * double(z.d) / kFlopsPerUs) / cuda::targetOf(p).ofH200();
  return cuda::kLaunchUs + kStartUs + kPlainEdgesUs + maskUs +
         std::max(kUsPerKey * double(z.t), pairs * perPairUs);
}

/// Asked for without a device, where no engine can be asked: those chosen so far want 256 bytes, or
/// nothing.
int64_t workspace(const sl_problem*) { return kWorkspaceBytes; }

void note(const sl_problem*, char* text, size_t bytes) {
  std::snprintf(text, bytes, "a library: in a graph it is captured again when an address changes");
}

//===- plan ----------------------------------------------------------------===//

/// Names of tensors in a graph; those behind kBetween are what lies between its operations.
enum Id : int64_t { kQ = 1, kK, kV, kResult, kScale, kMinusInfinity, kMask, kBetween };

class AttentionGraph : GraphBuilder {
 public:
  AttentionGraph(const sl_problem* p, Engine* engine)
      : GraphBuilder(engine), p_(p), z_(p), type_(typeOf(operandOf(p, 0).dtype)) {}

  const Descriptor& graph() {
    const TensorFacts k = operand(kK, 1);
    const TensorFacts turned = {kK,
                                type_,
                                {k.dims[0], k.dims[1], k.dims[3], k.dims[2]},
                                {k.strides[0], k.strides[1], k.strides[3], k.strides[2]}};
    const Descriptor* scores = &product(tensor(operand(kQ, 0)), tensor(turned), between());
    scores = &step({kMultiply, scores, &number(kScale)});
    if (p_->inputs > 3) {
      scores = &step({kAdd, scores, &tensor(operand(kMask, 3))});
    }
    if (isCausal(p_)) {
      const Descriptor& row = index(*scores, 2);
      const Descriptor& column = index(*scores, 3);
      const Descriptor& isSeen = between(kBoolean);
      pointwise({kIsNotLess, &row, &column, nullptr, kBoolean}, isSeen);
      scores = &step({kChoose, scores, &number(kMinusInfinity), &isSeen});
    }
    const Descriptor& largest = reduced(kMaximum, *scores);
    const Descriptor& powers = step({kExp, &step({kSubtract, scores, &largest})});
    const Descriptor& sum = reduced(kSum, powers);
    const Descriptor& logarithm = perRow();
    pointwise({kLog, &sum}, logarithm);
    pointwise({kAdd, &largest, &logarithm}, perRow());
    const Descriptor& weights = between(type_);
    pointwise({kDivide, &powers, &sum}, weights);
    product(weights, tensor(operand(kV, 2)), tensor(operand(kResult, p_->inputs)));
    return finishGraph();
  }

  using GraphBuilder::status;

 private:
  TensorFacts operand(int64_t id, int32_t i) const {
    const sl_operand& o = operandOf(p_, i);
    TensorFacts facts{id, typeOf(o.dtype), {}, {}};
    int64_t dense = 1;
    for (int32_t dim = 3; dim >= 0; --dim) {
      facts.dims[dim] = o.extents[dim];
      // the stride of a single element says nothing
      facts.strides[dim] = o.extents[dim] > 1 ? o.strides[dim] : dense;
      dense = std::max(dense, facts.dims[dim] * facts.strides[dim]);
    }
    facts.alignment = id == kMask ? o.dtype.bits / 8 : kFullAlignment;
    return facts;
  }

  const Descriptor& number(int64_t id) {
    return tensor({.id = id,
                   .type = kFloat32,
                   .dims = {1, 1, 1, 1},
                   .strides = {1, 1, 1, 1},
                   .isByValue = true});
  }
  /// Of all scores.
  const Descriptor& between(Type type = kFloat32) {
    const Four dims = {z_.b, z_.h, z_.s, z_.t};
    return tensor({.id = kBetween + made_++,
                   .type = type,
                   .dims = dims,
                   .strides = {z_.h * z_.s * z_.t, z_.s * z_.t, z_.t, 1},
                   .isVirtual = true});
  }
  /// Of all queries.
  const Descriptor& perRow() {
    return tensor({.id = kBetween + made_++,
                   .type = kFloat32,
                   .dims = {z_.b, z_.h, z_.s, 1},
                   .strides = {z_.h * z_.s, z_.s, 1, 1},
                   .isVirtual = true});
  }
  const Descriptor& step(const PointwiseFacts& facts) {
    const Descriptor& result = between();
    pointwise(facts, result);
    return result;
  }
  const Descriptor& index(const Descriptor& like, int64_t axis) {
    const Descriptor& result = between(kInt32);
    pointwise({kIndex, &like, nullptr, nullptr, kInt32, axis}, result);
    return result;
  }
  const Descriptor& product(const Descriptor& a, const Descriptor& b, const Descriptor& result) {
    Descriptor how(kMatmulDescriptor);
    how.put(kMatmulCompute, kOfDataType, kFloat32);
    Descriptor operation(kMatmulOperation);
    operation.put(kMatmulA, a)
        .put(kMatmulB, b)
        .put(kMatmulC, result)
        .put(kOperationMatmul, keep(std::move(how)));
    add(std::move(operation));
    return result;
  }
  const Descriptor& reduced(Reduction kind, const Descriptor& x) {
    const Descriptor& result = perRow();
    Descriptor how(kReductionDescriptor);
    how.put(kReductionOperator, kOfReduction, kind).put(kReductionCompute, kOfDataType, kFloat32);
    Descriptor operation(kReductionOperation);
    operation.put(kReductionX, x)
        .put(kReductionY, result)
        .put(kOperationReduction, keep(std::move(how)));
    add(std::move(operation));
    return result;
  }

  const sl_problem* p_;
  const Sizes z_;
  const Type type_;
  int64_t made_ = 0;  ///< tensors between operations
};

struct Plan {
  std::shared_ptr<const Engine> engine;
  Pack pack;
  /// read where `pack` says, when a run is enqueued
  float scale = 1, minusInfinity = -std::numeric_limits<float>::infinity();
  bool isCausal = false, isMasked = false;
  std::mutex mutex;  ///< of the pack
};

/// What an engine was chosen for, and compiled.
std::vector<int64_t> keyOf(const sl_problem* p, int32_t device) {
  std::vector<int64_t> key = {device, isCausal(p) ? 1 : 0, p->inputs};
  for (int32_t i = 0; i <= p->inputs; ++i) {
    const sl_operand& o = operandOf(p, i);
    key.insert(key.end(), {o.dtype.code, o.dtype.bits});
    key.insert(key.end(), o.extents, o.extents + 4);
    key.insert(key.end(), o.strides, o.strides + 4);
  }
  return key;
}

/// The engine of an equal problem on the device whose plan still lives, or a new one; null with the
/// status of the library. Hold the device's mutex.
std::shared_ptr<const Engine> engineFor(const sl_problem* p, DeviceHandle* device, Status* status) {
  static std::mutex mutex;  // devices share the table
  static auto* const engines = new std::map<std::vector<int64_t>, std::weak_ptr<const Engine>>;
  const std::lock_guard<std::mutex> lock(mutex);
  std::weak_ptr<const Engine>& known = (*engines)[keyOf(p, device->number)];
  if (std::shared_ptr<const Engine> living = known.lock()) {
    return living;
  }
  auto made = std::make_shared<Engine>();
  made->device = device;
  AttentionGraph builder(p, made.get());
  const Descriptor& graph = builder.graph();
  *status = builder.status() == kSuccess
                ? choose(graph, {kByTime, kFallback}, false, kWorkspaceBytes, 0, made.get())
                : builder.status();
  if (*status != kSuccess) {
    return nullptr;
  }
  known = made;
  return made;
}

int32_t makePlan(sl_ctx* ctx, const sl_problem* p, const void* const*, void** handle) {
  const cuda::OpenDevice& open = cuda::openDevice(ctx->device);
  const cuda::Entered entered(open);
  std::string error;
  DeviceHandle* const device = usable(open, entered, &error);
  if (!device) {
    return fail(ctx, SL_UNSUPPORTED, error);
  }
  auto plan = std::make_unique<Plan>();
  plan->scale = static_cast<float>(sl::native::numberOf(p, "scale", 1.0));
  plan->isCausal = isCausal(p);
  plan->isMasked = p->inputs > 3;
  const std::lock_guard<std::mutex> lock(device->mutex);
  Status status = kSuccess;
  plan->engine = engineFor(p, device, &status);
  if (!plan->engine) {
    return fail(ctx, SL_UNSUPPORTED,
                words("planning an attention", status) +
                    "; routes={'scaled_dot_product_attention': 'cuda'} does without");
  }
  *handle = plan.release();
  return SL_OK;
}

//===- run -----------------------------------------------------------------===//

int32_t run(sl_ctx* ctx, sl_team, void* handle, const void* const* inputs, void* const* outputs,
            void* workspace) {
  auto* plan = static_cast<Plan*>(handle);
  std::vector<int64_t> ids = {kQ, kK, kV, kResult};
  std::vector<const void*> addresses = {inputs[0], inputs[1], inputs[2], outputs[0]};
  if (plan->isMasked) {
    ids.push_back(kMask);
    addresses.push_back(inputs[3]);
  }
  if (!areAligned(addresses)) {
    return fail(ctx, SL_UNSUPPORTED,
                "cuDNN: attention reads and writes addresses that are multiples of 16 bytes "
                "(cuda.attention takes any)");
  }
  ids.push_back(kScale);
  addresses.push_back(&plan->scale);
  if (plan->isCausal) {
    ids.push_back(kMinusInfinity);
    addresses.push_back(&plan->minusInfinity);
  }
  const std::lock_guard<std::mutex> lock(plan->mutex);
  return enqueue(ctx, *plan->engine, &plan->pack, ids, std::move(addresses), workspace);
}

void destroy(void* handle) {
  auto* plan = static_cast<Plan*>(handle);
  DeviceHandle* const device = plan->engine->device;
  // the last plan of an engine unloads what was compiled for it
  const cuda::Entered entered(cuda::openDevice(device->number));
  const std::lock_guard<std::mutex> lock(device->mutex);
  delete plan;
}

}  // namespace

constexpr uint32_t kFloats = SL_TYPE_F16 | SL_TYPE_BF16;
constexpr sl_operand_facts kOperands[] = {
    {"q", kFloats, 0, 0, 0, 0, 0},
    {"k", kFloats, 0, 0, 0, 0, 0},
    {"v", kFloats, 0, 0, 0, 0, 0},
    {"mask", kFloats | SL_TYPE_F32, 0, 0, 0, SL_OPERAND_OPTIONAL, 0},
    {"y", kFloats, 0, 0, 0, SL_OPERAND_OUTPUT, 0}};

sl_kernel_desc attentionKernel() {
  return {
      .size = sizeof(sl_kernel_desc),
      .name = "cudnn.attention",
      .backend = "cudnn",
      .op = "attention",
      .family = "",
      .summary = "NVIDIA's attention by tensor cores, scores never stored",
      .accepts = accepts,
      .cost = cost,
      .workspace = workspace,
      .tunables = nullptr,
      .tunable_count = 0,
      .tune = nullptr,
      .can_fail = 1,
      .whole_team = 0,
      .plan_symbol = "sl_cudnn_attention_plan",
      .plan = reinterpret_cast<void*>(makePlan),
      .run_symbol = "sl_cudnn_attention_run",
      .run = reinterpret_cast<void*>(run),
      .destroy = destroy,
      .note = note,
      .variants = nullptr,
      .properties = SL_KERNEL_CONCURRENT,
      .operands = kOperands,
      .operand_count = std::size(kOperands),
      .operand_stride = sizeof(sl_operand_facts),
  };
}

}  // namespace straightline::cudnn
