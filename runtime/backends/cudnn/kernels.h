// SPDX-License-Identifier: Apache-2.0
// What cuDNN computes, one file each beside this one.
#ifndef STRAIGHTLINE_RUNTIME_BACKENDS_CUDNN_KERNELS_H
#define STRAIGHTLINE_RUNTIME_BACKENDS_CUDNN_KERNELS_H

#include "straightline/abi/kernel.h"

namespace straightline::cudnn {

// Functions, for a description holds addresses of functions as void*, which no constant initialiser
// may.
sl_kernel_desc attentionKernel();
sl_kernel_desc convolutionKernel();

}  // namespace straightline::cudnn

#endif  // STRAIGHTLINE_RUNTIME_BACKENDS_CUDNN_KERNELS_H
