// SPDX-License-Identifier: Apache-2.0
// How a kernel that may start early waits for the one ahead of it (from sm_90 on; CUDA,
// "Programmatic Dependent Launch").
#ifndef STRAIGHTLINE_KERNELS_CUDA_PREVIOUS_H
#define STRAIGHTLINE_KERNELS_CUDA_PREVIOUS_H

namespace sl {

/// What a kernel that may be launched before the one ahead of it has ended does before it touches
/// anything that the run writes (sl_device_code.waits): waits until the one ahead has ended and all
/// that it wrote can be seen, then lets the next one come as early. Every thread calls it.
SL_INLINE void awaitPrevious() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
/// The same where the kernel has asked for much before: the next one comes, and asks for its own,
/// while this one waits.
SL_INLINE void letNextComeAndAwaitPrevious() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_CUDA_PREVIOUS_H
