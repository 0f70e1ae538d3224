// SPDX-License-Identifier: Apache-2.0
// C++ functions that throw.
#include <stdexcept>

#include <straightline/abi/own_kernel.h>

SL_KERNEL_FUNCTION(void, throws, const sl_kernel_tensor* x, const sl_kernel_tensor* y) {
  const float first = *static_cast<const float*>(x->data);
  if (first < 0) {
    throw std::out_of_range("the first element is negative");
  }
  if (first == 0) {
    throw 5;
  }
  *static_cast<float*>(y->data) = first;
}
