// SPDX-License-Identifier: Apache-2.0
#include "inner_product.h"

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

// Of the OpenMP runtime that oneDNN uses. The number is the calling thread's own, so setting it
// around a call disturbs nobody else. It is always 1 here: our team's threads each compute a part
// of the result, and oneDNN on one thread makes none of its own.
extern "C" void omp_set_num_threads(int count);
extern "C" int omp_get_max_threads(void);

namespace straightline::onednn {
namespace {

using dnnl::inner_product_forward;
using dnnl::memory;

class OnThisThread {
 public:
  OnThisThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OnThisThread() { omp_set_num_threads(before_); }
  OnThisThread(const OnThisThread&) = delete;
  OnThisThread& operator=(const OnThisThread&) = delete;

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
    const sl_attribute attribute = sl_attribute_at(&problem, i);
    if (std::strcmp(attribute.name, name) == 0) {
      return attribute.value;
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
    if (!acceptsOperand(names[i], *sl_operand_at(&problem, i), reason, bytes)) {
      return 0;
    }
  }
  if (!acceptsOperand("y", *sl_operand_at(&problem, problem.inputs), reason, bytes)) {
    return 0;
  }
  const sl_operand& x = *sl_operand_at(&problem, 0);
  const sl_operand& weight = *sl_operand_at(&problem, 1);
  const sl_operand& y = *sl_operand_at(&problem, problem.inputs);
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
  const sl_operand& bias = *sl_operand_at(&problem, 2);
  if (sizes->bias && (bias.rank != 1 || bias.extents[0] != sizes->n)) {
    return refuse(reason, bytes, "the bias has rank %d, but one of N=%lld elements is taken",
                  bias.rank, static_cast<long long>(sizes->n));
  }
  return 1;
}

/// What one thread computes: rows from `row` on, or results of a single row from `column` on.
struct Range {
  int64_t row, column;
  Sizes sizes;
};

/// One range a thread. Several rows are divided by rows, so that all threads read the same packed
/// weights; a single row is divided by results.
std::vector<Range> rangesOf(const Sizes& sizes, int32_t threads) {
  std::vector<Range> ranges;
  const auto each = [&](int64_t whole, int64_t unit, auto add) {
    const int64_t share = ((whole + threads - 1) / threads + unit - 1) / unit * unit;
    for (int64_t begin = 0; begin < whole; begin += share) {
      add(begin, std::min(share, whole - begin));
    }
  };
  if (sizes.m == 1) {
    each(sizes.n, 64, [&](int64_t begin, int64_t count) {
      ranges.push_back({0, begin, {1, count, sizes.k, sizes.bias, sizes.relu}});
    });
  } else {
    each(sizes.m, 1, [&](int64_t begin, int64_t count) {
      ranges.push_back({begin, 0, {count, sizes.n, sizes.k, sizes.bias, sizes.relu}});
    });
  }
  return ranges;
}

/// `weights`: the layout that the weights already have; null: oneDNN chooses.
inner_product_forward::primitive_desc makeDescription(const Sizes& sizes,
                                                      const memory::desc* weights = nullptr) {
  const OnThisThread scope;  // oneDNN chooses the blocking by the number of threads
  const auto f32 = memory::data_type::f32;
  const memory::desc x({sizes.m, sizes.k}, f32, memory::format_tag::ab);
  const memory::desc weight = weights != nullptr
                                  ? *weights
                                  : memory::desc({sizes.n, sizes.k}, f32, memory::format_tag::any);
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

/// A description for each range. Ranges share the packed weights of the first one where they can; a
/// range that would get oneDNN's reference code with them gets weights of its own.
std::vector<inner_product_forward::primitive_desc> describe(const std::vector<Range>& ranges) {
  std::vector<inner_product_forward::primitive_desc> descriptions;
  for (const Range& range : ranges) {
    if (!descriptions.empty() && range.column == 0) {
      const memory::desc weights = descriptions.front().weights_desc();
      try {
        descriptions.push_back(makeDescription(range.sizes, &weights));
        if (!isReference(descriptions.back())) {
          continue;
        }
        descriptions.pop_back();
      } catch (const dnnl::error&) {
        // This layout is refused: below oneDNN chooses one.
      }
    }
    descriptions.push_back(makeDescription(range.sizes));
  }
  return descriptions;
}

/// Bytes of scratchpad, in whole cache lines so that threads do not share one.
int64_t scratchpadBytes(const inner_product_forward::primitive_desc& description) {
  return static_cast<int64_t>((description.scratchpad_desc().get_size() + 63) / 64 * 64);
}

// ---- answers of the description

int32_t accepts(const sl_problem* problem, char* reason, size_t bytes) {
  Sizes sizes;
  if (!readProblem(*problem, &sizes, reason, bytes)) {
    return 0;
  }
  try {
    const std::vector<Range> ranges = rangesOf(sizes, problem->threads);
    const auto descriptions = describe(ranges);
    for (size_t i = 0; i < ranges.size(); ++i) {
      if (isReference(descriptions[i])) {
        const Sizes& part = ranges[i].sizes;
        return refuse(reason, bytes,
                      "oneDNN only has its reference code (%s) for M=%lld N=%lld K=%lld",
                      descriptions[i].impl_info_str(), static_cast<long long>(part.m),
                      static_cast<long long>(part.n), static_cast<long long>(part.k));
      }
    }
  } catch (const std::exception& error) {
    return refuse(reason, bytes, "oneDNN refuses M=%lld N=%lld K=%lld: %s",
                  static_cast<long long>(sizes.m), static_cast<long long>(sizes.n),
                  static_cast<long long>(sizes.k), error.what());
  }
  return 1;
}

/// The larger of arithmetic and weight traffic, plus what a call costs before any arithmetic
/// (measured: 0.6-1.0 us for execute). Where threads share the rows, each of them reads all
/// weights. The rates are stated against those of the native kernels, beside which it was measured
/// on Zen 4, one thread: arithmetic is 2% slower than native.gemm's while the weights stay in L2 or
/// rows are few, and 4% and more faster beyond (64 and 256 rows against 1024 x 1024); weights
/// stream alike from the caches, and
/// 1.4 to 1.9 times slower from memory (1 and 16 rows against 4096 x 4096). On Granite Rapids,
/// which begins two multiply-adds of 64 bytes a cycle, arithmetic is 7 to 38% slower throughout (64
/// to 2048 rows, 1024 to 4096 wide, one and two threads).
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
  const bool blocksWell = weightBytes > l2Bytes && m >= 32 * threads;
  const bool twoWide = problem->vector_bytes >= 64 && problem->fma_bytes >= 128;
  const double flopsPerUs = 102.4e3 * (twoWide ? 2 * 0.82 : blocksWell ? 0.97 : 0.91) * threads;
  const double bytesPerUs = 0.85 * (sizes.m == 1 ? threads : 1) *
                            (weightBytes <= l2Bytes        ? 72e3
                             : weightBytes <= 16 * l2Bytes ? 50e3
                                                           : 13e3);
  const double arithmetic = 2 * m * n * k / flopsPerUs;
  const double traffic = weightBytes / bytesPerUs;
  return (arithmetic > traffic ? arithmetic : traffic) + 1.0;
}

int64_t workspace(const sl_problem* problem) {
  Sizes sizes;
  char reason[8];
  if (!readProblem(*problem, &sizes, reason, sizeof(reason))) {
    return 0;
  }
  try {
    int64_t total = 0;
    for (const auto& description : describe(rangesOf(sizes, problem->threads))) {
      total += scratchpadBytes(description);
    }
    return total;
  } catch (const std::exception&) {
    return 0;  // accepts gives the reason
  }
}

// ---- plan and run

/// Memory objects of one execution: a call takes a set, points it at its own data and puts it back.
struct ArgumentSet {
  std::atomic<bool> busy{false};
  memory x, bias, y, scratchpad;
};

/// A range with its primitive. Several threads may execute it at once.
struct Part {
  static constexpr int kSets = 16;

  Part(const Range& which, const inner_product_forward::primitive_desc& chosen, int64_t at)
      : range(which), scratchpadAt(at), description(chosen), primitive(chosen) {
    for (ArgumentSet& set : sets) {
      fill(&set);
    }
  }

  void fill(ArgumentSet* set) const {
    set->x = memory(description.src_desc(), cpuEngine(), nullptr);
    set->y = memory(description.dst_desc(), cpuEngine(), nullptr);
    set->scratchpad = memory(description.scratchpad_desc(), cpuEngine(), nullptr);
    if (range.sizes.bias) {
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

  Range range;
  int64_t scratchpadAt;  ///< bytes into the workspace
  inner_product_forward::primitive_desc description;
  inner_product_forward primitive;
  memory weights;  ///< packed as the primitive wants them; shared by parts with one layout
  ArgumentSet sets[kSets];
};

/// Made at prepare time. `run` may be called by several threads at once.
struct Plan {
  Sizes sizes;
  std::vector<std::unique_ptr<Part>> parts;
  dnnl::stream stream{cpuEngine()};
};

memory packedWeights(const float* source, const Part& part, dnnl::stream& stream) {
  const OnThisThread scope;
  const Sizes& sizes = part.range.sizes;
  const memory::desc plain({sizes.n, sizes.k}, memory::data_type::f32, memory::format_tag::ab);
  memory from(plain, cpuEngine(), const_cast<float*>(source + part.range.column * sizes.k));
  memory packed(part.description.weights_desc(), cpuEngine());
  dnnl::reorder(from, packed).execute(stream, from, packed);
  stream.wait();
  return packed;
}

std::unique_ptr<Plan> makePlan(const Sizes& sizes, int32_t threads, const float* weight) {
  auto plan = std::make_unique<Plan>();
  plan->sizes = sizes;
  const std::vector<Range> ranges = rangesOf(sizes, threads);
  const auto descriptions = describe(ranges);
  int64_t scratchpadAt = 0;
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (isReference(descriptions[i])) {
      return nullptr;  // this CPU is not the one that the program was compiled on
    }
    auto part = std::make_unique<Part>(ranges[i], descriptions[i], scratchpadAt);
    scratchpadAt += scratchpadBytes(descriptions[i]);
    const bool shares = i > 0 && ranges[i].column == 0 &&
                        descriptions[i].weights_desc() == descriptions[0].weights_desc();
    part->weights = shares ? plan->parts[0]->weights : packedWeights(weight, *part, plan->stream);
    plan->parts.push_back(std::move(part));
  }
  return plan;
}

dnnl_status_t execute(const Plan& plan, Part* part, ArgumentSet* set, const void* const* inputs,
                      void* const* outputs, void* workspace) {
  const Range& range = part->range;
  const auto* x = static_cast<const float*>(inputs[0]) + range.row * plan.sizes.k;
  auto* y = static_cast<float*>(outputs[0]) + range.row * plan.sizes.n + range.column;
  dnnl_memory_set_data_handle(set->x.get(), const_cast<float*>(x));
  dnnl_memory_set_data_handle(set->y.get(), y);
  dnnl_memory_set_data_handle(
      set->scratchpad.get(),
      workspace ? static_cast<char*>(workspace) + part->scratchpadAt : nullptr);
  dnnl_exec_arg_t arguments[5] = {{DNNL_ARG_SRC, set->x.get()},
                                  {DNNL_ARG_WEIGHTS, part->weights.get()},
                                  {DNNL_ARG_DST, set->y.get()},
                                  {DNNL_ARG_SCRATCHPAD, set->scratchpad.get()}};
  int count = 4;
  if (range.sizes.bias) {
    const auto* bias = static_cast<const float*>(inputs[2]) + range.column;
    dnnl_memory_set_data_handle(set->bias.get(), const_cast<float*>(bias));
    arguments[count++] = {DNNL_ARG_BIAS, set->bias.get()};
  }
  const OnThisThread scope;
  return dnnl_primitive_execute(part->primitive.get(), plan.stream.get(), count, arguments);
}

dnnl_status_t executeWithASet(const Plan& plan, Part* part, const void* const* inputs,
                              void* const* outputs, void* workspace) {
  if (ArgumentSet* set = part->take()) {
    const dnnl_status_t status = execute(plan, part, set, inputs, outputs, workspace);
    set->busy.store(false, std::memory_order_release);
    return status;
  }
  ArgumentSet own;
  part->fill(&own);
  return execute(plan, part, &own, inputs, outputs, workspace);
}

}  // namespace

bool isReferenceName(const char* implementation) {
  const size_t length = std::strcspn(implementation, ":");
  return length == 3 && std::strncmp(implementation, "ref", 3) == 0;
}

constexpr uint32_t kRows = SL_LAYOUT_ROW_MAJOR;
constexpr sl_operand_facts kOperands[] = {
    {"x", SL_TYPE_F32, 0, kRows, 0, SL_OPERAND_ROWS, 0},
    {"weight", SL_TYPE_F32, 0, kRows, 0, SL_OPERAND_PLANNED, 0},
    {"bias", SL_TYPE_F32, 0, kRows, 0, SL_OPERAND_OPTIONAL | SL_OPERAND_PLANNED, 0},
    {"y", SL_TYPE_F32, 0, kRows, 0, SL_OPERAND_OUTPUT | SL_OPERAND_ROWS, 0}};
constexpr sl_epilogue kEpilogues[] = {{"bias", 0, 0}};

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
    .whole_team = 1,
    .plan_symbol = "sl_onednn_inner_product_plan",
    .plan = reinterpret_cast<void*>(&sl_onednn_inner_product_plan),
    .run_symbol = "sl_onednn_inner_product_run",
    .run = reinterpret_cast<void*>(&sl_onednn_inner_product_run),
    .destroy = sl_onednn_inner_product_plan_destroy,
    .note = nullptr,
    .variants = nullptr,
    .any_device = 0,
    .operands = kOperands,
    .operand_count = std::size(kOperands),
    .operand_stride = sizeof(sl_operand_facts),
    .epilogues = kEpilogues,
    .epilogue_count = std::size(kEpilogues),
    .epilogue_stride = sizeof(sl_epilogue),
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
    auto plan = makePlan(sizes, problem->threads, static_cast<const float*>(constants[1]));
    if (!plan) {
      sl_fail(ctx, SL_UNSUPPORTED, sizes.m, sizes.n, sizes.k);
      return SL_UNSUPPORTED;
    }
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
  const auto* plan = static_cast<const Plan*>(handle);
  dnnl_status_t status = dnnl_success;
  try {
    // One part for each thread; a team smaller than planned (others are busy) computes several.
    for (size_t i = team.index; i < plan->parts.size() && status == dnnl_success; i += team.size) {
      status = executeWithASet(*plan, plan->parts[i].get(), inputs, outputs, workspace);
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
