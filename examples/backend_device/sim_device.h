// SPDX-License-Identifier: Apache-2.0
// What tests do with the simulated device. Backend and memory space are both named "sim"; the
// devices have the numbers 0 and 1. Environment, read once: SIM_DEVICE_DELAY_US and SIM_DEVICE_SEED
// (sim_device_set_delay), SIM_DEVICE_MEMORY (bytes, sim_device_set_limit), SIM_DEVICE_CXX (the
// clang++ that compiles kernels), SIM_DEVICE_OPTIMIZE (-O2 where nothing is said). Any thread.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Each item of a queue starts a random time of up to so many microseconds after it was enqueued.
/// The times of a queue are determined by the seed, the queue's number and the item's. 0: at once.
void sim_device_set_delay(int64_t microseconds, uint64_t seed);
/// While held (1) no item of any queue starts.
void sim_device_hold(int32_t held);
/// Allocations beyond so many bytes fail (4 GiB at the start).
void sim_device_set_limit(int32_t device, uint64_t bytes);
/// Bytes allocated at this moment, in whole granules of 256.
uint64_t sim_device_live_bytes(int32_t device);
/// Bytes of pinned host memory allocated at this moment.
uint64_t sim_device_pinned_bytes(void);
/// Items that all queues have run since the process started.
int64_t sim_device_executed(void);

#ifdef __cplusplus
}  // extern "C"
#endif
