# SPDX-License-Identifier: Apache-2.0
"""A case that takes no time, and contenders that misbehave."""

from __future__ import annotations

import os
import time

from straightline.bench.case import Bar, Case, Input
from straightline.bench.contender import Call, Contender, Prepared, Task, Unavailable, python_call
from torch import Tensor, nn


class Twice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + x


class Liar(Contender):
    """Fast, and wrong."""

    name = "liar"
    rows = {"liar": "Liar"}

    def prepare(self, task: Task) -> Prepared:
        return Prepared({"liar": python_call(lambda x: x, task.inputs)}, 0.0)


class Crasher(Contender):
    """Dies while it prepares."""

    name = "crasher"
    rows = {"crasher": "Crasher", "crasher_too": "Crasher, another way"}

    def prepare(self, task: Task) -> Prepared:
        print("the last words", flush=True)
        os.abort()


class Hanger(Contender):
    """Never comes back."""

    name = "hanger"
    rows = {"hanger": "Hanger"}

    def prepare(self, task: Task) -> Prepared:
        time.sleep(3600)
        raise AssertionError


class Absent(Contender):
    """Is not installed."""

    name = "absent"
    rows = {"absent": "Absent"}

    def prepare(self, task: Task) -> Prepared:
        raise Unavailable("no module named absent: pip install absent")


class Stumbler(Contender):
    """Answers right, then fails when it is timed for the second time."""

    name = "stumbler"
    rows = {"stumbler": "Stumbler"}

    def prepare(self, task: Task) -> Prepared:
        right = python_call(task.model, task.inputs)
        return Prepared({"stumbler": Call(_fails, right.answer)}, 0.0)


def _fails(calls: int) -> float:
    raise RuntimeError("no more [of it]")


CASES = (
    Case(
        "tiny_1",
        "a tiny question?",
        Twice,
        (Input((4, 8)),),
        links=1,
        series="tiny",
        bars=(Bar("straightline", "eager", 1000.0), Bar("straightline", "nobody", 1.0)),
    ),
    Case("tiny_2", "another?", Twice, (Input((2, 8)),), links=2, series="tiny"),
    Case("apart", "of another group?", Twice, (Input((2, 8)),), group="others"),
)
CONTENDERS = (Liar, Crasher, Hanger, Absent, Stumbler)
