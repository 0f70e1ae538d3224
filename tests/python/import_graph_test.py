# SPDX-License-Identifier: Apache-2.0
"""FX graphs of ATen ops that make_fx, AOTAutograd and Dynamo give: imported as they stand, evaluated with torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from functorch.compile import aot_function, make_boxed_func
from op_interpreter import OpInterpreter
from straightline.capture import Captured
from straightline.capture.torch.graph_import import import_graph
from straightline.errors import UnsupportedError
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree


def traced(function: Callable[..., Any], *args: Any, mode: str = "symbolic") -> torch.fx.GraphModule:
    return make_fx(function, tracing_mode=mode, _allow_non_fake_inputs=True)(*args)


def called(captured: Captured, *args: Any) -> Any:
    """Evaluates the function and writes what it overwrites."""
    tensors = [arg for arg, spec in zip(args, captured.inputs, strict=True) if spec.is_tensor]
    results = captured.builder.evaluate([tensor.clone() for tensor in tensors], captured.parameters)
    sizes = captured.builder._solve(tensors)
    leaves = []
    for spec in captured.outputs:
        if spec.result >= 0:
            leaves.append(results[spec.result])
        elif spec.extent is not None:
            leaves.append(spec.extent if isinstance(spec.extent, int) else eval(str(spec.extent), {}, dict(sizes)))
        else:
            leaves.append(spec.constant)
    names = {spec.name: arg for spec, arg in zip(captured.inputs, args) if spec.is_tensor}
    for tied in captured.tied:
        kind, _, name = tied.tie.partition(":")
        target = names[name] if kind == "input" else captured.parameters[name]
        target.data.copy_(results[tied.result])
    return pytree.tree_unflatten(leaves, captured.out_spec)


def test_sizes_as_inputs_and_results_that_are_no_tensors() -> None:
    def model(x: Tensor, rows: int, unused: int) -> dict[str, Any]:
        return {"a": x.sin() * rows, "b": None, "c": [x.shape[0] * 2, 3, 1.5]}

    captured = import_graph(traced(model, torch.randn(5, 6), 5, 2), builder=OpInterpreter())
    assert [spec.text for spec in captured.inputs][1:] == ["rows_1=s0", "unused_1=None"]
    x = torch.randn(7, 4)
    got = called(captured, x, 7, 9)
    assert list(got) == ["a", "b", "c"] and got["b"] is None and got["c"] == [14, 3, 1.5]
    torch.testing.assert_close(got["a"], x.sin() * 7)


def test_a_number_that_is_no_size_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="input 'n_1' is a dynamic number"):
        import_graph(traced(lambda x, n: x * n, torch.randn(5, 6), 11))


def test_attributes_and_writes() -> None:
    weight, count = nn.Parameter(torch.randn(30, 4)), torch.zeros(4)

    def model(x: Tensor) -> Tensor:
        count.add_(x.sum(0))
        x[0].mul_(2)
        return F.linear(x, weight) + count.sum()

    captured = import_graph(traced(model, torch.randn(5, 4)), builder=OpInterpreter())
    assert captured.states == ["_tensor_constant0"] and set(captured.parameters) == {
        "_tensor_constant0",
        "_param_constant0",
    }
    assert [tied.tie for tied in captured.tied] == ["state:_tensor_constant0", "input:x_1"]
    count.zero_()
    for rows in (3, 8):
        x = torch.randn(rows, 4)
        mine, before = x.clone(), count.clone()
        got = called(captured, mine)
        after = count.clone()
        count.copy_(before)
        torch.testing.assert_close(got, model(x))
        torch.testing.assert_close((mine, after), (x, count))


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_graph_of_aot_autograd(dynamic: bool) -> None:
    """The forward graph, whose fake tensors and inputs are AOTAutograd's; composite ops are taken apart there."""
    found: list[Captured] = []

    def compiler(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        found.append(import_graph(graph, inputs, OpInterpreter()))
        return make_boxed_func(lambda *args: pytree.tree_leaves(called(found[-1], *args)))

    weight = torch.randn(5, 4)

    def model(x: Tensor, w: Tensor) -> Tensor:
        return F.layer_norm(F.mish(x @ w.t()), (5,)).softmax(-1) + x.shape[0]

    compiled = aot_function(model, fw_compiler=compiler, dynamic=dynamic)
    with torch.no_grad():
        x = torch.randn(3, 4)
        torch.testing.assert_close(compiled(x, weight), model(x, weight))
    assert len(found) == 1


def test_a_graph_of_dynamo() -> None:
    """torch.compile with a backend of our own: writes to inputs and buffers, a branch of torch.cond, results of several kinds."""
    found: list[Captured] = []

    def compiler(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        found.append(import_graph(graph, inputs, OpInterpreter()))
        return make_boxed_func(lambda *args: pytree.tree_leaves(called(found[-1], *args)))

    from torch._dynamo.backends.common import aot_autograd

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(4)
            self.register_buffer("count", torch.zeros(4))

        def forward(self, x: Tensor) -> Any:
            self.count.add_(x.sum(0))
            y = torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))
            return self.norm(y), None, self.count * 2

    model = Model().eval()
    compiled = torch.compile(model, backend=aot_autograd(fw_compiler=compiler), fullgraph=True)
    with torch.no_grad():
        for _ in range(2):
            x, before = torch.randn(3, 4), model.count.clone()
            got, after = compiled(x), model.count.clone()
            model.count.copy_(before)
            want = model(x)
            torch.testing.assert_close((got[0], got[2], after), (want[0], want[2], model.count))
            assert got[1] is None
    assert len(found) == 1


def test_values_of_nodes_come_from_the_inputs() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(torch.ops.aten.logaddexp2.default, (x, x)))
    with torch._subclasses.FakeTensorMode() as mode:
        fake = mode.from_tensor(torch.randn(3))
    captured = import_graph(torch.fx.GraphModule(nn.Module(), graph), [fake], OpInterpreter())
    given = torch.randn(3)
    torch.testing.assert_close(called(captured, given), torch.logaddexp2(given, given))


def test_grid_samples_of_cudnn() -> None:
    """What a graph that was captured on a device has in place of grid_sampler_2d; torch has no kernel for it here."""
    x, grid = torch.randn(2, 3, 5, 6), 1.2 * torch.randn(2, 4, 7, 2)
    want = torch.nn.functional.grid_sample(x, grid, "bilinear", "zeros", True)
    graph = torch.fx.Graph()
    nodes = [graph.placeholder("x"), graph.placeholder("grid")]
    result = graph.call_function(torch.ops.aten.cudnn_grid_sampler.default, tuple(nodes))
    graph.output(result)
    with torch._subclasses.FakeTensorMode() as mode:
        fakes = [mode.from_tensor(value) for value in (x, grid, want)]
    for node, fake in zip([*nodes, result], fakes, strict=True):
        node.meta["val"] = fake
    captured = import_graph(torch.fx.GraphModule(nn.Module(), graph), fakes[:2], OpInterpreter())
    torch.testing.assert_close(called(captured, x, grid), want)
