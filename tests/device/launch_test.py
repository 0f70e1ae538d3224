# SPDX-License-Identifier: Apache-2.0
"""Launching on an NVIDIA device: what is asked of the driver, and what runs at once. `straightline bench` has the times.

Fails when an answer is wrong, a call waits, or the driver is asked for more than what changed.
"""

from __future__ import annotations

import copy
import ctypes
import gc
import os
import re
import subprocess
import sys
import threading
from typing import Any

import straightline as sl
import torch
from torch import Tensor, nn

from tests.device.support import Chain, asked, expect, judge, made, nodes


def test_counts() -> None:
    """The same again is one launch; a changed address is one update of each kernel that takes it."""
    model, x, compiled = made(5)
    assert compiled.explain()["launch"] == "graph", compiled.explain()["launch_reason"]
    out, other, apart = torch.empty_like(x), torch.empty_like(x), torch.randn_like(x)
    compiled(x, out=out)
    first = asked(lambda: made(5)[2](x, out=out))
    assert first["instantiations"] == 1 and first["graph_launches"] == 1, first
    expect(asked(lambda: [compiled(x, out=out) for _ in range(50)]), "the same", graph_launches=50)
    expect(asked(lambda: compiled(apart, out=out)), "input", graph_launches=1, node_updates=1)
    expect(asked(lambda: compiled(apart, out=other)), "output", graph_launches=1, node_updates=1)
    expect(asked(lambda: compiled(x, out=out)), "both, as before", graph_launches=1, instantiations=1)
    turns = lambda: [compiled(*given, out=to) for _ in range(10) for given, to in (((x,), out), ((apart,), other))]  # noqa: E731
    expect(asked(turns), "two in turn, each of which has a graph now", graph_launches=20)
    judge(model, x, out, "chain of 5")
    judge(model, apart, other, "chain of 5, another input")
    long, y, many = made(80)
    for attempt in range(20):
        y = torch.rand_like(y) * 5
        judge(long, y, many(y), f"chain of 80, attempt {attempt}")
    free = torch.cuda.mem_get_info()[0]
    kept = [compiled(torch.randn_like(x)) for _ in range(100)]
    assert free - torch.cuda.mem_get_info()[0] <= 4 << 20, "memory grew by more than the results"
    del kept
    by_stream = made(5, launch="stream")[2]
    by_stream(x, out=out)
    expect(asked(lambda: [by_stream(x, out=out) for _ in range(50)]), "by stream", launches=50 * nodes(by_stream))
    assert torch.equal(out, by_stream(x)) and out.isfinite().all()


def test_named_sizes() -> None:
    """One graph serves every size."""
    model = Chain(3).cuda().requires_grad_(False)
    batch = torch.export.Dim("batch", min=2, max=5000)
    compiled = sl.compile(model, (torch.randn(5, 256, device="cuda"),), dynamic_shapes=({0: batch},))
    compiled(torch.randn(5000, 256, device="cuda"))
    made_anew = 0
    kept: list[object] = []  # addresses do not come back: what does has a graph of its own
    for size in (2, 4999, 33, 5000, 2):
        x = torch.randn(size, 256, device="cuda")
        got: list[Tensor] = []
        kept += [x, got]
        made_anew += asked(lambda x=x, got=got: got.append(compiled(x))).get("instantiations", 0)
        judge(model, x, got[0], f"batch {size}")
    assert made_anew == 0, made_anew


def test_not_waited_for() -> None:
    """A call returns before the device has begun, and calls behind it share its arena."""
    model, x, compiled = made(4)
    compiled(x)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        compiled(x)
        side.synchronize()
        free = torch.cuda.mem_get_info()[0]
        inputs = [torch.randn_like(x) for _ in range(30)]
        torch.cuda._sleep(200_000_000)
        results: list[Tensor] = []
        counts = asked(lambda: results.extend(compiled(y) for y in inputs))
        assert not side.query(), "the device was done already: nothing is shown"
        assert counts["graph_launches"] == 30 and counts["events"] == 30, counts
        assert not {"synchronizations", "instantiations", "allocations", "copies", "loads"} & set(counts), counts
        side.synchronize()
    assert free - torch.cuda.mem_get_info()[0] <= 4 << 20
    for y, result in zip(inputs, results, strict=True):
        judge(model, y, result, "enqueued behind others")


def test_threads() -> None:
    """Four threads with streams of their own over one program, while the weights are replaced."""
    model, x, compiled = made(4)
    sets = [copy.deepcopy(model) for _ in range(3)]
    for i, one in enumerate(sets):
        for scale in one.scales:
            scale.mul_(1 + i)
    answers = [one(x) for one in sets]
    compiled.load_parameters(sets[0].state_dict())
    torch.cuda.synchronize()
    wrong: list[str] = []
    done = threading.Event()

    def calls() -> None:
        stream = torch.cuda.Stream()
        with torch.inference_mode(), torch.cuda.stream(stream):
            mine = x.clone()
            results = []
            while not done.is_set():
                results.append(compiled(mine))
                if len(results) == 40:
                    stream.synchronize()
                    wrong.extend(
                        "no set gives this"
                        for got in results
                        if not any(torch.allclose(got, a, atol=1e-6) for a in answers)
                    )
                    results.clear()
            stream.synchronize()

    threads = [threading.Thread(target=calls) for _ in range(4)]
    for thread in threads:
        thread.start()
    for i in range(60):
        compiled.load_parameters(sets[i % 3].state_dict())
    done.set()
    for thread in threads:
        thread.join()
    assert not wrong, f"{len(wrong)} wrong results: {wrong[0]}"


def test_deleted() -> None:
    """A function that goes while its graph is enqueued."""
    model, x, compiled = made(4)
    compiled(x)
    torch.cuda.synchronize()
    torch.cuda._sleep(100_000_000)
    result = compiled(x)
    del compiled
    gc.collect()
    judge(model, x, result, "deleted while enqueued")


def test_captured() -> None:
    """Calls under torch.cuda.graph become part of it; calls beside it and a capture on another thread's watch go on."""
    model, x, compiled = made(4)
    for warm in (True, False):
        function = compiled if warm else made(4)[2]
        if warm:
            function(x)
        fixed = torch.randn_like(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        got: list[Tensor] = []
        with torch.cuda.graph(graph):
            counts = asked(
                lambda function=function, fixed=fixed, got=got: got.extend([function(fixed), function(fixed)])
            )
        assert (
            counts["launches"] == 2 * nodes(function) and "events" not in counts and "synchronizations" not in counts
        ), counts
        for _ in range(3):
            fixed.copy_(torch.randn_like(fixed))
            between = function(x)
            graph.replay()
            after = function(x)
            torch.cuda.synchronize()
            assert torch.equal(got[0], got[1]) and torch.equal(between, after)
            assert torch.equal(got[0], function(fixed)), "a replay gives another answer than a call"
            if warm:
                judge(model, fixed, got[0], "replayed")
    side, idle = torch.cuda.Stream(), torch.cuda.Stream()
    failed: list[BaseException] = []

    def beside() -> None:
        try:
            with torch.cuda.stream(idle):
                for _ in range(50):
                    compiled(x)
        except BaseException as error:
            failed.append(error)

    compiled(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(side):
        graph.capture_begin(capture_error_mode="thread_local")
        thread = threading.Thread(target=beside)
        thread.start()
        thread.join()
        captured = compiled(x)
        graph.capture_end()
    assert not failed, failed
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(captured, compiled(x))


def test_paths_on_streams() -> None:
    """Straight line, interpreter and Python read what the current stream writes before, and are read by what it does after."""
    side = torch.cuda.Stream()
    for launch in ("graph", "stream"):
        for options in ({}, {"fast_path": False}, {"emit": "python"}):
            model, x, compiled = made(3, launch=launch, **options)
            compiled(x)
            given = torch.full_like(x, torch.nan)
            torch.cuda.synchronize()
            with torch.cuda.stream(side):
                for _ in range(3):
                    given.fill_(torch.nan)
                    torch.cuda._sleep(20_000_000)
                    given.copy_(x)
                    copy_of_result = compiled(given).clone()
                side.synchronize()
            judge(model, x, copy_of_result, f"{options} by {launch} on another stream")


class _TorchOverConstants(nn.Module):
    """Ops of torch between kernels of ours, all of them over a parameter: prepare makes what the product reads."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(192, 192) / 64)

    def forward(self, x: Tensor) -> Tensor:
        turned = torch.linalg.matrix_exp((self.weight * 0.5).sin())
        return x @ torch.linalg.matrix_exp((turned * 0.125).cos() / 192).sqrt()


def test_torch_in_prepare_on_another_stream() -> None:
    """Prepare's queue waits for torch's stream, which is not the default one here, and torch's for the queue."""
    model, x = _TorchOverConstants().cuda().requires_grad_(False), torch.randn(4, 192, device="cuda")
    side = torch.cuda.Stream()
    for options in ({}, {"fast_path": False}, {"emit": "python"}):
        with torch.cuda.stream(side):
            torch.cuda._sleep(50_000_000)
            compiled = sl.compile(model, (x,), **options)
            got = compiled(x)
        side.synchronize()
        phases = {row["phase"] for row in compiled.explain().statements if row["backend"] == "aten"}
        assert phases == {"prepare"}, phases
        judge(model, x, got, f"torch in prepare, {options}")


def test_weights_overwritten_between() -> None:
    """A kernel that asks for its weights before the one ahead has ended gets those that the stream wrote before the call."""
    model = (
        nn.Sequential(*(module for _ in range(8) for module in (nn.Linear(256, 256), nn.Tanh())))
        .cuda()
        .requires_grad_(False)
    )
    x, sets = (
        torch.randn(1, 256, device="cuda"),
        [[torch.randn_like(p) / 16 for p in model.parameters()] for _ in range(2)],
    )

    def take(values: list[Tensor]) -> None:
        torch._foreach_copy_(list(model.parameters()), values)

    for launch in ("graph", "stream"):
        for options in ({}, {"fast_path": False}, {"emit": "python"}):
            compiled = sl.compile(model, (x,), freeze=False, launch=launch, **options)
            got: list[Tensor] = []
            for i in range(100):
                if i % 10 == 0:
                    torch.cuda._sleep(2_000_000)  # all that follows waits in the stream
                take(sets[i % 2])
                got.append(compiled(x))
            for i, values in enumerate(sets):
                take(values)
                judge(model, x, got[i], f"weights {i}, {options} by {launch}")
                assert all(torch.equal(result, got[i]) for result in got[i::2]), (i, options, launch)


def test_reused() -> None:
    """`reuse_outputs` takes what one on the same stream made, and nothing of a capture."""
    model, x, compiled = made(3, reuse_outputs=True)
    here = {compiled(x).data_ptr() for _ in range(6)}
    held = [compiled(x * (i + 1)) for i in range(4)]
    for i, result in enumerate(held):
        judge(model, x * (i + 1), result, "held")
    del held, result

    def let_go() -> None:
        for _ in range(20):
            compiled(x)

    let_go()
    expect(asked(let_go), "let go at once", graph_launches=20)
    here |= {compiled(x).data_ptr() for _ in range(2)}
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        there = [compiled(x).data_ptr() for _ in range(6)]
        side.synchronize()
    assert len(set(there)) <= 2 and there[0] not in here, (here, there)
    graph, fixed = torch.cuda.CUDAGraph(), x * 2
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        captured = compiled(fixed)
    place = captured.data_ptr()
    del captured
    after = compiled(x)
    graph.replay()
    torch.cuda.synchronize()
    assert after.data_ptr() != place, "a graph that is replayed writes there"
    judge(model, x, after, "beside a replay")


def test_results_are_torchs() -> None:
    """What torch knows of its own ops' results: streams that still read them, their sizes, the memory that they take."""
    side = torch.cuda.Stream()
    for options in ({}, {"launch": "stream"}, {"emit": "python"}, {"fast_path": False}):
        model, x, compiled = made(3, **options)
        compiled(x)  # what is made once
        before = torch.cuda.memory_allocated()
        first = compiled(x)
        more = torch.cuda.memory_allocated() - before
        assert more == first.nbytes, f"{options}: {more} bytes"
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(int(1e8))
            read_late = first.clone()
        first.record_stream(side)
        place = first.data_ptr()
        del first
        second = compiled(x * 2)
        assert second.data_ptr() != place, f"{options}: another stream reads there"
        side.synchronize()
        judge(model, x, read_late, f"{options}: read late")
        third = compiled(x)
        assert third.resize_(40, 256).shape == (40, 256), options
        with torch.device("cpu"), torch.inference_mode():  # a mode of torch's functions
            assert compiled(x).device.type == "cuda", options
    names = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float64")
    dtypes = [getattr(torch, name) for name in names]
    x = torch.randint(0, 99, (3, 5), device="cuda").float()
    results = sl.compile(lambda x: [x.to(dtype) for dtype in dtypes], (x,))(x)
    for result, dtype in zip(results, dtypes, strict=True):
        assert torch.equal(result, x.to(dtype)), dtype
    large = torch.randn(1 << 20, device="cuda")
    judge(nn.Tanh(), large, sl.compile(nn.Tanh(), (large,))(large), "a large result")


def test_buffers_are_shown() -> None:
    """Emitted Python shows what lies on the device: a copy of what the kernels before have made, in the middle of a graph too."""
    model, x = Chain(4).cuda().requires_grad_(False), torch.randn(16, 256, device="cuda")
    seen = {}
    for launch in ("graph", "stream"):
        compiled = sl.compile(model, (x,), emit="python", launch=launch)
        plain = compiled.code
        middle = re.search(
            r"^    (\w+) = buffers\[\d+\]  # arena.*?(?=^    \w+\.\w+\(queue_1, \1,)", plain, re.M | re.S
        )
        assert middle, plain
        look = f"    held.append({middle[1]}.numpy())\n"
        compiled.code = plain[: middle.end()] + look + plain[middle.end() :]
        compiled.code += '    held.extend(b.numpy() for b in io.buffers if b.role == "output")\n'
        held: list[Any] = []
        compiled.run.__globals__["held"] = held
        for _ in range(3):
            held.clear()
            y = compiled(x)
            judge(model, x, y, "emitted Python that is looked at")
            between, last = (torch.from_numpy(array) for array in held)
            assert torch.equal(last, y.cpu()) and between.abs().max() > 0
        seen[launch] = between
        compiled.code = plain
        for _ in range(3):
            judge(model, x, compiled(x), "emitted Python that is not looked at any more")
    assert torch.equal(seen["graph"], seen["stream"])


def test_other_context() -> None:
    """A thread whose current context is another one gets its answer and keeps its context."""
    model, x, compiled = made(3)
    driver = ctypes.CDLL("libcuda.so.1")
    driver.cuCtxCreate_v2.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_uint, ctypes.c_int]
    before, other, now = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    out = torch.empty_like(x)
    compiled(x, out=out)
    torch.cuda.synchronize()
    assert driver.cuCtxGetCurrent(ctypes.byref(before)) == 0
    assert driver.cuCtxCreate_v2(ctypes.byref(other), 0, 0) == 0
    for _ in range(3):
        compiled(x, out=out)
        assert driver.cuCtxGetCurrent(ctypes.byref(now)) == 0 and now.value == other.value != before.value
    assert driver.cuCtxDestroy_v2(other) == 0
    assert driver.cuCtxSetCurrent(before) == 0
    torch.cuda.synchronize()
    judge(model, x, out, "from another context")


_FAULT = """
import torch, straightline as sl
def model(x, y):
    return torch.softmax(x * 2, -1).sum(0) + y
x, y = torch.randn(64, 64, device="cuda"), torch.randn(64, device="cuda")
fn = sl.compile(model, (x, y))
spare = fn(x, y)
torch.cuda.synchronize()
import ctypes
class Fake:
    pass
driver = ctypes.CDLL("libcuda.so.1")
address = ctypes.c_void_p()
assert driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(64 << 20)) == 0
class Array:
    __cuda_array_interface__ = {"shape": (64,), "typestr": "<f4", "data": (address.value, False), "version": 3}
freed = torch.as_tensor(Array(), device="cuda")
assert driver.cuMemFree_v2(address) == 0
try:
    fn(x, freed)
    print("RETURNED")
    torch.cuda.synchronize()
except Exception as error:
    print(type(error).__name__, error)
try:
    fn(x, y, out=spare)
except Exception as error:
    print("LATER", type(error).__name__, error)
"""
_FORK = """
import os, torch, straightline as sl
x = torch.randn(64, device="cuda")
fn = sl.compile(lambda x: x + 1, (x,))
out = fn(x)
torch.cuda.synchronize()
if os.fork() == 0:
    try:
        fn(x, out=out)
        print("WENT ON", flush=True)
    except Exception as error:
        print("CHILD", type(error).__name__, error, flush=True)
    os._exit(0)
os.wait()
fn(x, out=out)
torch.cuda.synchronize()
print("PARENT", bool(torch.equal(out, x + 1)))
"""


def test_attributed() -> None:
    """With STRAIGHTLINE_SYNC=1 a kernel that faults is named; without it the call returns."""
    for sync in ("1", ""):
        environment = {**os.environ, "STRAIGHTLINE_SYNC": sync}
        done = subprocess.run(
            [sys.executable, "-c", _FAULT], env=environment, capture_output=True, text=True, check=False
        )
        text = done.stdout + done.stderr[-600:]
        if sync:
            assert "RETURNED" not in text and "CUDA_ERROR" in text and " at " in text, text
            print("with STRAIGHTLINE_SYNC=1:", text.strip()[:300])
        else:
            assert "RETURNED" in text and "STRAIGHTLINE_SYNC=1 names it" in text.partition("LATER")[2], text


def test_forked() -> None:
    """A child of a process that used the device is told so, and the parent goes on."""
    done = subprocess.run([sys.executable, "-c", _FORK], capture_output=True, text=True, check=False)
    text = done.stdout + done.stderr[-600:]
    assert "CHILD" in text and "fork" in text.partition("CHILD")[2].splitlines()[0] and "PARENT True" in text, text
    print("in a forked child:", text.strip()[:300])
