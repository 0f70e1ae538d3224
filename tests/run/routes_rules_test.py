# SPDX-License-Identifier: Apache-2.0
"""Rules for ops by place, overload and name, with several targets: which one decides, and what is said about it."""

from __future__ import annotations

import itertools
import json
import random
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from policy import OWN_BACKEND
from torch import Tensor, nn

import straightline as sl


class Block(nn.Module):
    """Two linears that any of three kernels takes at one row."""

    def __init__(self) -> None:
        super().__init__()
        self.attn, self.ff = nn.Linear(16, 16), nn.Sequential(nn.Linear(16, 16), nn.GELU())

    def forward(self, x: Tensor) -> Tensor:
        y = self.attn(x)
        return torch.softmax(self.ff(y) + 1, -1)


class Model(nn.Module):
    """Twelve blocks, so that `layers.1` and `layers.11` differ."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Block() for _ in range(12)])
        self.head = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


X = torch.randn(1, 16)
FILE = Path(__file__).name
LINE_OF_ATTN = next(
    i for i, line in enumerate(Path(__file__).read_text().splitlines(), 1) if "y = self.attn(x)" in line
)


def compiled(routes: Any, **options: Any) -> Any:
    """The model with rules, compared with eager; a rule that names nothing is an error."""
    torch.manual_seed(0)
    model = Model().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("error", sl.RouteWarning)
        function = sl.compile(model, (X,), routes=routes, **options)
    with torch.no_grad():
        torch.testing.assert_close(function(X), model(X), rtol=1e-4, atol=1e-5)
    return function


def kernels(function: Any) -> dict[str, tuple[str, str]]:
    """Of each linear, by its module: the kernel, and the rule that decides."""
    rows = [row for row in function.routes().rows if row["phase"] == "run" and row["op"].startswith("linear")]
    return {row["source"].split(" (")[0]: (row["why"].split(":")[0], row["rule"]) for row in rows}


def test_a_module_pattern_names_the_modules_and_all_within() -> None:
    rule = "layers.1? : linear = native.gemv (the argument routes)"
    found = kernels(compiled({"layers.1? : linear": "native.gemv"}))
    assert len(found) == 25
    for module, (kernel, text) in found.items():
        inside = module.startswith(("layers.10.", "layers.11."))
        assert (kernel, text) == (("native.gemv", rule) if inside else ("native.gemm", "")), module
    found = kernels(compiled({"layers.*.attn : linear": "native.gemv"}))
    assert {module for module, (kernel, _) in found.items() if kernel == "native.gemv"} == {
        f"layers.{i}.attn" for i in range(12)
    }
    found = kernels(compiled({"layers.1 : linear": "native.gemv"}))
    assert {module for module, (kernel, _) in found.items() if kernel == "native.gemv"} == {
        "layers.1.attn",
        "layers.1.ff.0",
    }


def test_places_wherever_it_runs() -> None:
    """Of the target's own kernels and of a library's there, or of another kernel of the CPU's."""
    other = "cublaslt" if OWN_BACKEND == "cuda" else "native.gemv"
    function = compiled({"layers.3 : linear": other, f"{FILE}:{LINE_OF_ATTN} : linear": f"{OWN_BACKEND}, auto"})
    rows = [row for row in function.routes().rows if row["phase"] == "run" and row["rule"]]
    assert any(row["source"].startswith("layers.3.ff") and row["why"].startswith(other) for row in rows), rows
    assert not any(row["source"].startswith("layers.3.attn") and row["why"].startswith("cublaslt") for row in rows)
    assert {rule["decides"] for rule in function.routes().rules} == {1, 12}


@pytest.mark.parametrize("lines", [f"{LINE_OF_ATTN}", f"{LINE_OF_ATTN - 1}-{LINE_OF_ATTN}"])
def test_source_lines(lines: str) -> None:
    found = kernels(compiled({f"{FILE}:{lines} : linear": "native.gemv"}))
    assert {module for module, (kernel, _) in found.items() if kernel == "native.gemv"} == {
        f"layers.{i}.attn" for i in range(12)
    }


def test_an_overload() -> None:
    function = compiled({"linear.default": "native.gemv", "add.Tensor": "native"})
    assert all(
        kernel == "native.gemv" and rule == "linear.default = native.gemv (the argument routes)"
        for kernel, rule in kernels(function).values()
    )
    added = next(rule for rule in function.routes().rules if rule["op"] == "add.Tensor")
    assert added["ops"] == added["decides"] == 12, "the additions, not what is expanded for them"
    kept = compiled({"add.Tensor": "aten"})
    assert sum(row["backend"] == "aten" for row in kept.explain().statements) == 12


def test_every_op() -> None:
    """A program without an op of torch's, by one rule; and one of torch's ops alone."""
    own = compiled({"*": OWN_BACKEND})
    assert {row["rule"] for row in own.routes().rows if row["phase"] == "run"} == {
        f"* = {OWN_BACKEND} (the argument routes)",
        "",
    } or all(row["rule"] for row in own.routes().rows if row["phase"] == "run")
    others = compiled({"*": "aten"})
    assert all(row["backend"] in ("aten", "runtime") for row in others.explain().statements if row["phase"] == "run")


def test_the_first_target_that_accepts() -> None:
    """`native.gemv` takes few rows only."""
    x = torch.randn(32, 16)
    model = nn.Sequential(nn.Linear(16, 16)).eval()
    for targets in ("native.gemv, native.gemm", ["native.gemv", "native"], "native.gemv, auto"):
        function = sl.compile(model, (x,), routes={"linear": targets})
        row = next(row for row in function.routes().rows if row["op"] == "linear")
        assert row["why"].startswith("native.gemm: route linear = native.gemv, ")
        refused = next(other for other in row["alternatives"] if other["kernel"] == "native.gemv")
        assert refused["us"] is None and "m=32, needs 1 to 4" in refused["said"]
    with pytest.raises(
        sl.UserError,
        match=r"route linear = native\.gemv, native\.winograd \(.*\): there is no kernel 'native\.winograd' for linear",
    ):
        sl.compile(model, (x,), routes={"linear": "native.gemv, native.winograd"})


#: Left sides in the order in which they count, whatever the order in which they are written.
RANKED = (
    f"{FILE}:{LINE_OF_ATTN} : linear.default",
    f"{FILE}:{LINE_OF_ATTN} : linear",
    f"{FILE}:{LINE_OF_ATTN} : *",
    "layers.* : linear.default",
    "layers.*.attn : linear",
    "layers : *",
    "linear.default",
    "linear",
    "*",
)


def test_which_rule_decides() -> None:
    seed = random.randrange(2**32)
    chosen = random.Random(seed)
    for better, worse in itertools.combinations(RANKED, 2):
        pairs = [(better, "native.gemv, auto"), (worse, "native.gemm, auto")]
        chosen.shuffle(pairs)
        with warnings.catch_warnings():
            warnings.simplefilter("error", sl.RouteWarning)
            function = sl.compile(Block().eval(), (X,), routes=dict(pairs)) if "layers" not in better + worse else None
        if function is None:
            function = compiled(dict(pairs))
        kernel, rule = next(value for module, value in kernels(function).items() if module.endswith("attn"))
        assert (kernel, rule) == ("native.gemv", f"{better} = native.gemv, auto (the argument routes)"), (seed, pairs)


def test_the_later_rule(tmp_path: Path) -> None:
    file = tmp_path / "routes.txt"
    file.write_text("layers.* : linear = native.gemv\nlayers.1 : linear = native.gemm\n")
    found = kernels(compiled(str(file)))
    assert found["layers.1.attn"] == ("native.gemm", "layers.1 : linear = native.gemm (routes.txt:2)")
    assert found["layers.2.attn"] == ("native.gemv", "layers.* : linear = native.gemv (routes.txt:1)")
    found = kernels(compiled([file, {"layers.* : linear": "native.gemm"}]))
    assert found["layers.2.attn"] == ("native.gemm", "layers.* : linear = native.gemm (the argument routes)")
    found = kernels(compiled([{"layers.* : linear": "native.gemm"}, file]))
    assert found["layers.2.attn"] == ("native.gemv", "layers.* : linear = native.gemv (routes.txt:1)")


def test_sources_come_before_ranks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "routes.txt"
    file.write_text(f"{FILE}:{LINE_OF_ATTN} : linear = native.gemm\n")
    monkeypatch.setenv("STRAIGHTLINE_ROUTES", str(file))
    monkeypatch.setenv("STRAIGHTLINE_ROUTE_ALL", "native.gemv, auto")
    found = kernels(compiled(None))
    assert found["layers.2.attn"] == ("native.gemv", "* = native.gemv, auto (STRAIGHTLINE_ROUTE_ALL)")
    monkeypatch.setenv("STRAIGHTLINE_ROUTE_linear__default", "native.gemm")
    found = kernels(compiled(None))
    assert found["layers.2.attn"] == (
        "native.gemm",
        "linear.default = native.gemm (STRAIGHTLINE_ROUTE_linear__default)",
    )
    found = kernels(compiled({"*": "native"}))
    assert found["layers.2.attn"] == ("native.gemm", "* = native (the argument routes)")


def test_torch_at_one_place() -> None:
    function = compiled({"layers.3 : softmax": "aten", f"{FILE}:{LINE_OF_ATTN} : linear": "aten"})
    calls = [row for row in function.routes().rows if row["backend"] == "aten"]
    assert sum("softmax" in row["op"] for row in calls) == 1
    assert sum("linear" in row["op"] for row in calls) == 12
    assert {row["rule"] for row in calls if "softmax" in row["op"]} == {
        "layers.3 : softmax = aten (the argument routes)"
    }
    rules = {rule["op"]: rule for rule in function.routes().rules}
    assert rules["softmax"]["ops"] == 1 and rules["linear"]["decides"] == 12


@pytest.mark.parametrize(
    ("left", "words"),
    [
        ("convolution", "names no op of the model"),
        ("layer.*.attn : linear", r"names no op of the model at 'layer\.\*\.attn'; the nearest that is there is 'layers\.\d+\.attn'"),
        ("reshape.default", "names no op of the model: reshape.default is a view or a reshape, and these are never routed"),
        ("transpose.int", "names no op of the model: transpose.int is a view or a reshape"),
        ("layers.3 : view.default", r"names no op of the model at 'layers\.3': view.default is a view or a reshape"),
        ("to.dtype", "names no op of the model(;|$)"),
        ("softmx.int", "names no op of the model; the nearest that is there is 'softmax.int'"),
        (f"{FILE}:{LINE_OF_ATTN + 400} : linear", f"names no op of the model at '{FILE}:\\d+'; the nearest that is there is '{FILE}:"),
        ("layers.3 : convolution", r"names no op of the model at 'layers\.3'"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("target", ["native", "aten"])
def test_a_rule_that_names_nothing(left: str, words: str, target: str) -> None:
    model = Model().eval()
    with pytest.warns(sl.RouteWarning, match=words) as caught:
        sl.compile(model, (X,), routes={left: target})
    assert len(caught) == 1 and caught[0].filename == __file__


def test_an_overload_without_a_kernel() -> None:
    with pytest.raises(
        sl.UserError, match=r"route add\.Tensor = onednn .*: add\.Tensor is op\.add here; backend 'onednn' has no"
    ):
        sl.compile(Model().eval(), (X,), routes={"add.Tensor": "onednn"})


def test_every_op_by_a_library_that_has_few() -> None:
    with pytest.raises(sl.UserError) as caught:
        sl.compile(Model().eval(), (X,), routes={"*": "onednn"})
    assert "route * = onednn (the argument routes) cannot be honoured" in str(caught.value)
    assert "layers.0 (" in str(caught.value) and "layers.11 (" in str(caught.value), "each op with its place"
    compiled({"*": "onednn, auto"})


def test_graphs_of_torch_compile_do_not_warn() -> None:
    """Each is a part of a model."""
    model = Model().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("error", sl.RouteWarning)
        function = torch.compile(model, backend="straightline", options={"routes": {"convolution": "native"}})
        with torch.no_grad():
            torch.testing.assert_close(function(X), model(X), rtol=1e-4, atol=1e-5)


def test_what_is_made_of_an_op() -> None:
    """The products of an LSTM are at its place."""
    model = nn.ModuleDict({"first": nn.LSTM(8, 8), "second": nn.LSTM(8, 8)})

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = model

        def forward(self, x: Tensor) -> Tensor:
            return self.parts["second"](self.parts["first"](x)[0])[0]

    function = sl.compile(Both().eval(), (torch.randn(3, 1, 8),), routes={"parts.first : linear": "native.gemv, auto"})
    rules = [
        (row["source"], row["rule"])
        for row in function.routes().rows
        if "linear" in row["op"] and row["phase"] == "run"
    ]
    assert any(rule for source, rule in rules if "parts.first" in source)
    assert not any(rule for source, rule in rules if "parts.second" in source)


def test_groups_on_a_device_have_one_rule() -> None:
    """Three products of one input are one kernel, unless rules tell them apart."""

    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(64, 64, bias=False) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            return self.q(x) + self.k(x) * self.v(x)

    def count(routes: dict[str, str]) -> int:
        function = sl.compile(Heads().eval(), (torch.randn(1, 64),), target="cuda:sm_90", routes=routes)
        return sum(
            "linear" in row["op"] or "product" in row["op"] for row in function.routes().rows if row["phase"] == "run"
        )

    alike = count({"linear": "cuda"})
    assert count({"q : linear": "cuda.gemv", "k : linear": "cuda", "v : linear": "cuda"}) > alike


def test_the_report_and_the_rules_in_force(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STRAIGHTLINE_ROUTE_softmax", "native")
    rules = sl.routes({"layers.* : linear": ["native.gemv", "auto"]})
    assert str(rules) == (
        "layers.* : linear = native.gemv, auto (the argument routes)\nsoftmax = native (STRAIGHTLINE_ROUTE_softmax)"
    )
    assert json.loads(rules.json())[0] == {
        "where": "layers.*", "op": "linear", "targets": ["native.gemv", "auto"], "by": "the argument routes"
    }  # fmt: skip
    function = compiled({"layers.* : linear": "native.gemv"})
    report = function.routes()
    facts = json.loads(report.json())
    assert facts["rules"][0]["ops"] == facts["rules"][0]["decides"] == 24
    row = next(row for row in facts["rows"] if row["rule"].startswith("layers.*"))
    assert row["alternatives"][0]["kernel"] == "native.gemm" and row["alternatives"][0]["us"] > 0
    assert "layers.* : linear = native.gemv" in str(report) and "names 24 ops, decides about 24" in str(report)
    function.save(tmp_path / "m.sl")
    assert sl.load(tmp_path / "m.sl").routes().rows == report.rows
    monkeypatch.undo()
    assert str(sl.routes()) == "no rules: the estimates decide about every op"
    assert "no rules" in str(compiled(None).routes())


def test_a_fused_op_shows_the_rule_of_each_place() -> None:
    function = compiled({"layers.0 : gelu": "native"})
    rows = [row for row in function.routes().rows if row["rule"]]
    assert len(rows) == 1 and "gelu" in rows[0]["op"] and rows[0]["source"].startswith("layers.0.")


def test_the_host_as_target() -> None:
    x = torch.randn(1, 16)
    model = Block().eval()
    compiled = sl.compile(model, (x,), routes={"*": "cpu"})
    torch.testing.assert_close(compiled(x), model(x))
    with pytest.raises(
        sl.UserError, match="linear = cpu .* cannot be honoured: programs for cuda give nothing to the cpu"
    ):
        sl.compile(model, (x,), target="cuda:sm_90", routes={"linear": "cpu"})
    with pytest.raises(
        sl.UserError, match="softmax: route softmax = cpu .*: programs for cuda give nothing to the cpu"
    ):
        sl.compile(model, (x,), target="cuda:sm_90", routes={"softmax": "cpu"})
