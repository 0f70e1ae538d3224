# SPDX-License-Identifier: Apache-2.0
"""Compiled functions over many compilations, calls and threads, and in other processes."""

from __future__ import annotations

import gc
import hashlib
import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
import weakref
from pathlib import Path

import pytest
import torch
from straightline.demo_models import DigitsCnn
from straightline.testing.models.lstm import LstmTagger
from straightline.testing.models.small import Mlp
from policy import check_close
from torch import nn

import straightline as sl

MiB = 1 << 20


def resident_bytes() -> int:
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def executable_bytes() -> int:
    """Mapped executable memory that no file backs: what a JIT makes."""
    total = 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, permissions, _, _, inode, *_ = line.split()
        if "x" in permissions and inode == "0" and "[" not in line:
            low, high = (int(part, 16) for part in span.split("-"))
            total += high - low
    return total


def test_deleting_frees_code_weights_and_arenas() -> None:
    """100 compilations, each with 4 MiB of packed weights and an arena of 1 MiB: both are given back, and the code too."""
    exported = torch.export.export(Mlp((512, 1024, 512, 8)).eval(), (torch.randn(256, 512),))
    x = torch.randn(256, 512)

    def once() -> weakref.ref[object]:
        compiled = sl.compile(exported, threads=1)
        compiled(x)
        assert executable_bytes() > code
        return weakref.ref(compiled) if hasattr(type(compiled), "__weakref__") else lambda: None  # type: ignore[return-value]

    code = -1
    for _ in range(10):
        once()
    gc.collect()
    code, before = executable_bytes(), resident_bytes()
    for _ in range(100):
        once()
    gc.collect()
    grown = resident_bytes() - before
    print(f"resident {before / MiB:.0f} MiB, grown by {grown / MiB:.1f} MiB; executable {code} bytes")
    assert executable_bytes() <= code
    assert grown < 50 * MiB  # one leaked set of weights in eight would be 50 MiB


def test_results_outlive_the_function() -> None:
    """Results, and views of parameters, are right after model and compiled function are gone."""
    model = nn.Linear(64, 64)
    want = model.weight.detach().clone()
    compiled = sl.compile(lambda x: (x + 1, model.weight.t()), (torch.randn(3),))
    fresh, view = compiled(torch.ones(3))
    del model, compiled
    gc.collect()
    torch.randn(64, 64)
    assert torch.equal(view, want.t()) and torch.equal(fresh, torch.full((3,), 2.0))


@pytest.mark.parametrize("threads", [1, 2])
def test_concurrent_calls(threads: int) -> None:
    """8 threads, one program each of several kinds, inputs of their own."""
    models = [
        (Mlp().eval(), (32, 64)),
        (DigitsCnn().eval(), (4, 1, 8, 8)),
        (LstmTagger().eval(), (2, 20, 8)),
    ]
    for model, shape in models:
        compiled = sl.compile(model, (torch.randn(shape),), threads=threads)
        inputs = [torch.randn(shape) for _ in range(8)]
        want = [compiled(x) for x in inputs]
        with torch.no_grad():
            for x, y in zip(inputs, want, strict=True):
                one = y[0] if isinstance(y, tuple) else y
                eager = model(x)
                eager = eager[0] if isinstance(eager, tuple) else eager
                torch.testing.assert_close(one, eager, rtol=1e-4, atol=1e-5)
        failures: list[str] = []

        def work(
            i: int, compiled: object = compiled, inputs: list = inputs, want: list = want, failures: list = failures
        ) -> None:
            for call in range(200):
                got = compiled(inputs[i])  # type: ignore[operator]
                parts = zip(got, want[i], strict=True) if isinstance(got, tuple) else [(got, want[i])]
                if not all(torch.equal(a, b) for a, b in parts):
                    failures.append(f"thread {i} call {call}")

        workers = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert not failures, failures[:5]


def test_concurrent_compilations() -> None:
    """Compiling in one thread while others call."""
    model = Mlp((32, 32, 8)).eval()
    compiled = sl.compile(model, (torch.randn(4, 32),))
    x = torch.randn(4, 32)
    want = compiled(x)
    stop = threading.Event()
    failures: list[str] = []

    def call() -> None:
        while not stop.is_set():
            if not torch.equal(compiled(x), want):
                failures.append("a call gave another result")

    callers = [threading.Thread(target=call) for _ in range(3)]
    for caller in callers:
        caller.start()
    try:
        for n in (3, 5, 6):
            y = torch.randn(n, 32)
            with torch.no_grad():
                check_close(sl.compile(model, (y,))(y), model(y), model(y).double())
    finally:
        stop.set()
        for caller in callers:
            caller.join()
    assert not failures


def test_compilations_on_several_threads() -> None:
    """torch.export keeps state in globals: captures take turns, the rest goes on at once."""
    x = torch.randn(4, 5)

    def compiled(n: int) -> torch.Tensor:
        return sl.compile(lambda x: (x * n + 1).relu(), (x,))(x)

    with ThreadPoolExecutor(8) as threads:
        for n, result in enumerate(threads.map(compiled, range(24))):
            torch.testing.assert_close(result, (x * n + 1).relu())


def test_the_caller_may_fork() -> None:
    """A forked child can go on calling what its parent compiled, also with a team."""
    compiled = sl.compile(Mlp((64, 256, 256, 8)).eval(), (torch.randn(64, 64),), threads=1)
    x = torch.randn(64, 64)
    want = compiled(x)
    child = os.fork()
    if child == 0:
        os._exit(0 if torch.equal(compiled(x), want) else 1)
    assert os.waitpid(child, 0)[1] == 0


COUNTER = r"""
#include <stddef.h>
extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);
long sl_allocations;
void* malloc(size_t n) { __atomic_add_fetch(&sl_allocations, 1, __ATOMIC_RELAXED); return __libc_malloc(n); }
void* calloc(size_t n, size_t m) { __atomic_add_fetch(&sl_allocations, 1, __ATOMIC_RELAXED); return __libc_calloc(n, m); }
void* realloc(void* p, size_t n) { __atomic_add_fetch(&sl_allocations, 1, __ATOMIC_RELAXED); return __libc_realloc(p, n); }
void* memalign(size_t a, size_t n) { __atomic_add_fetch(&sl_allocations, 1, __ATOMIC_RELAXED); return __libc_memalign(a, n); }
void* aligned_alloc(size_t a, size_t n) { return memalign(a, n); }
int posix_memalign(void** p, size_t a, size_t n) { *p = memalign(a, n); return 0; }
"""

STEADY_STATE = """
import ctypes, torch
from straightline.demo_models import DigitsCnn
from straightline.testing.models.lstm import LstmTagger
from straightline.testing.models.bert_layer import EncoderLayer
from straightline.testing.models.small import Mlp
import straightline as sl
count = ctypes.c_long.in_dll(ctypes.CDLL(None), "sl_allocations")
def allocations(fn, x, out, calls):
    before = count.value
    for _ in [None] * calls:
        fn(x, out=out)
    return count.value - before
def fresh(fn, x, calls):
    before = count.value
    for _ in [None] * calls:
        fn(x)
    return count.value - before
for model, shape in ((Mlp(), (32, 64)), (DigitsCnn(), (8, 1, 8, 8)), (LstmTagger(), (2, 20, 8)), (EncoderLayer(), (1, 16, 256))):
    for threads in (1, 2):
        x = torch.randn(shape)
        fn = sl.compile(model.eval(), (x,), threads=threads)
        out = fn(x)
        allocations(fn, x, out, 50)
        # The least of three: something else in the process allocates once in a while (a collection, for example).
        more = min((allocations(fn, x, out, 300) - allocations(fn, x, out, 100) for _ in range(3)), key=abs)
        print(type(model).__name__, threads, more, fresh(fn, x, 200))
"""


def test_steady_state_allocates_nothing(tmp_path: Path) -> None:
    """With `out=` there is no heap allocation at all, Python's own counted too."""
    counter = tmp_path / "libcounter.so"
    (tmp_path / "counter.c").write_text(COUNTER)
    command = ["gcc", "-O1", "-shared", "-fPIC", str(tmp_path / "counter.c"), "-o", str(counter)]
    subprocess.run(command, check=True)
    environment = {"LD_PRELOAD": str(counter), "PYTHONMALLOC": "malloc"}
    lines = in_a_process(STEADY_STATE, environment).splitlines()
    assert len(lines) == 8, lines
    for line in lines:
        _, _, with_out, fresh = line.split()
        assert int(with_out) == 0, lines
        assert int(fresh) >= 200, lines  # the counter does count


def in_a_process(code: str, environment: dict[str, str] | None = None) -> str:
    """Standard output of Python running `code` with this process's paths."""
    paths = os.pathsep.join([*sys.path, str(Path(__file__).parents[1])])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": paths, **(environment or {})},
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


DIGESTS = """
import hashlib, torch
from straightline.testing.models.bert_layer import EncoderLayer
from straightline.demo_models import DigitsCnn
from straightline.testing.models.lstm import LstmTagger
import straightline as sl
for model, shape in ((DigitsCnn(), (2, 1, 8, 8)), (LstmTagger(layers=2), (2, 5, 8)), (EncoderLayer(), (1, 8, 256))):
    print(hashlib.sha256(sl.compile(model.eval(), (torch.randn(shape),), threads=2).code.encode()).hexdigest())
"""


def test_code_is_deterministic() -> None:
    """The same module gives the same bytes: twice here, and in processes with other hash seeds and no cache."""
    here = []
    for model, shape in ((DigitsCnn(), (2, 1, 8, 8)), (LstmTagger(layers=2), (2, 5, 8))):
        codes = [sl.compile(model.eval(), (torch.randn(shape),), threads=2).code for _ in range(2)]
        assert codes[0] == codes[1]
        here.append(hashlib.sha256(codes[0].encode()).hexdigest())
    others = [in_a_process(DIGESTS, {"PYTHONHASHSEED": seed}).split() for seed in ("1", "77")]
    assert others[0] == others[1]
    assert others[0][: len(here)] == here
    assert not re.search(r"0x[0-9a-f]{9,}", codes[0]), "an address stands in the emitted text"
