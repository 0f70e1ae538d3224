// SPDX-License-Identifier: Apache-2.0
// How a kernel that may start before the previous kernel of its stream has ended waits for that one
// (CUDA, "Programmatic Dependent Launch"). Before sm_90 no kernel starts early, and these functions
// do nothing.
#ifndef STRAIGHTLINE_KERNELS_CUDA_PREVIOUS_H
#define STRAIGHTLINE_KERNELS_CUDA_PREVIOUS_H

namespace sl {

/// Waits until the previous kernel has ended and its writes are visible, then allows the next
/// kernel to start. Every thread of a kernel that may start early (sl_device_code.waits) calls this
/// or letNextComeAndAwaitPrevious() before it reads or writes anything that the run writes; its own
/// workspace it may write before, which then shares memory with nothing of the run.
SL_INLINE void awaitPrevious() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
/// The same in the opposite order, for a kernel that has requested much data before: the next
/// kernel may start, and request its own, while this one waits.
SL_INLINE void letNextComeAndAwaitPrevious() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_CUDA_PREVIOUS_H
