// SPDX-License-Identifier: Apache-2.0
#include "inner_product.h"

extern "C" SL_API const sl_backend_desc* straightline_backend_v1(void) {
  static const sl_backend_desc backend = {sizeof(sl_backend_desc),
                                          SL_KERNEL_ABI_VERSION,
                                          "onednn",
                                          &straightline::onednn::kInnerProduct,
                                          1,
                                          nullptr};
  return &backend;
}
