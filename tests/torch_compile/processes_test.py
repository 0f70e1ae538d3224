# SPDX-License-Identifier: Apache-2.0
"""torch.compile over processes and over many recompilations: what is compiled again, and what stays."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from pathlib import Path

import pytest
import straightline as sl
import torch
from torch import nn, randn

#: Prints the misses and hits of the cache of code. Graph breaks, named sizes, frozen parameters, a recompilation.
_PROCESS = """
import torch
from torch import nn, randn
import straightline as sl

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(16, 32), nn.Conv1d(1, 4, 3)
    def forward(self, x):
        y = self.first(x).relu()
        torch._dynamo.graph_break()
        return self.second(y[:, None]).softmax(-1)

for options in ({}, {"freeze": True}):
    model = torch.compile(Model().eval(), backend="straightline", options=options)
    with torch.no_grad():
        for n in (3, 5, 8):
            model(randn(n, 16))
    assert len(sl.programs(model)) >= 3, sl.programs(model)
    torch.compiler.reset()
statistics = sl.cache_info()
print(statistics.misses, statistics.hits)
"""


def _process(folder: Path) -> tuple[int, int]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _PROCESS],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "STRAIGHTLINE_CACHE_DIR": str(folder)},
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    misses, hits = done.stdout.split()[-2:]
    return int(misses), int(hits)


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    misses, _ = _process(tmp_path)
    assert misses > 0
    again, hits = _process(tmp_path)
    assert again == 0 and hits > 0


class _Layer(nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        return x * n + x.shape[0]


def test_two_hundred_recompilations() -> None:
    """Beyond Dynamo's limit calls run in eager, as with any backend; what was compiled stays, and goes with the function."""
    model = _Layer()
    count = 200
    with torch._dynamo.config.patch(recompile_limit=count + 8, accumulated_recompile_limit=count + 8):
        function = torch.compile(model, backend="straightline", dynamic=False)
        with torch.no_grad():
            for n in range(1, count + 1):
                x = randn(n % 7 + 1, 2)
                torch.testing.assert_close(function(x, n), model(x, n))
            programs = sl.programs(function)
            assert len(programs) == count
            x = randn(2, 2)
            torch.testing.assert_close(function(x, 1), model(x, 1))  # the first entry of all
            assert len(sl.programs(function)) == count
    alive = [weakref.ref(program) for program in programs]
    del function, programs
    torch.compiler.reset()
    gc.collect()
    assert not any(program() for program in alive)


def test_the_limit_of_recompilations() -> None:
    model = _Layer()
    with torch._dynamo.config.patch(recompile_limit=4):
        function = torch.compile(model, backend="straightline", dynamic=False)
        with torch.no_grad():
            for n in range(1, 9):
                x = randn(n, 2)
                torch.testing.assert_close(function(x, n), model(x, n))
            assert len(sl.programs(function)) == 4
            for n in range(1, 5):  # what was compiled is still used
                x = randn(n, 2)
                torch.testing.assert_close(function(x, n), model(x, n))
        torch.compiler.reset()
        with pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit), torch.no_grad():
            strict = torch.compile(model, backend="straightline", fullgraph=True, dynamic=False)
            for n in range(1, 9):
                strict(randn(n, 2), n)
