// SPDX-License-Identifier: Apache-2.0
// cublaslt.linear and cublaslt.matmul: products of fixed sizes with bias, activation or a residual
// by NVIDIA's library. Prepare makes the plan once: its heuristics choose one of the library's
// kernels (the first one, or the one of the first kVariants that was measured fastest). A run
// enqueues it on the stream of its queue.
#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <memory>
#include <mutex>
#include <span>

#include "backends/cuda/driver.h"
#include "backends/cuda/tuning.h"
#include "library.h"
#include "straightline/abi/straightline.h"

namespace straightline::cublaslt {
namespace {

using sl::native::attribute;
using sl::native::kUnknown;
using sl::native::operandOf;

/// what the library wants on devices with warpgroup instructions
constexpr int64_t kWorkspaceBytes = 32 << 20;
/// so many of the heuristics' kernels may be measured
constexpr int32_t kVariants = 8;
/// bytes; of addresses that are less aligned a kernel of its own is kept
constexpr uint32_t kFullAlignment = 16;

Type typeOf(sl_dtype dtype) {
  return dtype.bits == 32 ? kFloat32 : dtype.code == 4 ? kBfloat16 : kFloat16;
}

bool isTf32(const sl_problem* p) {
  return operandOf(p, 0).dtype.bits == 32 && attribute(p, "tf32", 0) != 0;
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
  if (const cuda::Target target = cuda::targetOf(p);
      typeOf(operandOf(p, 0).dtype) == kBfloat16 && target.sm < cuda::kFirstWithTf32) {
    return sl::native::refuse(reason, bytes, "bfloat16 on sm_%lld, needs sm_80 or later",
                              static_cast<long long>(target.sm));
  }
  for (const char* name : {"batch", "m", "n", "k"}) {
    const int64_t value = attribute(p, name, std::strcmp(name, "batch") == 0 ? 1 : kUnknown);
    if (value == kUnknown) {
      return sl::native::refuse(
          reason, bytes, "%s is dynamic, needs sizes that are known when it is planned", name);
    }
    if (value < 1) {
      return sl::native::refuse(reason, bytes, "%s=%lld, needs 1 or more", name,
                                static_cast<long long>(value));
    }
  }
  if (attribute(p, "stored_bits", operandOf(p, 0).dtype.bits) != operandOf(p, 0).dtype.bits) {
    return sl::native::refuse(reason, bytes,
                              "the weight is stored in %lld bits but the rows have %lld",
                              static_cast<long long>(attribute(p, "stored_bits", 0)),
                              static_cast<long long>(operandOf(p, 0).dtype.bits));
  }
  // Where there is a device it is this one that the program is for.
  if (cuda::driver().error.empty()) {
    if (const std::string missing = whyMissing(); !missing.empty()) {
      return sl::native::refuse(reason, bytes, "%s", missing.c_str());
    }
  }
  return 1;
}

/// Fits what was measured on an H200 (bench/results/h200_b20a532.json) within a third.
double cost(const sl_problem* p) {
  const double m = double(attribute(p, "m", 1)), n = double(attribute(p, "n", 1)),
               k = double(attribute(p, "k", 1));
  const double batch = double(attribute(p, "batch", 1));
  const int bits = operandOf(p, 0).dtype.bits;
  // its kernels do not begin before the one ahead has ended
  const double startUs = bits == 16 ? 2.5 : 6.0;
  // Of float32 what its largest products come near: the estimates of our own kernel are as hopeful.
  const double flopsPerUs = (bits == 16  ? 750e6
                             : isTf32(p) ? 300e6
                                         : 64e6) *
                            cuda::targetOf(p).ofH200();
  // A tile that is not full costs as much as one that is.
  const double rows = double(cuda::ceilDivide(int64_t(m), 64) * 64),
               columns = double(cuda::ceilDivide(int64_t(n), 64) * 64);
  const double bytes = batch * (m * k + k * n + m * n) * bits / 8;
  return cuda::kLaunchUs + startUs +
         std::max(2 * batch * rows * columns * k / flopsPerUs, bytes / 3.0e6);
}

int64_t workspace(const sl_problem*) { return kWorkspaceBytes; }

void note(const sl_problem* p, char* text, size_t bytes) {
  std::snprintf(text, bytes, "%sa library: in a graph it is captured again when an address changes",
                isTf32(p) ? "TF32 as torch.backends.cuda.matmul.allow_tf32 says, " : "");
}

//===- plan and run --------------------------------------------------------===//

struct MatmulDestroy {
  void operator()(Matmul matmul) const { library().matmulDestroy(matmul); }
};
struct LayoutDestroy {
  void operator()(Layout layout) const { library().layoutDestroy(layout); }
};
struct PreferenceDestroy {
  void operator()(Preference preference) const { library().preferenceDestroy(preference); }
};

/// The library's matrices are column-major: it multiplies the transposed product, so its A is our
/// B.
struct Plan {
  Handle handle = nullptr;
  std::unique_ptr<Matmul_, MatmulDestroy> matmul;
  std::unique_ptr<Layout_, LayoutDestroy> a, b, result;
  Algorithm aligned, unaligned;
  bool hasUnaligned = false;
  bool biased = false, hasResidual = false;
  std::mutex mutex;  ///< the description holds the address of the bias while it is used
};

int32_t fail(sl_ctx* ctx, int32_t status, const std::string& text) {
  sl_fail_text(ctx, status, text.c_str());
  return status;
}

/// One operand: `rows` x `columns` as we see it, one of whose strides is 1. The library sees it
/// transposed.
Status describe(const sl_problem* p, const char* prefix, int64_t rows, int64_t columns,
                std::unique_ptr<Layout_, LayoutDestroy>* made, int32_t* transposed) {
  const Functions& lib = library();
  const std::string name = prefix;
  const int64_t row = attribute(p, (name + "Row").c_str(), columns),
                column = attribute(p, (name + "Col").c_str(), 1);
  const bool isRowMajor = column == 1;
  if (transposed) {
    *transposed = isRowMajor ? 0 : 1;
  }
  const int64_t fast = isRowMajor ? columns : rows, slow = isRowMajor ? rows : columns;
  Layout layout = nullptr;
  Status status =
      lib.layoutCreate(&layout, typeOf(operandOf(p, 0).dtype), uint64_t(fast), uint64_t(slow),
                       std::max<int64_t>(isRowMajor ? row : column, fast));
  made->reset(layout);
  const auto batch = static_cast<int32_t>(attribute(p, "batch", 1));
  const int64_t stride = attribute(p, (name + "Batch").c_str(), 0);
  if (status == kSuccess && batch > 1) {
    status = lib.layoutSet(layout, kBatchCount, &batch, sizeof batch);
    status =
        status == kSuccess ? lib.layoutSet(layout, kBatchStride, &stride, sizeof stride) : status;
  }
  return status;
}

/// Number `variant` of what the library's heuristics give for addresses of this alignment, or their
/// last one where they give fewer.
Status choose(const Plan& plan, uint32_t alignment, int32_t variant, Algorithm* chosen,
              bool* found) {
  const Functions& lib = library();
  Preference made = nullptr;
  Status status = lib.preferenceCreate(&made);
  const std::unique_ptr<Preference_, PreferenceDestroy> preference(made);
  const uint64_t most = kWorkspaceBytes;
  status =
      status == kSuccess ? lib.preferenceSet(made, kMostWorkspace, &most, sizeof most) : status;
  for (int operand = 0; operand < 4 && status == kSuccess; ++operand) {
    status = lib.preferenceSet(made, kAlignmentOfA + operand, &alignment, sizeof alignment);
  }
  std::array<Heuristic, kVariants> given{};
  int count = 0;
  if (status == kSuccess) {
    status =
        lib.heuristic(plan.handle, plan.matmul.get(), plan.a.get(), plan.b.get(), plan.result.get(),
                      plan.result.get(), made, variant + 1, given.data(), &count);
  }
  *found = false;
  for (int i = 0; status == kSuccess && i < count; ++i) {
    if (given[static_cast<size_t>(i)].state == kSuccess) {
      *chosen = given[static_cast<size_t>(i)].algorithm;
      *found = true;
    }
  }
  return status;
}

Status describeAll(const sl_problem* p, Plan* plan) {
  const Functions& lib = library();
  const int64_t m = attribute(p, "m", 1), n = attribute(p, "n", 1), k = attribute(p, "k", 1);
  Matmul made = nullptr;
  Status status = lib.matmulCreate(&made, isTf32(p) ? kInTf32 : kIn32, kFloat32);
  plan->matmul.reset(made);
  int32_t transposeA = 0, transposeB = 0;
  status = status == kSuccess ? describe(p, "b", k, n, &plan->a, &transposeA) : status;
  status = status == kSuccess ? describe(p, "a", m, k, &plan->b, &transposeB) : status;
  status = status == kSuccess ? describe(p, "c", m, n, &plan->result, nullptr) : status;
  const uint32_t activation = sl::native::isText(p, "activation", "relu")        ? uint32_t{kRelu}
                              : sl::native::isText(p, "activation", "gelu_tanh") ? uint32_t{kGelu}
                                                                                 : 0;
  const uint32_t epilogue =
      plan->biased || activation ? (plan->biased ? kWithBias : 0) + activation : kPlain;
  status = status == kSuccess ? lib.matmulSet(made, kTransposeA, &transposeA, sizeof transposeA)
                              : status;
  status = status == kSuccess ? lib.matmulSet(made, kTransposeB, &transposeB, sizeof transposeB)
                              : status;
  return status == kSuccess ? lib.matmulSet(made, kEpilogue, &epilogue, sizeof epilogue) : status;
}

int32_t makePlan(sl_ctx* ctx, const sl_problem* p, const void* const*, void** handle) {
  const cuda::OpenDevice& device = cuda::openDevice(ctx->device);
  const cuda::Entered entered(device);
  if (!entered) {
    return fail(ctx, SL_UNSUPPORTED, device.words(entered.result));
  }
  const Functions& lib = library();
  if (!lib.error.empty()) {
    return fail(ctx, SL_UNSUPPORTED, lib.error);
  }
  auto plan = std::make_unique<Plan>();
  std::string error;
  plan->handle = handleOf(ctx->device, &error);
  if (!plan->handle) {
    return fail(ctx, SL_UNSUPPORTED, error);
  }
  plan->biased = p->inputs > 2;
  plan->hasResidual = p->inputs > 3;
  Status status = describeAll(p, plan.get());
  bool found = false;
  const int32_t variant = std::clamp(p->variant, 0, kVariants - 1);
  status =
      status == kSuccess ? choose(*plan, kFullAlignment, variant, &plan->aligned, &found) : status;
  if (status == kSuccess && !found) {
    status = 15;
  }
  if (status == kSuccess) {  // none: less aligned addresses are refused when they come
    choose(*plan, operandOf(p, 0).dtype.bits / 8, variant, &plan->unaligned, &plan->hasUnaligned);
  }
  if (status != kSuccess) {
    return fail(ctx, SL_UNSUPPORTED,
                words("planning a product", status) +
                    "; routes={'linear': 'cuda', 'matmul': 'cuda'} does without");
  }
  *handle = plan.release();
  return SL_OK;
}

bool isAligned(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % kFullAlignment == 0;
}

int32_t run(sl_ctx* ctx, sl_team, void* handle, const void* const* inputs, void* const* outputs,
            void* workspace) {
  auto* plan = static_cast<Plan*>(handle);
  const Functions& lib = library();
  const std::lock_guard<std::mutex> lock(plan->mutex);
  bool aligned = isAligned(inputs[0]) && isAligned(inputs[1]) && isAligned(outputs[0]);
  if (plan->biased) {
    aligned = aligned && isAligned(inputs[2]);
    if (const Status status =
            lib.matmulSet(plan->matmul.get(), kBias, &inputs[2], sizeof inputs[2]);
        status != kSuccess) {
      return fail(ctx, SL_DEVICE_ERROR, words("cublasLtMatmulDescSetAttribute", status));
    }
  }
  const void* residual = plan->hasResidual ? inputs[3] : outputs[0];  // not read with a factor of 0
  aligned = aligned && isAligned(residual);
  if (!aligned && !plan->hasUnaligned) {
    return fail(ctx, SL_UNSUPPORTED,
                "cuBLASLt: it has no kernel for addresses that are not multiples of 16 bytes");
  }
  const float one = 1, share = plan->hasResidual ? 1 : 0;
  const Status status = lib.matmul(
      plan->handle, plan->matmul.get(), &one, inputs[1], plan->a.get(), inputs[0], plan->b.get(),
      &share, residual, plan->result.get(), outputs[0], plan->result.get(),
      aligned ? &plan->aligned : &plan->unaligned, workspace, kWorkspaceBytes, sl_cuda_stream());
  return status == kSuccess ? int32_t{SL_OK}
                            : fail(ctx, SL_DEVICE_ERROR, words("cublasLtMatmul", status));
}

void destroy(void* handle) { delete static_cast<Plan*>(handle); }

constexpr sl_tunable kTunables[] = {{"variant", 0, 0, kVariants - 1}};

constexpr uint32_t kFloats = SL_TYPE_F16 | SL_TYPE_BF16 | SL_TYPE_F32;
constexpr sl_operand_facts kOperandsOfLinear[] = {
    {"x", kFloats, 0, SL_LAYOUT_UNIT_STRIDE, 0, SL_OPERAND_ROWS, 0},
    {"weight", kFloats, 0, SL_LAYOUT_UNIT_STRIDE, 0, 0, 0},
    {"bias", kFloats, 0, SL_LAYOUT_ROW_MAJOR, 0, SL_OPERAND_OPTIONAL, 0},
    {"residual", kFloats, 0, SL_LAYOUT_ROW_MAJOR, 0, SL_OPERAND_OPTIONAL, 0},
    {"y", kFloats, 0, SL_LAYOUT_ROW_MAJOR, 0, SL_OPERAND_OUTPUT, 0}};
constexpr sl_operand_facts kOperandsOfMatmul[] = {
    {"a", kFloats, 0, SL_LAYOUT_UNIT_STRIDE, 0, 0, 0},
    {"b", kFloats, 0, SL_LAYOUT_UNIT_STRIDE, 0, 0, 0},
    {"c", kFloats, 0, SL_LAYOUT_ROW_MAJOR, 0, SL_OPERAND_OUTPUT, 0}};
/// The library's tanh has some 20 bits.
constexpr sl_epilogue kEpilogues[] = {{"relu", 0, 0},
                                      {"gelu_tanh", SL_TYPE_F16 | SL_TYPE_BF16, 0},
                                      {"bias", 0, 0},
                                      {"residual", 0, SL_EPILOGUE_WITH_BIAS}};
constexpr int32_t kEpiloguesOfMatmul = 2;

sl_kernel_desc kernelOf(const char* name, const char* op, const char* summary,
                        std::span<const sl_operand_facts> operands, int32_t epilogues) {
  return {
      .size = sizeof(sl_kernel_desc),
      .name = name,
      .backend = "cublaslt",
      .op = op,
      .family = "",
      .summary = summary,
      .accepts = accepts,
      .cost = cost,
      .workspace = workspace,
      .tunables = kTunables,
      .tunable_count = std::size(kTunables),
      .tunable_stride = sizeof(sl_tunable),
      .tune = [](const sl_problem* p, int64_t* values) { values[0] = p->variant; },
      .can_fail = 1,
      .whole_team = 0,
      .plan_symbol = "sl_cublaslt_matmul_plan",
      .plan = reinterpret_cast<void*>(makePlan),
      .run_symbol = "sl_cublaslt_matmul_run",
      .run = reinterpret_cast<void*>(run),
      .destroy = destroy,
      .note = note,
      .variants = [](const sl_problem*) { return kVariants; },
      .properties = SL_KERNEL_CONCURRENT,
      .operands = operands.data(),
      .operand_count = static_cast<int32_t>(operands.size()),
      .operand_stride = sizeof(sl_operand_facts),
      .epilogues = kEpilogues,
      .epilogue_count = epilogues,
      .epilogue_stride = sizeof(sl_epilogue),
  };
}

const sl_kernel_desc kKernels[] = {
    kernelOf("cublaslt.linear", "linear", "NVIDIA's product, with bias, activation or residual",
             kOperandsOfLinear, std::size(kEpilogues)),
    kernelOf("cublaslt.matmul", "matmul", "NVIDIA's batched product, with activation",
             kOperandsOfMatmul, kEpiloguesOfMatmul),
};

const char* version() {
  static const std::string text = versionText();
  return text.empty() ? nullptr : text.c_str();
}
const char* missing() {
  static const std::string why = whyMissing();
  return why.empty() ? nullptr : why.c_str();
}

}  // namespace
}  // namespace straightline::cublaslt

extern "C" const sl_backend_desc sl_backend_cublaslt = {
    .size = sizeof(sl_backend_desc),
    .abi_version = SL_KERNEL_ABI_VERSION,
    .name = "cublaslt",
    .kernels = straightline::cublaslt::kKernels,
    .kernel_count = std::size(straightline::cublaslt::kKernels),
    .device = nullptr,
    .runs_on = "cuda",
    .kernel_stride = 0,
    .version = straightline::cublaslt::version,
    .missing = straightline::cublaslt::missing,
    .default_routes = nullptr};
