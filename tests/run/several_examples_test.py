# SPDX-License-Identifier: Apache-2.0
"""One function, several examples: a program for each, picked by what a call gives."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from straightline.testing.models.counter import Counter
from straightline.testing.models.small import Mlp
from torch import nn

import straightline as sl
from straightline import _call_support


def close(got: Any, want: Any) -> None:
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def test_each_size_has_its_program() -> None:
    model, sizes = Mlp().eval(), (1, 3, 4, 8, 32)
    compiled = sl.compile(model, [(torch.randn(n, 64),) for n in sizes])
    for n in (*sizes, *reversed(sizes)):
        x = torch.randn(n, 64)
        with torch.no_grad():
            close(compiled(x), model(x))
        out = torch.empty_like(compiled(x))
        assert compiled(x, out=out) is out
    assert compiled.examples == tuple(f"x: float32[{n}, 64]" for n in sizes)
    assert [facts["example"] for facts in compiled.explain().programs] == list(compiled.examples)
    code, ir = compiled.code, compiled.ir()
    for i, n in enumerate(sizes, 1):
        assert f"// example {i}: x: float32[{n}, 64]" in code and f"// example {i}: x: float32[{n}, 64]" in ir
    assert code.count("sl_program_run(") >= len(sizes) and str(compiled.explain()).count("x: float32[") == len(sizes)


@pytest.mark.parametrize("options", [{"emit": "python"}, {"fast_path": False}])
def test_other_paths(options: dict[str, Any]) -> None:
    """Emitted Python and the interpreter: each program is picked, and takes other weights, as with C++."""
    model, other = Mlp().eval(), Mlp().eval()
    xs = [torch.randn(n, 64) for n in (1, 8)]
    compiled = sl.compile(model, [(x,) for x in xs], **options)
    beside = compiled.with_parameters(other.state_dict())
    with torch.no_grad():
        for x in (*xs, xs[0]):
            close(compiled(x), model(x))
            close(beside(x), other(x))
        compiled.load_parameters(other.state_dict())
        for x in xs:
            assert torch.equal(compiled(x), beside(x))
    with pytest.raises(sl.GuardError, match="none of the compiled examples fits"):
        compiled(torch.randn(3, 64))
    mark = "#" if "emit" in options else "//"
    assert f"{mark} example 2: x: float32[8, 64]" in compiled.code


def test_an_example_alone_is_as_before() -> None:
    x = torch.randn(2, 6)
    for args in ((x,), [x], [(x,)]):
        compiled = sl.compile(lambda x: x * 2, args)
        assert torch.equal(compiled(x), x * 2)
        assert len(compiled.examples) == 1 and not compiled.code.startswith("// example")


def test_a_list_of_tuples_within_a_tuple_is_an_argument() -> None:
    a, b = torch.randn(3), torch.randn(3)

    def total(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
        return sum(x * y for x, y in pairs)  # type: ignore[return-value]

    compiled = sl.compile(total, ([(a, b), (b, b)],))
    close(compiled([(a, a), (b, a)]), a * a + b * a)


def test_dtypes_ranks_structures_and_constants() -> None:
    def forward(x: Any, scale: float = 2.0, flag: bool = True) -> Any:
        if isinstance(x, dict):
            return x["a"] + x["b"]
        return x * scale if flag else x.sum()

    f, d, v = torch.randn(2, 3), torch.randn(2, 3).double(), torch.randn(7)
    compiled = sl.compile(
        forward,
        [(f,), (d,), (v,), ({"a": f, "b": f},), (f, 3.0), (f,)],
        [{}, {}, {}, {}, {}, {"flag": False}],
    )
    close(compiled(f), f * 2)
    close(compiled(d), d * 2)
    close(compiled(v), v * 2)
    close(compiled({"a": f, "b": f}), f + f)
    close(compiled(f, 3.0), f * 3)
    close(compiled(f, flag=False), f.sum())
    close(compiled(f.numpy()).__array__(), (f * 2).numpy())
    assert isinstance(compiled(f.numpy()), np.ndarray)


def test_named_extents_beside_fixed_sizes() -> None:
    """The first example that fits wins: a fixed size before the general program."""
    model = nn.Linear(6, 5).eval()
    n = torch.export.Dim("n", min=2, max=64)
    compiled = sl.compile(model, [(torch.randn(4, 6),)])
    general = sl.compile(model, [(torch.randn(4, 6),), (torch.randn(4, 2, 6),)], dynamic_shapes=({0: n},))
    for shape in ((2, 6), (64, 6), (5, 2, 6), (9, 2, 6)):
        x = torch.randn(shape)
        close(general(x), model(x).detach())
    assert general.examples == ("input: float32[n, 6]", "input: float32[n, 2, 6]")
    close(compiled(torch.ones(4, 6)), model(torch.ones(4, 6)).detach())


def test_one_set_of_weights_for_all() -> None:
    model, other = Mlp().eval(), Mlp().eval()
    xs = [torch.randn(n, 64) for n in (1, 8, 32)]
    compiled = sl.compile(model, [(x,) for x in xs])
    live = sl.compile(model, [(x,) for x in xs], freeze=False)
    assert {t.data_ptr() for t in live.parameters().values()} <= {t.data_ptr() for t in model.state_dict().values()}
    beside = compiled.with_parameters(other.state_dict())
    with torch.no_grad():
        for x in xs:
            close(beside(x), other(x))
            close(compiled(x), model(x))
        compiled.load_parameters(other.state_dict())
        for x in xs:
            close(compiled(x), other(x))
    before = [compiled(x) for x in xs]
    with pytest.raises(sl.UserError, match="missing"):
        compiled.load_parameters({})
    assert all(torch.equal(compiled(x), y) for x, y in zip(xs, before, strict=True))


def test_state_is_shared() -> None:
    class Steps(Counter):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls.add_(x.shape[0])
            return x + self.calls

    model = Steps()
    compiled = sl.compile(model, [(torch.randn(2, 4),), (torch.randn(3, 4),)])
    for n in (2, 3, 3, 2):
        compiled(torch.randn(n, 4))
    assert model.calls.item() == 10


def test_loading_is_one_step_for_all_programs() -> None:
    """Between two calls of one thread the weights never go back, whichever programs they take."""
    model = nn.Linear(1, 1, bias=False)
    shapes = ((1, 1), (2, 1), (3, 1), (4, 1))
    compiled = sl.compile(model, [(torch.ones(shape),) for shape in shapes])
    compiled.load_parameters({"weight": torch.zeros(1, 1)})
    stop = threading.Event()
    wrong: list[tuple[float, float]] = []
    inputs = [torch.ones(shape) for shape in shapes]

    def call() -> None:
        last = 0.0
        while not stop.is_set():
            for x in inputs:
                value = compiled(x).flatten()[0].item()
                if value < last:
                    wrong.append((last, value))
                last = value

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    callers = [threading.Thread(target=call) for _ in range(3)]
    try:
        for thread in callers:
            thread.start()
        for i in range(1, 400):
            compiled.load_parameters({"weight": torch.full((1, 1), float(i))})
    finally:
        stop.set()
        sys.setswitchinterval(interval)
        for thread in callers:
            thread.join()
    assert not wrong, wrong[:5]


def test_a_match_makes_no_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which program fits is found by comparing sizes: no exception is made and no Python runs on the way."""
    compiled = sl.compile(lambda x: x + 1, [(torch.ones(n),) for n in (1, 2, 3, 4)])
    xs = [torch.ones(n) for n in (1, 2, 3, 4)]
    raised = []
    monkeypatch.setattr(_call_support, "no_example_fits", lambda *_: raised.append(1))
    monkeypatch.setattr(_call_support, "refusal", lambda *_: raised.append(2))
    events: list[str] = []
    sys.setprofile(
        lambda frame, event, arg: events.append(f"{event} {getattr(arg, '__qualname__', frame.f_code.co_name)}")
    )
    for x in xs:
        compiled(x)
    sys.setprofile(None)
    assert not raised
    assert not [e for e in events if "Error" in e or "support" in e], events


def test_a_group_is_given_back() -> None:
    model = Mlp().eval()
    compiled = sl.compile(model, [(torch.randn(n, 64),) for n in (1, 2)])
    watch = weakref.ref(compiled._others[0])
    compiled._others[0].back = compiled  # a cycle
    del compiled
    gc.collect()
    assert watch() is None
