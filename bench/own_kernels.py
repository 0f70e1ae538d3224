# SPDX-License-Identifier: Apache-2.0
"""What own kernels and custom ops cost: `python -m bench.own_kernels [--json FILE]`.

16 floats, one thread, least of 7 series, in processor time (which other processes disturb less). A C kernel in a program is
compared with calling the function from C; a custom op of Python with the same op in eager, both in a call of its own and
as one more op of a longer program (`one_more`). `stable` are two C++ ops of a library on torch's stable ABI
(tests/own_kernels/stable.cpp), one of which gives a fresh result.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import straightline as sl
import torch

_SOURCE = """
#include <straightline/abi/own_kernel.h>
#include <time.h>
SL_KERNEL_FUNCTION(void, scale, const sl_kernel_tensor* x, double a, const sl_kernel_tensor* y) {
  const float* from = x->data;
  float* to = y->data;
  for (int64_t i = 0, n = sl_kernel_tensor_count(x); i < n; ++i) { to[i] = from[i] * (float)a; }
}
static double now(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return 1e9 * t.tv_sec + t.tv_nsec; }
typedef void (*scale_fn)(const sl_kernel_tensor*, double, const sl_kernel_tensor*);
__attribute__((visibility("default"))) double by_hand(scale_fn function, int64_t repeats) {
  float x[16] = {1}, y[16];
  const int64_t extents[1] = {16};
  const double start = now();
  for (int64_t i = 0; i < repeats; ++i) {
    const sl_kernel_tensor tensors[2] = {{x, extents, 1, {2, 32, 1}}, {y, extents, 1, {2, 32, 1}}};
    function(&tensors[0], 2.0, &tensors[1]);
    __asm__ volatile("" ::: "memory");
  }
  return (now() - start) / repeats;
}
"""


def _least(measure: Callable[[], float], series: int = 7) -> float:
    return min(measure() for _ in range(series))


def _python_us(function: Callable[[], Any], repeats: int) -> float:
    start = time.thread_time()
    for _ in range(repeats):
        function()
    return (time.thread_time() - start) / repeats * 1e6


class _Of(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: Any) -> Any:
        return self._function(*args)


def _library(folder: Path) -> Path:
    include = Path(sl.__file__).parent.parents[1] / "include"
    (folder / "scale.c").write_text(_SOURCE, encoding="ascii")
    path = folder / "libscale.so"
    command = ["gcc", "-O2", "-fPIC", "-shared", f"-I{include}", str(folder / "scale.c"), "-o", str(path)]
    subprocess.run(command, check=True)
    return path


def _c_kernel(folder: Path, count: int) -> dict[str, float]:
    """A program of `count` calls of the C function, against one call; both without Python."""
    path = _library(folder)
    sl.c_kernel(path, "scale", "bench_own::scale(Tensor x, float a) -> Tensor")
    x = torch.ones(16)

    def chain(length: int) -> Any:
        def function(x: torch.Tensor) -> torch.Tensor:
            for _ in range(length):
                x = torch.ops.bench_own.scale(x, 1.0)
            return x

        return sl.compile(_Of(function), (x,), threads=1)

    library = ctypes.CDLL(str(path))
    library.by_hand.restype = ctypes.c_double
    by_hand = _least(lambda: library.by_hand(library.scale, ctypes.c_int64(1_000_000)))
    short, long = chain(1), chain(1 + count)
    y = torch.empty(16)

    # Both calls pay for Python and the call path; what is between them is `count` kernels.
    def both() -> float:
        return (_python_us(lambda: long(x, out=y), 20_000) - _python_us(lambda: short(x, out=y), 20_000)) / count * 1e3

    in_program = _least(both)
    eager = _least(lambda: _python_us(lambda: torch.ops.bench_own.scale(x, 1.0), 5000))
    return {
        "c_kernel_by_hand_ns": by_hand,
        "c_kernel_in_program_ns": in_program,
        "c_kernel_over_by_hand_ns": in_program - by_hand,
        "c_kernel_program_us": _least(lambda: _python_us(lambda: short(x), 20_000)),
        "c_kernel_eager_us": eager,
    }


def _one_more(cases: dict[str, Callable[..., Any]], x: torch.Tensor, count: int = 10) -> dict[str, float]:
    """What one more op of Python takes in a program and in eager, without what a call takes."""

    def chain(function: Callable[..., Any], length: int) -> Callable[..., Any]:
        def calls(x: torch.Tensor) -> torch.Tensor:
            for _ in range(length):
                x = function(x)
            return x

        return calls

    found: dict[str, float] = {}
    for name, function in cases.items():
        eager = [chain(function, length) for length in (1, 1 + count)]
        programs = [sl.compile(_Of(one), (x.clone(),), threads=1) for one in eager]
        for mode, context in (("", contextlib.nullcontext), ("_inference", torch.inference_mode)):
            with context():
                y = x.clone()
                least = [
                    [_least(lambda: _python_us(lambda: f(y), 2000)) for f in pair]  # noqa: B023
                    for pair in (programs, eager)
                ]
            ours, theirs = ((long - short) / count for short, long in least)
            found |= {f"{name}{mode}_one_more_us": ours, f"{name}{mode}_one_more_eager_us": theirs}
            found[f"{name}{mode}_one_more_ratio"] = ours / theirs
    return found


def _in_turns(
    name: str, fn: Callable[..., Any], eager: Callable[..., Any], x: torch.Tensor, series: int, calls: int
) -> dict[str, float]:
    """Least microseconds of a call of a program and of the same in eager, measured in turns, and their ratio."""
    pairs = [(_python_us(lambda: fn(x), calls), _python_us(lambda: eager(x), calls)) for _ in range(series)]
    ours_us, eager_us = (min(column) for column in zip(*pairs))
    return {f"{name}_program_us": ours_us, f"{name}_eager_us": eager_us, f"{name}_ratio": ours_us / eager_us}


def _custom_ops() -> dict[str, float]:
    @torch.library.custom_op("bench_own::by_python", mutates_args=())
    def by_python(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    @by_python.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    @torch.library.custom_op("bench_own::in_place", mutates_args=("x",))
    def in_place(x: torch.Tensor) -> None:
        x.add_(1)

    library = torch.library.Library("bench_own_library", "FRAGMENT")
    library.define("plain(Tensor x) -> Tensor")
    library.impl("plain", lambda x: x + 1, "CPU")
    torch.library.register_fake("bench_own_library::plain", torch.empty_like, lib=library)

    x = torch.ones(16)
    cases: dict[str, Callable[..., Any]] = {
        "custom_op": lambda x: torch.ops.bench_own.by_python(x),
        "custom_op_in_place": lambda x: torch.ops.bench_own.in_place(x),
        "library_impl": lambda x: torch.ops.bench_own_library.plain(x),
        "aten_op": lambda x: torch.ops.aten.digamma(x),
    }
    found = _one_more({name: cases[name] for name in ("custom_op", "library_impl")}, x)
    for mode, context in (("", contextlib.nullcontext), ("_inference", torch.inference_mode)):
        with context():
            for name, function in cases.items():
                y = x.clone()
                fn = sl.compile(_Of(function), (x.clone(),), threads=1)
                for _ in range(3):
                    fn(y), function(y)
                found |= _in_turns(f"{name}{mode}", fn, function, y, series=7, calls=3000)
    return found


def _stable(folder: Path) -> dict[str, float]:
    """C++ ops of a library on torch's stable ABI, in a program and in eager, in turns."""
    source = Path(__file__).resolve().parents[1] / "tests" / "own_kernels" / "stable.cpp"
    path, torch_path = folder / "libstable.so", Path(torch.__file__).parent
    command = ["g++", "-std=c++20", "-O1", "-w", "-fPIC", "-shared", "-DTORCH_TARGET_VERSION=0x020a000000000000"]
    command += [f"-I{torch_path / 'include'}", str(source), "-o", str(path), f"-L{torch_path / 'lib'}", "-ltorch_cpu"]
    subprocess.run(command, check=True)
    torch.ops.load_library(str(path))
    ops = torch.ops.own_stable
    torch.library.register_fake("own_stable::increment", lambda x, by: None)
    torch.library.register_fake("own_stable::doubled", torch.empty_like)
    cases: dict[str, Callable[..., Any]] = {
        "stable_in_place": lambda x: ops.increment(x, 0.5),
        "stable_fresh": lambda x: ops.doubled(x),
        "stable_two_fresh": lambda x: ops.doubled(ops.doubled(x)),
        "stable_between": lambda x: torch.relu(ops.doubled(torch.relu(x))),
    }
    found: dict[str, float] = {}
    for mode, context in (("", contextlib.nullcontext), ("_inference", torch.inference_mode)):
        with context():
            for name, function in cases.items():
                x, y = torch.randn(16), torch.ones(16)
                fn = sl.compile(_Of(function), (x.clone(),), threads=1)
                given = [x.clone(), x.clone()]
                results = [f(tensor) for f, tensor in zip((fn, function), given)]
                if not torch.equal(*(given if results[0] is None else results)):
                    raise RuntimeError(f"{name} gives another result than in eager")
                found |= _in_turns(f"{name}{mode}", fn, function, y, series=60, calls=1000)
    return found


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--count", type=int, default=200, help="calls of the C function in the long program")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        found = {**_c_kernel(Path(folder), options.count), **_stable(Path(folder)), **_custom_ops()}
    for name, value in found.items():
        print(f"{name:32} {value:10.3f}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
