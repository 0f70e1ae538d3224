// SPDX-License-Identifier: Apache-2.0
#include <oneapi/dnnl/dnnl.h>

#include <string>

#include "inner_product.h"

namespace {

const char* version() {
  const dnnl_version_t* number = dnnl_version();
  static const std::string text = "oneDNN " + std::to_string(number->major) + "." +
                                  std::to_string(number->minor) + "." +
                                  std::to_string(number->patch);
  return text.c_str();
}

}  // namespace

extern "C" SL_API const sl_backend_desc* straightline_backend_v1(void) {
  static const sl_backend_desc backend = {.size = sizeof(sl_backend_desc),
                                          .abi_version = SL_KERNEL_ABI_VERSION,
                                          .name = "onednn",
                                          .kernels = &straightline::onednn::kInnerProduct,
                                          .kernel_count = 1,
                                          .device = nullptr,
                                          .runs_on = nullptr,
                                          .kernel_stride = 0,
                                          .version = version,
                                          .missing = nullptr,
                                          .default_routes = nullptr};
  return &backend;
}
