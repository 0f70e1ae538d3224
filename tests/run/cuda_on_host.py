# SPDX-License-Identifier: Apache-2.0
"""Runs a program for a CUDA device on the host: its emitted text, compiled by clang over host_device/, in a process of its own.

STRAIGHTLINE_HOST_SANITIZER=thread or address (or `sanitizer` of `run_on_host`) runs it under that sanitizer: see host_device/machine.h
for what that finds. Run so and compared with eager: `compare`.
"""

from __future__ import annotations

import copy
import functools
import os
import re
import struct
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import torch
from policy import torch_errors
from statements import launches_of
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import straightline as sl

_HERE = Path(__file__).resolve().parent / "host_device"
_ROOT = _HERE.parents[2]
#: Of the scale, beside eager's own error; 16-bit floats: a hundredth.
_PARTS = {torch.float64: 2e-15, torch.float32: 1e-6}
_SANITIZER = os.environ.get("STRAIGHTLINE_HOST_SANITIZER")
_CLANG = ("clang++-22", "-std=c++20", "-O1", "-g1", "-w", "-fPIC")
#: Of one program; large ones take minutes under a sanitizer.
_SECONDS = 900


@functools.cache
def _tree() -> tempfile.TemporaryDirectory[str]:
    """A folder for what is made once a process: headers under their names, the machine."""
    folder = tempfile.TemporaryDirectory()
    include = Path(folder.name) / "straightline"
    include.mkdir()
    (include / "abi").symlink_to(_ROOT / "runtime/abi")
    (include / "kernels").symlink_to(_ROOT / "codegen/kernels")
    return folder


@functools.cache
def _machine(sanitizer: str | None) -> Path:
    folder = Path(_tree().name)
    program, parts = folder / f"machine_{sanitizer}", []
    # Not instrumented: what it does is not the kernels' doing.
    for source in (_HERE / "machine.cpp", _ROOT / "runtime/expression.cpp"):
        parts.append(folder / f"{source.stem}_{sanitizer}.o")
        subprocess.run([*_CLANG, f"-I{folder}", "-c", source, "-o", parts[-1]], check=True)
    subprocess.run(
        ["clang++-22", *_flags(sanitizer), "-rdynamic", *parts, "-o", program, "-ldl", "-lpthread"], check=True
    )
    return program


def _flags(sanitizer: str | None) -> list[str]:
    # A stack for what is used behind its return would be made for each thread of a kernel, which takes most of the time.
    return [f"-fsanitize={sanitizer}", "-fsanitize-address-use-after-return=never"] if sanitizer else []


def _clusters(code: str) -> dict[str, int]:
    """Blocks that work together, of each kernel that has such."""
    return {name: int(blocks) for blocks, name in re.findall(r"^SL_CLUSTER_KERNEL\(\d+, (\d+)\) (\w+)\(", code, re.M)}


def _build(code: str, folder: Path, sanitizer: str | None) -> Path:
    """A library of the program's text: the device's part as it would be there, the host's as it is."""
    folder.mkdir(exist_ok=True)
    device, host = code.split("// C++.\n")
    kernels = re.findall(r"^SL_(?:RESIDENT_|CLUSTER_)?KERNEL\([^)]*\) (\w+)\(", device, re.M)
    clusters = _clusters(device)
    cases = "".join(
        f'  if (strcmp(entry->name, "{name}") == 0) {{\n    what.cluster = {clusters.get(name, 1)};\n'
        f"    host_device::call({name}, arguments, what);\n    return SL_OK;\n  }}\n"
        for name in kernels
    )
    threads = sanitizer == "thread" or bool(clusters)
    text = (
        f'{"#define STRAIGHTLINE_BLOCKS_ARE_THREADS 1" if threads else ""}\n#include "{_HERE / "cuda.h"}"\n{device}\n'
        '#include "straightline/abi/queue.h"\n'
        'extern "C" int32_t sl_queue_start(sl_ctx*, void*, void* kernel, const sl_grid* grid, void* const* arguments) {\n'
        "  const auto* entry = static_cast<const sl_entry*>(kernel);\n"
        "  host_device::Launch what;\n  what.blocks = grid->blocks;\n  what.threads = grid->threads;\n"
        "  what.early = entry->code->waits;\n  what.kernel = entry;\n  what.arguments = arguments;\n  what.shared = &host_device::sharedMemory;\n"
        f"{cases}  host_device::fail(entry->name);\n}}\n"
    )
    images = "".join(f'extern "C" const sl_device_image {name}_image = {{}};\n' for name in kernels)
    texts = {"device": text, "host": f"{host}\n{images}"}
    library = folder / "program.so"
    if library.exists() and all((folder / f"{name}.cpp").read_text() == text for name, text in texts.items()):
        return library
    for name, text in texts.items():
        (folder / f"{name}.cpp").write_text(text)
    parts = []
    # Warps hand over in the midst of functions, whose entries therefore mean nothing to the sanitizer.
    entries = ["-mllvm", "-tsan-instrument-func-entry-exit=0"] if sanitizer == "thread" else []
    for name, flags in (("device", [*_flags(sanitizer), *entries]), ("host", [])):
        parts.append(folder / f"{name}.o")
        subprocess.run(
            [*_CLANG, *flags, f"-I{_tree().name}", "-c", folder / f"{name}.cpp", "-o", parts[-1]], check=True
        )
    subprocess.run(["clang++-22", *_flags(sanitizer), "-shared", *parts, "-o", library], check=True)
    return library


def _bytes(tensor: Tensor) -> bytes:
    """Of its storage, from its first element on."""
    count = (
        0
        if tensor.numel() == 0
        else 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    )
    flat = torch.as_strided(tensor.detach(), (count,), (1,))
    return flat.view(torch.uint8).numpy().tobytes() if count else b""


def _shorter(report: str) -> str:
    """Without types, and the frames of one access that are not in our headers."""
    lines = (re.sub(r"<.*>| \(BuildId.*", "", line) for line in report.splitlines())
    return "\n".join(
        line[:200] for line in lines if "    #" not in line or "straightline/kernels" in line or "device.cpp" in line
    )[:4000]


def run_on_host(
    compiled: object,
    model: nn.Module,
    inputs: tuple[Tensor, ...],
    results: tuple[Tensor, ...],
    folder: Path,
    sanitizer: str | None = _SANITIZER,
) -> None:
    """Calls `compiled` (for a CUDA device) and fills `results`, which have its shapes and types; sizes that have names are those of `inputs`.

    A folder in which this program ran before (under the same sanitizer) has its library.

    None of them may be a view of an input or of another one; equal ones are one output of the program. Buffers that it updates stay
    as they are. AssertionError with its words where the machine or the sanitizer has found something.
    """
    code, ir = compiled.code, compiled.ir("kernel")  # type: ignore[attr-defined]
    library = _build(code, folder, sanitizer)
    head = ir.rpartition("kernel.run ")[2].partition("\n")[0]
    outputs = re.findall(r'(%\w+) "[^"]*": !kernel\.buffer', head.partition("outs(")[2])
    returned = ir.rpartition("kernel.return ")[2].partition(" : ")[0].split(", ")
    places: dict[str, Tensor] = {}
    for name, result in zip(returned, results, strict=True):
        places.setdefault(name, result)
    assert set(places) == set(outputs), "a result is a view"
    named = {
        **dict(model.named_parameters(remove_duplicate=False)),
        **dict(model.named_buffers(remove_duplicate=False)),
    }
    owned = [named[name] for kind in ("parameter", "state") for name in re.findall(rf'kernel\.{kind} "([^"]+)"', ir)]
    with (folder / "call.bin").open("wb") as file:
        for tensors, sized in ((owned, False), (inputs, True)):
            file.write(struct.pack("<q", len(tensors)))
            for tensor in tensors:
                file.write(struct.pack(f"<{tensor.ndim + 1}q", tensor.ndim, *tensor.shape) if sized else b"")
                data = _bytes(tensor)
                file.write(struct.pack("<q", len(data)))
                file.write(data)
        file.write(struct.pack("<q", len(outputs)))
        for name in outputs:
            file.write(struct.pack("<q", places[name].nbytes))
    words = [
        _machine(sanitizer),
        library,
        folder / "call.bin",
        folder / "results.bin",
        str(torch.initial_seed()),
        str(max(_clusters(code).values(), default=1)),
    ]
    options = {"TSAN_OPTIONS": "halt_on_error=1:history_size=7", "ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=_SECONDS, env={**os.environ, **options})
    assert done.returncode == 0, f"{' '.join(map(str, words))}: {done.returncode}\n{_shorter(done.stderr)}"
    data = (folder / "results.bin").read_bytes()
    for name in outputs:
        place, data = data[: places[name].nbytes], data[places[name].nbytes :]
        if place:
            places[name].copy_(torch.frombuffer(bytearray(place), dtype=places[name].dtype).view(places[name].shape))
    for name, result in zip(returned, results, strict=True):
        if places[name] is not result:
            result.copy_(places[name].view(result.shape))


def compare(
    model: nn.Module,
    inputs: tuple[Tensor, ...],
    folder: Path,
    routes: dict[str, str],
    part: float | None = None,
    target: str = "cuda:sm_80",
    sanitizer: str | None = _SANITIZER,
) -> list[dict[str, Any]]:
    """Within four times eager's distance from float64, or its largest where inputs move by an ulp, and a part of the scale.

    Returns what a call launches.
    """
    model = model.eval()
    compiled = sl.compile(model, inputs, target=target, routes=routes)
    with torch.inference_mode():
        eagers = pytree.tree_leaves(copy.deepcopy(model)(*inputs))  # which may write rows of buffers
        exacts = pytree.tree_leaves(
            copy.deepcopy(model).double()(*(x.double() if x.is_floating_point() else x for x in inputs))
        )
    got = tuple(torch.empty_like(y, memory_format=torch.contiguous_format) for y in eagers)
    run_on_host(compiled, model, inputs, got, folder, sanitizer)
    for i, (mine, torchs, best) in enumerate(zip(got, eagers, exacts, strict=True)):
        if best.numel() == 0:
            continue
        # Not as a ratio: relu may leave nothing but zeros.
        allowed = (_PARTS.get(mine.dtype, 1e-2) if part is None else part) * best.abs().max()
        error = (mine.double() - best).abs().max()
        if not error <= 4 * (torchs.double() - best).abs().max() + allowed:
            of_torch = torch_errors(model, (inputs, {}))[i]
            assert error <= 4 * of_torch + allowed, (
                f"output {i} is off by {error}, torch by {of_torch} at most, and {allowed} is allowed"
            )
    return launches_of(compiled)
