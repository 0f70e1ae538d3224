# SPDX-License-Identifier: Apache-2.0
"""scan, map, associative_scan and vmap, by export and by torch.compile, against eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from policy import check
from torch import Tensor, nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch.export import Dim

import straightline as sl

W = torch.randn(3, 3) * 0.5


def _running(carry: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
    new = torch.tanh(carry + row * 0.5)
    return new, new * 2


def _scanned(x: Tensor, **options: Any) -> Any:
    return scan(_running, x[0] * 0, x, dim=0, **options)


def _written(row: Tensor) -> Tensor:
    own = row.clone()
    own.mul_(2)
    own[1:] = own[:1] + row[1:]
    return own


CASES: dict[str, Callable[[Tensor], Any]] = {
    "scan": lambda x: _scanned(x),
    "scan from the end": lambda x: _scanned(x, reverse=True),
    "scan of several": lambda x: scan(
        lambda c, a: ((c[0] + a["x"], c[1] * 0.5 + (a["y"] * a["y"]).sum()), {"sum": c[0] * 1, "y": a["y"] > 0}),
        (x[0] * 0, x.sum() * 0), {"x": x, "y": x * 2}, dim=0,
    ),
    "scan along another dim": lambda x: scan(lambda c, a: (c + a, c.sum() + a), x[:, 0] * 0, x, dim=1),
    "map": lambda x: map_rows(lambda a, w: (a @ w).relu(), x, W.to(x.dtype)),
    "map of several": lambda x: map_rows(lambda a: (a[0] + (a[1] * a[1]).sum(), a[1] * 2), (x, x.flip(0))),
    "associative scan": lambda x: associative_scan(lambda a, b: a * 0.5 + b, x, dim=0, combine_mode="generic"),
    "linear recurrence": lambda x: associative_scan(
        lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (x.sigmoid(), x), dim=0, combine_mode="generic"
    ),
    "reverse": lambda x: associative_scan(lambda a, b: torch.maximum(a, b), x, dim=1, reverse=True, combine_mode="generic"),
    # Sums of squares: three numbers that cancel have an error that depends on which two are added first.
    "vmap": lambda x: torch.vmap(lambda a: (a @ W.to(a.dtype)).softmax(-1) * (a * a).sum())(x),
    "vmap of vmap": lambda x: torch.vmap(torch.vmap(lambda a, b: a * b + 1, in_dims=(0, None)), in_dims=(0, 0))(x, x[:, 0]),
    "vmap along another dim": lambda x: torch.vmap(lambda a: a.flip(0) * (a * a).sum(), in_dims=1)(x),
    "vmap that writes": lambda x: torch.vmap(_written)(x),
    "two vmaps": lambda x: (torch.vmap(torch.sin)(x), torch.vmap(lambda a: a.softmax(0), in_dims=1)(x * 2)),
}  # fmt: skip


@pytest.mark.parametrize("rows", [1, 2, 5, 16])
@pytest.mark.parametrize("name", CASES)
def test_rows(name: str, rows: int) -> None:
    """Few steps stand one after the other, many are a loop."""
    function = CASES[name]
    check(lambda x: function(x), (torch.randn(rows, 3),), calls=[(torch.randn(rows, 3),)])


@pytest.mark.parametrize("name", CASES)
def test_by_torch_compile(name: str) -> None:
    torch._dynamo.reset()
    function = CASES[name]
    x = torch.randn(6, 3)
    with torch.no_grad():
        compiled = torch.compile(lambda x: function(x), backend="straightline", fullgraph=True)
        for given in (x, x.flip(0).clone()):
            torch.testing.assert_close(compiled(given), function(given))


def test_a_scan_is_one_loop() -> None:
    """Of 16 rows the step is in the program once; of 3 it is there three times."""
    for rows, loops, steps in ((16, 1, 1), (3, 0, 3)):
        text = sl.compile(lambda x: _scanned(x), (torch.randn(rows, 3),)).ir("op")
        assert text.count("op.while") == loops and text.count("op.tanh") == steps, text


def test_a_named_number_of_steps() -> None:
    steps = Dim("steps", min=4, max=32)
    check(
        lambda x: (_scanned(x), map_rows(lambda a: a * 2, x)), (torch.randn(5, 3),), dynamic_shapes=({0: steps},),
        calls=[(torch.randn(n, 3),) for n in (4, 9, 32)],
    )  # fmt: skip


def test_float64_and_integers() -> None:
    x, whole = torch.randn(7, 3, dtype=torch.float64), torch.randint(-5, 5, (9, 4))
    torch.testing.assert_close(sl.compile(lambda x: _scanned(x), (x,))(x), _scanned(x))
    function = lambda x: scan(lambda c, a: (c + a, c * a), x[0] * 0, x, dim=0)  # noqa: E731
    torch.testing.assert_close(sl.compile(function, (whole,))(whole), function(whole))


class Counted(nn.Module):
    """A vmapped layer with parameters, and a buffer that the model counts in."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.calls.add_(1)
        return torch.vmap(lambda row: self.layer(row).tanh())(x), self.calls * 1


def test_vmap_in_a_module_with_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", None)  # nothing is traced twice
    check(Counted(), (torch.randn(4, 3),), calls=[(torch.randn(4, 3),)] * 2)


def test_vmap_without_gradients_within() -> None:
    """Export keeps a block without gradients as a graph of its own."""

    def row(a: Tensor) -> Tensor:
        with torch.no_grad():
            scale = a.norm() + 1
        return a / scale

    check(lambda x: torch.vmap(row)(x), (torch.randn(4, 3),), calls=[(torch.randn(4, 3),)])


def test_a_refusal_within_a_vmap_ends_it() -> None:
    """The next compilation finds no level of batching that the refused one left."""
    x = torch.randn(4, 3)
    exported = torch.export.export(Counted().eval(), (x,))
    (node,) = [node for node in exported.graph.nodes if node.target == torch.ops.aten.tanh.default]
    node.target = torch.ops.aten.bincount.default
    with pytest.raises(sl.StraightlineError):
        sl.compile(exported)
    check(CASES["vmap"], (x,), calls=[(x,)])


def test_complex_rows_are_refused() -> None:
    with pytest.raises(sl.UnsupportedError, match="is complex; nearest supported form: a loop over both parts"):
        sl.compile(
            lambda x: scan(lambda c, a: (c + a, c * a), x[0] * 0, x, dim=0), (torch.randn(6, 2, dtype=torch.complex64),)
        )
