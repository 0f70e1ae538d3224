# SPDX-License-Identifier: Apache-2.0
"""The CUDA form of `tree_ensemble` on the host, against the CPU's."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from cuda_on_host import run_on_host
from torch import nn

import straightline as sl
from tests.onnx_models.forests import grown, model_of, values_of


@pytest.fixture
def rng() -> np.random.Generator:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    return np.random.default_rng(seed)


class Held(nn.Module):
    """The parameters of a program, by name."""

    def __init__(self, function: sl.CompiledFunction) -> None:
        super().__init__()
        for name, array in function.parameters().items():
            self.register_buffer(name, torch.from_numpy(np.array(array)))


@pytest.mark.parametrize("targets", [1, 3, 40])
@pytest.mark.parametrize("per_tree", [False, True])
def test_trees(targets: int, per_tree: bool, rng: np.random.Generator, tmp_path: Path) -> None:  # noqa: F811
    """A warp a row: one column is added by lanes, others in the order of trees; more trees and columns than lanes."""

    def weights(tree: int) -> list[tuple[int, float]]:
        ids = [tree % targets] if per_tree else range(targets)
        return [(t, float(np.float32(rng.standard_normal()))) for t in ids]

    modes = ["BRANCH_LEQ"] if targets == 1 else ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_NEQ"]
    nodes, leaves = grown(rng, 37, 5, modes, missing=targets == 3, weights=weights)
    attributes = nodes | {f"target_{k}": v for k, v in leaves.items()}
    attributes |= {"n_targets": targets, "aggregate_function": "MAX" if targets == 3 else "SUM"}
    model, x = model_of("TreeEnsembleRegressor", attributes), values_of(rng, 9, nan=True)
    function = sl.compile(model, (x,))
    compiled = sl.compile(model, (x,), target="cuda:sm_80")
    assert [row["family"] for row in compiled.explain().statements if row["family"] == "tree_ensemble"] == [
        "tree_ensemble"
    ]
    wanted = torch.from_numpy(function(x))
    got = torch.empty_like(wanted)
    run_on_host(compiled, Held(function), (torch.from_numpy(x),), (got,), tmp_path)
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)
