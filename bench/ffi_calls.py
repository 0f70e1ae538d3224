# SPDX-License-Identifier: Apache-2.0
"""What a call costs from torch, from TVM-FFI and from C: `python bench/ffi_calls.py [--json FILE]`.

One thread, a program of one addition over 16 floats, the least of 7 rounds of 20,000 calls, nanoseconds. "C run" is
`sl_model_run` in a loop of C; each other line is a call by its door, with the difference to the C run and the bar.
The rest is what the way from Python takes before any kernel: `torch.ops.aten.alias`, a view; an op of torch's stable ABI that
drops its two arguments and gives an empty tensor; `testing.nop` and `testing.echo` of TVM-FFI, with as many arguments and with a
result; and a function of TVM-FFI that gives a tensor of the environment's allocator.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import straightline as sl
import torch
import tvm_ffi
from straightline import _call, _compiler, own_kernels
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


#: An op of torch and a function of TVM-FFI that compute nothing; the addresses are found by Python.
_EMPTY = """
#include <straightline/abi/ffi.h>
#include <straightline/abi/tvm_kernel.h>
extern "C" {
int32_t (*empty_strided)(int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t, void**);
int32_t (*delete_tensor)(void*);
int (*environment_tensor)(sl_dl_tensor*, void**);

void torch_empty(uint64_t* stack, uint64_t, uint64_t, void*) {
  delete_tensor(reinterpret_cast<void*>(stack[0]));
  delete_tensor(reinterpret_cast<void*>(stack[1]));
  const int64_t size = 16, stride = 1;
  void* made = nullptr;
  empty_strided(1, &size, &stride, 6, 0, 0, &made);
  stack[0] = reinterpret_cast<uint64_t>(made);
}

int tvm_empty(void*, const sl_tvm::Any*, int32_t, sl_tvm::Any* result) {
  int64_t size = 16, stride = 1;
  sl_dl_tensor like = {nullptr, {SL_DLPACK_CPU, 0}, 1, {2, 32, 1}, &size, &stride, 0};
  void* made = nullptr;
  const int failed = environment_tensor(&like, &made);
  result->type = sl_tvm::kTensor;
  result->pointer = made;
  return failed;
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


class _View(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
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


def that_compute_nothing() -> tuple[Any, Any]:
    """An op of torch and a function of TVM-FFI of two tensors that give an empty one."""
    names = ["empty_strided", "delete_tensor", "environment_tensor"]
    library = opened(_compiler.link_text("empty", _EMPTY, ["torch_empty", "tvm_empty", *names]))
    torch_library = ctypes.CDLL("libtorch_cpu.so", mode=os.RTLD_NOLOAD)
    tvm_library = ctypes.CDLL("libtvm_ffi.so", mode=os.RTLD_NOLOAD)
    found = (
        torch_library.aoti_torch_empty_strided, torch_library.aoti_torch_delete_tensor_object, tvm_library.TVMFFIEnvTensorAlloc
    )  # fmt: skip
    for name, function in zip(names, found, strict=True):
        ctypes.c_void_p.in_dll(library, name).value = ctypes.cast(function, ctypes.c_void_p).value
    address = ctypes.cast(library.torch_empty, ctypes.c_void_p).value
    _call.ffi_torch_register("ffi_bench", "empty(Tensor a, Tensor b) -> Tensor", "CPU", address)
    made = ctypes.c_void_p()
    text = (ctypes.c_char * 16)(*b"ffi_bench.empty")
    name = (ctypes.c_uint64 * 2)(ctypes.addressof(text), 15)
    assert tvm_library.TVMFFIFunctionCreate(None, library.tvm_empty, None, ctypes.byref(made)) == 0
    assert tvm_library.TVMFFIFunctionSetGlobal(name, made, 1) == 0
    return torch.ops.ffi_bench.empty, tvm_ffi.get_global_func("ffi_bench.empty")


def kernel_in_a_program(folder: Path) -> tuple[float, float]:
    """Nanoseconds that a function of TVM-FFI takes in a program (one of ten more of them), and by its symbol in a loop of C."""
    source = Path(__file__).resolve().parents[1] / "tests" / "ffi" / "kernels.c"
    path = folder / "libkernels.so"
    where = Path(tvm_ffi.__file__).parent / "lib"
    subprocess.run(["gcc", "-O2", "-fPIC", "-shared", source, "-o", path, f"-L{where}", "-ltvm_ffi"], check=True)
    sl.tvm_ffi_library(path, {"scale": "ffi_bench::scale(Tensor(a!) out, Tensor x, float a, bool negate) -> ()"})

    def program(count: int) -> Any:
        def calls(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            out = torch.empty_like(x)
            for i in range(count):
                torch.ops.ffi_bench.scale(out, y, float(i), False)
            return out

        return sl.compile(calls, (torch.randn(16), torch.randn(16)))

    x, y, out = torch.randn(16), torch.randn(16), torch.empty(16)
    one, more = (c_run(program(count), [x, y], out) for count in (1, 11))
    symbol = ctypes.cast(ctypes.CDLL(str(path)).__tvm_ffi_scale, ctypes.c_void_p)
    shape, stride = (ctypes.c_int64 * 1)(16), (ctypes.c_int64 * 1)(1)
    views = [
        _View(t.data_ptr(), 1, 0, 1, 2, 32, 1, ctypes.addressof(shape), ctypes.addressof(stride), 0) for t in (out, y)
    ]
    half = ctypes.c_int64.from_buffer_copy(ctypes.c_double(0.5)).value
    arguments = (ctypes.c_int64 * 8)(7, ctypes.addressof(views[0]), 7, ctypes.addressof(views[1]), 3, half, 2, 0)
    library = opened(_compiler.link_text("loop", _LOOP, ["loop", "loop_tvm"]))
    return (more - one) / 10, _in_c(lambda calls: library.loop_tvm(symbol, None, arguments, 4, ctypes.c_long(calls)))


def program_in_a_program() -> dict[str, float]:
    """Nanoseconds that a registered program takes in another one (one of ten more), directly and by torch's dispatcher."""
    a, b, name = torch.randn(16), torch.randn(16), "ffi_bench::inner"
    sl.compile(lambda a, b: a + b, (a, b)).register(name)

    def program(count: int) -> Any:
        def calls(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            for _ in range(count):
                a = torch.ops.ffi_bench.inner(a, b)
            return a

        return sl.compile(calls, (a, b))

    took = {}
    for way in ("directly", "by the dispatcher"):
        one, more = (nanoseconds(lambda fn=program(count): fn(a, b), 5000) for count in (1, 11))
        took[f"a program in a program, {way}"] = (more - one) / 10
        own_kernels.forget_program(name)
    return took


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
    nop, echo = (tvm_ffi.get_global_func(f"testing.{name}") for name in ("nop", "echo"))
    torch_empty, tvm_empty = that_compute_nothing()
    rows = {"C run": c_run(fn, [a, b], y)}
    with torch.no_grad():
        rows["fn(a, b)"] = nanoseconds(lambda: fn(a, b))
        rows["torch.ops.ffi_bench.forward(a, b)"] = nanoseconds(lambda: op(a, b))
        rows["torch.ops.aten.add.Tensor(a, b)"] = nanoseconds(lambda: torch.ops.aten.add.Tensor(a, b))
        rows["torch.ops.aten.alias(a)"] = nanoseconds(lambda: torch.ops.aten.alias(a))
        rows["an op of the stable ABI (a, b), empty"] = nanoseconds(lambda: torch_empty(a, b))
        rows["TVM-FFI's testing.nop(a, b, y)"] = nanoseconds(lambda: nop(a, b, y))
        rows["TVM-FFI's testing.echo(a)"] = nanoseconds(lambda: echo(a))
        rows["a function of TVM-FFI (a, b), empty"] = nanoseconds(lambda: tvm_empty(a, b))
        rows["tvm_ffi.Function(a, b)"] = nanoseconds(lambda: function(a, b))
        rows["tvm_ffi.Function(a, b, y)"] = nanoseconds(lambda: function(a, b, y))
    base = rows["C run"]
    bars = {"torch.ops.ffi_bench.forward(a, b)": 600, "tvm_ffi.Function(a, b)": 500, "tvm_ffi.Function(a, b, y)": 500}
    for name, took in rows.items():
        bar = f"  bar {bars[name]}" if name in bars else ""
        print(f"{name:40} {took:8.0f} ns  {took - base:+8.0f}{bar}")
    with tempfile.TemporaryDirectory() as folder:
        inside, alone = kernel_in_a_program(Path(folder))
    rows["a TVM-FFI kernel in a program"], rows["its symbol in a loop of C"] = inside, alone
    print(
        f"{'a TVM-FFI kernel in a program':40} {inside:8.1f} ns  {inside - alone:+8.1f}  bar 40, over its symbol ({alone:.1f} ns)"
    )
    for name, took in program_in_a_program().items():
        rows[name] = took
        print(f"{name:40} {took:8.1f} ns")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
