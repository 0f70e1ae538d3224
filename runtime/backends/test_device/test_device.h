// SPDX-License-Identifier: Apache-2.0
// A device for tests: its own address space, and a worker that runs late. It is made to punish what
// a real device would only sometimes punish: host code that touches a device address faults, and
// work that nobody waited for has not run.
//
// There are two, numbers 0 and 1, and neither takes an address of the other.
//
// Memory of each is one memfd mapped twice. The device address (what `allocate` gives) is
// PROT_NONE; the worker uses the other mapping, at the same offset. Fresh and freed memory is all
// bits set: NaN as floats, -1 as integers.
#ifndef STRAIGHTLINE_RUNTIME_BACKENDS_TEST_DEVICE_H
#define STRAIGHTLINE_RUNTIME_BACKENDS_TEST_DEVICE_H

#include "straightline/abi/straightline.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Backend and memory space are both named "test_device". Give it to sl_backend_register.
SL_API const sl_backend_desc* straightline_backend_v1(void);

/// Every item of every queue starts at least this long after it was enqueued (2,000 at the start).
/// Any thread.
SL_API void sl_test_device_set_delay(int64_t microseconds);

/// While held (1) no item of any queue starts, however late it is; items wait until released (0).
/// Any thread.
SL_API void sl_test_device_hold(int32_t held);

/// 1: kernels of programs that are made from now on are told to leave their sl_ctx alone, as those
/// of a GPU do, so that a frame may be used again in the order of one queue; 0 at the start.
SL_API void sl_test_device_set_independent(int32_t independent);

/// Bytes allocated at this moment, and items executed since the process started.
SL_API size_t sl_test_device_live_bytes(void);
SL_API size_t sl_test_device_live_bytes_on(int32_t device);
SL_API int64_t sl_test_device_executed(void);

/// The worker's address for a device address (tests look at device memory with it), NULL when it is
/// not one.
SL_API void* sl_test_device_translate(void* device_address);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // STRAIGHTLINE_RUNTIME_BACKENDS_TEST_DEVICE_H
