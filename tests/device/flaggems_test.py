# SPDX-License-Identifier: Apache-2.0
"""FlagGems' ops by name on a device: each against float64 on the host, as a graph and by stream."""

from __future__ import annotations

import importlib.util

import pytest
import straightline as sl
import torch
from torch import Tensor

pytest.importorskip("triton")
if importlib.util.find_spec("flag_gems") is None:
    pytest.skip("flag_gems is not installed", allow_module_level=True)

from tests.frameworks.triton import flaggems_ops as gems  # noqa: E402


def _leaves(result: object) -> list[Tensor]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(result) if isinstance(leaf, Tensor)]


@pytest.mark.parametrize("case", gems.CASES, ids=[case.rule for case in gems.CASES])
def test_against_float64(case: gems.Case, seeded: int) -> None:
    given = gems.tensors(case, seeded)
    wanted = _leaves(case.function(*(x.double() if x.is_floating_point() else x for x in given)))
    there = [x.cuda() for x in given]
    fn = sl.compile(gems.Model(case.function), tuple(there), routes={case.rule: "flaggems"})
    assert any("FlagGems" in row["why"] for row in fn.explain()["statements"])
    with sl.fast_path(False):
        slow = _leaves(fn(*there))
    for got in (_leaves(fn(*there)), _leaves(fn(*there)), slow):
        for one, reference in zip(got, wanted, strict=True):
            far = (one.cpu().double() - reference.double()).abs().max().item() if reference.numel() else 0.0
            most = case.tolerance * max(1.0, reference.double().abs().max().item())
            assert far <= most, (case.rule, far, most)


def test_configurations_are_measured() -> None:
    """With a device the fastest configuration is taken, and `explain` has the times."""
    x, w = torch.randn(256, 256, device="cuda"), torch.randn(256, 256, device="cuda")
    fn = sl.compile(gems.Model(torch.mm), (x, w), routes={"mm": "flaggems"}, cache=False)
    (row,) = [row for row in fn.explain()["statements"] if "FlagGems" in row["why"]]
    assert "measured:" in row["why"]
    torch.testing.assert_close(fn(x, w), x @ w, atol=0.2, rtol=0.01)
