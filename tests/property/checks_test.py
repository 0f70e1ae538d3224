# SPDX-License-Identifier: Apache-2.0
"""That the property tests can fail: a wrong element is found and cut down, a worker that dies is reported."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import checks
import pytest
import torch
from graphs import Graph


def test_a_wrong_element_is_found_and_cut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = random.SystemRandom().randrange(2**63)
    print(f"seed {seed}")
    graph = checks.graph_of(seed)

    def eager_but(batch: list[Graph], alone: bool = True) -> tuple[list[Any], list[Any]]:
        inputs = [one.tensors() for one in batch]
        results = [[x.clone() for x in one.function()(*given)] for one, given in zip(batch, inputs, strict=True)]
        for result in results:
            last = result[-1]
            if last.numel():
                flat = last.reshape(-1)
                flat[0] = ~flat[0] if last.dtype is torch.bool else flat[0] + 1000
                result[-1] = flat.reshape(last.shape)
        return results, inputs

    monkeypatch.setattr(checks, "run_three_forms", eager_but)
    said = checks.wrong([graph], 1)
    if graph.outputs[-1].count:
        assert "def graph(" in said and "of seed" in said
    else:
        assert not said


def test_batches_cover_both_ways_to_clang(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def no_batch(batch: list[Graph], alone: bool = True) -> tuple[list[Any], list[Any]]:
        asked.append(alone)
        return [], []

    monkeypatch.setattr(checks, "run_three_forms", no_batch)
    assert not any(checks.wrong([], number) for number in range(20))
    assert asked.count(True) == 2 and asked[0] and asked[10]


def test_a_worker_that_dies_is_a_failure(tmp_path: Path) -> None:
    script = Path(__file__).parent / "run_graphs.py"
    (tmp_path / "straightline.py").write_text("import os; os._exit(3)\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, str(script), "--graphs", "1", "--workers", "1", "--seed", "5"]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert "worker 0 ended with status 3" in done.stdout
    assert "0 graphs of 1" in done.stdout and "1 dead workers, seed 5" in done.stdout
