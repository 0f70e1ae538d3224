# SPDX-License-Identifier: Apache-2.0
"""Devices, streams, events, memory of the device, and what bad use of them gets."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest
import straightline
import torch

pytestmark = pytest.mark.device


def test_devices() -> None:
    assert torch.sl.is_available()
    assert torch.sl.device_count() == torch.accelerator.device_count() == 2
    assert torch.accelerator.current_accelerator().type == "sl"
    assert torch.sl.current_device() == 0
    with torch.sl.device(1):
        assert torch.sl.current_device() == 1
        assert torch.zeros(1, device="sl").device.index == 1
    torch.sl.set_device("sl:1")
    assert torch.accelerator.current_device_index() == 1
    torch.sl.set_device(0)
    with pytest.raises(ValueError, match="device is 2 but must be 0 to 1"):
        torch.sl.set_device(2)
    with pytest.raises(ValueError, match="device is 'cpu' but must be of type 'sl'"):
        torch.sl.synchronize("cpu")
    with pytest.raises(RuntimeError, match="device sl:5 is not there: 'sim' has 2"):
        torch.zeros(1, device="sl:5")
    assert torch.sl.get_device_name(1) == "sim:1"


def test_copies_between_devices() -> None:
    x = torch.randn(4, 5)
    a = x.to("sl:0")
    b = a.to("sl:1")
    assert b.device.index == 1
    assert torch.equal(b.cpu(), x)
    a.t().copy_(b.t() * 2)
    assert torch.equal(a.cpu(), x * 2)
    with pytest.raises(RuntimeError, match=r"on sl:0 and one on sl:1: move both to one device"):
        a + b
    with pytest.raises(RuntimeError, match=r"move both to one device"):
        a + x


def test_streams_and_events(sim: Any) -> None:
    number = random.randrange(2**32)
    print("seed", number)
    sim.sim_device_set_delay(300, number)
    x = torch.zeros(1000, device="sl")
    stream = torch.Stream("sl")
    assert torch.sl.current_stream() == torch.sl.default_stream()
    for i in range(1, 20):
        x.fill_(i)
        stream.wait_event(torch.sl.current_stream().record_event())
        with torch.sl.stream(stream):
            assert torch.sl.current_stream() == stream
            y = x + 1
            y.record_stream(torch.sl.default_stream())
            event = stream.record_event()
        torch.sl.current_stream().wait_event(event)
        assert y.cpu().eq(i + 1).all()
        del y
    assert torch.sl.current_stream() == torch.sl.default_stream()


def test_work_does_not_wait(sim: Any) -> None:
    x = torch.zeros(10, device="sl")
    x + 1  # compiled
    torch.sl.synchronize()
    sim.sim_device_hold(1)
    event = torch.Event("sl")
    y = x + 1
    event.record()
    assert not event.query()
    assert not torch.sl.current_stream().query()
    sim.sim_device_hold(0)
    event.synchronize()
    assert event.query()
    torch.sl.current_stream().synchronize()
    assert y.sum().item() == 10


def test_timed_events(sim: Any) -> None:
    first, second = torch.Event("sl", enable_timing=True), torch.Event("sl", enable_timing=True)
    first.record()
    sim.sim_device_set_delay(2000, 3)
    torch.zeros(10, device="sl").fill_(2)
    second.record()
    torch.sl.synchronize()
    assert 0 <= first.elapsed_time(second) < 60_000


def test_a_stream_waits_for_an_event_of_another_device(sim: Any) -> None:
    """As on CUDA: the wait is the stream's, not the host's."""
    number = random.randrange(2**32)
    print("seed", number)
    x = torch.zeros(1000, device="sl:0")
    pinned = torch.zeros(1000).pin_memory()
    with torch.sl.device(1):
        copy = torch.zeros(1000, device="sl:1")
    torch.sl.synchronize(0)
    torch.sl.synchronize(1)
    sim.sim_device_set_delay(300, number)
    for i in range(1, 30):
        x.fill_(i)
        pinned.copy_(x, non_blocking=True)
        event = torch.sl.current_stream("sl:0").record_event()
        torch.sl.current_stream("sl:1").wait_event(event)
        copy.copy_(pinned, non_blocking=True)
        back = torch.sl.current_stream("sl:1").record_event()
        torch.sl.current_stream("sl:0").wait_event(back)  # pinned is written again behind that
        assert copy.cpu().eq(i).all()
    sim.sim_device_set_delay(0, 1)
    x + 1  # compiled
    torch.sl.synchronize(0)
    sim.sim_device_hold(1)
    with torch.sl.device(1):
        event = torch.sl.current_stream().record_event()
        copy.fill_(-1)
        late = torch.sl.current_stream().record_event()
    torch.sl.current_stream("sl:0").wait_event(late)  # returns though nothing has run
    y = x + 1
    assert not late.query()
    sim.sim_device_hold(0)
    assert y.cpu().eq(30).all() and late.query() and event.query()


def test_what_events_of_two_devices_do_not_have() -> None:
    with torch.sl.device(1):
        other = torch.Event("sl", enable_timing=True)
        other.record()
    own = torch.Event("sl", enable_timing=True)
    own.record()
    torch.sl.synchronize(0)
    torch.sl.synchronize(1)
    with pytest.raises(
        RuntimeError, match="an event of device sl:0 and an event of device sl:1 have no time between them"
    ):
        own.elapsed_time(other)
    with pytest.raises(RuntimeError, match="an event of device sl:1 cannot be recorded on a stream of device sl:0"):
        other.record(torch.sl.current_stream("sl:0"))


def test_a_stream_is_a_threads_own() -> None:
    stream = torch.Stream("sl")
    seen = []
    with torch.sl.stream(stream):
        thread = threading.Thread(target=lambda: seen.append(torch.sl.current_stream() == torch.sl.default_stream()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_threads_at_once() -> None:
    x = torch.randn(64, device="sl")
    expected = (x.cpu() + 1) * 3
    (x + 1) * 3
    wrong: list[int] = []

    def work() -> None:
        for i in range(100):
            if not torch.allclose(((x + 1) * 3).cpu(), expected):
                wrong.append(i)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_out_of_memory_and_the_next_call_works(sim: Any) -> None:
    torch.sl.empty_cache()
    kept = torch.zeros(1000, device="sl")
    sim.sim_device_set_limit(0, 1 << 22)
    with pytest.raises(torch.OutOfMemoryError, match=r"device sl:0 is out of memory: \d+ bytes were asked for"):
        torch.zeros(1 << 22, device="sl")
    assert (kept + 1).sum().item() == 1000
    blocks = [torch.zeros(200_000, device="sl") for _ in range(4)]
    del blocks
    assert torch.zeros(700_000, device="sl").sum().item() == 0, "blocks that no tensor uses are given back"
    with pytest.raises(torch.OutOfMemoryError):
        torch.zeros(1 << 20, device="sl") + torch.zeros(1 << 20, device="sl")
    assert kept.sum().item() == 0


def test_memory_is_counted() -> None:
    torch.sl.empty_cache()
    before = torch.sl.memory_allocated()
    torch.sl.reset_peak_memory_stats()
    x = torch.zeros(1 << 20, device="sl")
    assert torch.sl.memory_allocated() - before == 1 << 22
    del x
    assert torch.sl.memory_allocated() == before
    assert torch.sl.max_memory_allocated() - before == 1 << 22
    assert torch.sl.memory_reserved() >= 1 << 22
    torch.sl.empty_cache()
    free, total = torch.sl.mem_get_info()
    assert 0 < free <= total == 1 << 32


def test_a_program_for_the_cpu_does_not_take_the_devices_tensors() -> None:
    fn = straightline.compile(torch.nn.ReLU(), (torch.zeros(3),))
    with pytest.raises((TypeError, ValueError), match="it is on sl:0 but this program was compiled for cpu"):
        fn(torch.zeros(3, device="sl"))
    there = straightline.compile(torch.nn.ReLU(), (torch.zeros(3, device="sl"),))
    with pytest.raises((TypeError, ValueError), match="cpu"):
        there(torch.zeros(3))
    x = torch.tensor([-1.0, 0.0, 2.0], device="sl")
    assert there(x).device.type == "sl"
    assert there(x).tolist() == [0, 0, 2]


def test_a_bad_index_is_an_index_error() -> None:
    table = torch.randn(5, 3, device="sl")
    with pytest.raises(IndexError, match=r"index 9 is out of range \[0, 5\)|index 9"):
        torch.nn.functional.embedding(torch.tensor([1, 9], device="sl"), table)
        torch.sl.synchronize()
    assert torch.nn.functional.embedding(torch.tensor([1], device="sl"), table).shape == (1, 3)
