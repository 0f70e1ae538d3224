// SPDX-License-Identifier: Apache-2.0
// How a compiled program calls a C function of yours (sl.c_kernel, docs/guides/own_kernels.md).
// This is the only header that such a function needs; nothing of ours is linked. C and C++.
//
// The function's arguments, in this order:
//
//   1. each argument of the schema, in its order:
//        Tensor, Tensor(a!)      const sl_kernel_tensor* x
//        Tensor?                 const sl_kernel_tensor* x       NULL where it is absent
//        Tensor[], Tensor(a!)[]  const sl_kernel_tensor* x, int64_t x_count
//        int, bool               int64_t                         bool: 0 or 1
//        float                   double
//        int[]                   const int64_t* x, int64_t x_count
//        float[]                 const double* x, int64_t x_count
//        str                     const char* x                   UTF-8, ends with a zero byte
//        dtype (ScalarType)      sl_dtype x                      by value
//   2. each result of the schema: const sl_kernel_tensor*, memory that the function fills
//   3. with workspace=: void* workspace, int64_t workspace_bytes; at least 64-byte aligned, and
//      nothing in it is kept from call to call
//   4. with stream=True: void* stream, a CUstream of the program's device, on which the function
//      enqueues its work without waiting for it; NULL in a program of the host
//   5. with status=True: char* message, room for SL_KERNEL_MESSAGE_BYTES
//
// It returns void; with status=True int32_t: 0, or any other number, which ends the run with an
// OpError that has the number and what was written to `message` (UTF-8, ends with a zero byte, ""
// when nothing was).
//
// Rules. Every tensor is row-major without gaps. The function writes results, and what the schema
// marks as updated (a!), and nothing else; all else is memory that other calls read at the same
// time. Results and updated tensors overlap nothing. Descriptions and memory are the function's for
// the call alone. It runs on one thread of the caller's; several runs may call it at once. A C++
// exception ends the run with an OpError that has its text; on a device what was enqueued stays.
#ifndef STRAIGHTLINE_ABI_OWN_KERNEL_H
#define STRAIGHTLINE_ABI_OWN_KERNEL_H

#include "straightline/abi/entry.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A tensor of one call.
typedef struct sl_kernel_tensor {
  void* data;              ///< element 0; of a device where the program runs there
  const int64_t* extents;  ///< [rank]; never NULL
  int32_t rank;            ///< at most 8
  sl_dtype dtype;          ///< DLPack's code and bits: float is {2, 32, 1}
} sl_kernel_tensor;

/// How many elements a tensor has.
static inline int64_t sl_kernel_tensor_count(const sl_kernel_tensor* tensor) {
  int64_t count = 1;
  for (int32_t dim = 0; dim < tensor->rank; ++dim) {
    count *= tensor->extents[dim];
  }
  return count;
}

/// Room for the message of a function with a status, the zero byte among it.
#define SL_KERNEL_MESSAGE_BYTES 512

#ifdef __cplusplus
#define SL_KERNEL_EXTERN_VISIBLE __attribute__((visibility("default")))
#define SL_KERNEL_EXTERN_C extern "C" SL_KERNEL_EXTERN_VISIBLE
#define SL_KERNEL_EXTERN SL_KERNEL_EXTERN_C
#else
#define SL_KERNEL_EXTERN_VISIBLE __attribute__((visibility("default")))
#define SL_KERNEL_EXTERN_C SL_KERNEL_EXTERN_VISIBLE
#define SL_KERNEL_EXTERN extern SL_KERNEL_EXTERN_C
#endif

/// Declares the function and exports what types its arguments have, so that sl.c_kernel can compare
/// them with the schema (a symbol by itself says nothing of types):
///
///   SL_KERNEL_FUNCTION(void, scale, const sl_kernel_tensor* x, double a,
///                      const sl_kernel_tensor* y) {
///     ...
///   }
///
/// The text is found as the symbol `<name>_signature`.
#define SL_KERNEL_FUNCTION(returned, name, ...)                   \
  SL_KERNEL_EXTERN const char name##_signature[];                 \
  const char name##_signature[] = #returned "(" #__VA_ARGS__ ")"; \
  SL_KERNEL_EXTERN_C returned name(__VA_ARGS__);                  \
  SL_KERNEL_EXTERN_C returned name(__VA_ARGS__)

/// A function that calls one of another library, which is registered, saved and opened with it,
/// finds that by two symbols beside it: `<name>_needs`, a text, the symbol of the other one, and
/// `<name>_given`, a void*, which has its address before `<name>` is called.
/// Emitted text cannot catch what a function throws. Where a library has the symbol
/// `<name>_guard`, a void*, it gets the address of an sl_kernel_guarded_call, by which it calls a
/// safe call of TVM-FFI.
#define SL_KERNEL_THREW (-2147483647)
/// What `function` returned; or SL_KERNEL_THREW, and the words in `message`.
typedef int32_t (*sl_kernel_guarded_call)(int32_t (*function)(void*, const void*, int32_t, void*),
                                          void* self, const void* arguments, int32_t count,
                                          void* result, char* message);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // STRAIGHTLINE_ABI_OWN_KERNEL_H
