// SPDX-License-Identifier: Apache-2.0
// Sets of handles of kernels whose runs write into their handle (SL_KERNEL_EXCLUSIVE_HANDLE).
#include <atomic>
#include <cstddef>
#include <memory>
#include <new>

#include "straightline/abi/straightline.h"

namespace straightline {
namespace {

/// A handle and whether a run uses it. A slot's handle is set once; who changes `busy` from 0 to 1
/// owns the handle until it stores 0. Slots without a handle are busy. A cache line each: runs on
/// several threads write into neighbours.
struct alignas(64) Slot {
  std::atomic<void*> handle{nullptr};
  std::atomic<int32_t> busy{1};
};

/// What emitted text holds as the handle of such a kernel. Slots are filled in order. Runs beyond
/// their number plan and destroy a handle each.
struct ExclusiveHandles {
  static constexpr int32_t kSlots = 64;
  const sl_problem* problem;
  sl_plan_fn plan;
  void (*destroy)(void*);
  Slot slots[kSlots];

  /// An idle one, for this run alone; null: none is idle.
  Slot* take() {
    for (Slot& slot : slots) {
      if (slot.busy.load(std::memory_order_relaxed) == 0 &&
          slot.busy.exchange(1, std::memory_order_acquire) == 0) {
        return &slot;
      }
      if (!slot.handle.load(std::memory_order_relaxed)) {
        break;
      }
    }
    return nullptr;
  }

  /// Keeps a handle that no run uses any more.
  void keep(void* handle) {
    for (Slot& slot : slots) {
      void* none = nullptr;
      if (slot.handle.compare_exchange_strong(none, handle, std::memory_order_relaxed)) {
        slot.busy.store(0, std::memory_order_release);
        return;
      }
    }
    destroy(handle);
  }

  /// A further handle. Of a run's inputs `plan` gets those that are constant.
  int32_t planAgain(sl_ctx* ctx, const void* const* inputs, void** handle) const {
    const auto count = static_cast<size_t>(problem->inputs);
    const std::unique_ptr<const void*[]> constants(new (std::nothrow) const void*[count + 1]);
    if (!constants) {
      return SL_OUT_OF_MEMORY;
    }
    for (size_t i = 0; i < count; ++i) {
      const bool isConstant = sl_operand_at(problem, static_cast<int32_t>(i))->constant != 0;
      constants[i] = isConstant ? inputs[i] : nullptr;
    }
    const int32_t status = plan(ctx, problem, count == 0 ? nullptr : constants.get(), handle);
    return status == SL_OK && !*handle ? static_cast<int32_t>(SL_INTERNAL) : status;
  }
};

}  // namespace
}  // namespace straightline

int32_t sl_exclusive_plan(sl_ctx* ctx, const sl_problem* problem, const void* const* constants,
                          void** handles, sl_plan_fn plan, void (*destroy)(void*)) {
  void* first = nullptr;
  if (const int32_t status = plan(ctx, problem, constants, &first)) {
    return status;
  }
  if (!first) {
    sl_fail_text(ctx, SL_INTERNAL, "plan made no handle, which its kernel says it writes into");
    return SL_INTERNAL;
  }
  auto* set = new (std::nothrow) straightline::ExclusiveHandles{problem, plan, destroy};
  if (!set) {
    destroy(first);
    return SL_OUT_OF_MEMORY;
  }
  set->keep(first);
  *handles = set;
  return SL_OK;
}

int32_t sl_exclusive_run(sl_ctx* ctx, sl_team team, void* handles, const void* const* inputs,
                         void* const* outputs, void* workspace, sl_run_fn run) {
  auto* set = static_cast<straightline::ExclusiveHandles*>(handles);
  if (straightline::Slot* slot = set->take()) {
    const int32_t status =
        run(ctx, team, slot->handle.load(std::memory_order_relaxed), inputs, outputs, workspace);
    slot->busy.store(0, std::memory_order_release);
    return status;
  }
  void* handle = nullptr;
  if (const int32_t status = set->planAgain(ctx, inputs, &handle)) {
    return status;
  }
  const int32_t status = run(ctx, team, handle, inputs, outputs, workspace);
  set->keep(handle);
  return status;
}

void sl_exclusive_destroy(void* handles) {
  auto* set = static_cast<straightline::ExclusiveHandles*>(handles);
  for (straightline::Slot& slot : set->slots) {
    if (void* handle = slot.handle.load(std::memory_order_acquire)) {
      set->destroy(handle);
    }
  }
  delete set;
}
