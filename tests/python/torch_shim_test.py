# SPDX-License-Identifier: Apache-2.0
"""What python/call_path/torch_tensors.c takes from torch's libraries is there, and is what it takes it for (on the CPU: here is no device)."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

import torch
from straightline._call_support import dtype_name

_SOURCE = (Path(__file__).resolve().parents[2] / "python/call_path/torch_tensors.c").read_text()
_SYMBOLS = re.findall(r'dlsym\(library, "(\w+)"\)', _SOURCE)
_TYPES = [tuple(map(int, row)) for row in re.findall(r"\{(\d+), (\d+), (\d+)\}", _SOURCE)]


def test_a_tensor_of_torchs_own() -> None:
    library = ctypes.PyDLL("libtorch_python.so", os.RTLD_NOLOAD | os.RTLD_LAZY)
    assert len(_SYMBOLS) == 4
    empty, drop, wrap, take = (getattr(library, name) for name in _SYMBOLS)
    for function in (wrap, take):
        function.restype, function.argtypes = ctypes.py_object, [ctypes.c_void_p]
    drop.argtypes = [ctypes.c_void_p]
    empty.argtypes = [ctypes.c_int64, *[ctypes.c_int64 * 3] * 2, *[ctypes.c_int32] * 3, ctypes.POINTER(ctypes.c_void_p)]
    assert len(_TYPES) == 15
    for code, bits, number in _TYPES:
        handle = ctypes.c_void_p()
        cpu = 0
        assert (
            empty(
                3, (ctypes.c_int64 * 3)(2, 3, 4), (ctypes.c_int64 * 3)(12, 1, 3), number, cpu, 0, ctypes.byref(handle)
            )
            == 0
        )
        wrapped = wrap(handle)
        tensor = take(handle)  # and leaves nothing at the handle
        assert drop(handle) == 0
        assert tensor is wrapped
        del wrapped
        assert tensor.dtype is getattr(torch, dtype_name(code, bits)) and tensor.dtype.itemsize * 8 == bits
        assert type(tensor) is torch.Tensor and tensor.shape == (2, 3, 4) and tensor.stride() == (12, 1, 3)
        assert tensor.untyped_storage().resizable() and tensor.untyped_storage().nbytes() == 24 * tensor.itemsize


def test_the_slow_way() -> None:
    from straightline import _call_support

    tensor = _call_support.torch_empty_strided((2, 3), (1, 2), 4, 16, "cpu")
    assert tensor.dtype is torch.bfloat16 and tensor.stride() == (1, 2)
