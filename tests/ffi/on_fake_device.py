# SPDX-License-Identifier: Apache-2.0
"""Functions of TVM-FFI on a CUDA device that is not there (bench/cuda_call_path.py): run as a process of its own.

    python tests/ffi/on_fake_device.py libkernels.so

Prints "right" at the end.
"""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
import tvm_ffi  # noqa: F401  (the library needs libtvm_ffi)

from bench.cuda_call_path import HERE, fake_tensors, made, run_there

_WAYS: tuple[dict[str, Any], ...] = ({}, {"fast_path": False}, {"emit": "python"})
_LAUNCHES = ("stream", "graph")


class _Seen(ctypes.Structure):
    """What the last call of a function saw (kernels.c)."""

    _fields_ = [
        ("calls", ctypes.c_int32), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32), ("host_type", ctypes.c_int32),
        ("stream", ctypes.c_void_p), ("out", ctypes.c_void_p), ("memory", ctypes.c_void_p),
        ("numbers", ctypes.c_int64 * 3), ("scratch_bytes", ctypes.c_int64),
    ]  # fmt: skip


class _Calls:
    """One function of the library in a program for the device."""

    def __init__(self, library: ctypes.CDLL) -> None:
        library.what_was_seen.restype = ctypes.POINTER(_Seen)
        self.library, self.seen = library, library.what_was_seen().contents
        tvm = ctypes.CDLL("libtvm_ffi.so")
        tvm.TVMFFIEnvGetStream.restype = tvm.TVMFFIEnvGetDLPackManagedTensorAllocator.restype = ctypes.c_void_p
        tvm.TVMFFIEnvSetStream.argtypes = [ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p]
        self.tvm = tvm

    def environment(self) -> tuple[Any, Any]:
        """Its stream and allocator of this thread."""
        return self.tvm.TVMFFIEnvGetStream(2, 0), self.tvm.TVMFFIEnvGetDLPackManagedTensorAllocator()

    def program(self, tensors: Any, call: Callable[..., Any], launch: str, **options: Any) -> tuple[Any, list[Any]]:
        """A function of one tensor, which `call` updates or replaces on the way, and its argument."""

        class Model(torch.nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                if not torch.compiler.is_exporting():
                    return torch.exp(x)  # on the host: how large the result is
                y = torch.relu(x)
                given = call(y)
                return torch.exp(y if given is None else given)

        function, arguments, _ = made(tensors, lambda: (Model(), (torch.randn(64),)), launch, **options)
        return function, arguments


def _a_view_and_the_stream(tensors: Any, driver: Any, calls: _Calls) -> None:
    def call(x: torch.Tensor) -> None:
        torch.ops.tvm_there.seen(x, x * 2, False)

    calls.tvm.TVMFFIEnvSetStream(2, 0, 0x77, None)
    before = calls.environment()
    for launch in _LAUNCHES:
        for options in _WAYS:
            function, arguments = calls.program(tensors, call, launch, **options)
            for stream in (0x1000, 0x2000):
                tensors.stream(stream)
                count = calls.seen.calls
                function(*arguments)
                assert calls.environment() == before, "stream and allocator are put back"
                assert calls.seen.device_type == 2 and calls.seen.device == 0
                if launch == "stream":
                    assert calls.seen.stream == stream, (launch, options)
                    assert calls.seen.calls == count + 1
                else:
                    assert calls.seen.stream != stream, "it was captured on a stream of the graph's own"
    tensors.stream(0)
    assert driver.fake_captures() > 0
    function, arguments = calls.program(tensors, call, "graph")
    function(*arguments)
    count, captures = calls.seen.calls, driver.fake_captures()
    for _ in range(3):
        function(*arguments)
    assert (calls.seen.calls, driver.fake_captures()) == (count, captures), "a graph that comes again calls nothing"


def _errors(tensors: Any, calls: _Calls) -> None:
    from straightline import OpError

    def call(x: torch.Tensor) -> None:
        torch.ops.tvm_there.seen(x, x * 2, True)

    before = calls.environment()
    for launch in _LAUNCHES:
        function, arguments = calls.program(tensors, call, launch)
        for _ in range(2):
            try:
                function(*arguments)
            except OpError as error:
                assert "RuntimeError: it fails as asked" in str(error) and "on_fake_device.py" in str(error), error
            else:
                raise AssertionError("it did not fail")
            assert calls.environment() == before


def _plans(tensors: Any, driver: Any, calls: _Calls) -> None:
    """Called in each run, on the call's stream, with a copy on the host; refused in a capture of the caller's."""
    from straightline import OpError

    def call(x: torch.Tensor) -> None:
        torch.ops.tvm_there.plan(x, x * 2)

    for launch in _LAUNCHES:
        for options in _WAYS:
            function, arguments = calls.program(tensors, call, launch, **options)
            tensors.stream(0x1000)
            for _ in range(3):
                count = calls.seen.calls
                function(*arguments)
                assert calls.seen.calls == count + 1, (launch, options)
                seen = (calls.seen.device_type, calls.seen.host_type, calls.seen.stream)
                assert seen == (2, 1, 0x1000), (launch, options, seen)
            tensors.stream(0)
            driver.fake_capture(1)
            try:
                function(*arguments)
            except OpError as error:
                assert "it plans on the host before each launch" in str(error), error
            else:
                raise AssertionError("a capture was not refused")
            finally:
                driver.fake_capture(0)


def _numbers(tensors: Any, driver: Any, calls: _Calls) -> None:
    """Those of each run's plan reach what is run twice, on the call's stream; graphs stand between."""
    from straightline import OpError, UnsupportedError

    def call(x: torch.Tensor) -> torch.Tensor:
        numbers = torch.ops.tvm_there.plan_numbers(x, x * 2, 4096)
        y = x + 1
        torch.ops.tvm_there.run_numbers(y, numbers)
        z = torch.relu(y)
        torch.ops.tvm_there.run_numbers(z, numbers)
        return z

    for launch in _LAUNCHES:
        for options in _WAYS:
            function, arguments = calls.program(tensors, call, launch, **options)
            for stream in (0x1000, 0x2000, 0x1000):
                tensors.stream(stream)
                count = calls.seen.calls
                function(*arguments)
                assert calls.seen.calls == count + 3, (launch, options)
                assert list(calls.seen.numbers) == [count + 1, 7, 4096], (launch, options, list(calls.seen.numbers))
                seen = (calls.seen.device_type, calls.seen.host_type, calls.seen.stream, calls.seen.scratch_bytes)
                assert seen == (2, 1, stream, 4096), (launch, options, seen)
            tensors.stream(0)
            driver.fake_capture(1)
            try:
                function(*arguments)
            except OpError as error:
                words = (
                    "plan_numbers returned status 1: it plans on the host before each launch, which a captured graph"
                )
                assert words in str(error), error
            else:
                raise AssertionError("a capture was not refused")
            finally:
                driver.fake_capture(0)

    def on_the_device(x: torch.Tensor) -> torch.Tensor:
        numbers = torch.ops.tvm_there.plan_numbers(x, x * 2, 4096)
        torch.ops.tvm_there.run_numbers(x, numbers)
        return x + numbers[0]

    def computed(x: torch.Tensor) -> None:
        torch.ops.tvm_there.run_numbers(x, torch.arange(3) + x[:3].long())

    for wrong, words in (
        (on_the_device, "tvm_there.plan_numbers has numbers on the host but"),
        (computed, "tvm_there.run_numbers has numbers on the host but"),
    ):
        try:
            calls.program(tensors, wrong, "graph")
        except UnsupportedError as error:
            assert words in str(error) and "functions that take numbers" in str(error), error
        else:
            raise AssertionError(words)


def _memory(tensors: Any, calls: _Calls) -> None:
    from straightline import OpError

    def taking(count: int, mode: int) -> Callable[[torch.Tensor], None]:
        return lambda x: torch.ops.tvm_there.takes(x, x * 2, count, mode)

    for launch in _LAUNCHES:
        function, arguments = calls.program(tensors, taking(4, 0), launch)
        function(*arguments)
        assert calls.seen.memory, "the workspace has room for four"
        for count, mode, words in (
            (5, 0, "it asks the environment for 256 bytes, behind 1024 others, and its workspace has 1024"),
            (1, 1, "it keeps memory of its workspace"),
            (1, 2, "MemoryError: straightline has no memory for a tensor like this"),
        ):
            function, arguments = calls.program(tensors, taking(count, mode), launch)
            try:
                function(*arguments)
            except OpError as error:
                assert words in str(error), error
            else:
                raise AssertionError(words)
            if mode == 1:
                calls.library.let_go()
        function, arguments = calls.program(tensors, torch.ops.tvm_there.gives, launch)
        count = calls.seen.calls
        function(*arguments)
        assert calls.seen.calls == count + 1


def main() -> None:
    if HERE not in os.environ:
        sys.exit(run_there([__file__, *sys.argv[1:]]))
    tensors, driver = fake_tensors(), ctypes.CDLL("libcuda.so.1")
    import straightline as sl

    warnings.simplefilter("ignore", sl.RouteWarning)
    sl.tvm_ffi_library(
        sys.argv[1],
        {
            "seen": "tvm_there::seen(Tensor(a!) out, Tensor x, bool fails) -> ()",
            "plan": "tvm_there::plan(Tensor(a!) out, Tensor sizes) -> ()",
            "takes": "tvm_there::takes(Tensor(a!) out, Tensor x, int count, int mode) -> ()",
            "gives": "tvm_there::gives(Tensor x) -> Tensor",
            "plan_numbers": "tvm_there::plan_numbers(Tensor(a!) x, Tensor sizes, int scratch) -> Tensor",
            "run_numbers": "tvm_there::run_numbers(Tensor(a!) out, Tensor numbers) -> ()",
        },
        device="cuda",
        plans={"plan": ["sizes"], "plan_numbers": {"sizes": "copy", "scratch": "scratch"}},
        numbers={"plan_numbers": 3, "run_numbers": ["numbers"]},
        workspace={"takes": lambda out, x, count, mode: 4 * x.numel() * x.element_size()},
    )
    calls = _Calls(ctypes.CDLL(sys.argv[1]))
    _a_view_and_the_stream(tensors, driver, calls)
    _errors(tensors, calls)
    _plans(tensors, driver, calls)
    _numbers(tensors, driver, calls)
    _memory(tensors, calls)
    print("right")


if __name__ == "__main__":
    main()
