# SPDX-License-Identifier: Apache-2.0
"""Own kernels in exported graphs, in torch.compile, and in torch's own checks of ops."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import derivatives
import pytest
import straightline as sl
import torch
from torch import Tensor

Register = Callable[..., Any]


class _Scaled(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.own_test.scale(x, 2.0) + 1


class _Updated(torch.nn.Module):
    def forward(self, xs: list[Tensor], gs: list[Tensor], ms: list[Tensor], vs: list[Tensor]) -> None:
        torch.ops.own_test.lamb(xs, gs, ms, vs, 3, 0.1, 0.01)


_LAMB = "lamb(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] means, Tensor(c!)[] squares, int step, float lr, float decay) -> ()"


def test_an_exported_graph_has_it_as_one_node(register: Register) -> None:
    register("scale", "scale(Tensor x, float a) -> Tensor")
    x = torch.randn(4)
    exported = torch.export.export(_Scaled(), (x,))
    targets = [str(node.target) for node in exported.graph.nodes if node.op == "call_function"]
    assert targets[0] == "own_test.scale.default"
    assert torch.equal(exported.module()(x), x * 2 + 1)
    fn = sl.compile(exported, (x,))
    assert torch.equal(fn(x), x * 2 + 1)
    assert "own" in {row["backend"] for row in json.loads(fn._compilation.explain_json)["statements"]}


def test_torch_compile(register: Register) -> None:
    register("scale", "scale(Tensor x, float a) -> Tensor")
    register("lamb", _LAMB)
    torch._dynamo.reset()
    x = torch.randn(4)
    with torch.no_grad():
        assert torch.equal(torch.compile(_Scaled(), backend="straightline", fullgraph=True)(x), x * 2 + 1)
        lists = [[torch.randn(n) for n in (2, 3)] for _ in range(2)] + [
            [torch.zeros(n) for n in (2, 3)] for _ in range(2)
        ]
        wanted = [[tensor.clone() for tensor in tensors] for tensors in lists]
        _Updated()(*wanted)
        torch.compile(_Updated(), backend="straightline", fullgraph=True)(*lists)
    assert all(torch.equal(a, b) for ours, eager in zip(lists, wanted) for a, b in zip(ours, eager))


def test_gradients(register: Register) -> None:
    # a name of its own: torch keeps what register_autograd gave it
    kernel = register("scale", "graded(Tensor x, float a) -> Tensor")
    x = torch.randn(4, requires_grad=True)
    with pytest.raises(
        sl.UserError, match=r"own_test::graded: an argument requires grad.*register_autograd\('own_test::graded', "
    ):
        kernel(x, 2.0)
    with torch.no_grad():
        assert torch.equal(kernel(x, 2.0), x * 2)
    torch.library.register_autograd("own_test::graded", lambda ctx, grad: (grad * 2, None))
    kernel(x, 2.0).sum().backward()
    assert torch.equal(x.grad, torch.full((4,), 2.0))


@pytest.mark.parametrize(("differentiate", "said"), derivatives.WAYS)
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_derivatives_of_torch_func(register: Register, differentiate: Any, said: str) -> None:
    """Torch itself would warn and give zeros, or drop the tangent."""
    kernel = register("scale", "scale(Tensor x, float a) -> Tensor")
    x = torch.randn(4)
    with pytest.raises(sl.UserError, match=derivatives.words("own_test::scale", said)):
        differentiate(lambda x: kernel(x * 1, 2.0), x)
    assert torch.equal(torch.func.grad(lambda y: (kernel(x, 2.0) * y).sum())(x), x * 2)  # of another tensor
    assert torch.equal(torch.vmap(lambda x: kernel(x, 2.0))(x[None]), x[None] * 2)

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(x: Tensor) -> Tensor:
            return kernel(x, 2.0)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad * 2

        @staticmethod
        def jvp(ctx: Any, tangent: Tensor) -> Tensor:
            return tangent * 2

    assert torch.equal(torch.func.grad(lambda x: Scaled.apply(x).sum())(x), torch.full_like(x, 2))
    assert torch.equal(torch.func.jvp(Scaled.apply, (x,), (x,))[1], x * 2)


@pytest.mark.parametrize("utility", ["test_schema", "test_faketensor", "test_aot_dispatch_dynamic"])
def test_torchs_own_checks_of_ops(register: Register, utility: str) -> None:
    register("scale", "scale(Tensor x, float a) -> Tensor")
    register("lamb", _LAMB)
    lists = [[torch.rand(n) for n in (2, 3)] for _ in range(4)]
    torch.library.opcheck(torch.ops.own_test.scale.default, (torch.randn(3), 2.0), test_utils=utility)
    torch.library.opcheck(torch.ops.own_test.lamb.default, (*lists, 3, 0.1, 0.01), test_utils=utility)


def test_what_nobody_reads_is_left_out_unless_it_has_an_effect(register: Register) -> None:
    class Unread(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            torch.ops.own_test.scale(x, 2.0)
            return x + 1

    for effectful in (False, True):
        kernel = register("scale", "scale(Tensor x, float a) -> Tensor", effectful=effectful)
        fn = sl.compile(Unread(), (torch.ones(2),))
        backends = [row["backend"] for row in json.loads(fn._compilation.explain_json)["statements"]]
        assert ("own" in backends) == effectful
        kernel.unregister()
