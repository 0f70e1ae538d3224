# SPDX-License-Identifier: Apache-2.0
"""Runs a program for a CUDA device on the host: its emitted text, compiled by clang with cuda_on_host.h for the device's part.

Run so and compared with eager: `compare`.
"""

from __future__ import annotations

import copy
import ctypes
import re
import subprocess
from pathlib import Path
from typing import Any

import torch
from policy import torch_errors
from statements import launches_of
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import straightline as sl

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parents[1]
#: Of arenas and prepared data; small models only.
_BYTES = 64 << 20
#: Of the scale, beside eager's own error; 16-bit floats: a hundredth.
_PARTS = {torch.float64: 2e-15, torch.float32: 1e-6}


class _Team(ctypes.Structure):
    _fields_ = (("shared", ctypes.c_void_p), ("index", ctypes.c_int32), ("size", ctypes.c_int32))


class _Bindings(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint64),
        *((name, ctypes.POINTER(ctypes.c_void_p))
          for name in ("parameters", "prepared", "handles", "arenas", "inputs", "outputs")),
        ("extents", ctypes.POINTER(ctypes.c_int64)),
        ("queues", ctypes.POINTER(ctypes.c_void_p)),
        ("kernels", ctypes.POINTER(ctypes.c_void_p)),
    )  # fmt: skip


def _pointers(addresses: list[int]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * max(1, len(addresses)))(*addresses)


def _build(code: str, folder: Path) -> ctypes.CDLL:
    """One library of the program's text: the device's part with fibers, the host's as it is."""
    folder.mkdir(exist_ok=True)
    device, host = code.split("// C++.\n")
    kernels = re.findall(r"^SL_(?:RESIDENT_)?KERNEL\([^)]*\) (\w+)\(", device, re.M)
    numbers = dict(re.findall(r"io->kernels\[(\d+)\], &grid, arguments\);  // (\w+)", host))
    assert set(numbers.values()) == set(kernels), "every kernel, and none that this cannot run"
    cases = "".join(f"  case {number}: cuda_host::call({name}, arguments, grid); break;\n" for number, name in numbers.items())
    (folder / "device.cpp").write_text(
        f'#include "{_HERE / "cuda_on_host.h"}"\n{device}\n'
        'extern "C" void host_start(int64_t kernel, void* const* arguments, const int64_t* grid) {\n'
        f"  switch (kernel) {{\n{cases}  }}\n}}\n"
    )
    images = "".join(f'extern "C" const sl_device_image {name}_image = {{}};\n' for name in kernels)
    (folder / "host.cpp").write_text(
        f"{host}\n{images}"
        'extern "C" void host_start(int64_t kernel, void* const* arguments, const int64_t* grid);\n'
        'extern "C" int32_t sl_queue_start(sl_ctx*, void*, void* kernel, const sl_grid* grid, void* const* arguments) {\n'
        "  const int64_t shape[] = {int64_t(grid->blocks), int64_t(grid->threads)};\n"
        "  host_start(reinterpret_cast<int64_t>(kernel) - 1, arguments, shape);\n  return 0;\n}\n"
        'extern "C" void sl_queue_step(void*, int32_t, const int32_t*, int32_t) {}  // the order of the text\n'
        'extern "C" int32_t sl_queue_copy(sl_ctx*, void*, void* to, const char*, const void* from, const char*, size_t bytes) {\n'
        "  __builtin_memcpy(to, from, bytes);\n  return 0;\n}\n"
    )
    include = folder / "straightline"
    include.mkdir(exist_ok=True)
    for name, target in (("abi", _ROOT / "runtime/abi"), ("kernels", _ROOT / "codegen/kernels")):
        if not (include / name).exists():
            (include / name).symlink_to(target)
    library = folder / "program.so"
    subprocess.run(
        ["clang++-22", "-std=c++20", "-O1", "-w", "-fPIC", "-shared", f"-I{folder}", "-o", library, folder / "device.cpp",
         folder / "host.cpp"],
        check=True,
    )  # fmt: skip
    return ctypes.CDLL(str(library))


def run_on_host(compiled: object, model: nn.Module, inputs: tuple[Tensor, ...], results: tuple[Tensor, ...], folder: Path) -> None:
    """Calls `compiled` (for a device without clusters: sm_80) and fills `results`, which have its shapes and types.

    None of them may be a view of an input or of another one; equal ones are one output of the program.
    """
    code, ir = compiled.code, compiled.ir("kernel")  # type: ignore[attr-defined]
    library = _build(code, folder)
    head = ir.rpartition("kernel.run ")[2].partition("\n")[0]
    outputs = re.findall(r'(%\w+) "[^"]*": !kernel\.buffer', head.partition("outs(")[2])
    returned = ir.rpartition("kernel.return ")[2].partition(" : ")[0].split(", ")
    places: dict[str, Tensor] = {}
    for name, result in zip(returned, results, strict=True):
        places.setdefault(name, result)
    assert set(places) == set(outputs), "a result is a view"
    named = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    names = re.findall(r'kernel\.parameter "([^"]+)"', ir)
    parameters = [named[name].data_ptr() for name in names]
    arenas = [torch.full((_BYTES,), 255, dtype=torch.uint8) for _ in range(2)]  # NaN where nothing was written
    prepared = [torch.full((_BYTES,), 255, dtype=torch.uint8) for _ in range(2)]
    arrays = [_pointers(a) for a in (
        parameters, [t.data_ptr() for t in prepared], [], [t.data_ptr() for t in arenas], [x.data_ptr() for x in inputs],
        [places[name].data_ptr() for name in outputs],
    )]  # fmt: skip
    kernels = _pointers(list(range(1, 2 + max(map(int, re.findall(r"io->kernels\[(\d+)\]", code)), default=0))))
    bindings = _Bindings(ctypes.sizeof(_Bindings), *arrays, None, _pointers([0, 0]), kernels)
    context = ctypes.create_string_buffer(1 << 14)
    ctypes.c_uint64.from_buffer(context).value = 1 << 14
    for entry in ("sl_program_prepare", "sl_program_run"):
        if hasattr(library, entry):
            status = getattr(library, entry)(context, _Team(None, 0, 1), ctypes.byref(bindings))
            assert status == 0, f"{entry}: {status}"
    for name, result in zip(returned, results, strict=True):
        if places[name] is not result:
            result.copy_(places[name].view(result.shape))


def compare(
    model: nn.Module, inputs: tuple[Tensor, ...], folder: Path, routes: dict[str, str], part: float | None = None
) -> list[dict[str, Any]]:
    """Within four times eager's distance from float64, or its largest where inputs move by an ulp, and a part of the scale.

    Returns what a call launches.
    """
    model = model.eval()
    compiled = sl.compile(model, inputs, target="cuda:sm_80", routes=routes)
    with torch.inference_mode():
        eagers = pytree.tree_leaves(model(*inputs))
        exacts = pytree.tree_leaves(copy.deepcopy(model).double()(*(x.double() for x in inputs)))
    got = tuple(torch.empty_like(y, memory_format=torch.contiguous_format) for y in eagers)
    run_on_host(compiled, model, inputs, got, folder)
    for i, (mine, torchs, best) in enumerate(zip(got, eagers, exacts, strict=True)):
        # Not as a ratio: relu may leave nothing but zeros.
        allowed = (_PARTS.get(mine.dtype, 1e-2) if part is None else part) * best.abs().max()
        error = (mine.double() - best).abs().max()
        if not error <= 4 * (torchs.double() - best).abs().max() + allowed:
            of_torch = torch_errors(model, (inputs, {}))[i]
            assert error <= 4 * of_torch + allowed, f"output {i} is off by {error}, torch by {of_torch} at most, and {allowed} is allowed"
    return launches_of(compiled)
