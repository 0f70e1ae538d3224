# SPDX-License-Identifier: Apache-2.0
"""What a person does with emitted Python: reads it, stops in it, looks at values, changes it, interrupts it."""

from __future__ import annotations

import gc
import inspect
import io
import linecache
import pdb
import signal
import sys
import threading
import time
import traceback
import weakref
from typing import Any

import numpy
import pytest
import straightline as sl
import torch
from straightline.testing.models.small import Mlp
from straightline import kernels as all_kernels
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(x).relu())


def mlp(**options: Any) -> tuple[nn.Module, Any]:
    model = Net().eval()
    return model, sl.compile(model, (torch.randn(3, 8),), emit="python", threads=options.pop("threads", 1), **options)


# Reading it -----------------------------------------------------------------------------------------------------------


def test_source_is_known() -> None:
    _, compiled = mlp()
    text = inspect.getsource(compiled.run)
    assert text.startswith("def run(io):") and text in compiled.code
    assert compiled.run.__code__.co_filename.startswith("<straightline forward ")
    assert "from straightline.kernels import native" in compiled.code
    assert "sl_program_run" not in compiled.code


def test_same_model_same_text() -> None:
    model, compiled = mlp()
    assert sl.compile(model, (torch.randn(3, 8),), emit="python", threads=1).code == compiled.code


def test_kernels_say_what_they_take() -> None:
    batch = torch.export.Dim("b", min=1, max=16)
    compiled = sl.compile(
        Mlp((8, 12)).eval(), (torch.randn(3, 8),), dynamic_shapes=({0: batch},), emit="python", threads=1
    )
    kernel = next(entry for entry in compiled.kernels.native if not entry.name.startswith("pack"))
    assert kernel.backend == "native" and kernel.kind == "kernel" and not kernel.can_fail and kernel.cost_us > 0
    assert kernel.scalars == ("b",)
    x, *_, out = kernel.arguments
    assert (x.name, x.role, x.dtype, x.space) == ("a0", "input", "float32", "host")
    assert x.shape == ("b", 8) and x.strides == (8, 1)
    assert (out.role, out.shape) == ("output", ("b", 12))
    pack = next(entry for entry in compiled.kernels.native if entry.name.startswith("pack"))
    assert pack.arguments[0].shape == (12, 8) and pack.scalars == ()
    with pytest.raises(sl.UserError, match=r"takes \d+ arguments .* but got 0"):
        kernel()


def test_kernels_of_all_live_functions() -> None:
    compiled = sl.compile(nn.Linear(29, 31).eval(), (torch.randn(2, 29),), threads=1)
    names = [entry.name for entry in compiled.kernels.native]
    for name in names:
        found = getattr(all_kernels.native, name)
        assert found.name == name and [a.shape for a in found.arguments]
        assert name in dir(all_kernels.native)
    del compiled, found
    gc.collect()
    for name in names:
        with pytest.raises(AttributeError, match=f"no compiled function has a kernel native.{name}"):
            getattr(all_kernels.native, name)


# Stopping in it -------------------------------------------------------------------------------------------------------


def looked_at(compiled: Any, x: Tensor, expressions: list[str]) -> tuple[Any, dict[str, Any]]:
    """Calls under a trace that evaluates expressions at the last line of `run`."""
    seen: dict[str, Any] = {}
    last = max(line for *_, line in compiled.run.__code__.co_lines() if line is not None)

    def trace(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code is not compiled.run.__code__:
            return None
        if event == "return":
            for text in expressions:
                seen[text] = eval(text, frame.f_globals, frame.f_locals)
        return trace

    assert last > 0
    sys.settrace(trace)
    try:
        return compiled(x), seen
    finally:
        sys.settrace(None)


def test_intermediates_are_arrays() -> None:
    model, compiled = mlp()
    x = torch.randn(3, 8)
    result, seen = looked_at(compiled, x, ["t", "t.numpy()", "x.numpy()", "linear_1.numpy()"])
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(seen["t.numpy()"]), model.a(x).relu())
    assert numpy.array_equal(seen["x.numpy()"], x.numpy()) and not seen["x.numpy()"].flags.writeable
    buffer = seen["t"]
    assert (buffer.dtype, buffer.shape, buffer.role, buffer.space) == ("float32", (3, 16), "arena", "host")
    assert repr(buffer) == "<buffer t: float32 (3, 16), arena>"
    # What was looked at stays what it was, whatever comes later.
    kept = {text: value.copy() for text, value in seen.items() if isinstance(value, numpy.ndarray)}
    others = [compiled(torch.randn(3, 8)) for _ in range(5)]
    for text, value in kept.items():
        assert numpy.array_equal(seen[text], value), text
    del result, compiled, x, others
    gc.collect()
    for text, value in kept.items():
        assert numpy.array_equal(seen[text], value), text


def test_bfloat16_comes_as_float32() -> None:
    compiled = sl.compile(lambda x: (x.bfloat16() * 3).sum(0), (torch.randn(5, 4),), emit="python", threads=1)
    x = torch.randn(5, 4)
    outputs = [buffer for buffer in ("sum_1", "sum_2", "sum")]
    name = next(name for name in outputs if f"{name} = " in compiled.code)
    result, seen = looked_at(compiled, x, [f"{name}.numpy()"])
    assert seen[f"{name}.numpy()"].dtype == numpy.float32
    assert numpy.array_equal(seen[f"{name}.numpy()"], result.float().numpy())


def test_pdb_stops_in_it() -> None:
    _, compiled = mlp()
    line = next(
        i for i, text in enumerate(compiled.code.splitlines(), 1) if "native.gemm" in text and "linear_1" in text
    )
    commands = io.StringIO(
        f"break {line}\ncontinue\np t.numpy().shape\np float(t.numpy().min()) >= 0\nlist\ncontinue\n"
    )
    printed = io.StringIO()
    debugger = pdb.Pdb(stdin=commands, stdout=printed, nosigint=True, readrc=False)
    debugger.use_rawinput = False
    debugger.runcall(compiled, torch.randn(3, 8))
    sys.settrace(None)
    text = printed.getvalue()
    assert "(3, 16)" in text and "True" in text, text
    assert "->" in text and "native.gemm" in text, text


def test_code_may_be_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    _, compiled = mlp()
    x = torch.randn(3, 8)
    before, text = compiled(x), compiled.code
    lines = text.splitlines()
    lines.append('    print("linear_1 is", linear_1.numpy().shape)')
    compiled.code = "\n".join(lines) + "\n"
    assert torch.equal(compiled(x), before) and capsys.readouterr().out == "linear_1 is (3, 4)\n"
    for wrong, words in (("def run(io)", "the text is no python"), ("x = 1", "defines no function 'run'")):
        with pytest.raises(sl.UserError, match=words):
            compiled.code = wrong
    compiled.code = text
    assert torch.equal(compiled(x), before) and capsys.readouterr().out == ""
    straight = sl.compile(nn.Linear(8, 4), (x,), threads=1)
    with pytest.raises(sl.UserError, match="emit='python' only"):
        straight.code = text
    with pytest.raises(sl.UserError, match="emit='python' only"):
        straight.run  # noqa: B018


def test_exceptions_show_the_line() -> None:
    compiled = sl.compile(lambda x, i: x[i] * 2, (torch.randn(4), torch.tensor([1])), emit="python", threads=1)
    with pytest.raises(sl.UserError) as failure:
        compiled(torch.randn(4), torch.tensor([9]))
    text = "".join(traceback.format_exception(failure.value))
    assert "<straightline forward" in text and "io.stop_if_failed(" in text
    compiled.code += "    raise KeyError('mine')\n"
    for _ in range(3):
        with pytest.raises(KeyError, match="mine"):
            compiled(torch.randn(4), torch.tensor([1]))


# Misuse ---------------------------------------------------------------------------------------------------------------


def test_nothing_works_after_the_call() -> None:
    _, compiled = mlp()
    held: dict[str, Any] = {}
    compiled.code += "    held.update(io=io, t=t, queue=alone, native=native)\n"
    compiled.run.__globals__["held"] = held
    compiled(torch.randn(3, 8))
    for use in (
        lambda: held["t"].numpy(), lambda: held["t"][0], lambda: held["t"].view(0, 0), lambda: held["io"].stop_if_failed(0),
        lambda: held["queue"].copy(held["t"], held["t"], 4), lambda: held["queue"].record(), lambda: held["io"].alloc(0, 8),
    ):  # fmt: skip
        with pytest.raises(sl.UserError, match="belongs to a call of 'forward' that is over"):
            use()
    kernel = next(entry for entry in held["native"] if entry.name.startswith("gemm"))
    with pytest.raises(sl.UserError, match="belongs to a call"):
        kernel(held["queue"], *[held["t"]] * len(kernel.arguments))
    del compiled
    gc.collect()
    assert held["t"].shape == (3, 16)  # its program lives as long as it does


def test_a_kernel_wants_buffers_of_its_call() -> None:
    _, compiled = mlp()
    text = compiled.code
    for call, words in (
        ("kernel(alone, 1, 2, 3, 4)", "no buffer of this call"),
        ("kernel(t, x, x, x, t)", "no queue"),
        ("kernel(alone, x)", r"takes 5 arguments \(a queue, 4 buffers or values, 0 sizes\) but got 2"),
        ("kernel(alone, x, x, x, t, b=3)", "and names"),
        ("io.stop_if_failed(10000)", r"statement 10000 is outside \[0, \d+\)"),
        ("io.alloc(99, 8)", "alloc of 8 bytes for buffer 99 of"),
        ("t.view(99, 0)", "there is no buffer 99"),
    ):
        compiled.code = text + f"    kernel = next(k for k in native if k.name.startswith('gemm'))\n    {call}\n"
        with pytest.raises(sl.UserError, match=words):
            compiled(torch.randn(3, 8))


# Lifetime -------------------------------------------------------------------------------------------------------------


def test_everything_goes_with_the_function() -> None:
    """Without the garbage collector's help: nothing in it is a circle."""
    model, compiled = mlp()
    for _ in range(3):
        compiled(torch.randn(3, 8))
    run, kernels = weakref.ref(compiled.run), weakref.ref(compiled.kernels)
    file = compiled.run.__code__.co_filename
    assert linecache.getline(file, 1)
    gc.disable()
    try:
        whole = weakref.ref(compiled)
        del compiled
        assert whole() is None and run() is None and kernels() is None
    finally:
        gc.enable()
    assert not linecache.getline(file, 1)


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.parametrize("fails", [False, True])
def test_frames_go_back(fails: bool) -> None:
    """4 MiB of arena a call: two hundred leaked frames would be seen."""
    compiled = sl.compile(
        lambda x: (x.exp().sum(0) @ x).exp().sum(), (torch.randn(1024, 1024),), emit="python", threads=1
    )
    if fails:
        compiled.code += "    raise KeyboardInterrupt\n"
    x = torch.randn(1024, 1024)

    def once() -> None:
        try:
            compiled(x)
        except KeyboardInterrupt:
            assert fails

    for _ in range(3):
        once()
    before = resident_bytes()
    for _ in range(60):
        once()
    assert resident_bytes() - before < 64 << 20


def test_interrupted_in_the_middle() -> None:
    """Ctrl-C while a long loop runs: KeyboardInterrupt out of `run`, and the next call is as good as any."""

    def spin(x: Tensor) -> Tensor:
        def more(x: Tensor) -> Tensor:
            return x.sum() < 1e30

        def step(x: Tensor) -> tuple[Tensor]:
            return (x + 1e-3,)

        return torch.while_loop(more, step, (x,))[0]

    compiled = sl.compile(spin, (torch.ones(3),), emit="python", threads=1)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    main = threading.get_ident()
    timer = threading.Timer(0.3, lambda: signal.pthread_kill(main, signal.SIGINT))
    timer.start()
    start = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt) as failure:
            compiled(torch.ones(3))
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - start < 20
    assert "run" in [frame.name for frame in traceback.extract_tb(failure.value.__traceback__)]
    done = compiled(torch.full((3,), 1e30))
    assert torch.equal(done, torch.full((3,), 1e30))


def test_a_call_in_a_call() -> None:
    """A print that itself calls the function: each call has buffers of its own."""
    _, compiled = mlp()
    text = compiled.code
    compiled.code = text + "    inner.append(again(io))\n"
    inner: list[Any] = []
    depth = [0]

    def again(_: object) -> Any:
        depth[0] += 1
        return compiled(torch.ones(3, 8)) if depth[0] < 4 else None

    compiled.run.__globals__.update(inner=inner, again=again)
    x = torch.randn(3, 8)
    result = compiled(x)
    compiled.code = text
    assert torch.equal(result, compiled(x)) and len(inner) == 4
    assert all(torch.equal(y, compiled(torch.ones(3, 8))) for y in inner if y is not None)
