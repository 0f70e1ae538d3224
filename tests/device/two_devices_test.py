# SPDX-License-Identifier: Apache-2.0
"""Programs on two NVIDIA devices of one machine: answers, where memory is, and what is refused.

Fails when an answer is wrong, a thread's current device changes, or a message does not name both devices.
"""

from __future__ import annotations

import copy
import ctypes
import subprocess
import sys
import threading
import time

import pytest
import straightline as sl
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.device.support import Chain, asked, judge, made, nodes, refused

_THERE = "cuda:1"
pytestmark = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="two NVIDIA devices are needed")


class Mixed(nn.Module):
    """A convolution that cuDNN takes, a product that cuBLASLt takes, and kernels of our own between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(64, 128, 3, padding=1), nn.Conv2d(128, 128, 3, padding=1)
        self.norm, self.last = nn.BatchNorm2d(128), nn.Linear(128 * 8 * 8, 1024)

    def forward(self, x: Tensor) -> Tensor:
        """An image to features."""
        x = F.relu(self.norm(self.first(x)))
        x = F.relu(self.second(x) + x)
        return torch.softmax(self.last(F.adaptive_avg_pool2d(x, 8).flatten(1)), -1)


class Tail(nn.Module):
    """An op that only torch has, beside kernels of ours."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The third smallest of each row."""
        return torch.kthvalue(torch.softmax(x * 2, -1), 3)


def context() -> int | None:
    """The calling thread's current context of the driver."""
    now = ctypes.c_void_p()
    assert ctypes.CDLL("libcuda.so.1").cuCtxGetCurrent(ctypes.byref(now)) == 0
    return now.value


def test_elsewhere() -> None:
    """A program on the second device while the first is current, in each way to run it."""
    torch.zeros(1, device="cuda:0").sum().item()  # torch has its context now
    before = context()
    for options in ({}, {"launch": "stream"}, {"fast_path": False}, {"emit": "python"}, {"freeze": False}):
        model, x, compiled = made(4, _THERE, **options)
        for _ in range(3):
            got = compiled(x)
            assert str(got.device) == _THERE
            judge(model, x, got, f"{options}")
        out = torch.empty_like(x)
        assert compiled(x, out=out) is out and torch.equal(out, got)
    assert torch.cuda.current_device() == 0 and context() == before, f"the context was {before} but is {context()}"


def test_libraries() -> None:
    """Handles and workspaces of cuBLASLt and cuDNN are those of the device."""
    for dtype in (torch.float32, torch.bfloat16):
        model = Mixed().eval().requires_grad_(False).to(dtype)
        x = torch.randn(4, 64, 16, 16, dtype=dtype)
        results = []
        for device in ("cuda:0", _THERE, "cuda:0"):
            own, y = copy.deepcopy(model).to(device), x.to(device)
            compiled = sl.compile(own, (y,))
            backends = {row["backend"] for row in compiled.explain().statements}
            results.append([compiled(y).cpu() for _ in range(3)][-1])
            judge(own, y, compiled(y), f"{dtype} on {device}, {sorted(backends)}")
        assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2]), "devices differ"
        print(f"    {dtype}: {sorted(backends)}")


def test_shared_code() -> None:
    """Equal devices share what was compiled."""
    made(4, "cuda:0")
    _, _, compiled = made(4, _THERE)
    compiled_now, cached = compiled._compilation.counts
    assert compiled_now == 0 and cached > 0, compiled._compilation.counts


def test_torch_ops() -> None:
    """Ops of torch, and numbers that the host reads, are those of the program's device."""
    x = torch.randn(8, 64, device=_THERE)
    compiled = sl.compile(Tail(), (x,))
    assert any(row["backend"] == "aten" for row in compiled.explain().statements)
    for got, want in zip(compiled(x), Tail()(x), strict=True):
        assert got.device == want.device and torch.allclose(got, want)

    def halve(x: Tensor) -> Tensor:
        def body(x: Tensor) -> Tensor:
            return x / 2

        return torch.while_loop(lambda x: x.sum() > 1, lambda x: (body(x),), (x,))[0]

    y = torch.rand(64, device=_THERE) + 1
    loop = sl.compile(halve, (y,))
    got = loop(y)
    times = round(float(torch.log2(y.sum() / got.sum())))
    assert str(got.device) == _THERE and got.sum() <= 1 and torch.allclose(got * 2**times, y)
    assert torch.cuda.current_device() == 0


def test_threads() -> None:
    """A thread for each device, and in each of them streams of its own; one thread had no context."""
    failed: list[str] = []

    def calls(device: str) -> None:
        try:
            model, x, compiled = functions[device]
            before = context()
            for i in range(200):
                with torch.cuda.stream(torch.cuda.Stream(device)) if i % 2 else torch.cuda.device(device):
                    got = compiled(x)
                    torch.cuda.current_stream(device).synchronize()
                if i % 40 == 0:
                    judge(model, x, got, device)
            del before
        except BaseException as error:
            failed.append(f"{device}: {type(error).__name__}: {error}")

    functions = {device: made(4, device) for device in ("cuda:0", _THERE)}
    threads = [threading.Thread(target=calls, args=(device,)) for device in functions for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed
    contexts: list[int | None] = []
    model, x, compiled = functions[_THERE]
    out = torch.empty_like(x)
    compiled(x, out=out)

    def bare() -> None:
        contexts.append(context())
        compiled(x, out=out)
        contexts.append(context())
        contexts.append(torch.cuda.current_device())

    thread = threading.Thread(target=bare)
    thread.start()
    thread.join()
    torch.cuda.synchronize(_THERE)
    print(f"    context before, after, and torch's device in a thread that had none: {contexts}")
    assert contexts[2] == 0, contexts
    judge(model, x, out, "from a thread without a context")


def test_not_waited_for() -> None:
    """A busy first device does not hold a call on the second."""
    model, x, compiled = made(4, _THERE)
    compiled(x)
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)
    torch.cuda._sleep(400_000_000)  # on device 0
    begin = time.perf_counter()
    counts = asked(lambda: compiled(x))
    torch.cuda.synchronize(1)
    took = time.perf_counter() - begin
    assert not torch.cuda.current_stream(0).query(), "the first device was done already: nothing is shown"
    assert "synchronizations" not in counts and counts.get("graph_launches") == 1, counts
    torch.cuda.synchronize(0)
    print(f"    {took * 1e6:.0f} us while the first device slept")


def test_captured() -> None:
    """A call on the second device becomes part of a graph that is captured there."""
    model, x, compiled = made(4, _THERE)
    compiled(x)
    torch.cuda.synchronize(1)
    with torch.cuda.device(1):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            got = compiled(x)
        x.copy_(torch.randn_like(x))
        graph.replay()
        torch.cuda.synchronize()
    judge(model, x, got, "replayed")
    assert nodes(compiled) > 1


def test_refused() -> None:
    """Tensors on the wrong device, or on two."""
    model, x, first = made(4, "cuda:0")
    _, y, second = made(4, _THERE)
    refused(sl.UserError, lambda: first(y), "on cuda:1", "compiled for cuda:0")
    refused(sl.UserError, lambda: second(x), "on cuda:0", "compiled for cuda:1")
    refused(sl.UserError, lambda: second(x.cpu()), "on cpu", "compiled for cuda:1")
    refused(sl.UserError, lambda: first(x, out=torch.empty_like(y)), "cuda:1", "cuda:0")
    refused(
        sl.UserError,
        lambda: first.load_parameters({k: v.to(_THERE) for k, v in model.state_dict().items()}),
        "cuda:1",
        "cuda:0",
    )
    both = sl.compile(lambda a, b: torch.softmax(a + b, -1), (x, x))
    refused(sl.UserError, lambda: both(x, y), "'b'", "on cuda:1", "compiled for cuda:0")
    batch = torch.export.Dim("batch", min=2, max=64)
    named = sl.compile(Chain(2).to(_THERE).requires_grad_(False), (y,), dynamic_shapes=({0: batch},))
    refused(sl.UserError, lambda: named(x), "on cuda:0", "compiled for cuda:1")
    several = sl.compile(model, [(x,), (x[:4].clone(),)])
    refused(sl.UserError, lambda: several(y), "on cuda:1", "compiled for cuda:0")
    refused(
        sl.UserError,
        lambda: sl.compile(lambda a, b: (a * 2, b * 3), (x, y)),
        "tensor 1 is on cuda:0",
        "tensor 2 is on cuda:1",
    )
    refused(sl.UserError, lambda: sl.compile(model, (y,)), "cuda:0", "cuda:1")
    assert torch.equal(first(x), first(x))


_ALONE = """
import ctypes, torch
import straightline as sl
driver = ctypes.CDLL("libcuda.so.1")
def state(when):
    flags, active = ctypes.c_uint(), ctypes.c_int()
    driver.cuDevicePrimaryCtxGetState(0, ctypes.byref(flags), ctypes.byref(active))
    print("ACTIVE", active.value, when)
x = torch.randn(64, 64, device="cuda:1")
state("given")
fn = sl.compile(lambda x: torch.softmax(x, -1).sum(0), (x,))
state("compiled")
fn(x)
state("called")
torch.cuda.synchronize(1)
state("synchronized")
"""


def test_alone() -> None:
    """A process that uses the second device alone has no context on the first."""
    done = subprocess.run([sys.executable, "-c", _ALONE], capture_output=True, text=True, check=False)
    print("    context on the first device:", done.stdout.strip(), done.stderr[-300:])
    assert "ACTIVE 0 given" in done.stdout, done.stdout + done.stderr[-2000:]
    assert "ACTIVE 0 synchronized" in done.stdout, done.stdout + done.stderr[-2000:]
