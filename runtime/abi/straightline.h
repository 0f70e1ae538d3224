// SPDX-License-Identifier: Apache-2.0
// The runtime's public C ABI (docs/reference/c.md). Four objects: Program, Weights, Frame, Queue;
// one call: sl_run. No function throws; each that can fail returns sl_status and writes a message.
// Each declaration states its thread rules.
#ifndef STRAIGHTLINE_ABI_STRAIGHTLINE_H
#define STRAIGHTLINE_ABI_STRAIGHTLINE_H

#include "straightline/abi/entry.h"
#include "straightline/abi/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef SL_API
#define SL_API __attribute__((visibility("default")))
#endif

/// code and plan; immutable; reference-counted; shared between threads
typedef struct sl_program sl_program;
/// parameters and prepared data; reference-counted; immutable once prepared
typedef struct sl_weights sl_weights;
typedef struct sl_frame sl_frame;  ///< arenas of one call
typedef struct sl_queue sl_queue;  ///< a CPU team, or a stream of a device

/// A message of at most this many bytes, always terminated.
typedef struct sl_message {
  char text[1024];
} sl_message;

/// A borrowed tensor in DLPack's terms. `strides` in elements; NULL means row-major contiguous.
typedef struct sl_tensor {
  void* data;
  const int64_t* shape;
  const int64_t* strides;
  int32_t rank;
  sl_dtype dtype;
  int32_t device_type;  ///< DLDeviceType: 1 CPU, 2 CUDA, ...
  int32_t device_id;
} sl_tensor;

/// Executes a phase (0 prepare, 1 run) instead of the program's own code. The runtime calls it
/// once, on the calling thread, between the checks and the clean-up of a run. bindings->queues[0]
/// is the caller's team. A failure is written to `ctx`; returns sl_status.
typedef struct sl_executor {
  uint64_t size;
  int32_t (*execute)(void* user, const sl_program* program, int32_t phase, sl_ctx* ctx,
                     const sl_bindings* bindings);
  void* user;
} sl_executor;

/// The per-op interpreter: walks the statement table and, for each statement, looks up its kernel
/// by name, checks the operands and allocates the results, as frameworks do. It calls the same
/// kernels, so results are equal bit by bit.
SL_API const sl_executor* sl_interpreter(void);

/// Makes a program of the description (which must outlive it) after checking size and abi_version.
/// `release(user)` is called when the last reference is dropped; it frees code and description.
/// SL_INVALID_ARGUMENT names both versions when they differ.
SL_API int32_t sl_program_create(const sl_program_desc* desc, void (*release)(void*), void* user,
                                 sl_program** out, sl_message* message);
/// The same on device number `device` of the kind that the program targets; one program's code
/// serves all of them. A program for the host has number 0.
SL_API int32_t sl_program_create_on(const sl_program_desc* desc, int32_t device,
                                    void (*release)(void*), void* user, sl_program** out,
                                    sl_message* message);
/// The number of the device that holds the program, its weights, frames and tensors.
SL_API int32_t sl_program_device(const sl_program* program);
SL_API void sl_program_retain(sl_program* program);
SL_API void sl_program_release(sl_program* program);
SL_API const sl_program_desc* sl_program_description(const sl_program* program);

/// Runs `prepare` over the parameters (data pointers in the order of the description; borrowed:
/// `release(user)` is called when the weights are destroyed, so the caller can keep storage alive).
/// Blocks until prepared.
SL_API int32_t sl_weights_create(sl_program* program, void* const* parameters,
                                 void (*release)(void*), void* user, sl_weights** out,
                                 sl_message* message);
/// The same, with another executor for prepare; NULL: the program's own code.
SL_API int32_t sl_weights_create_by(sl_program* program, void* const* parameters,
                                    const sl_executor* executor, void (*release)(void*), void* user,
                                    sl_weights** out, sl_message* message);
/// Weights of one of several programs over one set of prepared data: programs that were compiled
/// one after the other, each with the buffers of those before it (slots).
typedef struct sl_shared_weights {
  uint64_t size;  ///< sizeof(sl_shared_weights)
  /// weights of the program before this one, over the same parameters; NULL: this is the first
  sl_weights* before;
  /// of the first: all that will share its memory, itself included, which is as large as the
  /// largest needs
  sl_program* const* programs;
  int32_t program_count;
  int32_t reserved;
} sl_shared_weights;

/// As sl_weights_create_by, over shared data: prepare adds to what the programs before it made, and
/// the memory is freed with the last of the weights. No call of any of the programs may run
/// meanwhile. User error: `before` has less memory than the program needs, or is on another device.
SL_API int32_t sl_weights_create_shared(sl_program* program, void* const* parameters,
                                        const sl_executor* executor,
                                        const sl_shared_weights* shared, void (*release)(void*),
                                        void* user, sl_weights** out, sl_message* message);
/// The same without running prepare, over data that another set of the same program had: `prepared`
/// and `bytes` have an element a memory space. Data of the host is used where it lies, so that
/// processes that map one file share it; it is released with the parameters. Data for a device is
/// copied there. Unsupported: prepare makes library handles too.
SL_API int32_t sl_weights_create_prepared(sl_program* program, void* const* parameters,
                                          const void* const* prepared, const size_t* bytes,
                                          void (*release)(void*), void* user, sl_weights** out,
                                          sl_message* message);
/// Copies the prepared data of a memory space, as many bytes as the description says, to memory of
/// the host. Unsupported: prepare made library handles too.
SL_API int32_t sl_weights_read_prepared(const sl_weights* weights, int32_t space, void* to,
                                        sl_message* message);
SL_API void sl_weights_retain(sl_weights* weights);
SL_API void sl_weights_release(sl_weights* weights);
/// Bytes of prepared data that these weights hold themselves: 0 where another's are shared.
SL_API size_t sl_weights_prepared_bytes(const sl_weights* weights);

/// The process's shared team of `threads` members (including the caller); made on first use, kept
/// for the life of the process, made again in the child after a fork. A team runs one program at a
/// time; a second caller runs alone, on its calling thread, and never waits.
SL_API int32_t sl_queue_team(int32_t threads, sl_queue** out, sl_message* message);
/// A queue of device number `device` of a registered backend. Destroying it waits for its enqueued
/// work.
SL_API int32_t sl_queue_create(const char* backend, int32_t device, sl_queue** out,
                               sl_message* message);
/// A queue over the caller's own one: a stream of device number `device`. Releasing it leaves the
/// stream alone.
SL_API int32_t sl_queue_adopt(const char* backend, int32_t device, void* native, sl_queue** out,
                              sl_message* message);
SL_API void sl_queue_release(sl_queue* queue);
/// The queue on which this thread uses device number `device` of a plug-in's backend: the device's
/// default one, which is made on first use and kept for the life of the process, or the one that
/// the thread has chosen. It is not the caller's to release. Any thread.
SL_API int32_t sl_queue_current(const char* backend, int32_t device, sl_queue** out,
                                sl_message* message);
/// This thread's uses of the queue's device are on `queue` from now on, up to the next such call;
/// NULL with the device named: on its default queue again. The caller keeps the queue alive.
SL_API void sl_queue_choose(const char* backend, int32_t device, sl_queue* queue);
/// What the device's own functions (sl_device_desc) take as `queue`; NULL for a team.
SL_API void* sl_queue_handle(const sl_queue* queue);
/// Number of the order in which the queue's work runs: work that is enqueued later on a queue with
/// the same number runs after it. A team has one, too. 0: there is none, or the caller captures the
/// queue's stream, so that the work runs whenever the captured graph does.
SL_API uint64_t sl_queue_order(const sl_queue* queue);

/// 1: the caller captures the queue's stream, so enqueued work runs only when the caller launches
/// the captured graph.
SL_API int32_t sl_queue_captured(const sl_queue* queue);

/// Leases a frame large enough for these extents; lock-free when the pool has one, allocates
/// otherwise.
SL_API int32_t sl_frame_lease(sl_program* program, const int64_t* extents, sl_frame** out,
                              sl_message* message);
/// How a run's kernels reach a device's queue.
typedef enum sl_launch {
  SL_LAUNCH_STREAM = 0,  ///< one by one
  SL_LAUNCH_GRAPH = 1    ///< a run, or each part of it, as a graph; see sl_program_graph_nodes
} sl_launch;

/// The same for a run on `queue` with this launch. It may return a frame whose last run on this
/// very queue has not finished: the new run comes after it. The caller may be capturing the work of
/// `queue`; then the frame belongs to the captured graph until the program is destroyed.
SL_API int32_t sl_frame_lease_on(sl_program* program, sl_queue* queue, int32_t launch,
                                 const int64_t* extents, sl_frame** out, sl_message* message);
/// Returns the frame to the pool once every queue has passed its last use (never blocks).
SL_API void sl_frame_return(sl_frame* frame);
SL_API size_t sl_frame_bytes(const sl_frame* frame);

typedef struct sl_args {
  uint64_t size;
  void* const* inputs;   ///< data pointers, checked before by sl_program_guard
  void* const* outputs;  ///< data pointers of fresh outputs
  /// values of the named extents; in: as sl_program_guard gives them, out: also the computed ones
  int64_t* extents;
  const sl_executor* executor;  ///< NULL: the program's own code
  int32_t launch;               ///< sl_launch
} sl_args;

/// Compares tensors with the compiled signature: dtype, device, rank, sizes, strides (strides of
/// size-1 dims and of empty tensors are never compared). Fills `extents`, computed ones with their
/// bounds, which the results are allocated for. On a mismatch returns
/// SL_INVALID_ARGUMENT with a message that names the input, both values and how to compile for it.
/// No allocation on success.
SL_API int32_t sl_program_guard(const sl_program* program, const sl_tensor* inputs, int32_t count,
                                int64_t* extents, sl_message* message);

/// Sizes and strides (elements) of result `i` for these extents; arrays have SL_MAX_RANK places.
/// Offset (bytes) is relative to the data of `root` for aliases, 0 for fresh outputs.
SL_API void sl_program_result(const sl_program* program, int32_t i, const int64_t* extents,
                              int64_t* shape, int64_t* strides, int64_t* offset_bytes);

/// How many kernels and copies a run has as a graph (those of a loop counted once). -1: it cannot
/// be launched as one, and the message says why.
SL_API int32_t sl_program_graph_nodes(const sl_program* program, sl_message* message);
/// The largest number of graphs that a run is launched as: one more than there are calls between
/// two of them (sl_queue_call).
SL_API int32_t sl_program_graph_parts(const sl_program* program);

/// Value of an expression over the named extents.
SL_API int64_t sl_expr_value(const sl_expr* expression, const int64_t* extents);

/// Addresses of the buffers `numbers` (NULL: of the first `count`) under these bindings; for a
/// handle in prepare, the address that receives it. NULL where a statement has to make the address
/// first: allocations, views at index values, and views of either.
SL_API void sl_program_addresses(const sl_program* program, int32_t phase,
                                 const sl_bindings* bindings, const int32_t* numbers, int32_t count,
                                 void** addresses);

/// Gives a computed extent its value: what statement number `statement` (SL_STATEMENT_EXTENT) does.
/// A value outside of the extent's bounds is a failure of the run; returns sl_status.
SL_API int32_t sl_program_set_extent(const sl_program* program, sl_ctx* ctx,
                                     const sl_bindings* bindings, int32_t statement, int64_t value);

/// Writes a message for the failure in `ctx`: the values, the op and its source location.
SL_API void sl_failure_message(const sl_program* program, const sl_ctx* ctx, sl_message* message);

/// As sl_failure_message; words of a check that name named extents are followed by their values.
SL_API void sl_failure_message_of_sizes(const sl_program* program, const sl_ctx* ctx,
                                        const int64_t* extents, sl_message* message);

/// Runs the program, or args->executor if given, on `queue`: a team, or a queue of the program's
/// device. Preconditions: `args` passed the guard; the frame was leased from `program` for the same
/// extents. Thread-safe: any number of concurrent calls with distinct frames. The message names
/// statement and source.
SL_API int32_t sl_run(const sl_program* program, const sl_weights* weights, sl_frame* frame,
                      sl_queue* queue, const sl_args* args, sl_ctx* ctx, sl_message* message);

/// Registers a backend (built-in ones register themselves). The description must live as long as
/// the process.
SL_API int32_t sl_backend_register(const sl_backend_desc* backend, sl_message* message);
SL_API int32_t sl_backend_count(void);
SL_API const sl_backend_desc* sl_backend_at(int32_t i);

/// Opens a plug-in, a shared library with `straightline_backend_v1`, and registers its backend. It
/// stays open until the process ends; the same file again gives the same backend. `backend` may be
/// NULL. Otherwise SL_INVALID_ARGUMENT, and the message names the file and what is wrong with it.
/// Any thread.
SL_API int32_t sl_backend_load(const char* path, const sl_backend_desc** backend,
                               sl_message* message);
/// Opens all plug-ins that STRAIGHTLINE_BACKEND_PATH names: files, or folders whose *.so are
/// plug-ins, with colons between them. A compilation does this first, and an artifact or a linked
/// model that calls what no backend has. Those that are open are not opened again.
SL_API int32_t sl_backend_search(sl_message* message);
/// The file that a backend was loaded from; NULL: it came another way, or there is none.
SL_API const char* sl_backend_file(const char* name);

/// Asks whether a kernel takes a problem (sl_kernel_desc.accepts), and if so what it costs. 1, 0
/// and -1 as there. -2: the kernel breaks a rule of kernel.h (it refuses without a reason, its cost
/// or workspace is no number from 0 on, it throws a C++ exception), and `reason` says which.
SL_API int32_t sl_kernel_ask(const sl_kernel_desc* kernel, const sl_problem* problem, double* cost,
                             char* reason, size_t reason_bytes);

/// Address of an extern "C" symbol that emitted text may call (sl_fail, library entry points...),
/// NULL when unknown.
SL_API void* sl_symbol(const char* name);

/// Whether the processor, and the operating system, have a feature by LLVM's name ("avx512f"): 1 or
/// 0; -1: no such name is known here.
SL_API int32_t sl_cpu_has(const char* feature);

/// Records a failure; the first one wins. Called by emitted code and kernels.
SL_API void sl_fail(sl_ctx* ctx, int32_t status, int64_t a, int64_t b, int64_t c);
/// As sl_fail, with a text (UTF-8, cut to SL_FAILURE_TEXT_BYTES) that becomes part of the message.
/// Only thread 0 of a team may call it.
SL_API void sl_fail_text(sl_ctx* ctx, int32_t status, const char* text);

typedef int32_t (*sl_plan_fn)(sl_ctx* ctx, const sl_problem* problem, const void* const* constants,
                              void** handle);
typedef int32_t (*sl_run_fn)(sl_ctx* ctx, sl_team team, void* handle, const void* const* inputs,
                             void* const* outputs, void* workspace);
// Kernels whose handle serves one run at a time (SL_KERNEL_EXCLUSIVE_HANDLE), called by emitted
// text in place of their own plan, run and destroy. What the program holds is a set of handles; a
// run takes an idle one, plans one if there is none, and puts it back. Lock-free.
/// Makes the set and its first handle. `problem` lives as long as the set.
SL_API int32_t sl_exclusive_plan(sl_ctx* ctx, const sl_problem* problem,
                                 const void* const* constants, void** handles, sl_plan_fn plan,
                                 void (*destroy)(void*));
/// Runs with one of the handles; any number of threads at once. `inputs` has the constants too.
SL_API int32_t sl_exclusive_run(sl_ctx* ctx, sl_team team, void* handles, const void* const* inputs,
                                void* const* outputs, void* workspace, sl_run_fn run);
/// Destroys the set with all its handles. No run is going on.
SL_API void sl_exclusive_destroy(void* handles);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // STRAIGHTLINE_ABI_STRAIGHTLINE_H
