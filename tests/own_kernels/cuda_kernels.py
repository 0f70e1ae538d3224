# SPDX-License-Identifier: Apache-2.0
"""CUDA kernels that cuda_kernel_test.py runs on the host, and tests/device on a device."""

from __future__ import annotations

from typing import Any

import straightline as sl

SCALE = """
// A kernel of another place, with a helper and shared memory of fixed size.
__device__ float times(float x, double a) { return x * static_cast<float>(a); }
__global__ void scale(const float* x, double a, int64_t n, float* y) {
  __shared__ float tile[128];
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = i < n ? x[i] : 0.0f;
  __syncthreads();
  if (i < n) {
    y[i] = times(tile[threadIdx.x], a);
  }
}
"""

INCREMENT = """
extern "C" __global__ void __launch_bounds__(64) increment(float* x, const float* by, long long n) {
  const long long i = static_cast<long long>(blockIdx.x) * 64 + threadIdx.x;
  if (i < n) {
    x[i] += by ? by[0] : 1.0f;
  }
}
"""


def scale(name: str = "own_cuda::scale", **options: Any) -> Any:
    """The kernel y = a x of n elements, 128 threads a block."""
    schema = f"{name}(Tensor x, float a, SymInt n) -> Tensor"
    return sl.cuda_kernel(SCALE, "scale", schema, grid=lambda x, a, n: ((n + 127) // 128, 128), **options)


def increment(name: str = "own_cuda::increment") -> Any:
    """The kernel x += by, in place."""
    schema = f"{name}(Tensor(a!) x, Tensor? by, int n) -> ()"
    return sl.cuda_kernel(INCREMENT, "increment", schema, grid=(2, 64))
