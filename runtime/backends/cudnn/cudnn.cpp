// SPDX-License-Identifier: Apache-2.0
// The backend for NVIDIA's library of kernels for neural networks.
#include <iterator>
#include <string>

#include "kernels.h"
#include "library.h"
#include "straightline/abi/straightline.h"

namespace straightline::cudnn {
namespace {

const sl_kernel_desc kKernels[] = {attentionKernel(), convolutionKernel()};

const char* version() {
  static const std::string text = versionText();
  return text.empty() ? nullptr : text.c_str();
}
const char* missing() {
  static const std::string why = whyMissing();
  return why.empty() ? nullptr : why.c_str();
}

}  // namespace
}  // namespace straightline::cudnn

extern "C" const sl_backend_desc sl_backend_cudnn = {
    .size = sizeof(sl_backend_desc),
    .abi_version = SL_KERNEL_ABI_VERSION,
    .name = "cudnn",
    .kernels = straightline::cudnn::kKernels,
    .kernel_count = std::size(straightline::cudnn::kKernels),
    .device = nullptr,
    .runs_on = "cuda",
    .kernel_stride = 0,
    .version = straightline::cudnn::version,
    .missing = straightline::cudnn::missing,
    .default_routes = nullptr};
