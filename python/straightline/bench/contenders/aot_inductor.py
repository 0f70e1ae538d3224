# SPDX-License-Identifier: Apache-2.0
"""AOTInductor: a package compiled ahead of time, called through Python and through `boxed_run`."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from straightline.bench.contender import (
    Call,
    Contender,
    Prepared,
    Task,
    Unsupported,
    failing,
    python_call,
    python_loop,
)
from straightline.bench.contenders import inductor
from straightline.bench.native_code import NATIVE, shared_library

_MESSAGE_BYTES = 1024


class AotInductor(Contender):
    """With freezing, max-autotune and C++ GEMMs."""

    name = "aoti"
    rows = {
        "aoti": "AOTInductor",
        "aoti_boxed": "AOTInductor boxed_run",
        "aoti_boxed_c": "AOTInductor boxed_run, from C++",
    }
    kinds = {"aoti_boxed_c": "peer from C"}
    slow_to_compile = True

    def prepare(self, task: Task) -> Prepared:
        """Exports, compiles, packages, loads."""
        import torch

        torch.set_grad_enabled(False)
        start = time.perf_counter()
        try:
            program = torch.export.export(task.model, task.inputs)
        except Exception as error:
            raise Unsupported(f"torch.export does not take the model: {str(error).splitlines()[0]}") from error
        path = torch._inductor.aoti_compile_and_package(
            program, package_path=str(task.folder / "model.pt2"), inductor_configs=inductor.options()
        )
        function = torch._inductor.aoti_load_package(path)
        function(*task.inputs)
        seconds = time.perf_counter() - start
        launches = inductor.launches_of_package(path)
        boxed = function.loader.boxed_run  # empties the list that it is given
        calls = {
            "aoti": python_call(function, task.inputs, launches=launches),
            "aoti_boxed": Call(
                python_loop(boxed, task.inputs, as_list=True), lambda: boxed(list(task.inputs)), launches=launches
            ),
        }
        try:
            loop = BoxedLoop(path, task, boxed(list(task.inputs)))
            calls["aoti_boxed_c"] = Call(loop.seconds, loop.answer, launches=launches)
        except Exception as error:  # told in the row; the other rows stand
            calls["aoti_boxed_c"] = failing(error)
        return Prepared(calls, seconds, {"torch": torch.__version__})


class _Tensor(ctypes.Structure):
    """`sl_bench_tensor` of native/aoti_loop.cpp."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
    ]


class BoxedLoop:
    """A package called by a loop in C++."""

    def __init__(self, path: str, task: Task, results: Sequence[Any]) -> None:
        """Compiles the loop, which takes some seconds the first time in a run.

        Raises:
            Unavailable: There is no C++ compiler.
        """
        import torch

        root = Path(torch.__file__).parent
        source = NATIVE / "aoti_loop.cpp"
        library = task.shared_folder / f"{source.stem}.so"
        if not library.is_file():
            names = ("torch", "torch_cpu", "c10")
            flags = [f"-I{root / 'include'}", f"-L{root / 'lib'}", *(f"-l{name}" for name in names)]
            shared_library(source, task.shared_folder, flags=flags)
        self._library = ctypes.CDLL(str(library))
        self._library.sl_bench_aoti_open.restype = ctypes.c_void_p
        self._library.sl_bench_aoti_loop.restype = ctypes.c_double
        self._message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        inputs = [x.contiguous() for x in task.inputs]
        self.results = [torch.empty_like(r, memory_format=torch.contiguous_format) for r in results]
        self._kept = inputs
        self._inputs, self._outputs = _described(inputs), _described(self.results)
        opened = self._library.sl_bench_aoti_open(path.encode(), self._message, ctypes.c_size_t(_MESSAGE_BYTES))
        if not opened:
            raise RuntimeError(self._message.value.decode())
        self._loader = ctypes.c_void_p(opened)

    def seconds(self, calls: int) -> float:
        """Makes so many calls."""
        taken = self._library.sl_bench_aoti_loop(
            self._loader, self._inputs, len(self._inputs), self._outputs, len(self._outputs), ctypes.c_long(calls),
            self._message, ctypes.c_size_t(_MESSAGE_BYTES),
        )  # fmt: skip
        if taken < 0:
            raise RuntimeError(self._message.value.decode())
        return taken

    def answer(self) -> list[Any]:
        """The results of one call."""
        self.seconds(1)
        return self.results


def _described(tensors: Sequence[Any]) -> Any:
    import torch

    codes = {  # c10::ScalarType
        torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.float16: 5, torch.float32: 6,
        torch.float64: 7, torch.bool: 11, torch.bfloat16: 15,
    }  # fmt: skip
    return (_Tensor * len(tensors))(
        *[_Tensor(t.data_ptr(), (ctypes.c_int64 * t.dim())(*t.shape), t.dim(), codes[t.dtype]) for t in tensors]
    )
