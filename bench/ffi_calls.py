# SPDX-License-Identifier: Apache-2.0
"""What a call costs from torch, from TVM-FFI and from C: `python bench/ffi_calls.py [--json FILE]`.

One thread, a program of one addition over 16 floats, the least of 7 rounds of 20,000 calls, nanoseconds. "C run" is
`sl_model_run` in a loop of C; each other line is a call by its door, with the difference to the C run and the bar.
`torch.ops.aten.alias` is the cheapest op that torch has: what its dispatcher takes from Python before any kernel.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import straightline as sl
import torch
from straightline import _call, _compiler
from straightline.torch_op import opened

ROUNDS, CALLS = 7, 20_000

_LOOP = """
#include <straightline/abi/model.h>
extern "C" {
int32_t loop(decltype(&sl_model_run) run, const sl_model* model, const sl_tensor* inputs, int32_t count,
             const sl_tensor* outputs, long calls) {
  int32_t status = 0;
  for (long i = 0; i < calls; ++i) {
    status |= run(model, inputs, count, outputs, 1, nullptr);
  }
  return status;
}
int32_t loop_tvm(int (*call)(void*, const void*, int32_t, void*), void* self, const void* arguments, int32_t count,
                 long calls) {
  int32_t status = 0;
  uint64_t result[2] = {0, 0};
  for (long i = 0; i < calls; ++i) {
    status |= call(self, arguments, count, result);
  }
  return status;
}
}
"""


class _Tensor(ctypes.Structure):
    """sl_tensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
    )


def nanoseconds(call: Callable[[], Any], calls: int = CALLS) -> float:
    """The least nanoseconds of a call, of several rounds."""
    least = float("inf")
    for _ in range(1000):
        call()
    for _ in range(ROUNDS):
        begin = time.perf_counter_ns()
        for _ in range(calls):
            call()
        least = min(least, (time.perf_counter_ns() - begin) / calls)
    return least


def _in_c(loop: Callable[[int], int]) -> float:
    """The same of a call inside a loop of C."""
    least = float("inf")
    assert loop(1000) == 0
    for _ in range(ROUNDS):
        begin = time.perf_counter_ns()
        loop(CALLS)
        least = min(least, (time.perf_counter_ns() - begin) / CALLS)
    return least


def c_run(fn: Any, tensors: list[torch.Tensor], result: torch.Tensor) -> float:
    """`sl_model_run` of the saved function."""
    runtime = ctypes.CDLL(str(Path(_call.__file__).parent / "libstraightline_runtime.so"))
    library = opened(_compiler.link_text("loop", _LOOP, ["loop", "loop_tvm"]))
    shape = (ctypes.c_int64 * 1)(16)
    pointer = ctypes.cast(shape, ctypes.c_void_p)
    rows = [_Tensor(t.data_ptr(), pointer, None, 1, 2, 32, 1, 1, 0) for t in (*tensors, result)]
    inputs, outputs = (_Tensor * 2)(*rows[:2]), (_Tensor * 1)(rows[2])
    with tempfile.TemporaryDirectory() as folder:
        fn.save(f"{folder}/m.sl", cpus=("host",))
        model = ctypes.c_void_p()
        assert runtime.sl_model_load(f"{folder}/m.sl".encode(), None, ctypes.byref(model), None) == 0
        run = ctypes.cast(runtime.sl_model_run, ctypes.c_void_p)
        took = _in_c(lambda calls: library.loop(run, model, inputs, 2, outputs, ctypes.c_long(calls)))
        runtime.sl_model_release(model)
    return took


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="writes the figures")
    options = parser.parse_args()
    torch.set_num_threads(1)
    a, b, y = torch.randn(16), torch.randn(16), torch.empty(16)
    fn = sl.compile(lambda a, b: a + b, (a, b))
    fn.register("ffi_bench::forward")
    op = torch.ops.ffi_bench.forward
    function = fn.tvm_ffi()
    rows = {"C run": c_run(fn, [a, b], y)}
    with torch.no_grad():
        rows["fn(a, b)"] = nanoseconds(lambda: fn(a, b))
        rows["torch.ops.ffi_bench.forward(a, b)"] = nanoseconds(lambda: op(a, b))
        rows["torch.ops.aten.add.Tensor(a, b)"] = nanoseconds(lambda: torch.ops.aten.add.Tensor(a, b))
        rows["torch.ops.aten.alias(a)"] = nanoseconds(lambda: torch.ops.aten.alias(a))
        rows["tvm_ffi.Function(a, b)"] = nanoseconds(lambda: function(a, b))
        rows["tvm_ffi.Function(a, b, y)"] = nanoseconds(lambda: function(a, b, y))
    base = rows["C run"]
    bars = {"torch.ops.ffi_bench.forward(a, b)": 600, "tvm_ffi.Function(a, b)": 500, "tvm_ffi.Function(a, b, y)": 500}
    for name, took in rows.items():
        bar = f"  bar {bars[name]}" if name in bars else ""
        print(f"{name:40} {took:8.0f} ns  {took - base:+8.0f}{bar}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
