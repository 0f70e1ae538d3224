# SPDX-License-Identifier: Apache-2.0
"""Random graphs three ways: C++, Python and the interpreter give the same bits, and what eager gives under the policy.

STRAIGHTLINE_PROPERTY_GRAPHS says how many graphs (200; 600 in `make test-whole`), STRAIGHTLINE_PROPERTY_SEED
repeats a run. checks.py says what is covered, run_graphs.py runs many more over all cores. A failure names the smallest
value that shows it, as text that can be pasted into a test.
"""

from __future__ import annotations

import itertools
import os
import random

import hypothesis
import pytest
from checks import BATCH, graph_of, wrong
from graphs import Graph
from hypothesis import strategies

_GRAPHS = int(os.environ.get("STRAIGHTLINE_PROPERTY_GRAPHS") or "200")
_SEED = int(os.environ.get("STRAIGHTLINE_PROPERTY_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
_numbers = itertools.count()

#: Hypothesis draws seeds: picks of its own would be too alike, and a failure is cut down by checks.py.
graphs = strategies.integers(0, 2**63).map(graph_of)


@hypothesis.seed(_SEED)
@hypothesis.settings(
    max_examples=max(1, _GRAPHS // BATCH), deadline=None, database=None, phases=[hypothesis.Phase.generate],
    suppress_health_check=list(hypothesis.HealthCheck), print_blob=False,
)  # fmt: skip
@hypothesis.given(strategies.lists(graphs, min_size=BATCH, max_size=BATCH))
def test_random_graphs(batch: list[Graph]) -> None:
    if failure := wrong(batch, next(_numbers)):
        pytest.fail(f"STRAIGHTLINE_PROPERTY_SEED={_SEED}\n{failure}")
