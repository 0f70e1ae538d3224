# SPDX-License-Identifier: Apache-2.0
"""What a process meets beside its own code: a fork, its own end while threads work, no memory. For each way to run a program."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

WAYS = {"cpp": "{}", "python": "{'emit': 'python'}", "interpreter": "{'fast_path': False}", "live": "{'freeze': False}"}

_HEAD = """
import faulthandler, os, resource, signal, sys, threading, time
import numpy, torch
import straightline as sl
from torch import nn
from straightline.testing.models.small import Mlp
"""


def run(script: str, *, seconds: int = 120) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([*sys.path, os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _HEAD + script], env=os.environ | {"PYTHONPATH": path},
        capture_output=True, text=True, check=False, timeout=seconds,
    )  # fmt: skip


_FORK = """
options = {options}
for threads in (1, 2):
    model = Mlp((64, 256, 256, 8)).eval()
    compiled = sl.compile(model, (torch.randn(64, 64),), threads=threads, **options)
    tail = sl.compile(lambda x: x.kthvalue(2, 1)[1], (torch.randn(4, 64),), threads=threads, **options)
    x, y = torch.randn(64, 64), torch.randn(4, 64)
    want, indices = compiled(x), tail(y)
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(60, exit=True)
        assert torch.equal(compiled(x), want) and torch.equal(tail(y), indices)
        # Twice the weights, so twice each layer before it is added up: not what it was.
        compiled.load_parameters({{name: 2 * value for name, value in model.state_dict().items()}})
        assert not torch.equal(compiled(x), want)
        fresh = sl.compile(lambda x: x.sin() + {salt}, (torch.zeros(3, {salt}),), cache=False, **options)
        assert torch.equal(fresh(torch.zeros(3, {salt})), torch.full((3, {salt}), {salt}.0))
        # The end of a forked child is an end like any: it waits for no compilation of its parent's.
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert torch.equal(compiled(x), want)
print("both went on")
"""


@pytest.mark.parametrize("way", WAYS)
def test_fork_after_use(way: str) -> None:
    done = run(_FORK.format(options=WAYS[way], salt=3 + list(WAYS).index(way)))
    assert (done.returncode, done.stdout.strip()) == (0, "both went on"), done.stderr[-3000:]


# Ops that run inside torch are not among them: a daemon thread in one aborts the process in eager too (torch 2.13, Python 3.11).
_ENDS = {
    # In the middle of a program that would not end, its frame leased, without the GIL or coming back for it all the time.
    "an endless call": """
def endless(x):
    return torch.while_loop(lambda x: x.sum() < 1e30, lambda x: (x + 1e-3,), (x,))[0]
compiled = sl.compile(endless, (torch.ones(3),), threads=2, **options)
threading.Thread(target=lambda: compiled(torch.ones(3)), daemon=True).start()
""",
    # numpy's arrays, for torch's own release the GIL where a thread must not be ended.
    "calls one after the other": """
compiled = sl.compile(Mlp((64, 256, 256, 8)).eval(), (numpy.ones((64, 64), numpy.float32),), threads=2, **options)
def calls():
    x = numpy.ones((64, 64), numpy.float32)
    while True:
        compiled(x)
for _ in range(3):
    threading.Thread(target=calls, daemon=True).start()
""",
    "a compilation": """
def compilations():
    for n in range(1, 1000):
        sl.compile(Mlp((n, n + 1, 8)).eval(), (torch.randn(n, n),), cache=False, **options)
threading.Thread(target=compilations, daemon=True).start()
time.sleep(1.0)
""",
    # Which goes through torch's own code hundreds of times, and is awaited.
    "a capture": """
begun, over = threading.Event(), []
def model(x):
    begun.set()
    for _ in range(300):
        x = torch.cosine_similarity(x[None], x[None] + 1) + x
    return x
def capture():
    try:
        sl.compile(model, (torch.randn(3),), cache=False, **options)
    finally:
        over.append(True)
threading.Thread(target=capture, daemon=True).start()
begun.wait()
""",
}


@pytest.mark.parametrize(
    "way,what",
    [("cpp", what) for what in _ENDS]
    + [("python", "an endless call"), ("python", "calls one after the other"), ("interpreter", "an endless call")],
)
def test_the_process_ends_meanwhile(way: str, what: str) -> None:
    done = run(f"options = {WAYS[way]}\n{_ENDS[what]}\ntime.sleep(0.2)\nprint('the end')\n", seconds=60)
    assert (done.returncode, done.stdout.strip()) == (0, "the end"), done.stderr[-3000:]
    assert not done.stderr, done.stderr[-3000:]


_MEMORY = """
options = {options}
n = 20000
def limit(extra):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + extra if extra else resource.RLIM_INFINITY, resource.RLIM_INFINITY))

def refused(text, call):
    limit(300 << 20)
    try:
        call()
    except sl.errors.OutOfMemoryError as error:
        assert isinstance(error, MemoryError) and text in str(error), error
    else:
        raise AssertionError("it found the memory")
    finally:
        limit(0)

x = torch.randn(n)
arena = sl.compile(lambda x: (x[:, None] * x[None, :]).cumsum(0).amax(0), (x,), **options)
output = sl.compile(lambda x: x[:, None] * x[None, :], (x,), **options)
for _ in range(2):
    refused("the program needs an arena of 3200000000 bytes in 'host'", lambda: arena(x))
    refused("output 'mul' needs 1600000000 bytes", lambda: output(x))

n = 12288  # a multiple of every tile's columns: packed, the weight is as large as it was
wide = Mlp((n, n)).eval()
y = torch.randn(16, n)
prepared = f"the prepared weights need {{4 * n * n}}"
if options.get("freeze", True):
    refused(prepared, lambda: sl.compile(wide, (y,), **options))
compiled = sl.compile(wide, (y,), **options)
want = compiled(y)
if options.get("freeze", True):
    refused(prepared, lambda: compiled.load_parameters(wide.state_dict()))
assert torch.equal(compiled(y), want)
print("went on")
"""


@pytest.mark.parametrize("way", WAYS)
def test_out_of_memory(way: str) -> None:
    done = run(_MEMORY.format(options=WAYS[way]))
    assert (done.returncode, done.stdout.strip()) == (0, "went on"), done.stderr[-3000:]
