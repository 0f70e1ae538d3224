# SPDX-License-Identifier: Apache-2.0
"""Routes to `aten`: any op of a captured model can stay torch's, by one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from policy import OWN_BACKEND
from torch import Tensor, nn

import straightline as sl


class Model(nn.Module):
    """A convolution, a linear, elementwise ops, attention and a softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.fc, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(36, 16), nn.LayerNorm(16)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.fc(torch.relu(self.conv(x)).flatten(2)))
        return torch.softmax(nn.functional.scaled_dot_product_attention(y, y, y), -1) * 0.5


def _inputs() -> tuple[Tensor, ...]:
    return (torch.randn(2, 3, 6, 6),)


def _of_torch(compiled: Any) -> list[str]:
    return [str(row["op"]) for row in compiled.explain().statements if row["backend"] == "aten"]


@pytest.mark.parametrize(
    ("op", "torchs"),
    [
        ("convolution", "aten.conv"),
        ("linear", "aten.linear"),
        ("relu", "aten.relu"),
        ("layer_norm", "aten.layer_norm"),
        ("scaled_dot_product_attention", "aten.scaled_dot_product_attention"),
        ("softmax", "aten.softmax"),
        ("mul", "aten.mul"),
    ],
)
def test_one_op_stays_torchs(op: str, torchs: str) -> None:
    model, inputs = Model().eval(), _inputs()
    compiled = sl.compile(model, inputs, routes={op: "aten"})
    moved = [row for row in compiled.explain().statements if row["backend"] == "aten"]
    assert len(moved) == 1 and str(moved[0]["op"]).startswith(torchs), [
        row["op"] for row in compiled.explain().statements
    ]
    assert f"route {op} = aten (the argument routes)" in str(moved[0]["why"])
    with torch.inference_mode():
        torch.testing.assert_close(compiled(*inputs), model(*inputs))
    on_a_device = sl.compile(model, inputs, routes={op: "aten"}, target="cuda:sm_90")
    explained = on_a_device.explain()
    assert len(_of_torch(on_a_device)) == 1
    assert "1 op of torch" in str(explained["launch_reason"]), "between two graphs, or beside too few kernels for one"


def test_many_ops(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By argument, variable and file, in this order; a route elsewhere takes an op back."""
    path = tmp_path / "routes.txt"
    path.write_text("softmax = aten  # here\nrelu = aten\nlinear = aten\n")
    monkeypatch.setenv("STRAIGHTLINE_ROUTES", str(path))
    monkeypatch.setenv("STRAIGHTLINE_ROUTE_linear", "native")
    model, inputs = Model().eval(), _inputs()
    compiled = sl.compile(model, inputs, routes={"convolution": "aten"})
    assert len(_of_torch(compiled)) == 3
    whys = " ".join(str(row["why"]) for row in compiled.explain().statements)
    assert "route softmax = aten (routes.txt:1)" in whys or f"route softmax = aten ({path}:1)" in whys, whys
    with torch.inference_mode():
        torch.testing.assert_close(compiled(*inputs), model(*inputs))


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU, nn.RNN])
def test_what_it_is_for_alone_is_moved(cell: type[nn.RNNBase]) -> None:
    """The products that a recurrent layer is made of are not the model's own."""
    model = cell(5, 7).eval()
    x = torch.randn(3, 2, 5)
    assert not _of_torch(sl.compile(model, (x,), routes={"linear": "aten"}))
    compiled = sl.compile(model, (x,), routes={cell.__name__.lower(): "aten"})
    assert _of_torch(compiled)
    with torch.inference_mode():
        torch.testing.assert_close(compiled(x)[0], model(x)[0])


def test_refusals() -> None:
    model, inputs = Model().eval(), _inputs()
    with pytest.raises(sl.UserError, match="unknown op 'sofmax'"):
        sl.compile(model, inputs, routes={"sofmax": "aten"})
    with pytest.raises(sl.UserError, match=r"'reshape' is never routed"):
        sl.compile(model, inputs, routes={"reshape": "aten"})
    with pytest.raises(sl.UnsupportedError, match=r"softmax.*route softmax = aten \(the argument routes\)"):
        sl.compile(model, inputs, routes={"softmax": "aten"}, allow=(OWN_BACKEND,))
    written = sl.compile(model, inputs).ir("op")
    with pytest.raises(
        sl.UserError, match=r"route softmax = aten.*op.softmax stands in the module.*expected a model that is captured"
    ):
        sl.compile_mlir(written, parameters=dict(model.state_dict()), routes={"softmax": "aten"})
