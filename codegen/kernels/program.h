// SPDX-License-Identifier: Apache-2.0
// What a program's text uses beside kernels: failures, cancelling, events, and memory whose size is
// known at run time. Every function here is called by all threads of the team with the same
// arguments, unless it says otherwise.
#ifndef STRAIGHTLINE_KERNELS_PROGRAM_H
#define STRAIGHTLINE_KERNELS_PROGRAM_H

#include "straightline/abi/device_calls.h"
#include "straightline/kernels/vector.h"

namespace sl {

/// Ends the program after statement number `statement` has failed.
SL_INLINE int32_t stop(sl_ctx* ctx, sl_team team, int32_t statement) {
  if (team.index == 0) {
    ctx->statement = statement;
  }
  return ctx->status;
}

/// Ends the program at a `check` that does not hold. The message is the statement's.
SL_INLINE int32_t checkFailed(sl_ctx* ctx, sl_team team, int32_t statement) {
  if (team.index == 0) {
    sl_fail_at(ctx, SL_CHECK_FAILED, 0, 0, 0);
    ctx->statement = statement;
  }
  return SL_CHECK_FAILED;
}

SL_INLINE bool isOutside(int64_t value, int64_t lowest, int64_t highest) {
  return value < lowest || value > highest;
}

/// Ends the program at a computed extent that is outside of its bounds.
SL_INLINE int32_t extentFailed(sl_ctx* ctx, sl_team team, int32_t statement, int64_t value,
                               int64_t lowest, int64_t highest) {
  if (team.index == 0) {
    sl_fail_at(ctx, SL_CHECK_FAILED, value, lowest, highest);
    ctx->statement = statement;
  }
  return SL_CHECK_FAILED;
}

/// Tells the caller the value of a computed extent.
SL_INLINE void setExtent(sl_team team, const sl_bindings* io, int32_t number, int64_t value) {
  if (team.index == 0) {
    io->extents[number] = value;
  }
}

/// Whether the caller has asked to stop, or something has failed; also a barrier, so that
/// iterations of a loop do not overlap.
SL_INLINE bool cancelled(sl_ctx* ctx, sl_team team) {
  if (team.index == 0 && ctx->cancel && __atomic_load_n(ctx->cancel, __ATOMIC_RELAXED) != 0) {
    sl_fail_at(ctx, SL_CANCELLED, 0, 0, 0);
  }
  return sl_failed(ctx, team);
}

/// Sets the program's status to `status`, which an external entry has returned. Any thread may call
/// it.
SL_INLINE void report(sl_ctx* ctx, int32_t status) {
  if (status != SL_OK) {
    sl_fail_at(ctx, status, 0, 0, 0);
  }
}

/// As sl_failed, after a statement in which thread 0 alone was in a library. The others sleep
/// meanwhile, so that threads of the library have the processors for themselves.
SL_INLINE bool failedInLibrary(sl_ctx* ctx, sl_team team) {
  if (team.size > 1 && team.shared->size >= sizeof(sl_team_shared)) {
    const bool failed = team.index == 0 && __atomic_load_n(&ctx->status, __ATOMIC_ACQUIRE) != SL_OK;
    return team.shared->sync_after_library(team.shared, team.index, failed) != 0;
  }
  return sl_failed(ctx, team);
}

/// A team of the calling thread alone.
SL_INLINE sl_team alone() { return {nullptr, 0, 1}; }

/// The buffer that starts `bytes` after the start of an arena.
template <class T>
SL_INLINE T* at(void* arena, int64_t bytes) {
  return reinterpret_cast<T*>(static_cast<char*>(arena) + bytes);
}

/// `pointer` as an element of an array of arguments, which are not const: the kernel knows which of
/// them it writes to.
SL_INLINE void* address(const void* pointer) { return const_cast<void*>(pointer); }

/// The address of an argument of a device's kernel, which the driver takes as not const but only
/// reads.
template <class T>
SL_INLINE void* place(const T& argument) {
  return const_cast<T*>(&argument);
}

/// A scalar of the statement table, which travels as the low bytes of an int64_t.
template <class T>
SL_INLINE T fromBits(int64_t bits) {
  T value;
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}
template <>
SL_INLINE_MEMBER bool fromBits<bool>(int64_t bits) {
  return bits != 0;
}

template <class T>
SL_INLINE void toBits(void* place, T value) {
  int64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  *static_cast<int64_t*>(place) = bits;
}

/// Copies between host buffers that do not overlap; each thread its share.
SL_INLINE void copy(sl_team team, void* destination, const void* source, int64_t bytes) {
  const int64_t begin = split(bytes, team, 64).begin;
  const int64_t end = split(bytes, team, 64).end;
  if (begin < end) {
    __builtin_memcpy(static_cast<char*>(destination) + begin,
                     static_cast<const char*>(source) + begin, size_t(end - begin));
  }
}

/// Tells the profiler that statement number `statement` begins or ends.
SL_INLINE void profile(sl_ctx* ctx, sl_team team, int32_t statement, int32_t begin) {
  if (team.index == 0 && ctx->profile) {
    ctx->profile(ctx->profile_user, statement, begin);
  }
}

/// An event in a queue. Thread 0 records it, and releases it at the end of the scope.
class Event {
 public:
  SL_INLINE_MEMBER Event(sl_team team, void* queue)
      : queue_(queue), event_(team.index == 0 ? sl_queue_record(queue) : nullptr) {}
  SL_INLINE_MEMBER ~Event() {
    if (event_) {
      sl_queue_forget(event_, queue_);
    }
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  /// Later work of `queue` starts after the event. On the caller's team thread 0 blocks; the others
  /// wait at the barrier that the program has next.
  SL_INLINE_MEMBER void wait(sl_team team, void* queue) const {
    if (team.index == 0) {
      sl_queue_wait(queue, event_, queue_);
    }
  }

 private:
  void* queue_;
  void* event_;
};

/// Memory of run-time size: thread 0 allocates, `cell` (one int64_t that all threads see) hands the
/// address on, and the end of the scope frees it after a barrier. Test sl_failed after the
/// construction.
class Allocation {
 public:
  SL_INLINE_MEMBER Allocation(sl_ctx* ctx, sl_team team, int64_t* cell, const char* space,
                              int64_t bytes)
      : team_(team), space_(space), bytes_(bytes), device_(ctx->device) {
    if (team.index == 0) {
      void* made = sl_alloc(space, ctx->device, size_t(bytes));
      if (!made) {
        sl_fail_at(ctx, SL_OUT_OF_MEMORY, bytes, 0, 0);
      }
      *cell = int64_t(made);
    }
    sl_barrier(team);
    address_ = reinterpret_cast<void*>(*cell);
  }
  SL_INLINE_MEMBER ~Allocation() {
    sl_barrier(team_);
    if (team_.index == 0 && address_) {
      sl_free(space_, device_, address_, size_t(bytes_));
    }
  }
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  SL_INLINE_MEMBER void* address() const { return address_; }

 private:
  sl_team team_;
  const char* space_;
  int64_t bytes_;
  int32_t device_;
  void* address_;
};

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_PROGRAM_H
