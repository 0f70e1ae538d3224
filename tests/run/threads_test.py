# SPDX-License-Identifier: Apache-2.0
"""How many threads there are, and which of them are awake: counts, no times."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import textwrap
import time
from collections import Counter

import pytest
import torch
from policy import check, launches
from torch import Tensor, nn

import straightline as sl

_ONEDNN = pathlib.Path(sl.__file__).parent / "libstraightline_backend_onednn.so"
_X = torch.randn(256, 2048)
_LARGE = nn.Sequential(nn.Linear(2048, 512), nn.Linear(512, 512)).eval()


def threads_by_name() -> Counter[str]:
    names: Counter[str] = Counter()
    for task in pathlib.Path("/proc/self/task").iterdir():
        try:
            names[(task / "comm").read_text().strip()] += 1
        except (FileNotFoundError, ProcessLookupError):
            pass  # it ended meanwhile
    return names


def _workers_awake() -> int:
    """How many workers of our teams are not asleep."""
    awake = 0
    for task in pathlib.Path("/proc/self/task").iterdir():
        name, state = re.fullmatch(r"\d+ \((.*)\) (\w) .*", (task / "stat").read_text(), re.DOTALL).groups()
        awake += name == "sl-team" and state != "S"
    return awake


# --- how many are planned for


def _planned(**options: int) -> int:
    return sl.compile(_LARGE, (_X,), **options).explain()["threads"]


def test_the_environment_stands_between_the_argument_and_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        monkeypatch.delenv("STRAIGHTLINE_THREADS", raising=False)
        assert _planned() == 1
        monkeypatch.setenv("STRAIGHTLINE_THREADS", "3")
        assert _planned() == 3
        assert _planned(threads=2) == 2
        monkeypatch.setenv("STRAIGHTLINE_THREADS", "")  # as if it were not set
        assert _planned() == 1
        torch.set_num_threads(2)
        cores = len(os.sched_getaffinity(0))
        assert _planned() == min(2, cores)
    finally:
        torch.set_num_threads(before)


def test_a_small_model_keeps_to_its_caller_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRAIGHTLINE_THREADS", "4")
    small = sl.compile(nn.Linear(16, 16), (torch.randn(1, 16),))
    assert small.explain()["threads"] == 1
    text, weights = _text()
    assert sl.compile_mlir(text, weights).explain()["threads"] == 4


def _text() -> tuple[str, dict[str, Tensor]]:
    return sl.compile(_LARGE, (_X,), threads=1).ir("op"), _LARGE.state_dict()


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5", " 2", "257", "1e2"])
def test_what_is_no_number_of_threads_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRAIGHTLINE_THREADS", value)
    words = re.escape(f"STRAIGHTLINE_THREADS is {value!r} but must be a whole number from 1 to 256")
    with pytest.raises(sl.UserError, match=words):
        sl.compile(nn.Linear(4, 4), (torch.randn(1, 4),))
    assert _planned(threads=1) == 1  # nobody asked the environment


# --- how many there are


def _in_a_process_of_its_own(text: str) -> str:
    """What the script prints. It has no torch, so every thread is ours or a library's that we use."""
    script = "import collections, pathlib, re, numpy, straightline as sl\n" + textwrap.dedent(text)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


_COUNT = '''
    def threads():
        return collections.Counter((t / "comm").read_text().strip() for t in pathlib.Path("/proc/self/task").iterdir())
    generator = numpy.random.default_rng()
    weights = {name: generator.standard_normal(shape, dtype="float32") for name, shape in
               (("w", (192, 320)), ("b", (192,)))}
    x = generator.standard_normal((70, 320), dtype="float32")
    text = """
      func.func @forward(%x: tensor<70x320xf32> {op.name = "x"}) -> (tensor<70x192xf32> {op.name = "y"}) {
        %w = op.parameter "w" : tensor<192x320xf32>
        %b = op.parameter "b" : tensor<192xf32>
        %y = op.linear %x, %w, %b : (tensor<70x320xf32>, tensor<192x320xf32>, tensor<192xf32>) -> tensor<70x192xf32>
        return %y : tensor<70x192xf32>
      }
    """
    before = threads()
    fn = sl.compile_mlir(text, weights, threads=THREADS, routes={"linear": "BACKEND"})
    for _ in range(20):
        y = fn(x)
    want = x.astype("float64") @ weights["w"].astype("float64").T + weights["b"]
    assert abs(y - want).max() < 1e-3, abs(y - want).max()
    backend = [row["backend"] for row in fn.explain().statements if row["phase"] == "run"]
    print(backend, dict(threads() - before))
'''


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    "backend",
    ["native", pytest.param("onednn", marks=pytest.mark.skipif(not _ONEDNN.exists(), reason="built without oneDNN"))],
)
def test_a_library_call_runs_on_the_team(backend: str, threads: int) -> None:
    """A program for n threads makes n - 1, and oneDNN none beside them."""
    got = _in_a_process_of_its_own(_COUNT.replace("THREADS", str(threads)).replace("BACKEND", backend))
    made = {"sl-team": threads - 1} if threads > 1 else {}
    assert got == f"{[backend]} {made}"


def test_programs_share_their_team() -> None:
    before = threads_by_name()["sl-team"]
    functions = [sl.compile(nn.Linear(64 + 16 * i, 96), (torch.randn(256, 64 + 16 * i),), threads=5) for i in range(3)]
    for i, function in enumerate(functions):
        function(torch.randn(256, 64 + 16 * i))
    assert threads_by_name()["sl-team"] - before in (0, 4)  # 0: another test had a team of five


# --- who is awake beside torch


_seen: list[tuple[int, int]] = []


@torch.library.custom_op("straightline_threads_test::look", mutates_args=())
def look(x: Tensor) -> Tensor:
    """Notes torch's number of threads and how many of our workers stay awake: waits until there are none, at most 20 s."""
    end = time.monotonic() + 20
    while _workers_awake() and time.monotonic() < end:
        time.sleep(0.001)
    _seen.append((torch.get_num_threads(), _workers_awake()))
    return x.clone()


@look.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def test_workers_sleep_while_torch_computes_and_torch_has_its_own_threads() -> None:
    """Between two kernels of the whole team stands an op of torch: meanwhile none of the team's workers runs."""
    torch.manual_seed(torch.seed())

    class Around(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(256, 256), nn.Linear(256, 256)

        def forward(self, x: Tensor) -> Tensor:
            return self.second(look(self.first(x)))

    for threads in (2, 3):
        _seen.clear()
        compiled = check(Around().eval(), (torch.randn(64, 256),), calls=[(torch.randn(64, 256),)], threads=threads)
        assert [row["backend"] for row in launches(compiled)] == ["native", "aten", "native"]
        assert re.search(r"gemm_\w+\(ctx, team, ", compiled.code), "the kernels around it are the team's"
        assert compiled.code.count("sl::failedInLibrary(ctx, team)") >= 2  # its plan and its call
        assert _seen and set(_seen) == {(torch.get_num_threads(), 0)}
