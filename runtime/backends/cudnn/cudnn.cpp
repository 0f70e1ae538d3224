// SPDX-License-Identifier: Apache-2.0
// The backend for NVIDIA's library of kernels for neural networks.
#include <iterator>

#include "kernels.h"
#include "straightline/abi/straightline.h"

namespace straightline::cudnn {
namespace {

const sl_kernel_desc kKernels[] = {attentionKernel(), convolutionKernel()};

}  // namespace
}  // namespace straightline::cudnn

extern "C" const sl_backend_desc sl_backend_cudnn = {sizeof(sl_backend_desc),
                                                     SL_KERNEL_ABI_VERSION,
                                                     "cudnn",
                                                     straightline::cudnn::kKernels,
                                                     std::size(straightline::cudnn::kKernels),
                                                     nullptr,
                                                     "cuda"};
