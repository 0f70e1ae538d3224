# SPDX-License-Identifier: Apache-2.0
"""Ops of many kinds by a library's kernels (tests/vendor): the one lowering reads their calling rules. Contractions: onednn_test.py.

external_kernel_test.py runs these tests, in a process of their own; for one: `pytest tests/run/external_kernels.py -k NAME`.
"""

from __future__ import annotations

import ctypes
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from policy import check, launches
from torch import Tensor, nn
from torch.nn import functional

import straightline as sl
from straightline import _internal

_PACKAGE = pathlib.Path(sl.__file__).parent
_LIBRARY = _PACKAGE / "libstraightline_test_vendor.so"

pytestmark = pytest.mark.skipif(not _LIBRARY.exists(), reason="built without tests")


@pytest.fixture(scope="module", autouse=True)
def _vendor() -> None:
    """The library's backend in this process's registry; it stays. Each test asks for it by a route or by `allow`."""
    library = ctypes.CDLL(str(_LIBRARY))
    library.straightline_backend_v1.restype = ctypes.c_void_p
    register = ctypes.CDLL(str(_PACKAGE / "libstraightline_runtime.so")).sl_backend_register
    register.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    message = ctypes.create_string_buffer(1024)
    assert register(library.straightline_backend_v1(), message) == 0, message.value


def _by(compiled: Any) -> list[tuple[str, str]]:
    return [(str(row["op"]), str(row["backend"])) for row in launches(compiled)]


def _vendors(compiled: Any) -> list[str]:
    return [op for op, backend in _by(compiled) if backend == "vendor"]


def _norm(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    return functional.layer_norm(x, (x.shape[-1],), weight, bias, eps=0.01)


def _args(*shapes: tuple[int, ...]) -> tuple[Tensor, ...]:
    return tuple(torch.randn(shape) for shape in shapes)


def _indices(*shape: int) -> Tensor:
    return torch.randint(0, 5, shape)


#: name: function, arguments, ops that the library computes
_CASES: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Tensor, ...]], list[str]]] = {
    "elementwise": (torch.relu, lambda: _args((3, 4, 5)), ["relu"]),
    "elementwise, strided": (lambda x: torch.relu(x.transpose(0, 2)), lambda: _args((3, 4, 5)), ["relu"]),
    "two operands": (lambda x, y: x.t() + y, lambda: _args((4, 3), (3, 4)), ["add"]),
    "int attribute": (lambda x: x.softmax(-1), lambda: _args((3, 4, 5)), ["softmax"]),
    "contiguous rows of a transposed tensor": (lambda x: x.t().softmax(-1), lambda: _args((6, 7)), ["softmax"]),
    "float attribute": (lambda x: _norm(x, None, None), lambda: _args((2, 3, 8)), ["layer_norm"]),
    "optional operands, both": (_norm, lambda: _args((2, 3, 8), (8,), (8,)), ["layer_norm"]),
    "optional operands, the first": (lambda x, w: _norm(x, w, None), lambda: _args((4, 8), (8,)), ["layer_norm"]),
    "optional operands, the second": (lambda x, b: _norm(x, None, b), lambda: _args((8,), (8,)), ["layer_norm"]),
    "workspace": (lambda x: x.cumsum(1), lambda: _args((5, 9)), ["cumsum"]),
    "two results": (lambda x: tuple(x.topk(3)), lambda: _args((4, 9)), ["topk"]),
    "the second of two results": (lambda x: x.topk(2).indices, lambda: _args((4, 9)), ["topk"]),
    "text attribute": (lambda x: functional.gelu(x, approximate="tanh"), lambda: _args((7, 3)), ["gelu"]),
    "operands of two types": (lambda x, i: x.gather(1, i), lambda: (torch.randn(4, 5), _indices(4, 6)), ["gather"]),
    "any number of operands": (lambda *x: torch.cat(x), lambda: _args((2, 3), (1, 3), (4, 3)), ["cat"]),
    "channels last": (torch.tanh, lambda: _args((2, 3, 4, 5)), ["tanh"]),
    "one after the other": (lambda x: torch.relu(x).softmax(-1), lambda: _args((3, 5)), ["relu", "softmax"]),
    "between emitted kernels": (lambda x: (x * 2).softmax(-1).exp() + 1, lambda: _args((3, 5)), ["softmax", "add"]),
    "no elements": (torch.relu, lambda: _args((0, 4)), []),
    "may fail, and does not": (torch.log, lambda: (torch.rand(4, 3) + 1,), ["log"]),
    "a product": (torch.matmul, lambda: _args((3, 5), (5, 4)), ["matmul"]),
    "a batch of products": (torch.matmul, lambda: _args((2, 3, 4, 5), (2, 3, 5, 6)), ["matmul"]),
    "one factor of a batch": (torch.matmul, lambda: _args((2, 4, 5), (5, 6)), ["matmul"]),
    "a transposed factor": (lambda a, b: a @ b.t(), lambda: _args((4, 5), (6, 5)), ["matmul"]),
    "a product and its activation": (lambda a, b: torch.relu(a @ b), lambda: _args((4, 5), (5, 6)), ["matmul", "relu"]),
    "a product and what follows": (lambda a, b: (a @ b) * 2, lambda: _args((4, 5), (5, 6)), ["matmul, mul"]),
    "a linear whose weight is computed": (functional.linear, lambda: _args((4, 5), (6, 5), (6,)), ["linear"]),
    "float16, before it is widened": (functional.silu, lambda: (torch.randn(4, 9).half(),), ["silu"]),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", _CASES)
def test_matches_eager(name: str, threads: int) -> None:
    function, args, ops = _CASES[name]
    compiled = check(function, args(), calls=[args(), args()], threads=threads, internal={"prefer": "vendor"})
    assert _vendors(compiled) == ops, _by(compiled)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("keys", [6, 300])
def test_attention(transposed: bool, keys: int) -> None:
    def attend(*tensors: Tensor) -> Tensor:
        q, k, v = (tensor.transpose(1, 2) if transposed else tensor for tensor in tensors)
        return functional.scaled_dot_product_attention(q, k, v, scale=0.5)

    shapes = [(2, 4, 3, 8), (2, keys, 3, 8), (2, keys, 3, 8)]
    args = _args(*(shape if transposed else (shape[0], shape[2], shape[1], shape[3]) for shape in shapes))
    routes = {"scaled_dot_product_attention": ("vendor", "auto")}
    compiled = check(attend, args, routes=routes)
    assert _vendors(compiled) == (["scaled_dot_product_attention"] if keys < 256 else [])


class _Table(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 6)

    def forward(self, indices: Tensor) -> Tensor:
        return self.table(indices)


def test_an_operand_that_the_plan_reads() -> None:
    compiled = check(_Table().eval(), (_indices(3, 4),), calls=[(_indices(3, 4),)], internal={"prefer": "vendor"})
    assert _vendors(compiled) == ["embedding"]
    assert "sl_vendor_plan(ctx, &vendor_embedding_0_problem, constants" in compiled.code


def test_an_operand_that_the_plan_cannot_read() -> None:
    compiled = check(functional.embedding, (_indices(3, 4), torch.randn(5, 6)), internal={"prefer": "vendor"})
    assert _vendors(compiled) == []
    said = "operand 0 (weight) is read by plan, before the first run, but is "
    nearest = "; nearest: a parameter (freeze=True), a constant, or a view of one"
    assert f"{said}an input of the program or a value of a loop{nearest}" in launches(compiled)[0]["why"]
    live = check(_Table().eval(), (_indices(3, 4),), freeze=False, internal={"prefer": "vendor"})
    assert _vendors(live) == []
    assert f"{said}a parameter that may change between calls; nearest: freeze=True" in launches(live)[0]["why"]
    doubled = lambda i, w: functional.embedding(i, torch.sin(w).flip(0)[1:])  # noqa: E731
    compiled = check(doubled, (torch.randint(0, 4, (3, 4)), torch.randn(5, 6)), internal={"prefer": "vendor"})
    assert any(f"{said}computed by " in row["why"] and nearest in row["why"] for row in launches(compiled))
    with pytest.raises(sl.errors.UserError, match=r"cannot be honoured.*; nearest: a parameter \(freeze=True\)"):
        sl.compile(functional.embedding, (_indices(3, 4), torch.randn(5, 6)), routes={"embedding": "vendor"})


def test_an_activation_as_an_epilogue() -> None:
    args = _args((3, 4), (3, 4))
    function = lambda x, y: torch.relu(x + y)  # noqa: E731
    compiled = check(function, args, calls=[_args((3, 4), (3, 4))], internal={"prefer": "vendor"})
    assert _by(compiled) == [("add, relu", "vendor")]
    assert 'SL_TEXT, 0, "relu"' in compiled.code
    # What a route gives to a kernel of its own, or has another reader, stays.
    compiled = check(function, args, routes={"relu": "native"}, internal={"prefer": "vendor"})
    assert [backend for _, backend in _by(compiled)] == ["vendor", "native"]
    both = lambda x, y: (torch.relu(x + y), x + y)  # noqa: E731
    assert _vendors(check(both, args, internal={"prefer": "vendor"})) in (["add", "relu"], ["add", "relu", "add"])
    tanh = lambda x, y: functional.gelu(x + y, approximate="tanh")  # noqa: E731 - it has relu alone
    assert _vendors(check(tanh, args, internal={"prefer": "vendor"})) == ["add", "gelu"]


def test_a_fusion_is_split_where_a_library_computes() -> None:
    function = lambda x: torch.sin(torch.relu(x * 2)) + 1  # noqa: E731
    compiled = check(function, _args((3, 4)), routes={"relu": "vendor"}, allow=["native", "vendor"])
    assert [backend for op, backend in _by(compiled) if op != "copy"][:2] == ["native", "vendor"]
    assert "relu" in _vendors(compiled)


def test_sizes_that_a_call_brings() -> None:
    rows, columns = torch.export.Dim("rows", min=1, max=64), torch.export.Dim("columns", min=2, max=64)

    def function(x: Tensor, y: Tensor) -> Tensor:
        return (torch.relu(x).t() + y).softmax(-1)

    def args(m: int, n: int) -> tuple[Tensor, Tensor]:
        return torch.randn(m, n), torch.randn(n, m)

    shapes = ({0: rows, 1: columns}, {0: columns, 1: rows})
    compiled = check(
        function, args(3, 5), calls=[args(7, 2), args(64, 33)], dynamic_shapes=shapes, internal={"prefer": "vendor"}
    )
    assert _vendors(compiled) == ["relu", "add", "softmax"]


def test_in_prepare() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 6))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.weight.softmax(-1)

    compiled = check(Model().eval(), (torch.randn(4, 6),), internal={"prefer": "vendor"})
    assert [row["op"] for row in launches(compiled, "prepare") if row["backend"] == "vendor"] == ["softmax"]


_LOOP = """
func.func @loop(%x: tensor<4x4xf32> {op.name = "x"}) -> (tensor<4x4xf32> {op.name = "y"}) {
  %y = op.for %i = 0 to 4 step 1 iter(%c = %x) : (tensor<4x4xf32>) {
    %row = op.dynamic_slice %c, %i {dim = 0 : i64, length = 1 : i64} : (tensor<4x4xf32>, tensor<i64>) -> tensor<1x4xf32>
    %new = op.softmax %row {dim = 1 : i64} : (tensor<1x4xf32>) -> tensor<1x4xf32>
    %next = op.dynamic_update_slice %c, %new, %i {dim = 0 : i64} : (tensor<4x4xf32>, tensor<1x4xf32>, tensor<i64>) -> tensor<4x4xf32>
    %all = op.relu %next : (tensor<4x4xf32>) -> tensor<4x4xf32>
    op.yield %all : tensor<4x4xf32>
  }
  return %y : tensor<4x4xf32>
}
"""  # noqa: E501 - MLIR


def test_in_a_loop() -> None:
    compiled, x = sl.compile_mlir(_LOOP, {}), torch.randn(4, 4)
    want = x.clone()
    for row in range(4):
        want[row] = want[row].softmax(-1)
        want = want.relu()
    torch.testing.assert_close(compiled(x), want)
    assert _vendors(compiled) == ["softmax", "relu"]


def test_a_route_names_it() -> None:
    compiled = check(torch.maximum, _args((3, 4), (3, 4)), routes={"maximum": "vendor.maximum"})
    assert _vendors(compiled) == ["maximum"]
    why = launches(compiled)[0]["why"]
    assert why.startswith(
        "vendor.maximum: route maximum = vendor.maximum (the argument routes), estimated 1000000.00 us"
    )
    assert "emitted kernels: estimated" in why


def test_the_cost_decides() -> None:
    compiled = check(lambda x, y: torch.maximum(x.softmax(-1), y), _args((3, 4), (3, 4)))
    assert _vendors(compiled) == ["softmax"]
    last = launches(compiled)[-1]
    assert last["backend"] == "native"
    assert "vendor.maximum: estimated 1000000.00 us; emitted kernels: estimated 0.0" in last["why"]


def test_a_route_to_emitted_kernels_and_allow() -> None:
    args = _args((3, 4))
    assert _vendors(check(lambda x: x.softmax(-1), args, routes={"softmax": "native"})) == []
    compiled = check(lambda x: x.softmax(-1), args, allow=["native", "aten"])
    assert _vendors(compiled) == [] and "vendor.softmax: not allowed" in launches(compiled)[0]["why"]


_REFUSED: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Tensor, ...]], str, str]] = {
    "type": (
        torch.relu,
        lambda: (torch.randn(3, 4).double(),),
        "relu",
        "operand 0 (x) is of f64, the kernel takes f32",
    ),
    "layout": (
        torch.tanh,
        lambda: _args((3, 4)),
        "tanh",
        "operand 0 (x) has rank 2, the kernel takes channels last, which is of rank 3 or more",
    ),
    "rank": (torch.relu, lambda: _args((1, 2, 1, 2, 3)), "relu", "x has rank 5, it takes at most 4"),
    "int attribute": (lambda x: x.softmax(0), lambda: _args((3, 4)), "softmax", "dim is 0, it takes 1"),
    "bool attribute": (
        lambda x: x.topk(2, largest=False).values,
        lambda: _args((3, 4)),
        "topk",
        "largest is 0, it takes 1",
    ),
    "text attribute": (functional.gelu, lambda: _args((3, 4)), "gelu", 'approximate is "none", it takes "tanh"'),
    "attribute that the op does not have": (
        torch.ceil,
        lambda: _args((3, 4)),
        "ceil",
        "its calling rule lists the attribute 'epsilon', ceil has none",
    ),
    "no calling rule": (torch.floor, lambda: _args((3, 4)), "floor", "its description has no calling rule"),
    "symbol": (torch.round, lambda: _args((3, 4)), "round", "its symbol is round_run, expected sl_vendor_"),
    "absent operand": (
        lambda x: functional.rms_norm(x, (4,)),
        lambda: _args((3, 4)),
        "rms_norm",
        "operand 1 (weight) is absent, the kernel needs it",
    ),
    "number of results": (torch.sign, lambda: _args((3, 4)), "sign", "it describes 2 outputs, sign has 1"),
}


@pytest.mark.parametrize("name", _REFUSED)
def test_refused(name: str) -> None:
    """An emitted kernel does it, and says why the library's did not."""
    function, args, op, reason = _REFUSED[name]
    compiled = check(function, args())
    assert _vendors(compiled) == []
    assert any(f"vendor.{op}: {reason}" in row["why"] for row in launches(compiled)), launches(compiled)


@pytest.mark.parametrize("name", [name for name in _REFUSED if name != "no calling rule"])
def test_a_route_to_a_kernel_that_refuses(name: str) -> None:
    function, args, op, reason = _REFUSED[name]
    with pytest.raises(sl.errors.UserError) as raised:
        sl.compile(function, args(), routes={op: "vendor"})
    text = str(raised.value)
    assert f"route {op} = vendor (the argument routes) cannot be honoured" in text and reason in text


def test_a_route_to_a_kernel_without_a_rule() -> None:
    with pytest.raises(
        sl.errors.UserError, match=r"floor: route floor = vendor .*vendor\.floor: its description has no calling rule"
    ):
        sl.compile(torch.floor, _args((3, 4)), routes={"floor": "vendor"})


def test_sizes_that_it_does_not_take() -> None:
    columns = torch.export.Dim("columns", min=2, max=64)
    compiled = sl.compile(lambda x: x.cumsum(1), _args((3, 4)), dynamic_shapes=({1: columns},))
    assert any("vendor.cumsum: dim 1 of x is dynamic, it takes a fixed one" in row["why"] for row in launches(compiled))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_kernel_that_fails(threads: int) -> None:
    compiled = _internal.compile(
        lambda x: torch.log(x) + 1, _args((3, 4)), threads=threads, internal={"prefer": "vendor"}
    )
    with pytest.raises(
        sl.errors.UserError,
        match=r"invalid argument .*: log \(kernel vendor_log_0 of vendor\) at external_kernels\.py:\d+",
    ):
        compiled(-torch.ones(3, 4))
    x = torch.rand(3, 4) + 1
    torch.testing.assert_close(compiled(x), torch.log(x) + 1)  # the next call is unaffected


def test_from_python_text() -> None:
    model, args = (lambda x: x.softmax(-1)), _args((3, 4))
    check(model, args, emit="python", internal={"prefer": "vendor"})
