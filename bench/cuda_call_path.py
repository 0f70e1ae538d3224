# SPDX-License-Identifier: Apache-2.0
"""What of a call on a CUDA device is ours: calls of compiled programs with a driver and tensors that do nothing; needs no device.

    python -m bench.cuda_call_path                 # nanoseconds a call, and what it asks of the driver

Both are made by `cc` (bench/fake_cuda). A call takes the whole way: arguments, guard, allocation by the exchange table, frame,
straight line or graph, result. Not in it: the driver's own time, torch's, and libraries (cuDNN, cuBLASLt), whose place our
kernels take.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]
#: The environment's variable that says where `build` has put them.
HERE = "STRAIGHTLINE_FAKE_CUDA"


def build(folder: Path) -> None:
    """A libcuda.so.1 with every function that the runtime asks for, and the module of tensors."""
    driver = (_ROOT / "bench" / "fake_cuda" / "driver.c").read_text()
    symbols = re.findall(r"ENTRY\(\w+, (cu\w+),", (_ROOT / "runtime" / "backends" / "cuda" / "driver.h").read_text())
    driver += "".join(f"int {symbol}() {{ return 0; }}\n" for symbol in symbols if f"int {symbol}(" not in driver)
    (folder / "driver.c").write_text(driver)
    include = folder / "straightline"
    include.mkdir()
    (include / "abi").symlink_to(_ROOT / "runtime" / "abi")
    flags = ["cc", "-O2", "-shared", "-fPIC"]
    subprocess.run([*flags, "-o", folder / "libcuda.so.1", folder / "driver.c"], check=True)
    subprocess.run(
        [*flags, f"-I{folder}", f"-I{sysconfig.get_paths()['include']}", "-o", folder / "fake_tensors.so",
         _ROOT / "bench" / "fake_cuda" / "tensors.c"],
        check=True,
    )  # fmt: skip


def run_there(command: list[str]) -> int:
    """Runs a command with that driver and those tensors; returns its exit status.

    What it compiles must be in the disk cache: NVRTC has no use for such a driver.
    """
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        environment = {**os.environ, HERE: folder, "LD_LIBRARY_PATH": folder}
        return subprocess.run([sys.executable, *command], env=environment, check=False).returncode


def fake_tensors() -> Any:
    """The module of tensors."""
    path = Path(os.environ[HERE]) / "fake_tensors.so"
    spec = importlib.util.spec_from_file_location("fake_tensors", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def on_device(tensors: Any, tensor: Any) -> Any:
    """A tensor on that device with the size and type of another one."""
    import torch

    codes = {torch.bfloat16: 4, torch.bool: 6, torch.uint8: 1}
    code = codes.get(tensor.dtype, 2 if tensor.dtype.is_floating_point else 0)
    return tensors.make(tuple(tensor.shape), tuple(tensor.stride()), code, tensor.element_size() * 8)


def _models() -> dict[str, tuple[Callable[[], tuple[Any, tuple[Any, ...]]], str]]:
    import torch
    from straightline.demo_models import ResNet18

    from bench.cases.models import DecodeStep
    from bench.cuda_cases import CUDA_CASES

    def case(name: str) -> Callable[[], tuple[Any, tuple[Any, ...]]]:
        found = next(case for case in CUDA_CASES if case.name == name)
        return lambda: (found.model().eval(), tuple(torch.randn(i.shape) for i in found.inputs))

    def mlp() -> tuple[Any, tuple[Any, ...]]:
        layers = [torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU()) for _ in range(8)]
        return torch.nn.Sequential(*layers).eval(), (torch.randn(1, 256),)

    def decode() -> tuple[Any, tuple[Any, ...]]:
        return DecodeStep(28, 256, 16, 8, 128, 256, 64).eval().bfloat16(), (torch.randn(1, 1, 256).bfloat16(),)

    return {
        "single_add": (case("single_add"), "stream"),
        "reshape_mix": (case("reshape_mix"), "stream"),
        "mlp_256": (mlp, "stream"),
        "mlp_256 graph": (mlp, "graph"),
        "resnet18": (lambda: (ResNet18().eval(), (torch.randn(1, 3, 224, 224),)), "graph"),
        "decode step": (decode, "graph"),
    }


def compiled(model: Any, inputs: tuple[Any, ...], launch: str, **options: Any) -> Any:
    """Compiles the model for a device, with our own kernels alone."""
    import straightline as sl

    ours = dict.fromkeys(("linear", "matmul", "convolution", "scaled_dot_product_attention"), "cuda")
    return sl.compile(model.requires_grad_(False), inputs, target="cuda:sm_90", launch=launch, routes=ours, **options)


def made(
    tensors: Any, make: Callable[[], tuple[Any, tuple[Any, ...]]], launch: str, **options: Any
) -> tuple[Any, list[Any], Any]:
    """The compiled function over tensors of the device that is not there, its arguments, and a result to be overwritten."""
    from straightline import _call

    model, inputs = make()
    looked_at = compiled(model, inputs, launch, **options)
    binding, compilation = looked_at._binding, looked_at._compilation
    parameters = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    own = [on_device(tensors, parameters[name]) for name in binding.names]
    weights = _call.weights(compilation.program, own, False, None)
    function = _call.Callable(compilation.program, weights, binding.inputs, binding.outputs, binding.options)
    if looked_at._emitted is not None:
        function._python = looked_at._emitted.run
    arguments = [on_device(tensors, tensor) for tensor in inputs]
    return function, arguments, on_device(tensors, model(*inputs))


def _ways(tensors: Any, function: Any, arguments: list[Any], out: Any) -> dict[str, tuple[Callable[[], object], bool]]:
    """Functions that call the program, each with whether the addresses of its operands are new in every call."""
    last: list[Any] = [None]

    def keeping() -> None:
        last[0] = function(*arguments)

    return {
        "out=": (lambda: function(*arguments, out=out), False),
        "result let go": (lambda: function(*arguments), False),
        "the last result kept": (keeping, False),
        "addresses never come back": (lambda: function(*arguments), True),
    }


def _nanoseconds(call: Callable[[], object], calls: int) -> float:
    best = float("inf")
    for _ in range(7):
        begin = time.perf_counter_ns()
        for _ in range(calls):
            call()
        best = min(best, (time.perf_counter_ns() - begin) / calls)
    return round(best)


def _measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    from straightline import _call

    tensors = fake_tensors()
    records = []
    for name, (make, launch) in _models().items():
        if options.only not in name:
            continue
        function, arguments, out = made(tensors, make, launch)
        for way, (call, keeps) in _ways(tensors, function, arguments, out).items():
            tensors.keeps(keeps)
            for _ in range(40):
                call()
            before = _call.cuda_calls()
            for _ in range(40):
                call()
            after = _call.cuda_calls()
            asked = {kind: (after[kind] - before[kind]) / 40 for kind in after if after[kind] != before[kind]}
            took = _nanoseconds(call, options.calls)
            records.append({"case": name, "way": way, "ns": took, "asked": asked})
            print(f"{name:15}{way:28}{took:8.0f} ns  {asked}", flush=True)
    return records


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose name has this")
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if HERE not in os.environ:
        for name, (make, launch) in _models().items():
            if options.only in name:
                compiled(*make(), launch)
        sys.exit(run_there(["-m", "bench.cuda_call_path", *sys.argv[1:]]))
    records = _measure(options)
    if options.json:
        options.json.write_text(json.dumps({"records": records}, indent=1) + "\n")


if __name__ == "__main__":
    main()
