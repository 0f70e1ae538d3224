// SPDX-License-Identifier: Apache-2.0
// Saved models in C: open a file, describe it, call it. No Python, no compiler.
//
//   sl_message message;
//   sl_model* model = NULL;
//   if (sl_model_load("mlp.sl", NULL, &model, &message) != SL_OK) { puts(message.text); ... }
//   sl_model_run(model, inputs, 1, outputs, 1, &message);
//   sl_model_release(model);
//
// Errors: each function that can fail returns sl_status and writes words to `message`, which may be
// NULL. Threads: a model is immutable; any number of threads may call one at once.
#ifndef STRAIGHTLINE_ABI_MODEL_H
#define STRAIGHTLINE_ABI_MODEL_H

#include "straightline/abi/artifact.h"

/// Grows when a function is added or a struct gets longer.
#define SL_MODEL_VERSION 3

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_model sl_model;
typedef struct sl_results sl_results;  ///< what a call made

/// All zero but `size`: the defaults.
typedef struct sl_model_options {
  uint64_t size;  ///< sizeof(sl_model_options)
  /// threads of a run at most; 0: as many as it was compiled for
  int32_t threads;
  int32_t device_type;  ///< DLDeviceType: 1 CPU, 2 CUDA; 0: what it was saved for
  int32_t device;       ///< number of the device
  uint32_t flags;       ///< SL_ARTIFACT_VERIFY
} sl_model_options;

/// What a library that `straightline compile --emit=shared-lib` made exports as sl_model_<name>.
typedef struct sl_linked_model {
  uint64_t size;  ///< sizeof(sl_linked_model)
  const char* name;
  const void* data;  ///< the artifact without its code
  uint64_t bytes;
  const sl_code* const* codes;
  int32_t code_count;
  int32_t reserved;
} sl_linked_model;

/// Opens a file or folder, maps code and weights and runs what prepares the weights, unless the
/// file has them prepared. `options` NULL: the defaults.
SL_API int32_t sl_model_load(const char* path, const sl_model_options* options, sl_model** out,
                             sl_message* message);
/// The same for a model that is linked into this process.
SL_API int32_t sl_model_load_linked(const sl_linked_model* linked, const sl_model_options* options,
                                    sl_model** out, sl_message* message);
/// A model over programs and weights that are there, a set for each; it takes a reference to each.
/// `sl_model_with_parameters` refuses it. From version 2 on.
SL_API int32_t sl_model_of_programs(const char* name, sl_program* const* programs,
                                    sl_weights* const* weights, int32_t count,
                                    const sl_model_options* options, sl_model** out,
                                    sl_message* message);
/// Another model over the same code, with the tensors of a safetensors file in place of its own;
/// those that the file does not have stay. States begin with the file's values. User error: names
/// every tensor that is unknown or of another dtype or shape.
SL_API int32_t sl_model_with_parameters(const sl_model* model, const char* path, sl_model** out,
                                        sl_message* message);
/// Another model over the same code, weights and states, whose calls take other kernels: `choice`
/// is "linear = onednn, convolution = native", slots that the model was compiled with (slots=) and
/// one of the targets of each; a slot that it does not name stays as it is. A model that is loaded
/// has the first target of each. User error: there is no such slot or target, and the message names
/// those that there are. From version 3 on.
SL_API int32_t sl_model_with_slots(const sl_model* model, const char* choice, sl_model** out,
                                   sl_message* message);
/// No call may be running. Results that were made stay valid; those that are views of states do
/// not.
SL_API void sl_model_release(sl_model* model);

/// A size of a tensor: `size` >= 0, or -1 and a text such as "batch" or "2 * n" with bounds.
typedef struct sl_model_size {
  int64_t size;
  int64_t min, max;
  const char* text;  ///< "" where it is a number; as long as the model
} sl_model_size;

typedef struct sl_model_tensor {
  uint64_t size;  ///< sizeof(sl_model_tensor), set by the caller
  const char* name;
  sl_dtype dtype;
  int32_t rank;
  sl_model_size shape[SL_MAX_RANK];
} sl_model_tensor;

/// Programs: one for each example that the model was compiled for. A call runs the first that its
/// inputs fit.
SL_API int32_t sl_model_program_count(const sl_model* model);
SL_API int32_t sl_model_input_count(const sl_model* model, int32_t program);
SL_API int32_t sl_model_output_count(const sl_model* model, int32_t program);
SL_API int32_t sl_model_input(const sl_model* model, int32_t program, int32_t i,
                              sl_model_tensor* out, sl_message* message);
SL_API int32_t sl_model_output(const sl_model* model, int32_t program, int32_t i,
                               sl_model_tensor* out, sl_message* message);
/// "mlp(x: float32[n, 64]) -> (float32[n, 10]), n from 1 to 1024", a line a program. Lives as long
/// as the model.
SL_API const char* sl_model_text(const sl_model* model);

/// Whether these inputs fit; `program` gets the number of the program that a call would run. User
/// error: the message says what differs.
SL_API int32_t sl_model_guard(const sl_model* model, const sl_tensor* inputs, int32_t count,
                              int32_t* program, sl_message* message);

/// Calls the model into memory of the caller: `outputs` have data, dtype, shape and strides, which
/// are compared. Allocates nothing once a call of these sizes has been made (up to 64 tensors). On
/// a device it returns when the results are there. No output may share memory with another or with
/// an input. User error: an input or output does not fit; a result's size depends on data (then use
/// sl_model_call).
SL_API int32_t sl_model_run(const sl_model* model, const sl_tensor* inputs, int32_t count,
                            const sl_tensor* outputs, int32_t output_count, sl_message* message);
/// Where the results of a call go, and where its work goes.
typedef struct sl_model_target {
  uint64_t size;  ///< sizeof(sl_model_target)
  /// Gives memory to result `i`: `result` has dtype, shape, strides and device; the function writes
  /// its `data`. Returns sl_status. Called once for each result, on the calling thread, before the
  /// run, or after it where a size depends on data.
  int32_t (*place)(void* user, int32_t i, sl_tensor* result, sl_message* message);
  void* user;
  /// of a model for a device: 1: its work is enqueued on `stream` and not waited for
  int32_t on_stream;
  /// 1: nothing runs, and no data is read: `place` is called for each result, whose sizes must not
  /// depend on data
  int32_t plan_only;
  void* stream;
} sl_model_target;

/// Calls the model with memory for its results from `target`. A result that is a view of something
/// is copied: results share memory with nothing. An input that the program updates may share
/// memory with no other input. From version 2 on.
SL_API int32_t sl_model_call_into(sl_model* model, const sl_tensor* inputs, int32_t count,
                                  const sl_model_target* target, sl_message* message);
/// Whether the model updates input `i` of a program in place: 1 or 0.
SL_API int32_t sl_model_updates(const sl_model* model, int32_t program, int32_t i);

/// Calls the model and makes its results: fresh memory, or views of an input or of a state.
SL_API int32_t sl_model_call(const sl_model* model, const sl_tensor* inputs, int32_t count,
                             sl_results** out, sl_message* message);
SL_API int32_t sl_results_count(const sl_results* results);
/// Borrowed from `results`.
SL_API const sl_tensor* sl_results_tensor(const sl_results* results, int32_t i);
SL_API void sl_results_release(sl_results* results);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // STRAIGHTLINE_ABI_MODEL_H
