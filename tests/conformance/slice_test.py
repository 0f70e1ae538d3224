# SPDX-License-Identifier: Apache-2.0
"""A fixed slice of torch's samples of its ops (`python -m bench.conformance` asks all): none is wrong, none ends in a bare error."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import straightline as sl
import torch

from bench import summarize
from bench.conformance import made, report
from bench.conformance.examine import OUTCOMES, WAYS, examine
from bench.conformance.samples import modules, names, samples, spread

SEED = random.randrange(2**31)
#: Of each dtype so many entries.
SLICE = {torch.float32: 60, torch.complex64: 20, torch.int64: 20, torch.bfloat16: 12, torch.bool: 8}


def _entries() -> list[tuple[str, torch.dtype]]:
    found = []
    for dtype, count in SLICE.items():
        known = names(dtype)
        found += [(known[place], dtype) for place in spread(len(known), count)]
    return found


@pytest.mark.parametrize(("name", "dtype"), _entries(), ids=lambda value: str(value).removeprefix("torch."))
def test_slice(name: str, dtype: torch.dtype) -> None:
    """Right, or refused with a reason."""
    print("seed", SEED)
    records = examine(name, dtype, 1, SEED)
    assert records, "torch has samples of every entry"
    for record in records:
        assert not OUTCOMES[record["outcome"]], record
        assert record["outcome"] in ("native", "torch", "random") or record["reason"], record


def test_a_wrong_answer_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The instrument can fail: an op that gives another answer when compiled, and one that raises."""
    whole = sl.compile
    monkeypatch.setattr(sl, "compile", lambda function, args: whole(lambda *tensors: function(*tensors) + 1, args))
    record = examine("cos", torch.float32, 2, SEED)[0]
    assert record["outcome"] == "wrong" and "is off by" in record["reason"], record

    def broken(*_: object) -> None:
        raise KeyError("gone")

    monkeypatch.setattr(sl, "compile", broken)
    record = examine("cos", torch.float32, 2, SEED)[0]
    assert record["outcome"] == "bare error" and "KeyError" in record["reason"], record


def test_samples_are_spread() -> None:
    """The first and the last are among them, and a seed makes them again."""
    assert list(spread(10, 3)) == [0, 4, 9] and list(spread(2, 5)) == [0, 1] and list(spread(5, 1)) == [2]
    a, b = (samples("add", torch.float32, 2, SEED) for _ in range(2))
    assert all(torch.equal(x, y) for x, y in zip(a[1].inputs, b[1].inputs, strict=True))


#: Layers that are asked by torch.compile and sl.jit: some that have failed, and others by chance.
LAYERS = ("module.nn_LSTM", "module.nn_MultiLabelMarginLoss", "module.nn_MultiheadAttention")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("place", range(len(LAYERS) + 3))
def test_layers(place: int, way: str) -> None:
    """Right in each way, refused with a reason, or not captured by Dynamo."""
    known = sorted(modules())
    name = LAYERS[place] if place < len(LAYERS) else random.Random(SEED + place).choice(known)
    print("seed", SEED, name)
    for record in examine(name, torch.float32, 2, SEED, way=way):
        assert not OUTCOMES[record["outcome"]], record
        assert record["outcome"] in ("native", "torch", "random") or record["reason"], record


def test_a_layer_that_dynamo_leaves_out() -> None:
    """Its answer is eager's, and says nothing of the compiler."""
    outcomes = {record["outcome"] for record in examine("module.nn_CTCLoss", torch.float32, 1, SEED, way="compile")}
    assert outcomes == {"not captured"}


def test_a_wrong_answer_of_a_second_call_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `jit` enters from the second call on is compared, too."""

    def other_later(layer: torch.nn.Module) -> Callable[..., Any]:
        calls = itertools.count()
        return lambda *args, **kwargs: layer(*args, **kwargs) + next(calls)

    monkeypatch.setattr(sl, "jit", other_later)
    record = examine("module.nn_ReLU", torch.float32, 1, SEED, way="jit")[0]
    assert record["outcome"] == "wrong" and "second call" in record["reason"], record


def test_page_of_layers() -> None:
    """What eager refuses and what Dynamo leaves out does not count."""
    records = [
        {"op": "module.nn_ReLU", "outcome": "native", "reason": ""},
        {"op": "module.nn_CTCLoss", "outcome": "not captured", "reason": "no graph"},
        {"op": "module.nn_FractionalMaxPool2d", "outcome": "not for eager", "reason": "dtype"},
    ]
    counts = {record["outcome"]: 1 for record in records}
    run = {
        "options": {"dtype": "float32", "device": "cpu", "way": "compile"}, "counts": counts, "records": records,
        "versions": {"torch": "2"}, "commit": "abc", "date": "2026-11-29T00",
    }  # fmt: skip
    page = report.layers_page([run])
    assert "| `torch.compile` | 1 of 1 (100.0 %) | 1 | 0 | 0 | 0 | 1 | none |" in page
    assert "| `nn.CTCLoss` | not captured | 1 | no graph |" in page and "FractionalMaxPool2d" not in page


@pytest.mark.parametrize(
    "name",
    ["aten.erfinv.default", "aten.glu.default", "aten.rot90.default", "aten.lerp.Tensor", "aten.renorm.default"],
)
def test_calls_made_from_schemas(name: str) -> None:
    """Eager takes them, and they reach the op itself."""
    records = examine(name, torch.float32, 2, SEED)
    assert records
    for record in records:
        assert record["outcome"] in ("native", "torch") and name.split(".")[1] in record["reached"], record


def test_which_ops_are_asked_by_their_schemas() -> None:
    """Those that nothing has reached and that are not refused or left out with a reason."""
    entries = made.entries(frozenset(("add",)))
    assert len(entries) > 500 and "aten.sub.Tensor" in entries
    assert not any(entry.startswith(("aten.add.", "aten._nnz", "aten._cudnn")) for entry in entries)
    assert made.not_asked("_cudnn_rnn") == "is of a library" and not made.not_asked("exp")


def test_states_of_ops() -> None:
    """An op is passed by one right sample, failed by one wrong; what nothing reaches is skipped with a reason."""
    run = {
        "records": [
            {"outcome": "native", "reached": ["exp", "linear", "t"]}, {"outcome": "wrong", "reached": ["t"]},
            {"outcome": "refused", "reached": ["nonzero", "sub"]},
        ],
        "versions": {"torch": "2"}, "commit": "abc", "date": "2026-11-27T00",
    }  # fmt: skip
    page = report.ops_page([run])
    row = next(line for line in page.splitlines() if line.startswith("| all |"))
    count = int(row.split("|")[2])
    assert row == f"| all | {count} | 2 | 1 | {count - 3} |"
    assert (
        "| `t` | native | failed | wrong |" in page and "| `sub` | native | skipped | the samples that reach it" in page
    )
    assert "`exp`" in page.split("## Passed, native")[1].split("## Passed, parts")[0]


def test_counts_of_other_machines_are_on_the_page(tmp_path: Path) -> None:
    """The newest of each device, torch and dtype."""

    def written(date: str, right: int) -> Path:
        counts = {"native": right, "refused": 100 - right}
        run = {
            "options": {"dtype": "float32", "device": "cuda"}, "versions": {"torch": "2.11.0"}, "counts": counts,
            "machine": {"gpu": "a device", "cpu": "x"}, "date": date, "commit": f"{right:07x}",
        }  # fmt: skip
        return summarize.add(report.counts([run]), "conformance", run["commit"], tmp_path)

    paths = [written("2026-11-02", 98), written("2026-11-01", 80)]
    assert report.elsewhere(paths)[2:] == ["| a device | 2.11.0 | float32 | 98 of 100 (98.0 %) | 98 | 2 | 0000062 |"]
