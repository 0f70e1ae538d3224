// SPDX-License-Identifier: Apache-2.0
// Descriptions of kernels and backends as plain C data. Kernels, backends and plug-ins register
// them; passes read only the registry (runtime/registry.h), so neither layer includes the other.
//
// How it grows (docs/design/kernels.md): a struct that is passed by itself begins with its size,
// and an array comes with a stride, the element size that its writer knew. New fields are added at
// the end and have a default, which is zero unless the field says otherwise. A reader of a longer
// struct uses the fields it knows; a reader of a shorter one uses the default of each missing
// field. A new meaning of a field, or a field without a default, changes SL_KERNEL_ABI_VERSION.
#ifndef STRAIGHTLINE_ABI_KERNEL_H
#define STRAIGHTLINE_ABI_KERNEL_H

#include "straightline/abi/entry.h"

/// Of the descriptions of backends. Programs have a version of their own (SL_ABI_VERSION).
#define SL_KERNEL_ABI_VERSION 7

#ifdef __cplusplus
extern "C" {
#endif

/// Whether a struct of `bytes` bytes has the field.
#define SL_HAS_FIELD(bytes, type, field) \
  ((bytes) >= __builtin_offsetof(type, field) + sizeof(((type*)0)->field))

/// One operand of a problem: static rank; an extent or stride that is known only at a call is
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

typedef enum sl_attribute_kind { SL_INT = 0, SL_FLOAT = 1, SL_TEXT = 2 } sl_attribute_kind;

/// A named attribute of the op ("m", "stride_h", "scale", ...).
typedef struct sl_attribute {
  const char* name;
  int64_t value;     ///< SL_INT; 0 otherwise
  int32_t kind;      ///< sl_attribute_kind
  double number;     ///< SL_FLOAT
  const char* text;  ///< SL_TEXT
} sl_attribute;

/// A question to a kernel: an op of a family with its operands (inputs, then outputs), attributes
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
  /// text that only this kernel reads (for "aten": the op and its arguments); NULL:
  /// nothing
  const char* text;
  /// how many numbers `run` finds in the last element of `inputs` (see sl_kernel_desc); 0: there is
  /// no such element
  int32_t sizes;
  /// which of the kernel's variants (see sl_kernel_desc.variants); 0: the one with the least
  /// estimate
  int32_t variant;
  /// 1: the target CPU sums products of pairs of bfloat16 in float32 (AVX512_BF16)
  int32_t dot_bf16;
  const char* device;  ///< where the program runs: "cuda"; NULL: the CPU
  /// bytes of multiply-add operands that a core of the target CPU starts in a cycle: 64 or 128;
  /// 0: unknown
  int32_t fma_bytes;
  /// bytes from one operand (attribute) to the next; 0: SL_FIRST_OPERAND_BYTES
  /// (SL_FIRST_ATTRIBUTE_BYTES)
  uint64_t operand_stride, attribute_stride;
} sl_problem;

/// Element sizes in programs that were compiled before the structs had strides.
#define SL_FIRST_OPERAND_BYTES 144
#define SL_FIRST_ATTRIBUTE_BYTES 16
#ifndef __CUDACC_RTC__  // Host only: NVRTC before 13.1 has no __builtin_offsetof.
/// Operand `i`. A field that was added later exists only where the stride covers it.
static inline const sl_operand* sl_operand_at(const sl_problem* problem, int32_t i) {
  const uint64_t stride =
      SL_HAS_FIELD(problem->size, sl_problem, operand_stride) && problem->operand_stride != 0
          ? problem->operand_stride
          : SL_FIRST_OPERAND_BYTES;
  return (const sl_operand*)((const char*)problem->operands + (uint64_t)i * stride);
}

/// Attribute `i`; fields that its writer did not know are zero.
static inline sl_attribute sl_attribute_at(const sl_problem* problem, int32_t i) {
  const uint64_t stride =
      SL_HAS_FIELD(problem->size, sl_problem, attribute_stride) && problem->attribute_stride != 0
          ? problem->attribute_stride
          : SL_FIRST_ATTRIBUTE_BYTES;
  sl_attribute attribute;
  __builtin_memset(&attribute, 0, sizeof attribute);
  __builtin_memcpy(&attribute, (const char*)problem->attributes + (uint64_t)i * stride,
                   stride < sizeof attribute ? stride : sizeof attribute);
  return attribute;
}
#endif
/// A tunable of an emitted family: its name, default and allowed range. #kernel.schedule attributes
/// are verified against them.
typedef struct sl_tunable {
  const char* name;
  int64_t fallback, lowest, highest;
} sl_tunable;

typedef enum sl_effect { SL_EFFECT_READ = 1, SL_EFFECT_WRITE = 2 } sl_effect;

/// Element types, as a set of bits.
typedef enum sl_type_set {
  SL_TYPE_F16 = 1 << 0,
  SL_TYPE_BF16 = 1 << 1,
  SL_TYPE_F32 = 1 << 2,
  SL_TYPE_F64 = 1 << 3,
  SL_TYPE_I8 = 1 << 4,
  SL_TYPE_U8 = 1 << 5,
  SL_TYPE_I16 = 1 << 6,
  SL_TYPE_I32 = 1 << 7,
  SL_TYPE_I64 = 1 << 8,
  SL_TYPE_BOOL = 1 << 9
} sl_type_set;

/// How an operand lies in memory, as a set of bits.
typedef enum sl_layout_set {
  SL_LAYOUT_ROW_MAJOR = 1 << 0,      ///< dense, the last dim innermost
  SL_LAYOUT_CHANNELS_LAST = 1 << 1,  ///< dim 1 innermost, then the last one, ...
  SL_LAYOUT_UNIT_STRIDE = 1 << 2,    ///< one of the last two dims has stride 1
  SL_LAYOUT_STRIDED = 1 << 3         ///< any strides
} sl_layout_set;

typedef enum sl_operand_flags {
  SL_OPERAND_OUTPUT = 1 << 0,    ///< written; outputs stand behind the inputs
  SL_OPERAND_OPTIONAL = 1 << 1,  ///< may be absent
  /// external: also an input of `plan`, so it must be known before the first run
  SL_OPERAND_PLANNED = 1 << 2,
  /// emitted: read in the kernel's own packed order, which `pack_<family>` makes
  SL_OPERAND_PACKED = 1 << 3,
  /// external: given as a matrix, [.., k] as [rows, k]
  SL_OPERAND_ROWS = 1 << 4
} sl_operand_flags;

/// Facts about one operand, from which passes decide. Input `i` has facts number i; the facts of
/// the outputs begin at the first one with SL_OPERAND_OUTPUT. A field that is 0 states nothing:
/// then `accepts` decides.
typedef struct sl_operand_facts {
  const char* role;  ///< "x", "weight", "bias", "residual", "y", ...
  uint32_t types;    ///< sl_type_set: what the kernel computes with
  /// sl_type_set: further storage types that the kernel reads where passes widened the operand
  uint32_t stored;
  uint32_t layouts;    ///< sl_layout_set: the layouts it accepts
  uint32_t preferred;  ///< the accepted layout that is fastest; 0: all are equal
  uint32_t flags;      ///< sl_operand_flags
  /// the number of channels of a pixel is a multiple of so many bytes; 0: any number
  int32_t piece_bytes;
} sl_operand_facts;

typedef enum sl_epilogue_flags {
  SL_EPILOGUE_WITH_BIAS = 1 << 0  ///< taken together with a bias only
} sl_epilogue_flags;

/// An epilogue that a kernel can compute after its own work: "bias" (added along the channels),
/// "residual" (added elementwise), "relu", "gelu_tanh", or "elementwise" (any elementwise ops,
/// emitted into it). An external kernel gets its name (attribute `activation`, SL_TEXT).
typedef struct sl_epilogue {
  const char* name;
  uint32_t types;  ///< sl_type_set: for results of these types; 0: for all
  uint32_t flags;  ///< sl_epilogue_flags
} sl_epilogue;

typedef enum sl_kernel_properties {
  /// sums of transformed inputs, with other rounding errors than a plain sum (Winograd)
  SL_KERNEL_TRANSFORMS_INPUTS = 1 << 0,
  /// reads its first two inputs in a type of `stored` only, though the problem names the type to
  /// which they were widened
  SL_KERNEL_NARROW_INPUTS = 1 << 1,
  /// external: a run touches its operands and its workspace only, so two runs may overlap
  SL_KERNEL_CONCURRENT = 1 << 2,
  /// external, of a host: a run writes into its handle, so that a handle serves one run at a time.
  /// Runs that overlap get handles of their own (docs/design/kernels.md#handles): `plan` is called
  /// again, with the same problem and constants, by the first run that finds none idle. Without
  /// this property any number of runs use one handle at once. Not together with `whole_team` or
  /// SL_KERNEL_CONCURRENT.
  SL_KERNEL_EXCLUSIVE_HANDLE = 1 << 3,
  /// emitted: takes elementwise ops that compute its only input as its first lambda, `prologue`. Of
  /// what they read beside the stored input, it passes one element for each index of that input's
  /// first dim (shape key `prologueStride`).
  SL_KERNEL_PROLOGUE = 1 << 4
} sl_kernel_properties;

/// How an external kernel is called. `inputs` and `outputs` are the operands of the problem in
/// order, in a layout that their facts name; the rule says which further arguments there are.
typedef struct sl_calling_rule {
  uint64_t size;
  /// names of the problem's attributes that `plan` receives; NULL: all except those that describe
  /// the target
  const char* const* attributes;
  int32_t attribute_count;
  /// 1: `plan` receives the result of `workspace` as attribute `workspace_bytes`
  int32_t tells_workspace;
} sl_calling_rule;

/// One kernel. Two kinds: an *emitted* one (entry == NULL) names a template family under
/// codegen/kernels that the printer instantiates; an *external* one has entry points in a library.
/// All function pointers may be NULL unless said.
typedef struct sl_kernel_desc {
  uint64_t size;
  const char* name;     ///< "native.gemm", "onednn.inner_product"
  const char* backend;  ///< "native", "onednn", ...
  const char* op;       ///< the op of the problems that it solves
  const char* family;   ///< emitted: template name ("gemm"); external: ""
  const char* summary;  ///< one line for `explain`
  /// 1: it takes the problem. 0: it does not, and `reason` says why, with both values. -1: the
  /// same, but the refusal is obvious (another dtype), so it is reported only to a caller that
  /// asked for this kernel. Required.
  int32_t (*accepts)(const sl_problem* problem, char* reason, size_t reason_bytes);
  /// Estimated microseconds for one run. Required.
  double (*cost)(const sl_problem* problem);
  /// Bytes of arena that one run needs beside its operands.
  int64_t (*workspace)(const sl_problem* problem);
  const sl_tunable* tunables;
  int32_t tunable_count;
  uint64_t tunable_stride;  ///< bytes from one tunable to the next
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
  // `constants` and `inputs` have one element per input of the problem, in order; plan reads only
  // the constant ones. A problem with `sizes` > 0 has one more element in `inputs`: a const
  // int64_t[sizes] with numbers that are known at the call.
  const char* plan_symbol;
  void* plan;
  const char* run_symbol;
  void* run;
  void (*destroy)(void* handle);
  /// What a user should know when it is chosen, in words for `explain`, such as a lower accuracy
  /// than that of a plain sum. NULL: nothing.
  void (*note)(const sl_problem* problem, char* text, size_t text_bytes);
  /// How many settings of the tunables are worth a measurement; `cost`, `workspace`, `tune` and
  /// `note` describe number `problem->variant`. Two numbers may give equal tunables. NULL: one.
  int32_t (*variants)(const sl_problem* problem);
  /// 1: a candidate wherever the program runs (the problem says where), not only on the backend's
  /// own device
  int32_t any_device;
  // Facts for passes, which never refer to a kernel by name.
  uint32_t properties;  ///< sl_kernel_properties
  const sl_operand_facts* operands;
  int32_t operand_count;
  uint64_t operand_stride;  ///< bytes from the facts of one operand to the next
  const sl_epilogue* epilogues;
  int32_t epilogue_count;
  uint64_t epilogue_stride;  ///< bytes from one epilogue to the next
  /// Elements around input `operand` that must be zero: widths[2 * dim] before and
  /// widths[2 * dim + 1] after it, SL_MAX_RANK dims; the caller passes zeros. NULL: none.
  void (*border)(const sl_problem* problem, int32_t operand, int64_t* widths);
  /// The registry's op for several problems of this kernel that share their first input and are
  /// solved by one kernel. NULL: none.
  const char* group_op;
  const sl_calling_rule* rule;  ///< external; NULL: all fields have their defaults
} sl_kernel_desc;

/// One launch on a device with machine code of its own. Without blocks nothing is launched, but a
/// graph records the node.
typedef struct sl_grid {
  uint64_t size;
  int64_t blocks;
  int32_t threads;       ///< of one block
  int32_t shared_bytes;  ///< in addition to what the kernel declares
} sl_grid;

/// A device, in numbers. Fields that are 0 are unknown, and the default in brackets holds.
typedef struct sl_device_properties {
  uint64_t size;
  const char* name;       ///< for people ("Simulated accelerator"); lives as long as the process
  uint64_t memory_bytes;  ///< of the device's own memory
  int32_t vector_bytes;   ///< of a core's vectors, for which kernels are written [32]
  int64_t l1_bytes;       ///< [32 KiB]
  int64_t l2_bytes;       ///< [1 MiB]
  double start_us;        ///< of starting a kernel, for estimates [1]
  double bytes_per_us;    ///< of copies between host and device, for estimates [10,000]
} sl_device_properties;

/// A file that a unit includes, by the name that stands in its #include.
typedef struct sl_source_file {
  const char* name;  ///< "straightline/kernels/gemm.h"
  const char* text;
} sl_source_file;

/// Kernels for a device's compiler: one unit of C++20 with the vector extensions of clang
/// (vector_size, __builtin_shufflevector, __builtin_elementwise_*), freestanding: what it includes
/// stands in `headers`, and it calls no function but memcpy, memset and memmove.
///
/// Of each kernel that is started by name ("gemm_64x64") the unit has
///
///   extern "C" void gemm_64x64_start(sl_ctx* ctx, sl_team team, void* const* arguments);
///
/// where arguments[i] is the address of the i-th argument that `start` got, 8 bytes each: an
/// address of the device, or an int64_t. `ctx` is one of the device's own (zeroed, with its size):
/// a kernel that finds a bad index sets its status (sl_status) and detail. The team is
/// {NULL, 0, 1}.
typedef struct sl_device_source {
  uint64_t size;
  const char* name;  ///< of the unit, for messages
  const char* text;
  const char* machine;  ///< what stands after the name in target="sim:v2": "v2", or ""
  const sl_source_file* headers;
  int32_t header_count;
  uint64_t header_stride;  ///< bytes from one header to the next
} sl_device_source;

/// What random numbers are drawn from.
typedef enum sl_random_kind {
  SL_RANDOM_UNIFORM = 0,  ///< floats from [0, 1)
  SL_RANDOM_NORMAL = 1,   ///< floats of mean 0 and deviation 1
  SL_RANDOM_BITS = 2      ///< integers of all bits
} sl_random_kind;

/// Memory and queues of a backend with its own address space or its own order of execution. Host
/// code never dereferences an address of a space whose `host_access` is 0. One description serves
/// all devices of its kind, numbered from 0: a function that makes an object takes the number, and
/// the object keeps it. Thread rules: every function may be called from any thread.
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
  /// device whose queues cannot run host functions calls the entry at once; the entry then enqueues
  /// its own work (see sl_cuda_stream).
  int32_t (*launch)(void* queue, sl_ctx* ctx, void* entry, void* const* pointers,
                    int32_t pointer_count, const int64_t* scalars, int32_t scalar_count);
  int32_t (*copy)(void* queue, sl_ctx* ctx, void* destination, const char* destination_space,
                  const void* source, const char* source_space, size_t bytes);
  /// an event that fires when the queue has passed this point
  void* (*record)(void* queue);
  /// later work of the queue starts after the event, which may be one of another of its devices
  void (*wait)(void* queue, void* event);
  /// blocks the calling host thread until the event has fired
  void (*synchronize)(void* event);
  /// legal while waits for it are enqueued
  void (*event_destroy)(void* event);
  /// 1 when the event has fired; never blocks
  int32_t (*query)(void* event);
  // Devices with machine code of their own; NULL: launch calls host functions. `reason` receives a
  // message when the status is not SL_OK.
  int32_t (*load)(int32_t device, const sl_device_code* code, void** kernel, char* reason,
                  size_t reason_bytes);
  void (*unload)(void* kernel);
  /// Enqueues `kernel`; arguments[i] is the address of its i-th argument, read before this returns.
  int32_t (*start)(void* queue, sl_ctx* ctx, void* kernel, const sl_grid* grid,
                   void* const* arguments);
  /// Makes a queue over the caller's own one; queue_destroy leaves that alone. NULL: not
  /// supported.
  void* (*queue_adopt)(int32_t device, void* native);
  int32_t independent;  ///< 1: enqueued work never touches its sl_ctx
  // A device that lacks one of the following features has NULL there.
  /// Number of the order in which `queue` runs its work: two queues have the same number only where
  /// they are the same queue, and no later queue gets it again. 0: it has none.
  uint64_t (*queue_order)(void* queue);
  /// 1: what is enqueued now does not run but becomes part of a graph that the caller captures.
  int32_t (*queue_captured)(void* queue);
  /// Moves an event of this device: it fires when the queue has passed this point, no longer at the
  /// point before. 0: failed.
  int32_t (*record_again)(void* queue, void* event);
  /// Blocks until everything that was enqueued on any queue of the device has finished.
  void (*finish)(int32_t device);
  // A whole run as one launch: a queue that collects the launches and copies of a run (destroyed by
  // `queue_destroy`). One run at a time: graph_begin names the queue on which the run will be
  // launched, graph_launch launches it there. A copy to the host launches what the run has
  // collected so far; the rest of the run is not collected.
  void* (*graph_create)(int32_t device);
  int32_t (*graph_begin)(void* graph, sl_ctx* ctx, void* queue);
  int32_t (*graph_launch)(void* graph, sl_ctx* ctx);
  /// Launches again on `queue` what the last run collected and launched: 1. 0: that graph is no
  /// longer known, and the run has to be collected again.
  int32_t (*graph_again)(void* graph, sl_ctx* ctx, void* queue);
  /// Why the device of this number cannot be used, as text that lives as long as the process; NULL:
  /// it can.
  const char* (*missing)(int32_t device);
  /// Begins step `number` of the run that a graph collects: the work enqueued from here on runs
  /// after the steps `after` (queue.h: sl_queue_step).
  void (*graph_step)(void* graph, int32_t number, const int32_t* after, int32_t count);
  /// How well machine code for `target` ("cuda:sm_90"; "cuda:compute_80" is text that the driver
  /// compiles) runs on the device of this number: the more, the better; 0: not at all, and `reason`
  /// receives what the device is. The device can be used (`missing`).
  int32_t (*fits)(int32_t device, const char* target, char* reason, size_t reason_bytes);
  // Of plug-ins (docs/guides/device.md). A feature that a device lacks is NULL.
  /// How many devices there are, numbered from 0. NULL: one.
  int32_t (*count)(void);
  /// Fills what is known; `properties` arrives zeroed, with its size.
  void (*properties)(int32_t device, sl_device_properties* properties);
  /// Compiles kernels of ours for the device, in a process that need not have one. Calls
  /// give(user, image, bytes) once with code that `load` takes (sl_device_code.image), which is
  /// copied. Returns sl_status; `reason` has the compiler's own words. Any thread, several at once.
  int32_t (*compile)(const sl_device_source* source,
                     void (*give)(void* user, const void* image, uint64_t bytes), void* user,
                     char* reason, size_t reason_bytes);
  /// Version of the compiler: images are kept in a cache under it, the unit's text and the machine.
  /// Lives as long as the process. Required with `compile`.
  const char* (*compiler)(void);
  /// Memory of the host from and to which a copy runs beside the host (pinned). NULL when out of
  /// memory.
  void* (*allocate_host)(int32_t device, size_t bytes, size_t alignment);
  void (*deallocate_host)(int32_t device, void* address, size_t bytes);
  /// As `record`; the event keeps when it fired.
  void* (*record_timed)(void* queue);
  /// From the one to the other, both fired and timed.
  double (*elapsed_ms)(void* first, void* second);
  /// Enqueues filling `count` elements at `address` with random numbers, which `seed` and `offset`
  /// alone determine.
  int32_t (*random)(void* queue, sl_ctx* ctx, int32_t kind, sl_dtype dtype, void* address,
                    int64_t count, uint64_t seed, uint64_t offset);
  /// By how much the offset grows for `count` elements. Required with `random`.
  uint64_t (*random_step)(int32_t kind, sl_dtype dtype, int64_t count);
  /// Tells the first failure of what the queue has run since it was last asked: writes it to `ctx`
  /// (sl_plugin_fail) and returns its sl_status. SL_OK: nothing failed so far. Never blocks. Asked
  /// behind each run, which has waited for the queue where results are in host memory. NULL:
  /// failures come by the sl_ctx of each start, or by later calls.
  int32_t (*failure)(void* queue, sl_ctx* ctx);
} sl_device_desc;

/// What `straightline_backend_v1` of a shared library (a plug-in) returns, and what built-in
/// backends pass to the registry. It lives as long as the process: a plug-in is never unloaded.
typedef struct sl_backend_desc {
  uint64_t size;
  uint32_t abi_version;  ///< SL_KERNEL_ABI_VERSION
  const char* name;
  const sl_kernel_desc* kernels;
  int32_t kernel_count;
  const sl_device_desc* device;  ///< NULL: runs in host memory on the caller's team
  /// name of the backend on whose device's queues its kernels run; NULL: its own
  const char* runs_on;
  uint64_t kernel_stride;  ///< bytes from one kernel to the next; 0: the size of the first one
  /// What it calls, with its version ("oneDNN 3.5.0"). NULL, or a result NULL: it has none.
  const char* (*version)(void);
  /// Why none of its kernels can run in this process ("cuDNN is missing: ..."). NULL, or a result
  /// NULL: they can. Results of both live as long as the process.
  const char* (*missing)(void);
  /// Rules by which its kernels get ops unless the user has other ones, a line each as in a file of
  /// rules (docs/reference/options.md#routes). NULL: none.
  const char* default_routes;
} sl_backend_desc;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // STRAIGHTLINE_ABI_KERNEL_H
