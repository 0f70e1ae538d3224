// SPDX-License-Identifier: Apache-2.0
// Two kernels of your own: a function with a result, and an optimizer's step that updates many
// tensors in place.
#include <math.h>

#include <straightline/abi/own_kernel.h>

SL_KERNEL_FUNCTION(void, soft_clip, const sl_kernel_tensor* x, double limit,
                   const sl_kernel_tensor* y) {
  const float* from = x->data;
  float* to = y->data;
  for (int64_t i = 0, n = sl_kernel_tensor_count(x); i < n; ++i) {
    to[i] = (float)limit * tanhf(from[i] / (float)limit);
  }
}

SL_KERNEL_FUNCTION(int32_t, sgd, const sl_kernel_tensor* params, int64_t count,
                   const sl_kernel_tensor* grads, int64_t grad_count,
                   const sl_kernel_tensor* velocities, int64_t velocity_count, double lr,
                   double momentum, char* message) {
  if (count != grad_count || count != velocity_count) {
    message[0] = '?', message[1] = '\0';
    return 1;
  }
  for (int64_t t = 0; t < count; ++t) {
    float *p = params[t].data, *v = velocities[t].data;
    const float* g = grads[t].data;
    for (int64_t i = 0, n = sl_kernel_tensor_count(&params[t]); i < n; ++i) {
      v[i] = (float)momentum * v[i] + g[i];
      p[i] -= (float)lr * v[i];
    }
  }
  return 0;
}
