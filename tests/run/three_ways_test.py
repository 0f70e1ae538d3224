# SPDX-License-Identifier: Apache-2.0
"""One program three ways: emitted C++, emitted Python and the interpreter give the same bits."""

from __future__ import annotations

import concurrent.futures
import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import straightline as sl
from straightline import _internal
import torch
from straightline.testing.models.bert_layer import BertLayer
from straightline.testing.models.cond import Cond, Double
from straightline.testing.models.counter import Counter, RowCache
from straightline.testing.models.lstm import LstmTagger
from straightline.testing.models.small import Mlp, ReshapeAdd, RmsNorm, SingleAdd
from policy import clone, same_bits
from straightline.demo_models import DigitsCnn, ResNet18
from torch import Tensor, nn
from torch.export import Dim

Call = tuple[Any, ...]


def three(model: Callable[..., Any], args: Call, **options: Any) -> list[tuple[Any, Any]]:
    """Pairs of model and compiled function; each has a model of its own, for models update buffers."""
    ways = ({"emit": "cpp"}, {"emit": "python"}, {"fast_path": False})
    models = [copy.deepcopy(model) if isinstance(model, nn.Module) else model for _ in ways]
    return [(own, _internal.compile(own, clone(args), **way, **options)) for own, way in zip(models, ways, strict=True)]


@torch.no_grad()
def check_three(model: Callable[..., Any], calls: Sequence[Call], **options: Any) -> list[Any]:
    """Compiles for the first call, makes all of them each way, compares results, arguments and buffers."""
    compiled = three(model, calls[0], **options)
    for call in calls:
        outcomes = []
        for own, function in compiled:
            given = clone(call)
            result = function(*given)
            buffers = dict(own.named_buffers()) if isinstance(own, nn.Module) else {}
            outcomes.append((result, given, buffers))
        for way, outcome in zip(("python", "interpreter"), outcomes[1:], strict=True):
            assert same_bits(outcome, outcomes[0]), f"{way} gives {outcome} but C++ {outcomes[0]}"
    functions = [function for _, function in compiled]
    assert [f.explain()["path"] for f in functions] == ["straight line", "python", "interpreter"]
    return functions


def counted(x: Tensor, cache: Tensor, at: Tensor) -> Tensor:
    cache[2:4] = x
    x.mul_(2).add_(1)
    at.add_(1)
    return cache.abs().sum() + at


def mixed(x: Tensor, k: Tensor, m: Tensor) -> tuple[Tensor, ...]:
    y = torch.where(m, x, -x).to(torch.bfloat16)
    return y * 3, (y.float() @ y.float().t()).softmax(-1), k // 3 + m, x[1:, ::2], torch.cat([x, y.float()], 1).flip(1)


def by_torch(x: Tensor) -> tuple[Tensor, ...]:
    """Ops that run through torch, and some of ours around them."""
    values, places = torch.kthvalue(x.relu(), 1, -1)
    return values * 2, places, torch.kthvalue(x + 1, 2, -1).values.exp()


CASES: dict[str, Callable[[], tuple[Any, list[Call], dict[str, Any]]]] = {
    "single add": lambda: (SingleAdd(), [(torch.randn(2, 3), torch.randn(2, 3))], {}),
    "reshape and add": lambda: (ReshapeAdd(), [(torch.randn(8, 16, 8, 8), torch.randn(1024))], {}),
    "mlp": lambda: (Mlp().eval(), [(torch.randn(32, 64),)] * 2, {}),
    "mlp of any batch": lambda: (
        Mlp().eval(), [(torch.randn(n, 64),) for n in (7, 1, 64, 33)], {"dynamic_shapes": ({0: Dim("b", min=1, max=64)},)},
    ),
    "rms norm": lambda: (RmsNorm(), [(torch.randn(5, 32),)], {}),
    "digits cnn": lambda: (DigitsCnn().eval(), [(torch.randn(4, 1, 8, 8),)] * 2, {}),
    "bert layer": lambda: (
        BertLayer().eval(), [(torch.randn(2, 24, 64), torch.ones(2, 24, dtype=torch.int64).tril())], {},
    ),
    "lstm": lambda: (LstmTagger(layers=2, bidirectional=True).eval(), [(torch.randn(3, 50, 8),)] * 2, {}),
    "gru of any steps": lambda: (
        nn.GRU(5, 7, 2, bidirectional=True).eval(), [(torch.randn(n, 2, 5),) for n in (6, 1, 80)], {"dynamic_shapes": ({0: Dim("s", min=1, max=80)},)},
    ),
    "rnn of any steps": lambda: (
        nn.RNN(5, 7, 2, bidirectional=True).eval(), [(torch.randn(n, 2, 5),) for n in (6, 1, 80)], {"dynamic_shapes": ({0: Dim("s", min=1, max=80)},)},
    ),
    "cond": lambda: (Cond(), [(torch.ones(4),), (-torch.ones(4),), (torch.rand(4),)], {}),
    "while": lambda: (Double(), [(torch.full((3,), v),) for v in (20.0, 1e-3, 400.0, 0.0, -1.0)], {}),
    "state": lambda: (Counter(), [(torch.randn(4),) for _ in range(4)], {}),
    "cache": lambda: (RowCache(), [(torch.randn(4),) for _ in range(8)], {}),
    "in place": lambda: (counted, [(torch.randn(2, 3), torch.randn(6, 3), torch.tensor(n)) for n in (4, -1)], {}),
    "dtypes and views": lambda: (
        mixed, [(torch.randn(6, 10), torch.randint(-99, 99, (6, 10)), torch.rand(6, 10) > 0.5)] * 2, {},
    ),
    "live parameters": lambda: (Mlp().eval(), [(torch.randn(3, 64),)], {"freeze": False}),
    "aten": lambda: (by_torch, [(torch.randn(5, 8),)] * 2, {}),
    "aten of any batch": lambda: (
        by_torch, [(torch.randn(n, 8),) for n in (3, 1, 16)], {"dynamic_shapes": ({0: Dim("b", min=1, max=16)},)},
    ),
    "onednn": lambda: (Mlp((64, 96, 10)).eval(), [(torch.randn(32, 64),)] * 2, {"internal": {"prefer": "onednn"}}),
}  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_same_bits(name: str, threads: int) -> None:
    model, calls, options = CASES[name]()
    functions = check_three(model, calls, threads=threads, **options)
    assert "def run(io):" in functions[1].code and "sl_program_run" in functions[0].code
    if name == "onednn":
        assert "onednn" in [backend.__name__ for backend in functions[1].kernels]


def test_resnet18() -> None:
    check_three(ResNet18().eval(), [(torch.randn(1, 3, 64, 64),)], threads=2)


def test_three_ways_share_objects() -> None:
    """The second and the third compile nothing anew."""
    compiled = three(nn.Sequential(nn.Linear(37, 41), nn.Tanh()).eval(), (torch.randn(3, 37),), threads=1)
    counts = [function._compilation.counts for _, function in compiled]
    assert counts[0][0] + counts[0][1] == counts[1][1] == counts[2][1] and counts[1][0] == counts[2][0] == 0, counts
    units = [function._compilation.units for _, function in compiled]
    assert units[0] == units[1] == units[2]


def test_innermost_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Context manager, then the argument, then the environment, then the straight line."""
    model, x = Mlp().eval(), (torch.randn(1, 64),)

    def path(function: Any) -> tuple[str, str]:
        facts = function.explain()
        return facts["path"], facts["path_reason"]

    monkeypatch.delenv("STRAIGHTLINE_FAST_PATH", raising=False)
    plain = sl.compile(model, x, threads=1)
    slow = sl.compile(model, x, threads=1, fast_path=False)
    monkeypatch.setenv("STRAIGHTLINE_FAST_PATH", "0")
    by_environment = sl.compile(model, x, threads=1)
    overruled = sl.compile(model, x, threads=1, fast_path=True, emit="python")
    monkeypatch.setenv("STRAIGHTLINE_FAST_PATH", "1")
    assert path(plain) == ("straight line", "the default")
    assert path(slow) == ("interpreter", "fast_path=False of compile")
    assert path(by_environment) == ("interpreter", "STRAIGHTLINE_FAST_PATH=0"), "read by compile, not by calls"
    assert path(overruled) == ("python", "fast_path=True of compile")
    assert "path: interpreter (STRAIGHTLINE_FAST_PATH=0)" in " ".join(str(by_environment.explain()).split())
    with sl.fast_path(False):
        assert path(plain) == path(overruled) == ("interpreter", "fast_path(False) around the call")
        with sl.fast_path(True):
            assert path(slow) == ("straight line", "fast_path(True) around the call")
            with pytest.raises(KeyError), sl.fast_path(False):
                raise KeyError
            assert path(slow)[0] == "straight line"
        assert path(plain)[0] == "interpreter"
    assert path(plain)[0] == "straight line" and path(slow)[0] == "interpreter"


def test_one_setting_entered_again() -> None:
    compiled = sl.compile(Mlp().eval(), (torch.randn(1, 64),))
    slow, fast = sl.fast_path(False), sl.fast_path(True)
    with slow, fast, slow:
        assert compiled.explain()["path"] == "interpreter"
        with fast, concurrent.futures.ThreadPoolExecutor(1) as other:
            assert other.submit(lambda: compiled.explain()["path"]).result() == "straight line", (
                "a setting of this thread"
            )
        assert compiled.explain()["path"] == "interpreter"
    with slow:
        assert compiled.explain()["path"] == "interpreter"
    assert compiled.explain()["path"] == "straight line"


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_toggle_on_their_own(threads: int) -> None:
    """Eight threads, each with its own setting, over one function of each emission."""
    model = Mlp().eval()
    x = torch.randn(5, 64)
    functions = [sl.compile(model, (x,), threads=threads, emit=emit) for emit in ("cpp", "python")]
    inputs = [torch.randn(5, 64) for _ in range(8)]
    with torch.no_grad():
        wanted = [functions[0](given) for given in inputs]

    def work(number: int) -> int:
        wrong = 0
        with torch.no_grad():
            for turn in range(60):
                function = functions[(number + turn) % 2]
                with sl.fast_path(turn % 3 == 0):
                    path = function.explain()["path"] if turn % 20 == 0 else ""
                    wrong += not same_bits(function(inputs[number]), wanted[number])
                    wrong += path == "interpreter" and turn % 3 == 0
                wrong += not same_bits(function(inputs[number]), wanted[number])
        return wrong

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(work, range(8))) == 0


def failing(x: Tensor, i: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
    return x[i] * 2, i // n


@pytest.mark.parametrize("threads", [1, 2])
def test_failures_are_alike(threads: int) -> None:
    good = (torch.randn(6), torch.tensor([1, 2, 0]), torch.tensor([1, 2, 3]))
    compiled = [function for _, function in three(failing, good, threads=threads)]
    for bad in (
        (good[0], torch.tensor([1, 6, 0]), good[2]),
        (good[0], torch.tensor([1, -7, 0]), good[2]),
        (good[0], good[1], torch.tensor([1, 0, 3])),
    ):
        failures = []
        for function in compiled:
            with pytest.raises(sl.UserError) as failure:
                function(*bad)
            failures.append((type(failure.value), str(failure.value)))
            assert same_bits(function(*good), compiled[0](*good)), "the next call is unaffected"
        assert failures[0] == failures[1] == failures[2]


@pytest.mark.parametrize(
    "options,words",
    [
        ({"emit": "c"}, "emit is 'c' but must be 'cpp' or 'python'"),
        ({"emit": None}, "emit is None but must be 'cpp' or 'python'"),
        ({"fast_path": 0}, "fast_path is 0 but must be True, False or None"),
    ],
)
def test_wrong_options(options: dict[str, Any], words: str) -> None:
    with pytest.raises(sl.UserError, match=words):
        sl.compile(SingleAdd(), (torch.randn(2), torch.randn(2)), **options)


def test_wrong_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(sl.UserError, match="fast_path is 1 but must be True or False"):
        sl.fast_path(1)  # type: ignore[arg-type]
    monkeypatch.setenv("STRAIGHTLINE_FAST_PATH", "off")
    with pytest.raises(sl.UserError, match="STRAIGHTLINE_FAST_PATH is 'off' but must be '0' or '1'"):
        sl.compile(SingleAdd(), (torch.randn(2), torch.randn(2)))
