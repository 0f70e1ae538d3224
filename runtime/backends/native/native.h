// SPDX-License-Identifier: Apache-2.0
// The built-in backend: kernels emitted from the templates under codegen/kernels. One file per
// kernel beside this one; native.cpp documents the problems that they answer.
#ifndef STRAIGHTLINE_BACKENDS_NATIVE_NATIVE_H
#define STRAIGHTLINE_BACKENDS_NATIVE_NATIVE_H

#include "straightline/abi/kernel.h"

extern "C" const sl_backend_desc sl_backend_native;

namespace sl::native {

extern const sl_kernel_desc gemvKernel;
extern const sl_kernel_desc gemmKernel;
extern const sl_kernel_desc matmulKernel;
extern const sl_kernel_desc winogradKernel;
extern const sl_kernel_desc convolutionKernel;
extern const sl_kernel_desc convolutionDirectKernel;
extern const sl_kernel_desc attentionKernel;
extern const sl_kernel_desc pointwiseKernel;
extern const sl_kernel_desc rowReductionKernel;
extern const sl_kernel_desc poolKernel;
extern const sl_kernel_desc gatherRowsKernel;
extern const sl_kernel_desc gatherElementsKernel;
extern const sl_kernel_desc fillKernel;
extern const sl_kernel_desc zeroBorderKernel;
extern const sl_kernel_desc iotaKernel;
extern const sl_kernel_desc scanKernel;
extern const sl_kernel_desc packGemmKernel;
extern const sl_kernel_desc packConvolutionKernel;
extern const sl_kernel_desc packWinogradKernel;

}  // namespace sl::native

#endif  // STRAIGHTLINE_BACKENDS_NATIVE_NATIVE_H
