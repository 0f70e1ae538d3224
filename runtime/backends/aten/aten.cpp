// SPDX-License-Identifier: Apache-2.0
#include "aten.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

#include "dispatcher_call.h"
#include "ended_thread.h"

namespace straightline::aten {
namespace {

std::atomic<const sl_aten_python*> python{nullptr};

constexpr int64_t kMessageBytes = SL_FAILURE_TEXT_BYTES;

/// One planned call: through torch's dispatcher or, if `dispatcher` is null, by function number
/// `id` of the Python package.
struct Plan {
  std::unique_ptr<DispatcherCall> dispatcher;
  int64_t id = 0;
  std::string name;  ///< "aten::topk"
  int32_t inputs = 0;
  bool hasSizes = false;
};

bool readText(const sl_problem& problem, CallText* text, std::string* error) {
  if (!problem.text) {
    *error = "the problem names no op";
    return false;
  }
  if (!parseCallText(problem.text, text, error)) {
    return false;
  }
  if (text->door != "dispatcher" && text->door != "python") {
    *error = "the door is '" + text->door + "' but must be dispatcher or python";
    return false;
  }
  return true;
}

int32_t accepts(const sl_problem* problem, char* reason, size_t bytes) {
  CallText text;
  std::string error;
  bool fine = readText(*problem, &text, &error);
  if (fine && text.door == "dispatcher") {
    fine = torchFunctions(&error) != nullptr;
  } else if (fine && !python.load(std::memory_order_acquire)) {
    fine = false;
    error = "aten needs the Python package in this process for " + text.name;
  }
  if (!fine) {
    std::snprintf(reason, bytes, "%s", error.c_str());
  }
  return fine ? 1 : 0;
}

/// The cost of a call and of the memory that it touches. Measured: 2 to 6 us through the dispatcher
/// (boxing, allocation and copies of the results), 4 to 9 through Python. An estimate that is high
/// for Python costs more than it says: from SL_GIL_THRESHOLD_US on a call gives up the GIL, which
/// the op takes again. The cost of the op's own computation is unknown.
double cost(const sl_problem* problem) {
  double elements = 0;
  for (int32_t i = 0; i < problem->inputs + problem->outputs; ++i) {
    double count = 1;
    for (int32_t dim = 0; dim < sl_operand_at(problem, i)->rank; ++dim) {
      const int64_t extent = sl_operand_at(problem, i)->extents[dim];
      count *= extent == SL_DYNAMIC ? 64 : static_cast<double>(extent);
    }
    elements += count;
  }
  const bool viaPython = problem->text && std::strstr(problem->text, "\npython\n");
  return (viaPython ? 4.0 : 6.0) + elements * 0.001;
}

bool plan(const sl_problem& problem, Plan* plan, std::string* error) {
  CallText text;
  if (!readText(problem, &text, error)) {
    return false;
  }
  plan->name = text.name;
  plan->inputs = problem.inputs;
  plan->hasSizes = problem.sizes > 0;
  const bool viaPython = text.door == "python";
  if (const sl_aten_python* functions = python.load(std::memory_order_acquire)) {
    char message[kMessageBytes] = "";
    const auto make = [&] { return functions->plan(&problem, &plan->id, message, kMessageBytes); };
    if (stoppingWhenEnded(make) != 0) {
      *error = message;
      return false;
    }
  } else if (viaPython) {
    *error = "it runs through Python, which is not in this process";
    return false;
  }
  if (viaPython) {
    return true;
  }
  const TorchFunctions* torch = torchFunctions(error);
  if (!torch) {
    return false;
  }
  plan->dispatcher = DispatcherCall::make(*torch, std::move(text), problem, error);
  return plan->dispatcher != nullptr;
}

bool run(const Plan& plan, int32_t device, const void* const* inputs, void* const* outputs,
         std::string* error) {
  const auto* sizes = plan.hasSizes ? static_cast<const int64_t*>(inputs[plan.inputs]) : nullptr;
  const sl_aten_python* functions = python.load(std::memory_order_acquire);
  if (plan.dispatcher) {
    const bool gives = functions && functions->size > offsetof(sl_aten_python, give);
    return plan.dispatcher->run(device, inputs, outputs, sizes, gives ? functions->give : nullptr,
                                error);
  }
  if (!functions) {
    *error = "the Python interpreter is ending";
    return false;
  }
  char message[kMessageBytes] = "";
  const auto call = [&] {
    return functions->run(plan.id, device, inputs, outputs, sizes, message, kMessageBytes);
  };
  if (stoppingWhenEnded(call) != 0) {
    *error = message;
    return false;
  }
  return true;
}

int32_t fail(sl_ctx* ctx, const std::string& text) {
  sl_fail_text(ctx, SL_OP_FAILED, text.c_str());
  return SL_OP_FAILED;
}

const sl_kernel_desc kCall = {
    .size = sizeof(sl_kernel_desc),
    .name = "aten.call",
    .backend = "aten",
    .op = "aten",
    .family = "",
    .summary = "an op of the torch in this process, by name",
    .accepts = accepts,
    .cost = cost,
    .workspace = nullptr,
    .tunables = nullptr,
    .tunable_count = 0,
    .tune = nullptr,
    .can_fail = 1,
    .whole_team = 0,
    .plan_symbol = "sl_aten_call_plan",
    .plan = reinterpret_cast<void*>(&sl_aten_call_plan),
    .run_symbol = "sl_aten_call_run",
    .run = reinterpret_cast<void*>(&sl_aten_call_run),
    .destroy = sl_aten_call_plan_destroy,
    .note = nullptr,
    .variants = nullptr,
    .any_device = 1,
};

}  // namespace
}  // namespace straightline::aten

void sl_aten_set_python(const sl_aten_python* functions) {
  straightline::aten::python.store(functions, std::memory_order_release);
}

int32_t sl_aten_call_plan(sl_ctx* ctx, const sl_problem* problem, const void* const*,
                          void** handle) {
  using namespace straightline::aten;
  try {
    auto made = std::make_unique<Plan>();
    std::string error;
    if (!plan(*problem, made.get(), &error)) {
      return fail(ctx, made->name.empty() ? error : made->name + ": " + error);
    }
    *handle = made.release();
    return SL_OK;
  } catch (const std::bad_alloc&) {
    sl_fail(ctx, SL_OUT_OF_MEMORY, sizeof(Plan), 0, 0);
    return SL_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    return fail(ctx, error.what());
  }
}

int32_t sl_aten_call_run(sl_ctx* ctx, sl_team team, void* handle, const void* const* inputs,
                         void* const* outputs, void*) {
  using namespace straightline::aten;
  if (team.index != 0) {
    return SL_OK;  // torch uses threads of its own
  }
  const auto* plan = static_cast<const Plan*>(handle);
  try {
    std::string error;
    return run(*plan, ctx->device, inputs, outputs, &error) ? SL_OK
                                                            : fail(ctx, plan->name + ": " + error);
  } catch (const std::bad_alloc&) {
    sl_fail(ctx, SL_OUT_OF_MEMORY, 0, 0, 0);
    return SL_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    return fail(ctx, error.what());
  }
}

void sl_aten_call_plan_destroy(void* handle) {
  using namespace straightline::aten;
  auto* plan = static_cast<Plan*>(handle);
  const sl_aten_python* functions = python.load(std::memory_order_acquire);
  if (plan && plan->id && functions) {
    straightline::stoppingWhenEnded([&] { functions->forget(plan->id); });
  }
  delete plan;
}

extern "C" SL_API const sl_backend_desc* straightline_backend_v1(void) {
  static const sl_backend_desc backend = {sizeof(sl_backend_desc),
                                          SL_KERNEL_ABI_VERSION,
                                          "aten",
                                          &straightline::aten::kCall,
                                          1,
                                          nullptr};
  return &backend;
}
