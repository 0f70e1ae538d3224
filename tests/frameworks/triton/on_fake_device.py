# SPDX-License-Identifier: Apache-2.0
"""Launches of Triton kernels on a CUDA device that is not there (bench/cuda_call_path.py): run as a process of its own.

Prints "right" at the end.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from typing import Any

import straightline as sl
import torch
from straightline import _call
from torch import Tensor

from bench.cuda_call_path import HERE, compiled, fake_tensors, made, on_device, run_there
from tests.frameworks.triton import kernels

_OPTIONS: tuple[dict[str, Any], ...] = ({}, {"fast_path": False}, {"emit": "python"})
_LAUNCHES = ("stream", "graph")
#: Threads of a block, which no other kernel of these programs has.
_THREADS = 64


class _Add(torch.nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.ops.fake_triton.add(x, y, x.numel(), 2.5)


class _Product(torch.nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.ops.fake_triton.product(a, b, a.shape[0], b.shape[1], a.shape[1])


class _Seen(ctypes.Structure):
    """What driver.c notes of a launch."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("values", ctypes.c_ulonglong * 16),
        ("count", ctypes.c_uint),
    )


def _add() -> tuple[Any, tuple[Any, ...]]:
    return _Add(), (torch.randn(3000), torch.randn(3000))


def _product() -> tuple[Any, tuple[Any, ...]]:
    return _Product(), (torch.randn(100, 64).half(), torch.randn(64, 40).half())


_NAMED = {"dynamic_shapes": ({0: torch.export.Dim("m", min=1, max=4096)}, {1: torch.export.Dim("n", min=1, max=512)})}
_MODELS = ((_add, {}), (_product, {}), (_product, _NAMED))


def _parameters_and_grid(driver: Any, tensors: Any) -> None:
    alpha = int.from_bytes(struct.pack("<f", 2.5), "little")
    for launch in _LAUNCHES:
        for options in _OPTIONS:
            for model, named in _MODELS:
                function, arguments, _ = made(tensors, model, launch, **options, **named)
                for _ in range(2):
                    driver.fake_watch(_THREADS, 7 if model is _add else 8)
                    result = function(*arguments)
                    seen = _Seen.from_address(driver.fake_seen())
                    places = [tensors.place(argument) for argument in arguments]
                    if model is _add:
                        expected = [*places, tensors.place(result), 3000, alpha, 0, 0]
                        grid = [3, 1, 1]
                    else:
                        expected = [*places, 100, 40, 64, tensors.place(result), 0, 0]
                        grid = [2, 2, 1]
                    again = launch == "graph" and seen.count == 0  # the same addresses: nothing to update
                    assert again or list(seen.grid) == grid, (launch, options, list(seen.grid))
                    assert again or list(seen.values)[: len(expected)] == expected, (launch, options, list(seen.values))
                    assert again or (seen.shared > 0) == (model is _product), (launch, options, seen.shared)


def _by_itself(driver: Any, tensors: Any) -> None:
    """A kernel of a program is started alone, on a stream, with what a call would give it."""
    alpha = int.from_bytes(struct.pack("<f", 2.5), "little")
    for model, named in _MODELS:
        function = compiled(*model(), "stream", **named)
        (entry,) = [entry for entry in _call.entries(function._compilation.program) if entry.kind == "kernel"]
        places = [tensors.place(on_device(tensors, tensor)) for tensor in model()[1]]
        addresses = (*places, 1 << 20)
        extents = tuple({"m": 100, "n": 40}[name] for name in entry.extents)
        driver.fake_watch(_THREADS, 7 if model is _add else 8)
        entry.start(addresses, tuple({"m": 100, "n": 40}[name] for name in entry.scalars), extents, 0)
        seen = _Seen.from_address(driver.fake_seen())
        if model is _add:
            expected, grid = [*addresses, 3000, alpha, 0, 0], [3, 1, 1]
        else:
            expected, grid = [*places, 100, 40, 64, addresses[-1], 0, 0], [2, 2, 1]
        assert seen.count == 1 and list(seen.grid) == grid, (named, seen.count, list(seen.grid))
        assert list(seen.values)[: len(expected)] == expected, (named, list(seen.values), expected)


def _an_address_that_is_not_aligned(tensors: Any) -> None:
    for launch in _LAUNCHES:
        for options in _OPTIONS:
            function, arguments, _ = made(tensors, _add, launch, **options)
            tensors.shift(arguments[1], 8)
            try:
                function(*arguments)
                raise AssertionError((launch, options))
            except sl.StraightlineError as error:
                words = "parameter 1 of scaled_add begins at an address that is no multiple of 16"
                assert words in str(error) and "aligned=False" in str(error), error
            tensors.shift(arguments[1], 8)
            function(*arguments)


def main() -> None:
    """Runs the command."""
    kernels.add_op("fake_triton::add", num_warps=_THREADS // 32)
    kernels.product_op("fake_triton::product", num_warps=_THREADS // 32)
    library = torch.library.Library(
        "fake_triton", "FRAGMENT"
    )  # results of the right shape, which `made` asks eager for
    library.impl("add", lambda x, y, n, alpha: torch.empty_like(x), "CPU")
    library.impl("product", lambda a, b, m, n, k: a.new_empty(m, n), "CPU")
    if HERE not in os.environ:
        for launch in _LAUNCHES:
            for options in _OPTIONS:
                for model, named in _MODELS:
                    compiled(*model(), launch, **options, **named)
        sys.exit(run_there(["-m", "tests.frameworks.triton.on_fake_device"]))
    driver = ctypes.CDLL("libcuda.so.1")
    driver.fake_seen.restype = ctypes.c_void_p
    tensors = fake_tensors()
    _parameters_and_grid(driver, tensors)
    _by_itself(driver, tensors)
    driver.fake_watch(0, 0)
    _an_address_that_is_not_aligned(tensors)
    print("right")


if __name__ == "__main__":
    main()
