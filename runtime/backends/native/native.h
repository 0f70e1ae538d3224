// SPDX-License-Identifier: Apache-2.0
// The built-in backend: kernels emitted from the templates under codegen/kernels. One file per
// kernel beside this one; native.cpp documents the problems that they answer.
#ifndef STRAIGHTLINE_BACKENDS_NATIVE_NATIVE_H
#define STRAIGHTLINE_BACKENDS_NATIVE_NATIVE_H

#include "backends/emitted_kernel.h"
#include "straightline/abi/kernel.h"

extern "C" const sl_backend_desc sl_backend_native;

namespace sl::native {

// native_kernels.inc is made by CMake: one entry per file x_y.cpp of this folder, which defines
// xYKernel.
#define SL_NATIVE_KERNEL(name) extern const sl_kernel_desc name;
#include "native_kernels.inc"
#undef SL_NATIVE_KERNEL

}  // namespace sl::native

#endif  // STRAIGHTLINE_BACKENDS_NATIVE_NATIVE_H
