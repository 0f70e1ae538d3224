# SPDX-License-Identifier: Apache-2.0
"""`torch.compile` on a CUDA device in each of its modes, and AOTInductor."""

from __future__ import annotations

import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from straightline.bench.contender import Contender, Prepared, Task, Unsupported, cuda_call
from straightline.bench.contenders.eager import channels_last

_LOADING_S = 60


class CudaCompile(Contender):
    """Generated Triton kernels, launched one by one."""

    name = "compile"
    rows = {"compile": "torch.compile"}
    slow_to_compile = True
    mode: ClassVar[str | None] = None

    def prepare(self, task: Task) -> Prepared:
        """Compiles in inference mode, images channels last; recurrent nets are let in."""
        import torch

        torch.set_grad_enabled(False)
        torch._dynamo.config.allow_rnn = True  # else recurrent nets stay eager
        inputs = _inputs(task)
        start = time.perf_counter()
        with torch.inference_mode():
            function = torch.compile(task.model, mode=self.mode)
            for _ in range(3):  # the first call compiles, the next ones warm up and record the graph
                function(*inputs)
            torch.cuda.synchronize()
            seconds = time.perf_counter() - start
        return Prepared({self.name: cuda_call(function, inputs)}, seconds, {"torch": torch.__version__, **_triton()})


class CudaReduceOverhead(CudaCompile):
    """The same kernels in CUDA graphs."""

    name = "compile_reduce_overhead"
    rows = {"compile_reduce_overhead": "torch.compile, reduce-overhead"}
    mode = "reduce-overhead"


class CudaMaxAutotune(CudaCompile):
    """Products and convolutions chosen by measuring, in CUDA graphs."""

    name = "compile_max_autotune"
    rows = {"compile_max_autotune": "torch.compile, max-autotune"}
    mode = "max-autotune"


class CudaAotInductor(Contender):
    """A package compiled ahead of time, called through Python."""

    name = "aoti"
    rows = {"aoti": "AOTInductor"}
    slow_to_compile = True

    def prepare(self, task: Task) -> Prepared:
        """Exports, compiles, packages, loads; without torch's loader of packages where that ends the process that calls it."""
        import torch

        torch.set_grad_enabled(False)
        inputs = _inputs(task)
        start = time.perf_counter()
        try:
            program = torch.export.export(task.model, inputs)
        except Exception as error:
            raise Unsupported(f"torch.export does not take the model: {str(error).splitlines()[0]}") from error
        path = torch._inductor.aoti_compile_and_package(program, package_path=str(task.folder / "model.pt2"))
        seconds = time.perf_counter() - start
        reason = _why_the_loader_fails(path)
        start = time.perf_counter()
        function = library_of_package(path, "cuda") if reason else torch._inductor.aoti_load_package(path)
        function(*inputs)
        torch.cuda.synchronize()
        seconds += time.perf_counter() - start
        return Prepared(
            {"aoti": cuda_call(function, inputs, configuration=reason)}, seconds, {"torch": torch.__version__}
        )


def _why_the_loader_fails(path: str) -> str:
    """Empty where a process of its own loads the package; with torch 2.11 on the machines that we know it ends with SIGSEGV."""
    program = "import sys, torch; torch._inductor.aoti_load_package(sys.argv[1])"
    try:
        status = subprocess.run(
            [sys.executable, "-c", program, path], capture_output=True, timeout=_LOADING_S
        ).returncode
    except subprocess.TimeoutExpired:
        return f"called without torch's loader of packages, which took more than {_LOADING_S} s"
    return f"called without torch's loader of packages, which ended its process with status {status}" if status else ""


def library_of_package(path: str, device: str) -> Callable[..., list[Any]]:
    """What calls the library in a package of AOTInductor ("cpu" or "cuda"); the package is unpacked beside itself.

    Tensors in, one by one; a list of tensors out.
    """
    import torch

    folder = Path(path).with_suffix(".unpacked")
    with zipfile.ZipFile(path) as package:
        package.extractall(folder)
    (library,) = folder.rglob("*.wrapper.so")
    runners = torch._C._aoti
    if device == "cpu":
        runner = runners.AOTIModelContainerRunnerCpu(str(library), 1)
    else:
        runner = runners.AOTIModelContainerRunnerCuda(str(library), 1, device, str(library.parent))
    return lambda *inputs: runner.run(list(inputs))


def _inputs(task: Task) -> tuple[Any, ...]:
    return tuple(channels_last(x) for x in task.inputs)


def _triton() -> dict[str, str]:
    try:
        import triton
    except ImportError:
        return {}
    return {"triton": triton.__version__}
