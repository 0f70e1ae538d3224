# SPDX-License-Identifier: Apache-2.0
"""Random graphs as programs for a CUDA device, whose text runs on the host (tests/run/cuda_on_host.h), against eager under the policy.

STRAIGHTLINE_PROPERTY_GRAPHS and STRAIGHTLINE_PROPERTY_SEED as in graphs_test.py; of so many graphs a tenth.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from checks import Batch, check_graph, graph_of
from cuda_on_host import run_on_host
from graphs import Graph
from statements import launches_of
from torch import Tensor

import straightline as sl

_BATCH = 10
_GRAPHS = int(os.environ.get("STRAIGHTLINE_PROPERTY_GRAPHS") or "200") // 10
#: Before clusters and kernels that start early, and with them.
_TARGETS = ("cuda:sm_80", "cuda:sm_90")
_SEED = int(os.environ.get("STRAIGHTLINE_PROPERTY_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)


class _Copies(Batch):
    """Results that share memory with nothing."""

    def forward(self, *inputs: Tensor) -> list[Any]:
        return [[y.clone() for y in results] for results in super().forward(*inputs)]


def _results(graphs: list[Graph], inputs: list[list[Tensor]], target: str, folder: Path) -> list[list[Tensor]]:
    model = _Copies(graphs, inputs)
    compiled = sl.compile(model, model.given, target=target, routes={"linear": "cuda", "matmul": "cuda"}, cache=False)
    assert {row["backend"] for row in launches_of(compiled)} <= {"cuda", "runtime"}
    with torch.no_grad():
        got = [
            [torch.empty_like(y, memory_format=torch.contiguous_format) for y in results]
            for results in model(*model.given)
        ]
    run_on_host(compiled, model, model.given, tuple(y for results in got for y in results), folder)
    return got


@pytest.mark.parametrize("batch", range(max(1, _GRAPHS // _BATCH)))
def test_random_graphs(batch: int, tmp_path: Path) -> None:
    numbers = random.Random(_SEED + batch)
    graphs = [graph_of(numbers.randrange(2**63)) for _ in range(_BATCH)]
    inputs = [graph.tensors() for graph in graphs]
    failures = []
    for graph, got, given in zip(graphs, _results(graphs, inputs, _TARGETS[batch % 2], tmp_path), inputs, strict=True):
        try:
            check_graph(graph, got, given)
        except AssertionError as error:
            failures.append(f"{str(error)[:500]}\n{graph.text()}of seed {graph.seed}")
    assert not failures, "\n\n".join([f"STRAIGHTLINE_PROPERTY_SEED={_SEED}, batch {batch}", *failures])
