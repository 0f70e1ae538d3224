# SPDX-License-Identifier: Apache-2.0
"""Capture of whole models: the captured graph, evaluated op by op with torch, gives what eager gives."""

from __future__ import annotations

import copy
import inspect
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from straightline.testing.models import bert_layer, cond, counter, lstm, small
from straightline import demo_models
from op_interpreter import OpInterpreter, call
from straightline.capture import Captured, TextBuilder, capture
from straightline.capture.torch import torch_export
from straightline.errors import UnsupportedError
from torch import nn
from torch.utils import _pytree as pytree

Inputs = Callable[[], tuple[Any, ...]]


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(shape)


@pytest.fixture(autouse=True)
def plain_eager() -> Iterator[None]:
    """Eager without the fused fast path of nn.TransformerEncoderLayer, which rounds otherwise."""
    was = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    yield
    torch.backends.mha.set_fastpath_enabled(was)


MODELS: dict[str, tuple[Callable[[], nn.Module], Inputs]] = {
    "single_add": (small.SingleAdd, lambda: (randn(2, 3), randn(2, 3))),
    "reshape_add": (small.ReshapeAdd, lambda: (randn(8, 16, 8, 8), randn(1024))),
    "mlp_1": (small.Mlp, lambda: (randn(1, 64),)),
    "mlp_32": (small.Mlp, lambda: (randn(32, 64),)),
    "rms_norm": (small.RmsNorm, lambda: (randn(3, 32),)),
    "digits_cnn": (demo_models.DigitsCnn, lambda: (randn(4, 1, 8, 8),)),
    "resnet18": (demo_models.ResNet18, lambda: (randn(1, 3, 64, 64),)),
    "lstm": (lstm.LstmTagger, lambda: (randn(2, 50, 8),)),
    "lstm_2_bidirectional": (
        lambda: lstm.LstmTagger(layers=2, bidirectional=True),
        lambda: (randn(2, 7, 8),),
    ),
    "lstm_2_bidirectional_projected": (
        lambda: nn.LSTM(8, 6, 2, batch_first=True, bidirectional=True, proj_size=3),
        lambda: (randn(2, 7, 8),),
    ),
    "gru_2_bidirectional": (lambda: nn.GRU(8, 6, 2, batch_first=True, bidirectional=True), lambda: (randn(2, 7, 8),)),
    "rnn_2_bidirectional": (lambda: nn.RNN(8, 6, 2, batch_first=True, bidirectional=True), lambda: (randn(2, 7, 8),)),
    "rnn_relu": (lambda: nn.RNN(8, 6, nonlinearity="relu", bias=False), lambda: (randn(7, 2, 8),)),
    "counter": (counter.Counter, lambda: (randn(4),)),
    "row_cache": (counter.RowCache, lambda: (randn(4),)),
    "cond": (cond.Cond, lambda: (randn(4),)),
    "while": (cond.Double, lambda: (torch.rand(3) + 0.1,)),
    "bert_layer": (
        bert_layer.BertLayer,
        lambda: (randn(2, 6, 64), torch.tensor([[1, 1, 1, 1, 1, 0], [1, 1, 0, 0, 0, 0]])),
    ),
    "encoder_layer": (bert_layer.EncoderLayer, lambda: (randn(1, 16, 256),)),
}


def make(name: str) -> nn.Module:
    model = MODELS[name][0]().eval()
    for module in model.modules():  # statistics that change something
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.5, 0.5)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
    return model


def record(model: Any, *args: Any, **options: Any) -> Captured:
    return capture(model, args, builder=OpInterpreter(), **options)


def equal(actual: Any, expected: Any, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Equal trees: tensors of equal dtype and shape (bit for bit by default), other leaves equal."""
    left, left_spec = pytree.tree_flatten(actual)
    right, right_spec = pytree.tree_flatten(expected)
    assert left_spec == right_spec
    for x, y in zip(left, right, strict=True):
        if isinstance(y, torch.Tensor):
            torch.testing.assert_close(x, y, rtol=rtol, atol=atol, equal_nan=True)
        else:
            assert x == y and type(x) is type(y)


@torch.no_grad()
def check(
    model: Any,
    *args: Any,
    fresh: Inputs | None = None,
    rtol: float = 0.0,
    atol: float = 0.0,
    **options: Any,
) -> OpInterpreter:
    """Captures with `args` and compares with eager on them and on fresh inputs, buffers and inputs updated included."""
    captured = record(model, *args, **options)
    for arguments in (args, fresh() if fresh else args):
        before = copy.deepcopy(captured.parameters)
        theirs, ours = copy.deepcopy(arguments), copy.deepcopy(arguments)
        actual = call(captured, *ours)
        updated = copy.deepcopy(captured.parameters)
        for name, tensor in captured.parameters.items():
            tensor.copy_(before[name])
        expected = model(*theirs)
        equal(actual, expected, rtol, atol)
        equal(ours, theirs, rtol, atol)
        equal(updated, dict(captured.parameters), rtol, atol)
    return captured.builder


# Eager rounds once in `x + alpha * y`, capture twice.
TOLERANCES = {"counter": {"rtol": 1e-6, "atol": 1e-7}}


@pytest.mark.parametrize("name", MODELS)
def test_model_equals_eager(name: str) -> None:
    inputs = MODELS[name][1]
    check(make(name), *inputs(), fresh=inputs, **TOLERANCES.get(name, {}))


def parse(text: str) -> str:
    # With STRAIGHTLINE_OPT, the ops are verified as well.
    own = os.environ.get("STRAIGHTLINE_OPT")
    tool = own or shutil.which("mlir-opt-22") or shutil.which("mlir-opt")
    assert tool, "mlir-opt-22 is not installed (package mlir-22-tools)"
    result = subprocess.run(
        [tool, "--allow-unregistered-dialect", "--mlir-print-debuginfo", "--mlir-print-op-generic"],
        input=text, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("name", MODELS)
def test_text_parses(name: str) -> None:
    model, inputs = make(name), MODELS[name][1]()
    captured = capture(model, inputs)
    assert isinstance(captured.builder, TextBuilder)
    text = captured.builder.text()
    printed = parse(text)
    assert len(re.findall(r'"op\.', printed)) == len(re.findall(r'"op\.\w+"\(', text))
    assert "/" not in "".join(re.findall(r"loc\(.*?\)", text)), "a path in a location"
    assert text == capture(make(name), inputs).builder.text(), "two captures differ"


def test_ops_that_stay_whole() -> None:
    kept = {
        "resnet18": {"convolution": 20, "batch_norm": 20, "relu": 17, "max_pool2d": 1, "linear": 1},
        "lstm": {"lstm": 1, "linear": 1},
        "lstm_2_bidirectional_projected": {"lstm": 1, "linear": 0},
        "gru_2_bidirectional": {"gru": 1, "linear": 0},
        "rnn_2_bidirectional": {"rnn": 1, "linear": 0},
        "rnn_relu": {"rnn": 1, "linear": 0},
        "encoder_layer": {
            "layer_norm": 2, "scaled_dot_product_attention": 1, "gelu": 1, "linear": 4,
        },
        "bert_layer": {"layer_norm": 2, "matmul": 2, "softmax": 1, "linear": 6},
    }  # fmt: skip
    for name, counts in kept.items():
        names = record(make(name), *MODELS[name][1]()).builder.names()
        assert {op: names.count(op) for op in counts} == counts, name


def test_locations_name_module_and_user_line() -> None:
    captured = record(make("encoder_layer"), *MODELS["encoder_layer"][1]())
    attention = next(op for op in captured.builder.ops() if "attention" in op.name)
    assert attention.location.module == "layer.self_attn"
    # Code of torch shows the line of the model that called it.
    assert attention.location.file == "bert_layer.py"
    lines = open(bert_layer.__file__).read().splitlines()
    assert "self.layer(x)" in lines[attention.location.line - 1]


def test_parameters_are_the_modules_tensors() -> None:
    model = make("digits_cnn")
    captured = record(model, *MODELS["digits_cnn"][1]())
    own = dict(model.named_parameters()) | dict(model.named_buffers())
    for name, tensor in captured.parameters.items():
        assert tensor.data_ptr() == own[name].data_ptr()
    unused = {n for n in own if n.endswith("num_batches_tracked")}
    assert set(captured.parameters) == set(own) - unused


def test_tied_weights_are_one_parameter() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(7, 4)
            self.head = nn.Linear(4, 7, bias=False)
            self.head.weight = self.embed.weight
            self.register_buffer("view", self.embed.weight.detach())

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(self.embed(ids)) + self.view[0, 0]

    ops = check(Tied(), torch.tensor([[1, 2], [6, 0]]))
    assert ops.names().count("parameter") == 1


def test_mutation_becomes_ties() -> None:
    model = make("counter")
    captured = record(model, randn(4))
    assert sorted(captured.states) == ["calls", "mean"]
    assert sorted(t.tie for t in captured.tied) == ["state:calls", "state:mean"]
    assert {op.attributes["name"] for op in captured.builder.ops() if op.name == "op.state"} == {
        "calls", "mean",
    }  # fmt: skip
    assert int(model.calls) == 0, "capture must not run the update"


def test_input_mutation() -> None:
    def scale(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        x[0] = y
        return x + 1

    captured = record(scale, randn(3, 2), randn(2))
    assert [t.tie for t in captured.tied] == ["input:x"]
    check(scale, randn(3, 2), randn(2))


def test_outputs_of_all_kinds() -> None:
    weight = nn.Parameter(randn(3))

    class Kinds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = weight

        def forward(self, x: torch.Tensor, unused: torch.Tensor) -> Any:
            y = x + 1
            return {
                "y": y,
                "again": y,
                "x": x,
                "view": x[0],
                "w": self.weight,
                "none": None,
                "n": 3,
            }

    captured = record(Kinds(), randn(2, 3), randn(1))
    by_key = dict(zip(captured.out_spec.context, captured.outputs))
    assert by_key["y"].result == by_key["again"].result
    results = captured.builder.results
    assert results[by_key["x"].result].value is captured.builder.arguments[0][1]
    check(Kinds(), randn(2, 3), randn(1))


def test_nested_inputs_constants_and_kwargs() -> None:
    def function(pair: Any, scale: float, flag: bool, *, table: dict[str, Any], bias: Any = None) -> Any:
        x, y = pair
        z = x * scale + (y if flag else -y)
        return [z + table["a"], bias]

    args = ((randn(2), randn(2)), 2.5, False)
    kwargs = {"table": {"a": randn(2)}, "bias": None}
    captured = record(function, *args, kwargs=kwargs)
    assert [s.is_tensor for s in captured.inputs] == [True, True, False, False, True, False]
    assert [s.constant for s in captured.inputs if not s.is_tensor] == [2.5, False, None]
    assert (captured.argument_names, captured.keyword_names) == (
        ["pair", "scale", "flag"],
        ["table", "bias"],
    )
    equal(call(captured, *args, **kwargs), function(*args, **kwargs))


def test_functions_and_lambdas() -> None:
    check(lambda a, b: torch.maximum(a, b) * 2, randn(3), randn(3))
    model = make("mlp_1")
    captured = record(lambda x: model(x) + 1, randn(1, 64))
    assert "model.layers.0.weight" in captured.parameters
    captured = record(model.forward, randn(1, 64))
    assert captured.parameters["self.layers.0.weight"] is model.layers[0].weight


def test_layout_of_examples_is_recorded() -> None:
    base = randn(4, 6)
    examples = {
        "scalar": randn(), "empty": randn(0, 3), "strided": base[:, ::2], "expanded": randn(1, 3).expand(5, 3),
        "overlapping": randn(10).as_strided((4, 3), (2, 1)), "transposed": base.t(),
    }  # fmt: skip
    captured = record(lambda *xs: [x * 2 for x in xs], *examples.values())
    for spec, example in zip(captured.inputs, examples.values(), strict=True):
        assert spec.strides == example.stride() == spec.example_strides
        assert spec.type.extents == tuple(example.shape) == spec.example_shape


def test_exported_program() -> None:
    model, x = make("digits_cnn"), randn(2, 1, 8, 8)
    for exported in (
        torch.export.export(model, (x,)),
        torch.export.export(model, (x,)).run_decompositions(),
    ):
        captured = capture(exported, builder=OpInterpreter())
        equal(call(captured, x), model(x).detach())
        names = captured.builder.names()
        assert (names.count("linear"), names.count("batch_norm")) == (1, 2)


def test_attention_has_no_fast_path() -> None:
    torch.backends.mha.set_fastpath_enabled(True)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).eval()
    x = randn(2, 5, 16)
    with torch.no_grad():
        captured = record(model, x)
    assert torch.backends.mha.get_fastpath_enabled()
    assert captured.builder.names().count("scaled_dot_product_attention") == 2
    torch.backends.mha.set_fastpath_enabled(False)
    with torch.no_grad():
        equal(call(captured, x), model(x))


# Dynamic sizes --------------------------------------------------------------------------------------------------------


def test_dynamic_batch() -> None:
    model = make("mlp_1")
    batch = torch.export.Dim("b", min=1, max=64)
    captured = record(model, randn(8, 64), dynamic_shapes=({0: batch},))
    assert [(s.name, s.min, s.max) for s in captured.symbols] == [("b", 1, 64)]
    assert str(captured.inputs[0].type) == "tensor<?x64xf32, #op.dims<[b, 64]>>"
    assert captured.inputs[0].strides == (64, 1)
    for n in (1, 2, 7, 64):
        x = randn(n, 64)
        equal(call(captured, x), model(x).detach())


def test_dynamic_shapes_by_name_in_nested_inputs() -> None:
    b, t = torch.export.Dim("batch", max=32), torch.export.Dim("tokens", min=2, max=128)

    def function(pair: Any, *, mask: torch.Tensor) -> Any:
        x, y = pair
        joined = torch.cat([x, y, x], 1).reshape(x.shape[0], -1)
        return joined, x.mean(1) * x.shape[1], mask.sum(0), torch.arange(x.shape[1]), x.shape[0]

    shapes = {"pair": ({0: b, 1: t}, {0: b, 1: t}), "mask": (b, None)}
    args, kwargs = ((randn(3, 5), randn(3, 5)),), {"mask": randn(3, 4)}
    captured = record(function, *args, kwargs=kwargs, dynamic_shapes=shapes)
    assert [s.name for s in captured.symbols] == ["batch", "tokens"]
    joined = captured.builder.results[0].value.type
    assert [str(e) for e in joined.extents] == ["batch", "tokens * 3"]
    for n, m in ((3, 5), (7, 2), (1, 9)):
        pair, mask = (randn(n, m), randn(n, m)), randn(n, 4)
        equal(call(captured, pair, mask=mask), function(pair, mask=mask))
    text = capture(function, args, kwargs, shapes).builder.text()
    assert '"op.symbol"() <{max = 128 : i64, min = 2 : i64, sym_name = "tokens"}>' in text
    parse(text)


def test_derived_dimension() -> None:
    half = torch.export.Dim("half", min=1, max=8)
    captured = record(lambda x: torch.cat([x, x]) + 1, randn(6, 3), dynamic_shapes=({0: 2 * half},))
    (symbol,) = captured.symbols
    assert symbol.max == 8
    name = symbol.name
    assert [str(e) for e in captured.inputs[0].type.extents] == [f"{name} * 2", "3"]
    parse(capture(lambda x: x + 1, (randn(6, 3),), None, ({0: 2 * half},)).builder.text())


@pytest.mark.parametrize(
    "cell", [nn.LSTM, nn.GRU, nn.RNN, partial(nn.RNN, nonlinearity="relu")], ids=["lstm", "gru", "rnn", "rnn_relu"]
)
def test_a_recurrent_layer_of_any_steps_and_rows(cell: Callable[..., nn.RNNBase]) -> None:
    """The steps are not gone through, whatever the type; the program that comes out has both names."""
    batch, steps = torch.export.Dim("b", min=1, max=9), torch.export.Dim("s", min=1, max=4000)
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        model = cell(4, 5, 2, batch_first=True, bidirectional=True).to(dtype).eval()
        name = {"RNN_TANH": "rnn", "RNN_RELU": "rnn"}.get(model.mode, model.mode.lower())
        captured = record(model, randn(2, 6, 4).to(dtype), dynamic_shapes=({0: batch, 1: steps},))
        (layer,) = (op for op in captured.builder.ops() if op.name == f"op.{name}")
        assert [str(e) for e in layer.results[0].type.extents] == ["b", "s", "10"], layer
        assert captured.builder.names().count(name) == 1 and "linear" not in captured.builder.names()


@pytest.mark.parametrize(
    "model,as_it_is",
    [
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(), nn.Flatten(), nn.Linear(16, 2)), True),
        (lambda x: (x.transpose(2, 3) @ x.sum((0, 1)), x.all(), torch.zeros_like(x), x[0].squeeze(0)), True),
        (lambda x: x.half().float() + x.to(torch.float64).mean(), True),
        (lambda x: torch.logaddexp2(x, x).square(), False),  # an op that is taken apart
        (lambda x: x.exp().add_(1), False),
        (lambda x: x.exp()[0].add_(1), False),
        (lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)), False),
    ],
    ids=["layers", "ops", "dtypes", "taken apart", "a write", "a write to a view", "a branch"],
)  # fmt: skip
def test_a_graph_is_rewritten_only_where_that_changes_something(
    model: Any, as_it_is: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", None)  # nothing is traced twice
    model = model.eval() if isinstance(model, nn.Module) else model
    capture(model, (x := torch.randn(2, 3, 4, 4),))
    exported = torch_export._export(torch_export._as_module(model), (x,), {}, None)
    assert (torch_export._values(exported).graph is exported.graph_module.graph) == as_it_is


def test_ops_that_are_taken_apart_keep_their_place_in_the_source() -> None:
    captured = record(lambda x: torch.logaddexp2(x, x) + torch.einsum("ij,kj->ik", x, x), torch.randn(4, 4))
    line = inspect.currentframe().f_lineno - 1
    assert {(op.location.file, op.location.line) for op in captured.builder.ops()} == {("capture_test.py", line)}


def test_ops_without_reader_and_effect_are_left_out() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        torch.histc(x, 5)  # torch's own
        x.exp().add_(1)
        return x + 1

    assert record(model, torch.randn(4, 4)).builder.names() == ["full", "expand", "add"]


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.forward = function


def on_fake_device(exported: torch.export.ExportedProgram, *names: str) -> None:
    """Says that nodes are on a device, which fake tensors can without one."""
    for node in exported.graph.nodes:
        if node.name in names:
            with node.meta["val"].fake_mode:
                node.meta["val"] = torch.empty(node.meta["val"].shape, device="cuda")


def test_results_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a program for a device: constants are returned as they are, all else is refused."""
    own = torch.Tensor.to
    monkeypatch.setattr(torch.Tensor, "to", lambda x, *to: x if str(to[0]).startswith("cuda") else own(x, *to))

    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x * 2, torch.tensor([4.0, 9.0]).sqrt(), torch.ones(2, 2)

    exported = torch.export.export(Function(model), (torch.randn(3),))
    on_fake_device(exported, "x", "mul")
    of_device, root, ones = capture(exported).outputs
    assert of_device.result == 0 and root.result == ones.result == -1
    assert torch.equal(root.constant, torch.tensor([2.0, 3.0])) and torch.equal(ones.constant, torch.ones(2, 2))

    for model in (lambda x: (x * 2, x + 1), lambda x: (x * 2, torch.rand(3))):
        exported = torch.export.export(Function(model), (torch.randn(3),))
        on_fake_device(exported, "x", "mul")
        with pytest.raises(UnsupportedError, match="is on cpu but the program runs on cuda"):
            capture(exported)


def test_constants_that_export_leaves_on_the_host_are_moved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of Swin, whose `forward` moves an index that it makes of numbers. Here the device is that of fake tensors alone."""

    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            table = torch.tensor([[float(i) for i in range(100)]])
            return x + table.to(x.device)

    exported = torch.export.export(Model(), (torch.randn(100),))
    on_fake_device(exported, "x", "add")
    (lifted,) = exported.constants.values()
    moved, own = [], torch.Tensor.to

    def to(tensor: torch.Tensor, *where: Any, **options: Any) -> torch.Tensor:
        if tensor is not lifted:
            return own(tensor, *where, **options)
        moved.append(where)
        return tensor.clone()

    monkeypatch.setattr(torch.Tensor, "to", to)
    captured = capture(exported)
    assert [str(place) for (place,) in moved] == ["cuda:0"]
    (parameter,) = captured.parameters.values()
    assert parameter is not lifted and torch.equal(parameter, lifted)
