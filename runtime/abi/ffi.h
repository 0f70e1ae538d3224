// SPDX-License-Identifier: Apache-2.0
// A model as a function of other systems: an op of torch (its stable C shim, 2.10 and later) and a
// function of TVM-FFI. Nothing is linked: both are found by name in the running process. Emitted
// text includes this file, so it is freestanding.
#ifndef STRAIGHTLINE_ABI_FFI_H
#define STRAIGHTLINE_ABI_FFI_H

#include "straightline/abi/model.h"
#include "straightline/abi/own_kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sl_ffi_kind {
  SL_FFI_TENSOR = 0,   ///< input number `index` of the model
  SL_FFI_TENSORS = 1,  ///< a list: inputs `index` to `index + count - 1`
  SL_FFI_INT = 2,      ///< the numbers and texts are compared with what was compiled
  SL_FFI_FLOAT = 3,
  SL_FFI_BOOL = 4,
  SL_FFI_TEXT = 5
} sl_ffi_kind;

typedef struct sl_ffi_argument {
  const char* name;
  int32_t kind;  ///< sl_ffi_kind
  int32_t index;
  int32_t count;
  int32_t updated;  ///< 1: a call writes the tensors
  int64_t integer;  ///< SL_FFI_INT and SL_FFI_BOOL
  double real;      ///< SL_FFI_FLOAT
  const char* text;
} sl_ffi_argument;

/// Arguments in the order of a call; inputs are numbered by the model's programs, which all have
/// this signature. A function has a copy of it.
typedef struct sl_ffi_signature {
  uint64_t size;     ///< sizeof(sl_ffi_signature)
  const char* name;  ///< in messages ("mylib::forward")
  const sl_ffi_argument* arguments;
  int32_t argument_count;
  int32_t input_count;  ///< of the model
  /// results of the model, by number, in the order in which a call gives them
  const int32_t* results;
  int32_t result_count;
  int32_t model_result_count;
} sl_ffi_signature;

/// A function whose model may be exchanged while calls run; counted by reference.
typedef struct sl_ffi_function sl_ffi_function;

/// Takes over `model`. User error: the signature does not fit the model.
SL_API int32_t sl_ffi_create(const sl_ffi_signature* signature, sl_model* model,
                             sl_ffi_function** out, sl_message* message);
/// The same over a model that is linked into the process, and that is loaded when the function is
/// first called.
SL_API int32_t sl_ffi_create_linked(const sl_ffi_signature* signature,
                                    const sl_linked_model* linked, sl_ffi_function** out,
                                    sl_message* message);
/// Calls that begin later take this model, which is taken over; NULL: they fail and say that the
/// function is gone. Those that run keep the one that they began with. Any thread.
SL_API int32_t sl_ffi_publish(sl_ffi_function* function, sl_model* model, sl_message* message);
SL_API void sl_ffi_retain(sl_ffi_function* function);
SL_API void sl_ffi_release(sl_ffi_function* function);
/// How many calls hold the present model, or, after one that is NULL, the last one. Any thread.
SL_API int32_t sl_ffi_running(sl_ffi_function* function);
/// How many calls have found no model and failed. Any thread.
SL_API int64_t sl_ffi_refused(sl_ffi_function* function);

// torch -------------------------------------------------------------------------------------------

/// A boxed kernel of torch's stable C shim. Its fourth parameter is not given by torch: it is there
/// so that a trampoline has the prototype of what it jumps to.
typedef void (*sl_torch_kernel)(uint64_t* stack, uint64_t arguments, uint64_t results,
                                void* unused);

/// What such a kernel does. Fails by torch's own exception.
SL_API void sl_ffi_torch_call(uint64_t* stack, uint64_t arguments, uint64_t results,
                              void* function);
/// The same for tensors without memory: results of the right sizes on the device "meta".
SL_API void sl_ffi_torch_meta(uint64_t* stack, uint64_t arguments, uint64_t results,
                              void* function);

/// Registers `space`::`schema` ("forward(Tensor x) -> Tensor") with `kernel` for the dispatch key
/// `key` ("CPU", "CUDA") and `meta` (nullable) for "Meta". `out` is what sl_ffi_torch_unregister
/// takes. User error: torch is not in this process, or refuses (the name is taken).
SL_API int32_t sl_ffi_torch_register(const char* space, const char* schema, const char* key,
                                     sl_torch_kernel kernel, sl_torch_kernel meta, void** out,
                                     sl_message* message);
SL_API void sl_ffi_torch_unregister(void* registered);

// programs of ours --------------------------------------------------------------------------------

/// What a program calls in place of an op of torch that is a function: a kernel of the user's
/// (own_kernel.h). `inputs` are by the numbers of the model's, row-major, on the model's device;
/// `results`, in the order of a call, have memory of the right sizes. `stream`: of a device, where
/// the work is enqueued. 0, or another number with `message`, of SL_KERNEL_MESSAGE_BYTES.
SL_API int32_t sl_ffi_program_call(sl_ffi_function* function, const sl_kernel_tensor* const* inputs,
                                   const sl_kernel_tensor* const* results, void* stream,
                                   char* message);

// TVM-FFI -----------------------------------------------------------------------------------------

/// TVM-FFI's safe call: `function` is an sl_ffi_function, `arguments` TVMFFIAny[count], `result` a
/// TVMFFIAny. Results are made by the environment's allocator, or by ours where there is none; or
/// the caller gives destinations behind the arguments. 0, or -1 with an error of TVM-FFI set.
SL_API int sl_ffi_tvm_call(void* function, const void* arguments, int32_t count, void* result);
/// The same of a function whose model has slots: the first argument is a text, "linear = onednn"
/// (sl_model_with_slots), and the function's own are behind it. A choice that is new makes a model
/// over the same code and weights; later calls with the same text find it.
SL_API int sl_ffi_tvm_call_with_slots(void* function, const void* arguments, int32_t count,
                                      void* result);
/// Makes a Function object of TVM-FFI, which holds a reference to `function`; the caller owns it.
SL_API int32_t sl_ffi_tvm_function(sl_ffi_function* function, void** out, sl_message* message);
/// Makes it known to TVM-FFI under a global name; user error: libtvm_ffi is not in this process.
SL_API int32_t sl_ffi_tvm_global(sl_ffi_function* function, const char* name, sl_message* message);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // STRAIGHTLINE_ABI_FFI_H
