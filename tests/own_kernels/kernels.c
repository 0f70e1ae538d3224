// SPDX-License-Identifier: Apache-2.0
// Functions that own_kernels_test.py registers.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <straightline/abi/own_kernel.h>

typedef const sl_kernel_tensor* tensor;

SL_KERNEL_FUNCTION(void, scale, const sl_kernel_tensor* x, double a, const sl_kernel_tensor* y) {
  const float* from = x->data;
  float* to = y->data;
  for (int64_t i = 0, n = sl_kernel_tensor_count(x); i < n; ++i) {
    to[i] = (float)(from[i] * a);
  }
}

/// Writes what it was given as numbers, so that a test sees each.
SL_KERNEL_FUNCTION(void, everything, const sl_kernel_tensor* x, const sl_kernel_tensor* bias,
                   const sl_kernel_tensor* parts, int64_t part_count, int64_t n, int64_t flag,
                   double f, const char* mode, sl_dtype dtype, const int64_t* dims,
                   int64_t dim_count, const double* weights, int64_t weight_count,
                   const sl_kernel_tensor* sum, const sl_kernel_tensor* facts) {
  float total = 0;
  const float* data = x->data;
  for (int64_t i = 0; i < sl_kernel_tensor_count(x); ++i) {
    total += data[i];
  }
  for (int64_t p = 0; p < part_count; ++p) {
    const float* part = parts[p].data;
    for (int64_t i = 0; i < sl_kernel_tensor_count(&parts[p]); ++i) {
      total += part[i];
    }
  }
  *(float*)sum->data = total;
  double* out = facts->data;
  out[0] = bias ? (double)((const float*)bias->data)[0] : -1;
  out[1] = (double)part_count;
  out[2] = (double)n;
  out[3] = (double)flag;
  out[4] = f;
  out[5] = (double)strlen(mode) + (mode[0] == 'm' ? 100 : 0);
  out[6] = dtype.code * 1000 + dtype.bits;
  out[7] = (double)dim_count;
  for (int64_t i = 0; i < dim_count; ++i) {
    out[7] += (double)(dims[i] * 10);
  }
  out[8] = (double)weight_count;
  for (int64_t i = 0; i < weight_count; ++i) {
    out[8] += weights[i];
  }
  out[9] = x->rank;
  out[10] = x->rank ? (double)x->extents[0] : -1;
}

SL_KERNEL_FUNCTION(void, increment, const sl_kernel_tensor* x, double by) {
  float* data = x->data;
  for (int64_t i = 0, n = sl_kernel_tensor_count(x); i < n; ++i) {
    data[i] += (float)by;
  }
}

/// y is x from behind, by way of the workspace.
SL_KERNEL_FUNCTION(void, turned, const sl_kernel_tensor* x, const sl_kernel_tensor* y,
                   void* workspace, int64_t workspace_bytes) {
  const int64_t n = sl_kernel_tensor_count(x);
  float* between = workspace;
  if (workspace_bytes < n * 4 || ((size_t)workspace & 63) != 0) {
    memset(y->data, 0xff, (size_t)n * 4);
    return;
  }
  memcpy(between, x->data, (size_t)n * 4);
  for (int64_t i = 0; i < n; ++i) {
    ((float*)y->data)[i] = between[n - 1 - i];
  }
}

SL_KERNEL_FUNCTION(int32_t, root, const sl_kernel_tensor* x, const sl_kernel_tensor* y,
                   char* message) {
  const float* from = x->data;
  for (int64_t i = 0, n = sl_kernel_tensor_count(x); i < n; ++i) {
    if (from[i] < 0) {
      snprintf(message, SL_KERNEL_MESSAGE_BYTES, "element %lld is %g", (long long)i,
               (double)from[i]);
      return 7;
    }
    ((float*)y->data)[i] = sqrtf(from[i]);
  }
  return 0;
}

/// A stream that is none, and the number that it was called with.
SL_KERNEL_FUNCTION(void, streamed, const sl_kernel_tensor* x, const sl_kernel_tensor* y,
                   void* stream) {
  *(float*)y->data = *(const float*)x->data + (stream ? 100 : 1);
}

SL_KERNEL_FUNCTION(void, rows, const sl_kernel_tensor* x, int64_t n, const sl_kernel_tensor* y) {
  for (int64_t i = 0; i < x->extents[0]; ++i) {
    ((float*)y->data)[i] = (float)n * 1000 + (float)x->extents[0];
  }
}

/// No signature: as a library that knows nothing of us.
void plain(tensor x, tensor y) { memcpy(y->data, x->data, (size_t)sl_kernel_tensor_count(x) * 4); }

/// Adam (decoupled decay is 0), in float32, element by element.
SL_KERNEL_FUNCTION(void, adam, const sl_kernel_tensor* params, int64_t count,
                   const sl_kernel_tensor* grads, int64_t grad_count, const sl_kernel_tensor* means,
                   int64_t mean_count, const sl_kernel_tensor* squares, int64_t square_count,
                   int64_t step, double lr, double beta1, double beta2, double eps) {
  (void)grad_count, (void)mean_count, (void)square_count;
  const float c1 = (float)(1 - pow(beta1, (double)step)),
              c2 = (float)(1 - pow(beta2, (double)step));
  for (int64_t t = 0; t < count; ++t) {
    float *p = params[t].data, *m = means[t].data, *v = squares[t].data;
    const float* g = grads[t].data;
    for (int64_t i = 0, n = sl_kernel_tensor_count(&params[t]); i < n; ++i) {
      m[i] = (float)beta1 * m[i] + (float)(1 - beta1) * g[i];
      v[i] = (float)beta2 * v[i] + (float)(1 - beta2) * g[i] * g[i];
      p[i] -= (float)lr * (m[i] / c1) / (sqrtf(v[i] / c2) + (float)eps);
    }
  }
}

/// LAMB: Adam's direction, scaled by |p| / |direction| of each tensor.
SL_KERNEL_FUNCTION(void, lamb, const sl_kernel_tensor* params, int64_t count,
                   const sl_kernel_tensor* grads, int64_t grad_count, const sl_kernel_tensor* means,
                   int64_t mean_count, const sl_kernel_tensor* squares, int64_t square_count,
                   int64_t step, double lr, double decay) {
  (void)grad_count, (void)mean_count, (void)square_count;
  const float c1 = (float)(1 - pow(0.9, (double)step)), c2 = (float)(1 - pow(0.999, (double)step));
  for (int64_t t = 0; t < count; ++t) {
    float *p = params[t].data, *m = means[t].data, *v = squares[t].data;
    const float* g = grads[t].data;
    const int64_t n = sl_kernel_tensor_count(&params[t]);
    double of_params = 0, of_updates = 0;
    for (int64_t i = 0; i < n; ++i) {
      m[i] = 0.9f * m[i] + 0.1f * g[i];
      v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
      const float update = (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-6f) + (float)decay * p[i];
      of_params += (double)p[i] * p[i];
      of_updates += (double)update * update;
    }
    const float ratio = of_params > 0 && of_updates > 0 ? (float)sqrt(of_params / of_updates) : 1;
    for (int64_t i = 0; i < n; ++i) {
      const float update = (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-6f) + (float)decay * p[i];
      p[i] -= (float)lr * ratio * update;
    }
  }
}
