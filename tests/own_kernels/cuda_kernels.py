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


MOMENTUM = """
// A step over all tensors of a list: m = f[1] m + g, x -= f[0] m; sizes are what ints says.
__global__ void momentum(float* const* x, int64_t xCount, const float* const* g, int64_t gCount, float* const* m,
                         int64_t mCount, const int64_t* sizes, int64_t sizeCount, const double* f, int64_t fCount) {
  const int64_t first = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t t = 0; t < xCount; ++t) {
    for (int64_t i = first; i < sizes[t]; i += int64_t(gridDim.x) * blockDim.x) {
      m[t][i] = float(f[1]) * m[t][i] + g[t][i];
      x[t][i] -= float(f[0]) * m[t][i];
    }
  }
}
"""

REVERSED = """
// Rows of one block's threads the other way round, through shared memory and the workspace.
__global__ void reversed(const float* x, const char* mode, uint32_t dtype, bool twice, int64_t n, float* y,
                         void* workspace, int64_t bytes) {
  extern __shared__ float tile[];
  float* scratch = static_cast<float*>(workspace) + blockIdx.x * n;
  const int64_t i = threadIdx.x, at = blockIdx.x * n;
  tile[n - 1 - i] = x[at + i];
  __syncthreads();
  scratch[i] = tile[i] * (twice ? 2.0f : 1.0f);
  __syncthreads();
  const bool isGood = mode[0] == 'r' && dtype == 0x12002 && bytes >= int64_t(gridDim.x) * n * 4;
  y[at + i] = isGood ? scratch[i] : -1.0f;
}
"""


def momentum(name: str = "own_cuda::momentum") -> Any:
    """The kernel of a step over lists of tensors."""
    schema = f"{name}(Tensor(a!)[] x, Tensor[] g, Tensor(b!)[] m, int[] sizes, float[] f) -> ()"
    return sl.cuda_kernel(MOMENTUM, "momentum", schema, grid=(2, 64))


def reversed_rows(name: str = "own_cuda::reversed", **options: Any) -> Any:
    """The kernel that turns rows round, with a workspace and dynamic shared memory."""
    schema = f"{name}(Tensor x, str mode, ScalarType dtype, bool twice, int n) -> Tensor"
    return sl.cuda_kernel(
        REVERSED,
        "reversed",
        schema,
        grid=lambda x, mode, dtype, twice, n: (x.shape[0], n),
        **{
            "workspace": lambda x, *rest: x.numel() * 4,
            "shared": lambda x, mode, dtype, twice, n: n * 4,
            **options,
        },
    )
