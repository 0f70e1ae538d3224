# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C while compiling or in a long call: KeyboardInterrupt, and a process in which both work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import straightline as sl
import torch
from torch import Tensor, nn

_SCRIPT = """
import os, random, signal, sys, threading, time
import torch
import straightline as sl
from torch import nn
from torch.fx.proxy import TracerBase

# A job started in the background inherits an ignored SIGINT; this test is about one that is not.
signal.signal(signal.SIGINT, signal.default_int_handler)
seed = int(sys.argv[1])
generator = random.Random(seed)
model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10)).eval()
x = torch.randn(1, 1, 8, 8)
before = (torch.backends.mha.get_fastpath_enabled(), torch.is_grad_enabled(), TracerBase._filter_traceback_frames)
start = time.monotonic()
sl.compile(model, (x,), cache=False)
whole = time.monotonic() - start
interrupted = 0
for _ in range(12):
    timer = threading.Timer(generator.uniform(0, whole), os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        sl.compile(model, (x,), cache=False)
        while True:  # on a busy machine for as long as `whole`
            time.sleep(0.01)
    except KeyboardInterrupt:
        interrupted += 1
    timer.join()
after = (torch.backends.mha.get_fastpath_enabled(), torch.is_grad_enabled(), TracerBase._filter_traceback_frames)
assert after == before, (before, after)
with torch.no_grad():
    torch.testing.assert_close(sl.compile(model, (x,))(x), model(x), rtol=1e-4, atol=1e-5)
print("interrupted", interrupted)
"""


def test_interrupt() -> None:
    seed = int.from_bytes(os.urandom(4), "little")
    print(f"seed {seed}")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _SCRIPT, str(seed)],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == "interrupted 12"


@contextmanager
def usual_handler() -> Iterator[None]:
    """Python's own: a job started in the background inherits an ignored SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Dropped(nn.Module):
    """Ctrl-C comes while a weak reference's callback runs, out of which Python lets no exception."""

    def forward(self, x: Tensor) -> Tensor:
        mortal = type("Mortal", (), {})()
        self._last_word = weakref.ref(mortal, lambda _: signal.raise_signal(signal.SIGINT))
        del mortal
        return x + 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_dropped_by_python_but_not_lost() -> None:
    with usual_handler():
        with pytest.raises(KeyboardInterrupt):
            sl.compile(Dropped(), (torch.randn(3),))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert torch.equal(sl.compile(lambda x: x + 1, (torch.zeros(3),))(torch.zeros(3)), torch.ones(3))


def test_a_handler_of_the_users_own_stays() -> None:
    seen: list[int] = []

    def mine(number: int, frame: object) -> None:
        seen.append(number)

    before = signal.signal(signal.SIGINT, mine)
    try:
        compiled = sl.compile(lambda x: (signal.raise_signal(signal.SIGINT), x + 1)[1], (torch.zeros(3),))
        assert signal.getsignal(signal.SIGINT) is mine and seen
    finally:
        signal.signal(signal.SIGINT, before)
    assert torch.equal(compiled(torch.zeros(3)), torch.ones(3))


_UNITS = """
import os, signal, sys, threading, time
import torch
import straightline as sl
from straightline import _compiler

signal.signal(signal.SIGINT, signal.default_int_handler)

def model(x):
    return [torch.softmax((x[: 3 + i] * i).sin(), dim=0).cumsum(0) for i in range(40)]

shown = []
progress = _compiler.Progress
_compiler.Progress = lambda: shown.append(progress()) or shown[-1]

def stop():
    while not shown or shown[-1].stage < 2 or shown[-1].units_done < 1:
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=stop, daemon=True).start()
try:
    sl.compile(model, (torch.randn(64, 8),), cache=False, threads=1)
except KeyboardInterrupt:
    print("stopped", shown[-1].units_done < shown[-1].units - 10, shown[-1].units_done, shown[-1].units)
"""


def test_units_still_to_be_compiled_are_not() -> None:
    done = subprocess.run([sys.executable, "-c", _UNITS], capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("stopped True"), done.stdout


def forever(x: Tensor) -> Tensor:
    """Until the sum is large: for some inputs never."""

    def more(x: Tensor) -> Tensor:
        return x.sum() < 1e30

    def step(x: Tensor) -> tuple[Tensor]:
        return (x + 1e-3,)

    return torch.while_loop(more, step, (x,))[0]


def interrupted(call: Callable[[], object]) -> None:
    """Runs what would not end, and Ctrl-C into it."""
    main = threading.get_ident()
    timer = threading.Timer(0.2, lambda: signal.pthread_kill(main, signal.SIGINT))
    start = time.monotonic()
    with usual_handler():
        timer.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                call()
        finally:
            timer.cancel()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert time.monotonic() - start < 30


def test_the_handler_of_each_call_counts() -> None:
    """A handler of the user's own lets a call with a loop go on to its end; Python's own, behind it, ends one."""

    def counted(x: Tensor) -> Tensor:
        return torch.while_loop(lambda x: x.sum() < 1e7, lambda x: (x + 1,), (x,))[0]

    compiled = sl.compile(counted, (torch.zeros(2),), threads=1)
    seen: list[int] = []
    for _ in range(2):
        interrupted(lambda: sl.compile(forever, (torch.ones(3),), threads=1)(torch.ones(3)))
        before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
        main = threading.get_ident()
        timer = threading.Timer(0.005, lambda: signal.pthread_kill(main, signal.SIGINT))
        try:
            timer.start()
            assert torch.equal(compiled(torch.zeros(2)), torch.full((2,), 5e6))
            timer.join()
        finally:
            signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT] * 2


@pytest.mark.parametrize("fast_path", [True, False])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_call_that_would_not_end(fast_path: bool, threads: int) -> None:
    compiled = sl.compile(forever, (torch.ones(3),), fast_path=fast_path, threads=threads)
    for _ in range(2):
        interrupted(lambda: compiled(torch.ones(3)))
        end = torch.full((3,), 1e30)
        assert torch.equal(compiled(end), end)


def test_only_the_main_threads_call_ends() -> None:
    """Python gives Ctrl-C to the main thread; a call of another thread goes on, and ends by its data."""

    def count(x: Tensor) -> Tensor:
        return torch.while_loop(lambda x: x.sum() < 3e6, lambda x: (x + 1,), (x,))[0]

    slow = sl.compile(count, (torch.zeros(3),))
    endless = sl.compile(forever, (torch.ones(3),))
    results: list[Tensor] = []
    other = threading.Thread(target=lambda: results.extend(slow(torch.zeros(3)) for _ in range(20)))
    other.start()
    interrupted(lambda: endless(torch.ones(3)))
    other.join()
    assert len(results) == 20 and all(torch.equal(result, torch.full((3,), 1e6)) for result in results)
