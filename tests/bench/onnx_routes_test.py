# SPDX-License-Identifier: Apache-2.0
"""The comparison of torch's route with ONNX's, on its smallest net."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

pytest.importorskip("onnx")
from bench import onnx_routes


@pytest.mark.filterwarnings("ignore")
@torch.no_grad()
def test_a_net_by_both_routes() -> None:
    rows = list(onnx_routes.measured("tabular", ["script"], ["named"], rounds=1))
    assert len(rows) == 2 and all(not row.why and row.ratio > 0 for row in rows), rows
    assert onnx_routes.table(rows).count("| tabular, script, named") == 2


def test_kernels_of_one_route_alone() -> None:
    assert onnx_routes.difference(Counter("aab"), Counter("abc")) == "-a +c"
