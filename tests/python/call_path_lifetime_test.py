# SPDX-License-Identifier: Apache-2.0
"""The call path over many calls, threads and deletions."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hand_written_callable import Maker, add, add_program, view_program
from straightline import errors

MiB = 1 << 20


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where programs are compiled."""
    return tmp_path_factory.mktemp("programs")


@pytest.fixture(scope="session")
def make(folder: Path) -> Maker:
    """Compiles hand-written programs into callables."""
    return Maker(folder)


@pytest.fixture
def x() -> torch.Tensor:
    """A small tensor."""
    return torch.arange(6.0).reshape(2, 3)


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_no_leak(make: Maker, x: torch.Tensor) -> None:
    shape = (64, 1024)
    big = make(add_program(shape), add, (torch.empty(shape), torch.empty(shape)))
    a = torch.ones(shape)
    out = torch.empty(shape)
    for fn, args in ((big, (a, a)), (big, (a.numpy(), a.numpy()))):
        kwargs = {"out": out if isinstance(args[0], torch.Tensor) else out.numpy()}
        fn(*args)  # the first call learns a framework's types and keeps them
        gc.collect()  # what earlier tests left refers to the types, too
        before = [sys.getrefcount(o) for o in (*args, out, fn, torch.Tensor, np.ndarray, None)]
        for i in range(10_000):
            if i == 1000:
                resident = resident_bytes()
            fn(*args, **(kwargs if i % 4 else {}))
            if i % 100 == 0:
                with pytest.raises(errors.GuardError):
                    fn(args[0], None)
        after = [sys.getrefcount(o) for o in (*args, out, fn, torch.Tensor, np.ndarray, None)]
        assert before[:-1] == after[:-1], (before, after)
        assert abs(before[-1] - after[-1]) < 1000
        assert resident_bytes() - resident < 8 * MiB  # one leaked output in ten would be 175 MiB


def test_deleting_frees_everything(make: Maker, x: torch.Tensor) -> None:
    w = torch.zeros(4)
    references = sys.getrefcount(w)
    leaf = torch.empty(0)
    storage = w.untyped_storage()
    program = view_program()

    def once() -> None:
        parameters = (w, torch.zeros(1, dtype=torch.int64))
        fn = make(program, lambda x: x, (leaf,), result=(leaf,) * 6, parameters=parameters)
        fn(x)

    once()
    gc.collect()
    objects = len(gc.get_objects())
    for _ in range(200):
        once()
    gc.collect()
    assert sys.getrefcount(w) == references and len(gc.get_objects()) <= objects + 5
    del storage


COUNTER = r"""
#include <stddef.h>
extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);
long sl_allocations;
void* malloc(size_t n) { ++sl_allocations; return __libc_malloc(n); }
void* calloc(size_t n, size_t m) { ++sl_allocations; return __libc_calloc(n, m); }
void* realloc(void* p, size_t n) { ++sl_allocations; return __libc_realloc(p, n); }
void* memalign(size_t a, size_t n) { ++sl_allocations; return __libc_memalign(a, n); }
void* aligned_alloc(size_t a, size_t n) { ++sl_allocations; return __libc_memalign(a, n); }
int posix_memalign(void** p, size_t a, size_t n) { *p = memalign(a, n); return 0; }
"""

STEADY_STATE = """
import ctypes, sys, torch
from hand_written_callable import Maker, add, add_program
from pathlib import Path
make = Maker(Path(sys.argv[1]))
x, out = torch.ones(2, 3), torch.empty(2, 3)
fn = make(add_program(), add, (x, x))
count = ctypes.c_long.in_dll(ctypes.CDLL(None), "sl_allocations")
def run(calls):
    for _ in [None] * calls:
        fn(x, x, out=out)
def fresh(calls):
    for _ in [None] * calls:
        fn(x, x)
for loop in (run, fresh):
    loop(100)
    numbers = []
    for calls in (100, 1100):
        before = count.value
        loop(calls)
        numbers.append(count.value - before)
    print(numbers[1] - numbers[0])
"""


def test_steady_state_allocates_nothing(folder: Path) -> None:
    """With `out=` there is no allocation at all, counted with Python's own in malloc."""
    counter = folder / "libcounter.so"
    (folder / "counter.c").write_text(COUNTER)
    command = ["gcc", "-O1", "-shared", "-fPIC", str(folder / "counter.c"), "-o", str(counter)]
    subprocess.run(command, check=True)
    environment = {
        **os.environ,
        "LD_PRELOAD": str(counter),
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parent)]),
    }
    command = [sys.executable, "-c", STEADY_STATE, str(folder)]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    with_out, fresh = map(int, done.stdout.split())
    assert with_out == 0
    assert fresh >= 1000  # the counter does count


def test_threads(make: Maker) -> None:
    shape = (32, 256)
    calls = 300
    program = add_program(shape)
    for options in (
        {"estimated_us": 100.0, "gil_threshold_us": 10.0},
        {"estimated_us": 1.0, "gil_threshold_us": 10.0},
    ):
        fn = make(program, add, (torch.empty(shape), torch.empty(shape)), **options)
        failures: list[str] = []

        def work(seed: int, fn: Any = fn, failures: list[str] = failures) -> None:
            generator = torch.Generator().manual_seed(seed)
            a = torch.randn(shape, generator=generator)
            b = torch.randn(shape, generator=generator)
            want = a + b
            out = torch.empty(shape)
            for i in range(calls):
                got = fn(a, b, out=out) if i % 2 else fn(a, y=b)
                if not torch.equal(got, want):
                    failures.append(f"seed {seed} call {i}")

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures


def test_gil_released(make: Maker, x: torch.Tensor) -> None:
    """Another thread sees what the program writes only while it runs, if and only if the GIL is released."""
    program = add_program()
    program.run = """
      volatile float* flag = static_cast<float*>(io->outputs[0]);
      flag[0] = 1;
      for (volatile int64_t i = 0; i < 100000000; ++i) {}
      flag[0] = 0;"""
    for release in (True, False):
        estimate = 300000.0 if release else 1.0
        fn = make(program, add, (x, x), estimated_us=estimate, gil_threshold_us=10.0)
        out = torch.zeros(2, 3)
        flag = out.numpy()
        stop = threading.Event()
        seen = 0

        def watch(flag: np.ndarray = flag, stop: threading.Event = stop) -> None:
            nonlocal seen
            while not stop.is_set():
                seen += int(flag[0, 0] == 1)

        thread = threading.Thread(target=watch)
        thread.start()
        fn(x, x, out=out)
        stop.set()
        thread.join()
        assert (seen > 0) == release, seen


def test_reentrant(make: Maker, x: torch.Tensor) -> None:
    """A node's own flatten function may call the same compiled function."""

    class Lazy:
        def __init__(self, depth: int) -> None:
            self.depth = depth

    def flatten(lazy: Lazy) -> tuple[list[Any], None]:
        return ([x if lazy.depth == 0 else fn(Lazy(lazy.depth - 1), x)], None)

    torch.utils._pytree.register_pytree_node(Lazy, flatten, lambda items, _: Lazy(0))
    fn = None
    lazy = Lazy(0)
    fn = make(add_program(), add, (lazy, x))
    assert torch.equal(fn(Lazy(5), x), 7 * x)
