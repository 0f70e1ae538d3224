// SPDX-License-Identifier: Apache-2.0
// Descriptions of kernels and backends as plain C data. Kernels, backends and plug-ins register
// them; passes read only the registry (runtime/registry.h), so neither layer includes the other.
#ifndef STRAIGHTLINE_ABI_KERNEL_H
#define STRAIGHTLINE_ABI_KERNEL_H

#include "straightline/abi/entry.h"

#ifdef __cplusplus
extern "C" {
#endif

/// One operand of a problem: static rank; an extent or stride that is only known per call is
/// SL_DYNAMIC.
#define SL_DYNAMIC INT64_MIN_SL
#define INT64_MIN_SL (-9223372036854775807LL - 1)
#define SL_MAX_RANK 8

typedef struct sl_operand {
  sl_dtype dtype;
  int32_t rank;
  int64_t extents[SL_MAX_RANK];
  int64_t strides[SL_MAX_RANK];  ///< elements
  /// 1: known before the first run (a parameter or something prepared)
  int32_t constant;
} sl_operand;

/// A named integer attribute of the op ("m", "stride_h", ...).
typedef struct sl_attribute {
  const char* name;
  int64_t value;
} sl_attribute;

/// What a kernel is asked about: an op of a family with operands (inputs then outputs), attributes
/// and target.
typedef struct sl_problem {
  uint64_t size;
  const char* op;  ///< "gemm", "convolution", "pointwise", ...
  const sl_operand* operands;
  int32_t inputs, outputs;
  const sl_attribute* attributes;
  int32_t attribute_count;
  int32_t threads;
  int32_t vector_bytes;  ///< widest vector of the target CPU: 32 (AVX2) or 64 (AVX-512)
  int64_t l1_bytes, l2_bytes;
  /// what the kernel alone reads beside numbers (for "aten" which op, with its arguments); NULL:
  /// nothing
  const char* text;
  /// how many numbers `run` finds in the last place of `inputs` (see sl_kernel_desc); 0: no such
  /// place
  int32_t sizes;
  /// which of the kernel's ways (see sl_kernel_desc.variants); 0: the one that its estimates choose
  int32_t variant;
  /// 1: the target CPU sums products of pairs of bfloat16 in float32 (AVX512_BF16)
  int32_t dot_bf16;
  const char* device;  ///< where the program runs: "cuda"; NULL: the CPU
  /// bytes of operands of multiply-adds that a core of the target CPU begins in a cycle: 64 or 128;
  /// 0: not known
  int32_t fma_bytes;
} sl_problem;

/// A tunable of an emitted family: its name, default and allowed range. #kernel.schedule attributes
/// are verified against these.
typedef struct sl_tunable {
  const char* name;
  int64_t fallback, lowest, highest;
} sl_tunable;

typedef enum sl_effect { SL_EFFECT_READ = 1, SL_EFFECT_WRITE = 2 } sl_effect;

/// One kernel. Two kinds: an *emitted* one (entry == NULL) names a template family under
/// codegen/kernels that the printer instantiates; an *external* one has entry points in a library.
/// All function pointers may be NULL unless said.
typedef struct sl_kernel_desc {
  uint64_t size;
  const char* name;     ///< "native.gemm", "onednn.inner_product"
  const char* backend;  ///< "native", "onednn", ...
  const char* op;       ///< the problem's op it answers to
  const char* family;   ///< emitted: template name ("gemm"); external: ""
  const char* summary;  ///< one line for `explain`
  /// 1 when it takes the problem; else 0 and the reason, in words with both values, in `reason`.
  /// -1: the same, where nobody would expect that it does (another dtype); said only to who asks
  /// for the kernel. Required.
  int32_t (*accepts)(const sl_problem* problem, char* reason, size_t reason_bytes);
  /// Estimated microseconds for one run. Required.
  double (*cost)(const sl_problem* problem);
  /// Bytes of arena that one run needs beside its operands.
  int64_t (*workspace)(const sl_problem* problem);
  const sl_tunable* tunables;
  int32_t tunable_count;
  /// Fills tunables (values in the order of `tunables`) for the problem; NULL: the fallbacks.
  void (*tune)(const sl_problem* problem, int64_t* values);
  int32_t can_fail;    ///< 1: may set ctx->status; the program tests it after the call
  int32_t whole_team;  ///< 1: called by every thread of the team; 0: by thread 0 alone
  // External kernels only. `plan_symbol` and `run_symbol` are extern "C" names that emitted text
  // calls:
  //   int32_t plan(sl_ctx*, const sl_problem*, const void* const* constants, void** handle)
  //   at prepare time
  //   int32_t run(sl_ctx*, sl_team, void* handle, const void* const* inputs, void* const* outputs,
  //   void* workspace)
  //   void destroy(void* handle)                                   its symbol is
  //   `<plan_symbol>_destroy`
  // `constants` and `inputs` have one place per input of the problem, in their order; plan reads
  // only the constant ones. A problem with `sizes` > 0 has one place more in `inputs`: a const
  // int64_t[sizes] of numbers that are known per call.
  const char* plan_symbol;
  void* plan;
  const char* run_symbol;
  void* run;
  void (*destroy)(void* handle);
  /// What a user should know when it is taken, in words for `explain`: an accuracy that is not that
  /// of a plain sum, say. NULL: nothing.
  void (*note)(const sl_problem* problem, char* text, size_t text_bytes);
  /// How many ways there are to set the tunables that are worth a measurement; `cost`, `workspace`,
  /// `tune` and `note` answer for way number `problem->variant`. Two numbers may give the same
  /// tunables. NULL: one.
  int32_t (*variants)(const sl_problem* problem);
  /// 1: asked wherever the program runs (the problem says where), not only on the backend's own
  /// device
  int32_t any_device;
} sl_kernel_desc;

/// One launch on a device with machine code of its own. No blocks: nothing is launched (only a
/// graph gets to see it).
typedef struct sl_grid {
  uint64_t size;
  int64_t blocks;
  int32_t threads;       ///< of one block
  int32_t shared_bytes;  ///< beside what the kernel declares
} sl_grid;

/// Memory and queues of a backend with its own address space or its own order of execution. Host
/// code never dereferences an address of a space whose `host_access` is 0. One description serves
/// all devices of its kind, by number from 0: what makes something is told on which, and what was
/// made knows it. Thread rules: every function may be called from any thread.
typedef struct sl_device_desc {
  uint64_t size;
  const char* space;    ///< memory space name ("host", "cuda", ...)
  int32_t host_access;  ///< 1: addresses can be dereferenced by host code
  /// NULL when out of memory
  void* (*allocate)(int32_t device, size_t bytes, size_t alignment);
  void (*deallocate)(int32_t device, void* address, size_t bytes);
  void* (*queue_create)(int32_t device);
  void (*queue_destroy)(void* queue);  ///< waits for what is enqueued
  /// Enqueues entry(ctx, team of one, pointers, scalars); copies both arrays before it returns. A
  /// device whose queues do not run host functions calls the entry at once, for it to enqueue work
  /// of its own there (see sl_cuda_stream).
  int32_t (*launch)(void* queue, sl_ctx* ctx, void* entry, void* const* pointers,
                    int32_t pointer_count, const int64_t* scalars, int32_t scalar_count);
  int32_t (*copy)(void* queue, sl_ctx* ctx, void* destination, const char* destination_space,
                  const void* source, const char* source_space, size_t bytes);
  /// an event that fires when the queue has passed this point
  void* (*record)(void* queue);
  /// later work of the queue starts after the event
  void (*wait)(void* queue, void* event);
  /// blocks the calling host thread until the event has fired
  void (*synchronize)(void* event);
  /// legal while waits for it are still enqueued
  void (*event_destroy)(void* event);
  /// 1 when the event has fired; never blocks
  int32_t (*query)(void* event);
  // Devices with machine code of their own; NULL: launch calls host functions. `reason` takes words
  // when the status is not SL_OK.
  int32_t (*load)(int32_t device, const sl_device_code* code, void** kernel, char* reason,
                  size_t reason_bytes);
  void (*unload)(void* kernel);
  /// Enqueues `kernel`; arguments[i] is the address of its i-th argument, read before this returns.
  int32_t (*start)(void* queue, sl_ctx* ctx, void* kernel, const sl_grid* grid,
                   void* const* arguments);
  /// A queue over one that the caller has; queue_destroy leaves that alone. NULL: there is no such
  /// thing.
  void* (*queue_adopt)(int32_t device, void* native);
  int32_t independent;  ///< 1: nothing that is enqueued touches its sl_ctx
  // What is NULL below the device does not have.
  /// Number of the order in which `queue` runs its work: two queues have the same one only where
  /// they are one and the same, and no later queue gets it again. 0: it has none.
  uint64_t (*queue_order)(void* queue);
  /// 1: what is enqueued now does not run but becomes part of a graph that the caller captures.
  int32_t (*queue_captured)(void* queue);
  /// Makes an event of this device's fire when the queue has passed this point, and not at the one
  /// before; 0: it could not.
  int32_t (*record_again)(void* queue, void* event);
  /// Blocks until everything that was enqueued on any queue of the device has run.
  void (*finish)(int32_t device);
  // A whole run as one launch: a queue that gathers what is started and copied on it, for
  // `queue_destroy` to destroy. One run at a time: graph_begin says on which queue it will be
  // launched, graph_launch launches it there. A copy to the host launches what the run has
  // gathered, which then gathers no more.
  void* (*graph_create)(int32_t device);
  int32_t (*graph_begin)(void* graph, sl_ctx* ctx, void* queue);
  int32_t (*graph_launch)(void* graph, sl_ctx* ctx);
  /// Launches on `queue` what the last run gathered and launched: 1. 0: that is not known any more,
  /// and the run has to gather it.
  int32_t (*graph_again)(void* graph, sl_ctx* ctx, void* queue);
  /// Why the device of this number cannot be used, in words that live as long as the process; NULL:
  /// it can.
  const char* (*missing)(int32_t device);
  /// What is enqueued on a graph from here is step `number` of its run, behind the steps `after`
  /// (queue.h: sl_queue_step).
  void (*graph_step)(void* graph, int32_t number, const int32_t* after, int32_t count);
} sl_device_desc;

/// What `straightline_backend_v1` of a shared library returns, and what built-in backends hand to
/// the registry.
typedef struct sl_backend_desc {
  uint64_t size;
  uint32_t abi_version;
  const char* name;
  const sl_kernel_desc* kernels;
  int32_t kernel_count;
  const sl_device_desc* device;  ///< NULL: runs in host memory on the caller's team
  /// name of the backend on whose device's queues its kernels run; NULL: its own
  const char* runs_on;
} sl_backend_desc;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // STRAIGHTLINE_ABI_KERNEL_H
