# SPDX-License-Identifier: Apache-2.0
"""The tour of real models, on toy ones: none of its packages is needed here."""

from __future__ import annotations

import argparse
import math
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bench.outcomes import counts
from bench.tour import command, generation, report, signals
from bench.tour.examine import examine
from bench.tour.models import Stop, all_stops

_ROOT = Path(__file__).resolve().parents[2]


class _Faint(nn.Module):
    """Layers as initialisers leave them: a last norm of zero, a layer scale of 1e-6, and a fading product."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 16)
        nn.init.normal_(self.a.weight, std=1e-3)
        self.norm = nn.LayerNorm(16)
        nn.init.zeros_(self.norm.weight)
        self.scale = nn.Parameter(torch.full((16,), 1e-6))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.scale * self.norm(self.b(self.a(x)))


def _stop(make: Any, inputs: Any = lambda: (torch.randn(4, 16),)) -> Stop:
    return Stop("toy", "here", lambda: make().eval(), inputs)


def test_signals_survive() -> None:
    torch.manual_seed(0)
    model, x = _Faint().eval(), torch.randn(8, 16)
    assert (model(x) - x).abs().max() < 1e-5, "nothing of the branch can be seen"
    signals.vary_constants(model, torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert signals.rescale(model, lambda of: of(x)) == 2
        assert math.isclose(model.a(x).std().item(), 1, rel_tol=1e-3)
        assert (model(x) - x).std() > 0.01


def test_a_weight_that_two_layers_share_is_scaled_once() -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16))
    model[1].weight = model[0].weight
    x = torch.randn(8, 16)
    with torch.no_grad():
        assert signals.rescale(model, lambda of: of(x)) == 1
        assert math.isclose(model[0](x).std().item(), 1, rel_tol=1e-3)


def test_a_right_model() -> None:
    record = examine(_stop(_Faint))
    assert record["outcome"] in ("right", "slower"), record
    assert record["reference"] == "float64" and record["error"] < 1e-5 and record["calls"] >= 5
    assert record["signal"] > 0.1 and record["kernels"] > 0
    assert 0 < record["compile_own_s"] == record["compile_s"] - record["phases_s"]["capture"] < record["compile_s"]


def test_a_model_that_makes_float32_is_compared_with_eager() -> None:
    class Masked(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) @ torch.eye(16)

    record = examine(_stop(lambda: Masked(16, 16)))
    assert record["outcome"] in ("right", "slower") and record["reference"] == "eager", record


def test_what_is_refused_and_what_is_no_model() -> None:
    class Counts(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).tril(x.sum().long().item())

    record = examine(_stop(lambda: Counts(16, 16)))
    assert record["outcome"] == "refused" and record["reason"], record
    constant = examine(_stop(lambda: nn.Sequential(nn.Linear(16, 16), nn.Hardtanh(-1e-9, 1e-9), nn.Threshold(1, 0.0))))
    assert constant["outcome"] == "no model" and "hardly depend" in constant["reason"]


def test_a_wrong_answer_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    import straightline as sl

    compile_ = sl.compile

    def off(model: Any, args: Any, kwargs: Any) -> Any:
        made = compile_(model, args, kwargs)
        wrong = lambda *given: made(*given) * 1.001  # noqa: E731
        wrong.explain = made.explain  # type: ignore[attr-defined]
        return wrong

    monkeypatch.setattr(sl, "compile", off)
    record = examine(_stop(_Faint))
    assert record["outcome"] == "wrong" and "is off by" in record["reason"]


def test_a_mistake_of_ours_is_internal(monkeypatch: pytest.MonkeyPatch) -> None:
    import straightline as sl

    def fails(*given: Any) -> Any:
        raise KeyError("x")

    monkeypatch.setattr(sl, "compile", fails)
    record = examine(_stop(_Faint))
    assert record["outcome"] == "internal" and "KeyError" in record["reason"] and "tour_test.py" in record["reason"]


def test_the_list_needs_no_package_and_has_enough() -> None:
    stops = all_stops().values()
    assert sum(stop.package == "transformers" for stop in stops) >= 60
    assert sum(stop.package != "transformers" for stop in stops) >= 60
    done = subprocess.run(
        [sys.executable, "-m", "bench.tour", "--list", "--only", "bert"],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "transformers   bert" in done.stdout and "resnet" not in done.stdout


@pytest.mark.parametrize("only", ["no such model"])
def test_a_name_that_no_model_has(only: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.tour", "--only", only], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and f"no model's name contains one of ['{only}']" in done.stderr


class _Ended:
    """A process that is gone, or that never ends."""

    def __init__(self, alive: bool) -> None:
        self.pid, self.exitcode, self.alive, self.killed = 0, -11, alive, False

    def is_alive(self) -> bool:
        return self.alive

    def kill(self) -> None:
        self.killed = True


class _Silent:
    def poll(self, seconds: float) -> bool:
        return False


def test_a_process_that_is_gone_or_does_not_end() -> None:
    limits = argparse.Namespace(seconds=0.0, memory_gib=1.0)
    endless = _Ended(alive=True)
    assert command._watched(endless, _Silent(), limits)["outcome"] == "out of time" and endless.killed  # type: ignore[arg-type]
    limits.seconds = 9.0
    gone = command._watched(_Ended(alive=False), _Silent(), limits)  # type: ignore[arg-type]
    assert gone == {"outcome": "ended", "reason": "its process ended with -11"}


def test_the_report_has_what_went_wrong_first() -> None:
    timed = {"package": "timm", "us": 1500.0, "eager_us": 3000.0, "ratio": 0.5, "compile_s": 2.0, "kernels": 9}
    timed["compile_own_s"] = 1.25
    records = [
        {"model": "good", "outcome": "right", "reason": "", "of_torch": {"aten::roll": 2}, **timed},
        {"model": "bad", "package": "timm", "outcome": "wrong", "reason": "off |x|\n by 3"},
    ]
    facts = {
        "records": records, "machine": {"cpu": "a CPU"}, "versions": {"torch": "2"}, "options": {"threads": 2}, "commit": "abc",
        "date": "2026-11-24T00", "counts": counts(records, command.OUTCOMES),
    }  # fmt: skip
    text = report.markdown(facts)
    assert text.index("`bad`") < text.index("`good`")
    assert "median of compile times 2.0 s, 1.25 s of it beyond torch's export." in text
    assert "1 right, 1 wrong of 2" in text and r"off \|x\| by 3" in text
    assert "| `good` | right | 1.5 ms | 3.0 ms | 0.50 | 2.0 | 9 | aten::roll x 2 |" in text


def test_tours_in_one_table(tmp_path: Path) -> None:
    def tour(way: str, **outcomes: float | str) -> dict[str, Any]:
        records = [
            {"model": name, "package": "timm", "outcome": "right" if isinstance(found, float) else found}
            | ({"ratio": found} if isinstance(found, float) else {})
            for name, found in outcomes.items()
        ]
        return {
            "machine": {"cpu": "x"}, "commit": "abc", "date": "2026-11-27T00:00", "options": {"way": way}, "records": records
        }  # fmt: skip

    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    paths[0].write_text(json.dumps(tour("export", vit=0.5, swin="refused")))
    paths[1].write_text(json.dumps(tour("torch.compile", swin=0.25, new=1.0)))
    words = [sys.executable, "-m", "bench.tour.ways", *map(str, paths)]
    done = subprocess.run(words, cwd=_ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0].startswith("- CPU, export: 1 right, 1 refused of 2; 0.50 of eager's time")
    assert done.stdout.splitlines()[3:] == [
        "| model | package | CPU, export | CPU, torch.compile |", "|---|---|---|---|",
        "| `vit` | timm | 0.50 | not visited |", "| `swin` | timm | refused | 0.25 |", "| `new` | timm | not visited | 1.00 |",
    ]  # fmt: skip


class _Writer(nn.Module):
    """A step over a static cache: tokens [1, n], positions [n] -> scores [1, n, 50]."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.scores = nn.Embedding(50, 16), nn.Linear(16, 50)
        self.register_buffer("cache", torch.zeros(64, 16))

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        self.cache.index_copy_(0, positions, self.words(tokens[0]))
        seen = torch.arange(64)[None] <= positions[:, None]
        return self.scores(seen.float() @ self.cache)[None]


class _Generates(nn.Module):
    """What `generate` of transformers does, with no cache."""

    def __init__(self, change: int = 0) -> None:
        super().__init__()
        self.words, self.scores, self.change = nn.Embedding(50, 16), nn.Linear(16, 50), change

    def forward(self, tokens: Tensor) -> Tensor:
        return self.scores(self.words(tokens).cumsum(1))

    def generate(self, tokens: Tensor, max_new_tokens: int, **_: Any) -> Tensor:
        for _step in range(max_new_tokens):
            token = self.forward(tokens)[:, -1:].argmax(-1)
            tokens = torch.cat([tokens, (token + self.change) % 50], 1)
        return tokens


def _prompts() -> list[Tensor]:
    return [torch.randint(0, 50, (1, generation.PROMPT)) for _ in range(2)]


@torch.no_grad()
def test_two_programs_write_one_cache() -> None:
    record, decode = generation.by_export(_Writer().eval(), _prompts())
    assert record["by_export"] == "tokens of eager" and record["compile_s"] > 0
    assert decode(torch.tensor([[1]]), torch.tensor([9])).shape == (1, 1, 50)


@torch.no_grad()
def test_generate_by_dynamo() -> None:
    record = generation.by_generate(_Generates().eval(), _prompts(), False)
    assert record["generate"] == "tokens of eager" and record["graphs"] >= 1 and record["generate_ratio"] > 0
    facts = {
        "machine": {"cpu": "a CPU"}, "options": {"threads": 2, "way": "generate"}, "commit": "0", "date": "2026-11-30T00:00",
        "versions": {}, "counts": {"right": 1}, "records": [{"model": "toy", "outcome": "right", **record}],
    }  # fmt: skip
    assert "| `toy` | right |" in report.generated(facts)


class _Odd(_Generates):
    """Its copies choose the next word's neighbour."""

    def __deepcopy__(self, memo: dict[int, Any]) -> _Generates:
        other = _Generates(change=1).eval()
        other.load_state_dict(self.state_dict())
        return other


@torch.no_grad()
def test_other_tokens_are_wrong() -> None:
    with pytest.raises(generation.Differs, match="generate gives"):
        generation.by_generate(_Odd().eval(), _prompts(), False)
