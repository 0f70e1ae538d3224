# SPDX-License-Identifier: Apache-2.0
"""A whole program on a device with its own address space, where host access faults and whose worker runs late."""

from __future__ import annotations

import concurrent.futures
import ctypes
import pathlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
import torch
from policy import check, check_call
from torch import Tensor, nn

import straightline as sl
from straightline import _internal

_PACKAGE = pathlib.Path(sl.__file__).parent
_LIBRARY = _PACKAGE / "libstraightline_test_device.so"

pytestmark = pytest.mark.skipif(not _LIBRARY.exists(), reason="built without the test device")


class _Device:
    """The test device's own functions."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(str(_LIBRARY))
        self.library.straightline_backend_v1.restype = ctypes.c_void_p
        self.library.sl_test_device_set_delay.argtypes = [ctypes.c_int64]
        self.library.sl_test_device_live_bytes.restype = ctypes.c_size_t
        self.library.sl_test_device_executed.restype = ctypes.c_int64
        register = ctypes.CDLL(str(_PACKAGE / "libstraightline_runtime.so")).sl_backend_register
        register.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        message = ctypes.create_string_buffer(1024)
        assert register(self.library.straightline_backend_v1(), message) == 0, message.value

    def delay(self, seconds: float) -> None:
        """Each item starts at least this long after it was enqueued."""
        self.library.sl_test_device_set_delay(int(seconds * 1e6))

    def hold(self, held: bool) -> None:
        """While held no item starts."""
        self.library.sl_test_device_hold(int(held))

    @property
    def live_bytes(self) -> int:
        return self.library.sl_test_device_live_bytes()

    @property
    def executed(self) -> int:
        return self.library.sl_test_device_executed()


@pytest.fixture
def device() -> Iterator[_Device]:
    made = _Device()
    yield made
    made.hold(False)
    made.delay(0.002)


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(48, 96), nn.ReLU(), nn.Linear(96, 64), nn.GELU(), nn.Linear(64, 10)).eval()


@pytest.mark.parametrize("threads", [1, 2])
def test_matches_eager_however_late(device: _Device, threads: int) -> None:
    device.delay(0.01)
    calls = [(torch.randn(8, 48),) for _ in range(3)]
    before = device.executed
    compiled = check(_mlp(), calls[0], calls=calls, threads=threads, internal={"device_backend": "test_device"})
    assert device.executed > before
    kernels = [row["kernel"] for row in compiled.explain().statements if row["phase"] == "run"]
    assert kernels[0] == "copy" and kernels[-1] == "copy" and len(kernels) >= 5
    assert 'space "test_device"' in compiled.ir("kernel")


def test_dynamic_sizes(device: _Device) -> None:
    batch = torch.export.Dim("batch", min=2, max=40)
    calls = [(torch.randn(b, 48),) for b in (7, 2, 40)]
    check(
        _mlp(),
        (torch.randn(5, 48),),
        calls=calls,
        dynamic_shapes=({0: batch},),
        internal={"device_backend": "test_device"},
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_three_ways_give_the_same_bits(device: _Device, threads: int) -> None:
    """Emitted C++, emitted Python and the interpreter, sizes named, the device late."""
    batch = torch.export.Dim("batch", min=2, max=40)
    ways = ({}, {"emit": "python"}, {"fast_path": False})
    model = _mlp()
    compiled = [
        _internal.compile(model, (torch.randn(5, 48),), dynamic_shapes=({0: batch},), threads=threads, internal={"device_backend": "test_device"}, **way)
        for way in ways
    ]  # fmt: skip
    assert "queue_1.copy(" in compiled[1].code and "native." in compiled[1].code
    device.delay(0.01)
    for b in (7, 2, 40, 7):
        x = torch.randn(b, 48)
        before = device.executed
        results = [function(x) for function in compiled]
        assert device.executed >= before + 3 * 5
        assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_emitted_python_shows_what_lies_there(device: _Device, dtype: torch.dtype) -> None:
    """A copy, made behind what was enqueued before; outside of a call there is nothing."""
    model, x = _mlp().to(dtype), torch.randn(6, 48).to(dtype)
    compiled = _internal.compile(model, (x,), emit="python", internal={"device_backend": "test_device"})
    buffer = re.findall(r"native\.\w+\(queue_1, (?:\w+, )*?(\w+)(?:, [a-z_]+=\d+)*\)", compiled.code)[-1]
    text = compiled.code
    compiled.code = text + f"    held.append({buffer}); held.append({buffer}.numpy()); held.append({buffer}.numpy())\n"
    held: list[Any] = []
    compiled.run.__globals__["held"] = held
    device.delay(0.02)
    y = compiled(x)
    shown, first, second = held
    assert shown.space == "test_device" and first is not second and not numpy.shares_memory(first, second)
    assert (
        first.shape == tuple(y.shape)
        and numpy.array_equal(first, y.float().numpy())
        and numpy.array_equal(second, first)
    )
    held.clear()
    later = compiled(x * 2)
    assert numpy.array_equal(held[1], later.float().numpy()) and not numpy.array_equal(held[1], first)
    with pytest.raises(sl.UserError, match="call"):
        shown.numpy()


def test_layer_norm_and_softmax(device: _Device) -> None:
    model = nn.Sequential(nn.Linear(24, 32), nn.LayerNorm(32), nn.Linear(32, 12), nn.Softmax(-1)).eval()
    check(model, (torch.randn(6, 24),), internal={"device_backend": "test_device"})


def test_two_callers_at_once(device: _Device) -> None:
    model = _mlp()
    compiled = _internal.compile(model, (torch.randn(8, 48),), threads=1, internal={"device_backend": "test_device"})
    device.delay(0.003)

    def caller(_: int) -> None:
        for _ in range(5):
            check_call(compiled, model, _double(model), (torch.randn(8, 48),))

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(caller, range(2)))


def _double(model: nn.Module) -> Callable[..., Tensor]:
    import copy

    return copy.deepcopy(model).double()


def test_a_frame_is_lent_again_only_after_its_queue_has_passed(device: _Device) -> None:
    """With the worker held a second call may not touch the first one's arena: it gets one of its own."""
    model, x = _mlp(), torch.randn(8, 48)
    compiled = _internal.compile(model, (x,), threads=1, internal={"device_backend": "test_device"})
    device.delay(0.0)
    weights = device.live_bytes
    compiled(x)
    one_frame = device.live_bytes - weights
    assert one_frame > 0, "the arena of a call lies on the device"
    deadline = time.monotonic() + 10
    while True:  # once the worker is idle, calls one after the other need no second frame
        time.sleep(0.05)
        before = device.live_bytes
        compiled(x)
        if device.live_bytes == before or time.monotonic() > deadline:
            break
    settled = device.live_bytes
    time.sleep(0.05)
    compiled(x)
    assert device.live_bytes == settled

    device.hold(True)
    results: list[Tensor | None] = [None] * 4
    inputs = [torch.randn(8, 48) for _ in results]

    def call(i: int) -> None:
        results[i] = compiled(inputs[i])

    callers = [threading.Thread(target=call, args=(i,)) for i in range(len(results))]
    for caller in callers:
        caller.start()
    deadline = time.monotonic() + 10
    while device.live_bytes < weights + len(results) * one_frame and time.monotonic() < deadline:
        time.sleep(0.01)
    assert device.live_bytes >= weights + len(results) * one_frame, "calls that are under way share no arena"
    assert results == [None] * 4, "no call returns before its results are there"
    device.hold(False)
    for caller in callers:
        caller.join()
    with torch.no_grad():
        for given, result in zip(inputs, results, strict=True):
            torch.testing.assert_close(result, model(given))


def test_device_memory_goes_with_the_program(device: _Device) -> None:
    import gc

    gc.collect()
    before = device.live_bytes
    compiled = _internal.compile(_mlp(), (torch.randn(8, 48),), threads=1, internal={"device_backend": "test_device"})
    compiled(torch.randn(8, 48))
    assert device.live_bytes > before
    del compiled
    gc.collect()
    assert device.live_bytes == before


def test_states_are_updated_however_late(device: _Device) -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(3))

        def forward(self, x: Tensor) -> Tensor:
            self.count.add_(1)
            return x + self.count

    model, x = Counter().eval(), torch.randn(3)
    compiled = _internal.compile(model, (x,), internal={"device_backend": "test_device"})
    device.delay(0.01)
    for calls in (1, 2, 3):
        assert torch.equal(compiled(x), x + calls)
        assert torch.equal(model.count, torch.full((3,), float(calls)))


def test_a_backend_that_is_no_device_is_said(device: _Device) -> None:
    with pytest.raises(sl.UserError, match="no backend 'moon' is registered"):
        _internal.compile(_mlp(), (torch.randn(8, 48),), internal={"device_backend": "moon"})
    with pytest.raises(sl.UserError, match="backend 'native' has no device"):
        _internal.compile(_mlp(), (torch.randn(8, 48),), internal={"device_backend": "native"})
