// SPDX-License-Identifier: Apache-2.0
#include "inner_product.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>

// Of the OpenMP runtime that oneDNN uses. The number is the calling thread's own, so setting it
// around a call disturbs nobody else.
extern "C" void omp_set_num_threads(int count);
extern "C" int omp_get_max_threads(void);

namespace straightline::onednn {
namespace {

using dnnl::inner_product_forward;
using dnnl::memory;

class OmpThreads {
 public:
  explicit OmpThreads(int32_t count) : before_(omp_get_max_threads()) {
    omp_set_num_threads(count);
  }
  ~OmpThreads() { omp_set_num_threads(before_); }
  OmpThreads(const OmpThreads&) = delete;
  OmpThreads& operator=(const OmpThreads&) = delete;

 private:
  int before_;
};

const dnnl::engine& cpuEngine() {
  static const dnnl::engine* const engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

// ---- the problem

struct Sizes {
  int64_t m, n, k;
  bool bias, relu;
};

int64_t attribute(const sl_problem& problem, const char* name, int64_t fallback) {
  for (int32_t i = 0; i < problem.attribute_count; ++i) {
    if (std::strcmp(problem.attributes[i].name, name) == 0) {
      return problem.attributes[i].value;
    }
  }
  return fallback;
}

/// Writes a reason and gives 0, the answer "no".
__attribute__((format(printf, 3, 4))) int32_t refuse(char* reason, size_t bytes, const char* format,
                                                     ...) {
  va_list values;
  va_start(values, format);
  std::vsnprintf(reason, bytes, format, values);
  va_end(values);
  return 0;
}

/// 1 when an operand is float32, static and row-major contiguous.
int32_t acceptsOperand(const char* name, const sl_operand& operand, char* reason, size_t bytes) {
  if (operand.dtype.code != 2 || operand.dtype.bits != 32 || operand.dtype.lanes != 1) {
    return refuse(reason, bytes, "%s has dtype code %d with %d bits, but only float32 is taken",
                  name, operand.dtype.code, operand.dtype.bits);
  }
  int64_t expected = 1;
  for (int32_t d = operand.rank - 1; d >= 0; --d) {
    if (operand.extents[d] == SL_DYNAMIC) {
      return refuse(reason, bytes,
                    "dim %d of %s is dynamic, but the primitive is built for one size", d, name);
    }
    if (operand.extents[d] < 1) {
      return refuse(reason, bytes, "dim %d of %s is %lld, but at least 1 is needed", d, name,
                    static_cast<long long>(operand.extents[d]));
    }
    if (operand.extents[d] != 1 && operand.strides[d] != expected) {
      return refuse(reason, bytes,
                    "stride %d of %s is %lld, but only contiguous operands (here %lld) are taken",
                    d, name, static_cast<long long>(operand.strides[d]),
                    static_cast<long long>(expected));
    }
    expected *= operand.extents[d];
  }
  return 1;
}

/// Fills `sizes` when the operands fit together as a linear; otherwise says why not and gives 0.
int32_t readProblem(const sl_problem& problem, Sizes* sizes, char* reason, size_t bytes) {
  if ((problem.inputs != 2 && problem.inputs != 3) || problem.outputs != 1) {
    return refuse(
        reason, bytes,
        "it has %d inputs and %d outputs, but x, weight, an optional bias and y are taken",
        problem.inputs, problem.outputs);
  }
  const char* const names[] = {"x", "weight", "bias"};
  for (int32_t i = 0; i < problem.inputs; ++i) {
    if (!acceptsOperand(names[i], problem.operands[i], reason, bytes)) {
      return 0;
    }
  }
  if (!acceptsOperand("y", problem.operands[problem.inputs], reason, bytes)) {
    return 0;
  }
  const sl_operand& x = problem.operands[0];
  const sl_operand& weight = problem.operands[1];
  const sl_operand& y = problem.operands[problem.inputs];
  if (x.rank < 1 || weight.rank != 2 || y.rank != x.rank) {
    return refuse(reason, bytes,
                  "x, weight and y have ranks %d, %d and %d, but n, 2 and n (n > 0) are taken",
                  x.rank, weight.rank, y.rank);
  }
  if (!weight.constant) {
    return refuse(reason, bytes,
                  "the weight is not constant, but it is packed once at prepare time");
  }
  *sizes = {1, weight.extents[0], weight.extents[1], problem.inputs == 3,
            attribute(problem, "relu", 0) != 0};
  for (int32_t d = 0; d < x.rank - 1; ++d) {
    sizes->m *= x.extents[d];
  }
  if (x.extents[x.rank - 1] != sizes->k || y.extents[y.rank - 1] != sizes->n) {
    return refuse(reason, bytes,
                  "x has K=%lld and y has N=%lld, but the weight has K=%lld and N=%lld",
                  static_cast<long long>(x.extents[x.rank - 1]),
                  static_cast<long long>(y.extents[y.rank - 1]), static_cast<long long>(sizes->k),
                  static_cast<long long>(sizes->n));
  }
  const sl_operand& bias = problem.operands[2];
  if (sizes->bias && (bias.rank != 1 || bias.extents[0] != sizes->n)) {
    return refuse(reason, bytes, "the bias has rank %d, but one of N=%lld elements is taken",
                  bias.rank, static_cast<long long>(sizes->n));
  }
  return 1;
}

inner_product_forward::primitive_desc makeDescription(const Sizes& sizes, int32_t threads) {
  const OmpThreads scope(threads);  // the blocking depends on how many threads there will be
  const auto f32 = memory::data_type::f32;
  const memory::desc x({sizes.m, sizes.k}, f32, memory::format_tag::ab);
  const memory::desc weight({sizes.n, sizes.k}, f32, memory::format_tag::any);
  const memory::desc y({sizes.m, sizes.n}, f32, memory::format_tag::ab);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (sizes.relu) {
    dnnl::post_ops post;
    post.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
    attributes.set_post_ops(post);
  }
  const auto kind = dnnl::prop_kind::forward_inference;
  if (!sizes.bias) {
    return {cpuEngine(), kind, x, weight, y, attributes};
  }
  const memory::desc bias({sizes.n}, f32, memory::format_tag::a);
  return {cpuEngine(), kind, x, weight, bias, y, attributes};
}

bool isReference(const inner_product_forward::primitive_desc& description) {
  return isReferenceName(description.impl_info_str());
}

// ---- answers of the description

int32_t accepts(const sl_problem* problem, char* reason, size_t bytes) {
  Sizes sizes;
  if (!readProblem(*problem, &sizes, reason, bytes)) {
    return 0;
  }
  try {
    const auto description = makeDescription(sizes, problem->threads);
    if (isReference(description)) {
      return refuse(reason, bytes,
                    "oneDNN only has its reference code (%s) for M=%lld N=%lld K=%lld",
                    description.impl_info_str(), static_cast<long long>(sizes.m),
                    static_cast<long long>(sizes.n), static_cast<long long>(sizes.k));
    }
  } catch (const std::exception& error) {
    return refuse(reason, bytes, "oneDNN refuses M=%lld N=%lld K=%lld: %s",
                  static_cast<long long>(sizes.m), static_cast<long long>(sizes.n),
                  static_cast<long long>(sizes.k), error.what());
  }
  return 1;
}

/// The larger of arithmetic and weight traffic, plus what a call costs before any arithmetic (measured: 0.6-1.0 us for
/// execute, and a fork and join of OpenMP threads). The rates are stated against those of the native kernels, beside which
/// it was measured on Zen 4, one thread: arithmetic is 2% slower than native.gemm's while the weights stay in L2 or rows
/// are few, and 4% and more faster beyond (64 and 256 rows against 1024 x 1024); weights stream alike from the caches, and
/// 1.4 to 1.9 times slower from memory (1 and 16 rows against 4096 x 4096).
double cost(const sl_problem* problem) {
  Sizes sizes;
  char reason[8];
  if (!readProblem(*problem, &sizes, reason, sizeof(reason))) {
    return 1e30;
  }
  const double m = static_cast<double>(sizes.m), n = static_cast<double>(sizes.n),
               k = static_cast<double>(sizes.k);
  const double threads = problem->threads;
  const double l2Bytes = static_cast<double>(problem->l2_bytes);
  const double weightBytes = 4 * n * k;
  const bool blocksWell = weightBytes > l2Bytes && sizes.m >= 32;
  const double flopsPerUs = 102.4e3 * (blocksWell ? 0.97 : 0.91) * threads;
  const double bytesPerUs =
      0.85 * threads * (weightBytes <= l2Bytes ? 72e3 : weightBytes <= 16 * l2Bytes ? 50e3 : 13e3);
  const double arithmetic = 2 * m * n * k / flopsPerUs;
  const double traffic = weightBytes / bytesPerUs;
  return (arithmetic > traffic ? arithmetic : traffic) + 1.0 + (threads > 1 ? 2.5 : 0.0);
}

int64_t workspace(const sl_problem* problem) {
  Sizes sizes;
  char reason[8];
  if (!readProblem(*problem, &sizes, reason, sizeof(reason))) {
    return 0;
  }
  try {
    return static_cast<int64_t>(
        makeDescription(sizes, problem->threads).scratchpad_desc().get_size());
  } catch (const std::exception&) {
    return 0;  // accepts says why
  }
}

// ---- plan and run

/// Memory objects of one execution: a call takes a set, points it at its own data and puts it back.
struct ArgumentSet {
  std::atomic<bool> busy{false};
  memory x, bias, y, scratchpad;
};

/// Made at prepare time. `run` may be called by several threads at once.
struct Plan {
  static constexpr int kSets = 16;

  Plan(const inner_product_forward::primitive_desc& chosen, const Sizes& which, int32_t teamSize)
      : sizes(which),
        threads(teamSize),
        description(chosen),
        primitive(chosen),
        stream(cpuEngine()) {
    weights = memory(description.weights_desc(), cpuEngine());
    for (ArgumentSet& set : sets) {
      fill(&set);
    }
  }

  void fill(ArgumentSet* set) const {
    set->x = memory(description.src_desc(), cpuEngine(), nullptr);
    set->y = memory(description.dst_desc(), cpuEngine(), nullptr);
    set->scratchpad = memory(description.scratchpad_desc(), cpuEngine(), nullptr);
    if (sizes.bias) {
      set->bias = memory(description.bias_desc(), cpuEngine(), nullptr);
    }
  }

  /// Never waits for another call: null when all sets are in use.
  ArgumentSet* take() {
    for (ArgumentSet& set : sets) {
      if (!set.busy.load(std::memory_order_relaxed) &&
          !set.busy.exchange(true, std::memory_order_acquire)) {
        return &set;
      }
    }
    return nullptr;
  }

  Sizes sizes;
  int32_t threads;
  inner_product_forward::primitive_desc description;
  inner_product_forward primitive;
  dnnl::stream stream;
  memory weights;  ///< packed as the primitive wants them
  ArgumentSet sets[kSets];
};

void packWeights(const void* source, Plan* plan) {
  const OmpThreads scope(plan->threads);
  const memory::desc plain({plan->sizes.n, plan->sizes.k}, memory::data_type::f32,
                           memory::format_tag::ab);
  memory from(plain, cpuEngine(), const_cast<void*>(source));
  dnnl::reorder(from, plan->weights).execute(plan->stream, from, plan->weights);
  plan->stream.wait();
}

dnnl_status_t execute(Plan* plan, ArgumentSet* set, const void* const* inputs, void* const* outputs,
                      void* workspace) {
  dnnl_memory_set_data_handle(set->x.get(), const_cast<void*>(inputs[0]));
  dnnl_memory_set_data_handle(set->y.get(), outputs[0]);
  dnnl_memory_set_data_handle(set->scratchpad.get(), workspace);
  dnnl_exec_arg_t arguments[5] = {{DNNL_ARG_SRC, set->x.get()},
                                  {DNNL_ARG_WEIGHTS, plan->weights.get()},
                                  {DNNL_ARG_DST, set->y.get()},
                                  {DNNL_ARG_SCRATCHPAD, set->scratchpad.get()}};
  int count = 4;
  if (plan->sizes.bias) {
    dnnl_memory_set_data_handle(set->bias.get(), const_cast<void*>(inputs[2]));
    arguments[count++] = {DNNL_ARG_BIAS, set->bias.get()};
  }
  const OmpThreads scope(plan->threads);
  return dnnl_primitive_execute(plan->primitive.get(), plan->stream.get(), count, arguments);
}

}  // namespace

bool isReferenceName(const char* implementation) {
  const size_t length = std::strcspn(implementation, ":");
  return length == 3 && std::strncmp(implementation, "ref", 3) == 0;
}

const sl_kernel_desc kInnerProduct = {
    .size = sizeof(sl_kernel_desc),
    .name = "onednn.inner_product",
    .backend = "onednn",
    .op = "linear",
    .family = "",
    .summary = "oneDNN inner product with packed weights, for large linear layers",
    .accepts = accepts,
    .cost = cost,
    .workspace = workspace,
    .tunables = nullptr,
    .tunable_count = 0,
    .tune = nullptr,
    .can_fail = 1,
    .whole_team = 0,
    .plan_symbol = "sl_onednn_inner_product_plan",
    .plan = reinterpret_cast<void*>(&sl_onednn_inner_product_plan),
    .run_symbol = "sl_onednn_inner_product_run",
    .run = reinterpret_cast<void*>(&sl_onednn_inner_product_run),
    .destroy = sl_onednn_inner_product_plan_destroy,
    .note = nullptr,
};

}  // namespace straightline::onednn

int32_t sl_onednn_inner_product_plan(sl_ctx* ctx, const sl_problem* problem,
                                     const void* const* constants, void** handle) {
  using namespace straightline::onednn;
  Sizes sizes;
  char reason[256];
  if (!readProblem(*problem, &sizes, reason, sizeof(reason))) {
    sl_fail(ctx, SL_UNSUPPORTED, 0, 0, 0);  // accepts gave the reason while compiling
    return SL_UNSUPPORTED;
  }
  try {
    const auto description = makeDescription(sizes, problem->threads);
    if (isReference(description)) {
      sl_fail(ctx, SL_UNSUPPORTED, sizes.m, sizes.n,
              sizes.k);  // another CPU than the one compiled on
      return SL_UNSUPPORTED;
    }
    auto plan = std::make_unique<Plan>(description, sizes, problem->threads);
    packWeights(constants[1], plan.get());
    *handle = plan.release();
    return SL_OK;
  } catch (const std::bad_alloc&) {
    sl_fail(ctx, SL_OUT_OF_MEMORY, 4 * sizes.n * sizes.k, 0, 0);
    return SL_OUT_OF_MEMORY;
  } catch (const std::exception&) {
    sl_fail(ctx, SL_INTERNAL, sizes.m, sizes.n, sizes.k);
    return SL_INTERNAL;
  }
}

int32_t sl_onednn_inner_product_run(sl_ctx* ctx, sl_team team, void* handle,
                                    const void* const* inputs, void* const* outputs,
                                    void* workspace) {
  using namespace straightline::onednn;
  if (team.index != 0) {
    return SL_OK;  // OpenMP brings its own threads
  }
  auto* plan = static_cast<Plan*>(handle);
  dnnl_status_t status = dnnl_runtime_error;
  try {
    if (ArgumentSet* set = plan->take()) {
      status = execute(plan, set, inputs, outputs, workspace);
      set->busy.store(false, std::memory_order_release);
    } else {
      ArgumentSet own;
      plan->fill(&own);
      status = execute(plan, &own, inputs, outputs, workspace);
    }
  } catch (const std::exception&) {
    status = dnnl_runtime_error;
  }
  if (status != dnnl_success) {
    sl_fail(ctx, SL_INTERNAL, status, plan->sizes.m, plan->sizes.n);
    return SL_INTERNAL;
  }
  return SL_OK;
}

void sl_onednn_inner_product_plan_destroy(void* handle) {
  delete static_cast<straightline::onednn::Plan*>(handle);
}
