// SPDX-License-Identifier: Apache-2.0
// Kernels that the device brings itself: linear (with bias and ReLU), relu and softmax, float32.
#pragma once

#include "queue.h"
#include "straightline/abi/plugin.h"

namespace sim {

extern const sl_kernel_desc kKernels[];
extern const int32_t kKernelCount;

/// The queue on which `launch` calls an entry at this moment on this thread; NULL: none.
Queue*& launchingQueue();

}  // namespace sim
