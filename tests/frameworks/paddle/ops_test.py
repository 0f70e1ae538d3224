# SPDX-License-Identifier: Apache-2.0
"""Ops of Paddle, form by form, against Paddle: each sample is one program, whose results are compared one by one."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from straightline import paddle_coverage

from tests.frameworks.paddle.comparison import assert_close, fresh_seed


@pytest.mark.parametrize("name", paddle_coverage.SAMPLES)
def test_ops(name: str) -> None:
    _, results = paddle_coverage.pairs(name, np.random.default_rng(fresh_seed()))
    for i, (got, want) in enumerate(results):
        assert_close(got, want, f"result {i}")


def test_the_page_has_every_op() -> None:
    page = (pathlib.Path(__file__).parents[3] / "docs" / "frameworks" / "paddle.md").read_text()
    rows = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")][1:]
    assert rows == paddle_coverage._rows()
    assert "wrong in" not in page
