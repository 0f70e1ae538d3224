# SPDX-License-Identifier: Apache-2.0
"""What a compilation asks of the backends of the registry."""

from __future__ import annotations

import json

import pytest
import straightline as sl
import torch
from straightline import _compiler


def test_a_compilation_does_not_ask_whether_backends_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking opens devices: a process that uses a CPU or the second GPU had a context on the first."""
    asked: list[bool] = []
    backends_json = _compiler.backends_json

    def recorded(probe: bool) -> str:
        asked.append(probe)
        return backends_json(probe)

    monkeypatch.setattr(_compiler, "backends_json", recorded)
    sl.compile(lambda x: torch.softmax(x, -1), (torch.randn(3, 4),))
    assert asked and not any(asked)
    sl.backends()
    assert asked[-1]


def test_what_is_known_without_asking() -> None:
    without, asked = (
        {row["name"]: row for row in json.loads(_compiler.backends_json(probe))} for probe in (False, True)
    )
    assert without.keys() == asked.keys()
    for name, row in without.items():
        assert row == asked[name] | {"version": "", "missing": ""}
