// SPDX-License-Identifier: Apache-2.0
// Contractions and attention that are emitted as CUDA C++, one file each beside this one. Their
// problems are those of backends/native/native.cpp; weights are never packed. A library that can do
// one of them is another backend's candidate.
#ifndef STRAIGHTLINE_BACKENDS_CUDA_KERNELS_H
#define STRAIGHTLINE_BACKENDS_CUDA_KERNELS_H

#include "backends/emitted_kernel.h"

namespace straightline::cuda {

extern const sl_kernel_desc attentionKernel;
extern const sl_kernel_desc attentionWarpsKernel;
extern const sl_kernel_desc convolutionKernel;
extern const sl_kernel_desc gemvKernel;
extern const sl_kernel_desc gemvGroupKernel;
extern const sl_kernel_desc groupedMatmulKernel;
extern const sl_kernel_desc linearKernel;
extern const sl_kernel_desc linearGroupWarpgroupsKernel;
extern const sl_kernel_desc linearWarpgroupsKernel;
extern const sl_kernel_desc matmulKernel;
extern const sl_kernel_desc matmulWarpgroupsKernel;
extern const sl_kernel_desc transposeKernel;

}  // namespace straightline::cuda

#endif  // STRAIGHTLINE_BACKENDS_CUDA_KERNELS_H
