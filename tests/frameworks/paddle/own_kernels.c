// SPDX-License-Identifier: Apache-2.0
// Kernels of own_ops.cc's ops, as straightline calls them.
#include <straightline/abi/own_kernel.h>

SL_KERNEL_FUNCTION(void, scaled, const sl_kernel_tensor* x, double a, int64_t n, int64_t negate,
                   const int64_t* v, int64_t count, const char* text, const sl_kernel_tensor* y) {
  const float* from = x->data;
  float* to = y->data;
  const float by = (float)(negate ? -a : a) + (float)v[count - 1] + (text[0] == 'h' ? (float)n : 0);
  for (int64_t i = 0, size = sl_kernel_tensor_count(x); i < size; ++i) {
    to[i] = from[i] * by;
  }
}

SL_KERNEL_FUNCTION(void, joined, const sl_kernel_tensor* x, const sl_kernel_tensor* bias,
                   const sl_kernel_tensor* more, int64_t count, const sl_kernel_tensor* y,
                   const sl_kernel_tensor* z) {
  const float* last = more[count - 1].data;
  for (int64_t i = 0, size = sl_kernel_tensor_count(x); i < size; ++i) {
    ((float*)y->data)[i] = ((const float*)x->data)[i] + last[i];
    ((float*)z->data)[i] = bias ? ((const float*)bias->data)[i] : 2.0f;
  }
}

SL_KERNEL_FUNCTION(void, added, const sl_kernel_tensor* x, double by) {
  float* at = x->data;
  for (int64_t i = 0, size = sl_kernel_tensor_count(x); i < size; ++i) {
    at[i] += (float)by;
  }
}
