# SPDX-License-Identifier: Apache-2.0
"""Cubins of users, made by NVRTC as they would make them."""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path

SCALE = """
extern "C" __global__ void scale(const float* x, float a, int n, float* y) {
  extern __shared__ float unused[];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * a;
}
extern "C" __global__ void scale_wide(const float* x, double a, long long n, float* y) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * (float)a;
}
"""


def _nvrtc() -> ctypes.CDLL:
    found = importlib.util.find_spec("nvidia")
    folders = [Path(folder) for folder in found.submodule_search_locations or ()] if found is not None else []
    names = ("cu13/lib/libnvrtc.so.13", "cuda_nvrtc/lib/libnvrtc.so.13", "cuda_nvrtc/lib/libnvrtc.so.12")
    places = [folder / name for name in names for folder in folders if (folder / name).exists()]
    return ctypes.CDLL(str(places[0]) if places else "libnvrtc.so.13")


def cubin(text: str = SCALE, arch: str = "sm_90", ptx: bool = False) -> bytes:
    """The machine code of CUDA C++, or its PTX."""
    nvrtc, program, size = _nvrtc(), ctypes.c_void_p(), ctypes.c_size_t()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"user.cu", 0, None, None) == 0
    options = (ctypes.c_char_p * 1)(f"--gpu-architecture={arch}".encode())
    assert nvrtc.nvrtcCompileProgram(program, 1, options) == 0
    kind = "PTX" if ptx else "CUBIN"
    assert getattr(nvrtc, f"nvrtcGet{kind}Size")(program, ctypes.byref(size)) == 0
    data = ctypes.create_string_buffer(size.value)
    assert getattr(nvrtc, f"nvrtcGet{kind}")(program, data) == 0
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return data.raw
