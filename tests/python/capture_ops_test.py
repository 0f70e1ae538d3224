# SPDX-License-Identifier: Apache-2.0
"""Capture of single ops: one row each, compared with eager on fresh inputs, bit for bit unless the row says otherwise.

Promotion and broadcasting are checked on the way: the interpreter refuses operands of different types.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from capture_test import check, equal, randn, record
from op_interpreter import call
from torch import Tensor, nn

F32, F64, BF16, I32, I64, U8, BOOL = (
    torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.int64, torch.uint8, torch.bool,
)  # fmt: skip


def make(dtype: torch.dtype, *shape: int) -> Tensor:
    """Random data: floats around 0, integers in 1 .. 9 (so that division is defined), booleans."""
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype)
    if dtype == BOOL:
        return torch.rand(shape) > 0.5
    return torch.randint(1, 10, shape).to(dtype)


UNARY: list[Callable[[Tensor], Tensor]] = [
    torch.neg, torch.abs, torch.exp, torch.expm1, torch.sin, torch.cos, torch.tan, torch.tanh, torch.sigmoid,
    torch.relu, torch.erf, torch.floor, torch.ceil, torch.round, torch.trunc, torch.sign, torch.isnan, torch.isinf,
    torch.logical_not, torch.reciprocal, torch.square, F.gelu, F.silu, F.hardsigmoid, F.hardswish, F.softplus,
    F.elu, F.leaky_relu, F.relu6, F.hardtanh,

    lambda x: F.gelu(x, approximate="tanh"), lambda x: torch.log(x.abs() + 1), lambda x: torch.log1p(x.abs()),
    lambda x: torch.log2(x.abs() + 1), lambda x: torch.sqrt(x.abs()), lambda x: torch.rsqrt(x.abs() + 1),
    lambda x: x ** 2, lambda x: x ** 3, lambda x: x.abs() ** 0.5,
    lambda x: x ** -1, lambda x: x ** -0.5, lambda x: 1 / x, lambda x: 3 - x, lambda x: -x + 0.1, lambda x: x * 0.3,
    lambda x: x / 3, lambda x: x // 0.7, lambda x: x % 0.7, lambda x: torch.fmod(x, 0.7), lambda x: x > 0.1,
    lambda x: x.clamp(-0.5, 0.5), lambda x: x.clamp(min=0.1), lambda x: x.clamp_max(0.1),
    lambda x: x.clamp(torch.zeros(4), None), lambda x: torch.where(x > 0, x, 0.0), lambda x: torch.where(x > 0, 1.0, x),
    lambda x: x.masked_fill(x < 0, -1),
    lambda x: x.to(I32), lambda x: x.to(BF16), lambda x: x.bool(), lambda x: x.to(x.dtype), lambda x: x.double() + x,
    lambda x: F.threshold(x, 0.1, 20),
    lambda x: torch.nan_to_num(x),
]  # fmt: skip


@torch.no_grad()
def check_rows(rows: list[Callable[..., Any]], inputs: Callable[[], tuple[Any, ...]], **tolerance: float) -> None:
    """Captures all rows as one function, which is quick; a failure names the row."""
    captured = record(lambda *xs: [row(*xs) for row in rows], *inputs())
    for _ in range(2):
        arguments = inputs()
        results = call(captured, *arguments)
        for index, (row, result) in enumerate(zip(rows, results, strict=True)):
            try:
                equal(result, row(*arguments), **tolerance)
            except AssertionError as error:
                line = inspect.getsource(row).strip() if row.__name__ == "<lambda>" else row.__name__
                raise AssertionError(f"row {index} ({line[:300]}): {error}") from error


# Eager has a kernel of its own for these (fused, or with another polynomial): a rounding or two apart.
LOOSE: list[Callable[[Tensor], Tensor]] = [
    F.mish, F.logsigmoid, F.celu, F.selu, F.tanhshrink, torch.atan, torch.rad2deg, torch.expm1,
    lambda x: torch.sub(x, 1, alpha=2), lambda x: torch.add(x, x, alpha=2), lambda x: torch.addcmul(x, x, x, value=2),
    lambda x: torch.lerp(x, x + 1, 0.3), lambda x: x.logit(0.1), lambda x: F.glu(x, -1), F.softsign,
    lambda x: x.abs() ** 1.7, lambda x: 2 ** x,
]  # fmt: skip


def test_unary() -> None:
    check_rows(UNARY, lambda: (randn(3, 4),))


def test_unary_within_rounding() -> None:
    check_rows(LOOSE, lambda: (randn(3, 4),), rtol=2e-6, atol=1e-6)


BINARY: dict[str, Callable[[Any, Any], Tensor]] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "maximum": torch.maximum,
    "eq": torch.eq,
    "le": torch.le,
    "logical_and": torch.logical_and,
    "where": lambda a, b: torch.where(a > 1, a, b),
}
PAIRS = [
    (F32, F32), (F32, F64), (BF16, F32), (BF16, BF16), (I32, I64), (I64, F32), (U8, I32), (BOOL, I64), (BOOL, F32), (I64, I64),
]  # fmt: skip


SHAPES = [((2, 3), (3,)), ((2, 1), (1, 3)), ((2, 3), ())]


@pytest.mark.parametrize("left,right", PAIRS, ids=str)
def test_promotion(left: torch.dtype, right: torch.dtype) -> None:
    # All shapes in one capture. An operand of no dimension beside a half one is rounded in eager's own way: that shape stands
    # alone, with an operand that no rounding changes, for quotients that are rounded down would differ by one.
    for shapes in (SHAPES[:2], SHAPES[2:]) if BF16 in (left, right) else (SHAPES,):
        alone = len(shapes) == 1
        loose = {"rtol": 1e-2, "atol": 1e-2} if alone else {}
        rows: list[Callable[..., Any]] = [
            lambda *xs, op=op, i=i: op(xs[2 * i], xs[2 * i + 1]) for i in range(len(shapes)) for op in BINARY.values()
        ]

        def operand(dtype: torch.dtype, shape: tuple[int, ...], exact: bool = alone) -> Tensor:
            made = make(dtype, *shape)
            return made.to(BF16).to(dtype) if exact and not shape else made

        check_rows(rows, lambda: tuple(operand(d, s) for x, y in shapes for d, s in ((left, x), (right, y))), **loose)


@pytest.mark.parametrize("dtype", [F32, F64, BF16, I64, I32, U8, BOOL], ids=str)
def test_python_scalars(dtype: torch.dtype) -> None:
    rows: list[Callable[[Tensor], Any]] = []
    for scalar in (2, 0.3, True, -1.5):
        rows += [
            lambda x, s=scalar: x + s, lambda x, s=scalar: x * s, lambda x, s=scalar: s * x,
            lambda x, s=scalar: x / s, lambda x, s=scalar: x > s, lambda x, s=scalar: x == s,
        ]  # fmt: skip
        if dtype != BOOL:
            rows += [lambda x, s=scalar: x - (s if s is not True else 1)]
    check_rows(rows, lambda: (make(dtype, 4, 5),))


def test_bool_and_bit_ops() -> None:
    a, b = make(BOOL, 6), make(BOOL, 6)
    check(lambda a, b: [a + b, a * b, a & b, a | b, a ^ b, ~a, a.sum(), a.float().mean(), a == b], a, b)
    check(lambda a, b: [a & b, a | b, a ^ 3, ~a, a % b, -a, a.abs()], make(I64, 6), make(I64, 6))


SHAPE: list[Callable[[Tensor], Any]] = [
    lambda x: x.view(6, 4), lambda x: x.reshape(-1), lambda x: x.flatten(1), lambda x: x.unflatten(2, (2, 2)),
    lambda x: x.unsqueeze(0).unsqueeze(-1), lambda x: x[:, :1].squeeze(1), lambda x: x[:1].squeeze(), lambda x: x.transpose(0, -1),
    lambda x: x.permute(2, 0, 1), lambda x: x[0].t(), lambda x: x.mT, lambda x: x.swapaxes(0, 1), lambda x: x.movedim(0, 2),
    lambda x: x[:, 0:1].expand(2, 5, 4), lambda x: x.expand(3, 2, 3, 4), lambda x: x[1], lambda x: x[:, -1], lambda x: x[..., 1:3],
    lambda x: x[:, ::2], lambda x: x[:, -2:], lambda x: x[:, 1:100], lambda x: x[:, 2:1], lambda x: x.narrow(1, 1, 2),
    lambda x: x.split(2, 1), lambda x: x.split([1, 3], 2), lambda x: x.chunk(3, 2), lambda x: x.unbind(1), lambda x: torch.tensor_split(x, 3, 2),
    lambda x: torch.cat([x, x.long()], 1), lambda x: torch.cat([x, torch.zeros(0)]), lambda x: torch.stack([x, x + 1], -1), lambda x: x.repeat(2, 1, 3),
    lambda x: x.repeat(2, 1, 1, 2), lambda x: x.tile(2), lambda x: x.repeat_interleave(2, 1), lambda x: x.flip(0, -1), lambda x: x.roll(1, 2),
    lambda x: F.pad(x, (1, 2)), lambda x: F.pad(x, (0, 1, 2, 0), value=3.0), lambda x: F.pad(x, (-1, 2)), lambda x: F.pad(x, (-1, -1)),
    lambda x: x.contiguous(), lambda x: x.transpose(0, 1).contiguous(), lambda x: x.clone(), lambda x: x.detach() + 1, lambda x: x.T.contiguous() if x.ndim == 2 else x[0].T,
    lambda x: x.select_scatter(torch.ones(3, 4), 0, 1), lambda x: x.slice_scatter(torch.ones(2, 1, 4), 1, 1, 2), lambda x: torch.full_like(x, 2),
    lambda x: torch.zeros_like(x) + torch.ones_like(x, dtype=I64), lambda x: torch.arange(5) + torch.arange(1.0, 6.0), lambda x: torch.arange(0, 10, 3) * 0.5,
    lambda x: torch.eye(3) + x[0, :, :3], lambda x: torch.tril(x), lambda x: x.triu(1), lambda x: torch.linspace(0, 1, 5) + x[0, 0, 0], lambda x: x.new_zeros(2),
    lambda x: torch.tensor([1.5, 2.5, 3.5, float("inf")]) + x, lambda x: torch.tensor(3) + x, lambda x: torch.tensor([True, False, True, True]) & (x > 0),
    lambda x: torch.outer(x[0, 0], x[1, 0]), lambda x: torch.meshgrid(x[0, 0], x[1, 1], indexing="ij"), lambda x: x[0] + 1,
    lambda x: torch.broadcast_to(x[0, 0], (2, 4)), lambda x: F.pixel_shuffle(x.reshape(1, 4, 2, 3), 2),
]  # fmt: skip


def test_shape() -> None:
    check_rows(SHAPE, lambda: (randn(2, 3, 4),))


REDUCTION: list[Callable[[Tensor], Any]] = [
    lambda x: x.sum(), lambda x: x.sum(1), lambda x: x.sum((0, -1), keepdim=True), lambda x: x.mean(), lambda x: x.mean((1, 2)), lambda x: x.amax(0), lambda x: x.amin((0, 1)),
    lambda x: x.max(), lambda x: x.min(), lambda x: x.max(1), lambda x: x.min(-1, keepdim=True).indices, lambda x: x.max(1).values, lambda x: x.argmax(), lambda x: x.argmax(1, keepdim=True), lambda x: x.argmin(-1),
    lambda x: x.prod(1), lambda x: (x > 0).any(), lambda x: (x > 0).all(1), lambda x: x.any(0), lambda x: (x > 0).sum(1), lambda x: x.long().sum(), lambda x: x.to(U8).any(1),
    lambda x: x.var(), lambda x: x.var(1, unbiased=False), lambda x: x.std((0, 2), keepdim=True), lambda x: torch.var_mean(x, 1), lambda x: torch.std_mean(x, 1), lambda x: x.cumsum(1), lambda x: x.long().cumsum(0),
    lambda x: x.softmax(-1), lambda x: F.softmax(x, 0), lambda x: F.log_softmax(x, 1), lambda x: x.to(BF16).softmax(-1, dtype=F32), lambda x: F.layer_norm(x, (4,)), lambda x: F.layer_norm(x, (3, 4), torch.ones(3, 4)),
    lambda x: torch.native_layer_norm(x, (4,), None, None, 1e-5)[0], lambda x: F.rms_norm(x, (4,)), lambda x: F.rms_norm(x.to(BF16), (4,)), lambda x: F.rms_norm(x.double(), (3, 4), eps=1e-3), lambda x: F.group_norm(x, 3),
    lambda x: x.norm(), lambda x: x.norm(dim=1), lambda x: x.norm(1), lambda x: x.norm(3, 0), lambda x: x.norm(float("inf"), 1), lambda x: x.norm(0), lambda x: F.normalize(x, dim=-1), lambda x: x.logsumexp(1), lambda x: x[0, 0, 0].sum(), lambda x: x[0, 0, 0].softmax(0), lambda x: x[0, 0, 0].argmax(), lambda x: x[0, 0, 0].amax(),
    lambda x: F.instance_norm(x), lambda x: F.cosine_similarity(x[0], x[1]), lambda x: F.mse_loss(x, x + 1), lambda x: x.sum(dtype=F64), lambda x: x.to(I32).sum(1, dtype=I32), lambda x: torch.count_nonzero(x > 0), lambda x: x.mean(1, dtype=F64),
    lambda x: (x[0][:, None] - x[1][None]).pow(2).sum(-1).sqrt(),
]  # fmt: skip


def test_reduction() -> None:
    # Sums in another order, as when eager reduces without a list of dims or normalises in a kernel of its own.
    check_rows(REDUCTION, lambda: (randn(2, 3, 4),), rtol=2e-6, atol=2e-6)


LINEAR: list[tuple[Callable[..., Any], list[tuple[int, ...]]]] = [
    (torch.matmul, [(3, 4), (4, 5)]), (torch.matmul, [(4,), (4,)]), (torch.matmul, [(3, 4), (4,)]), (torch.matmul, [(4,), (4, 5)]),
    (torch.matmul, [(2, 3, 4), (4, 5)]), (torch.matmul, [(2, 3, 4), (2, 4, 5)]), (torch.matmul, [(2, 1, 3, 4), (5, 4, 2)]), (torch.matmul, [(3, 4), (2, 4, 5)]),
    (torch.matmul, [(4,), (2, 4, 5)]), (torch.matmul, [(2, 3, 4), (4,)]), (torch.bmm, [(2, 3, 4), (2, 4, 5)]), (torch.mv, [(3, 4), (4,)]), (torch.addmm, [(5,), (3, 4), (4, 5)]),
    (lambda a, b, c: torch.addmm(a, b, c, beta=0.5, alpha=2), [(3, 5), (3, 4), (4, 5)]), (lambda a, b, c: torch.baddbmm(a, b, c, alpha=2), [(1, 5), (2, 3, 4), (2, 4, 5)]),
    (lambda b, x, w: torch.addmm(b, x, w.t()), [(5,), (3, 4), (5, 4)]), (F.linear, [(2, 3, 4), (5, 4), (5,)]), (F.linear, [(4,), (5, 4)]), (lambda a, b: torch.einsum("bik,bjk->bij", a, b), [(2, 3, 4), (2, 5, 4)]),
    (torch.tensordot, [(3, 2, 4), (2, 4, 5)]), (F.scaled_dot_product_attention, [(2, 4, 5, 8)] * 3),
    (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3), [(2, 4, 5, 8)] * 3), (lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), [(2, 4, 5, 8)] * 3 + [(5, 5)]),
    (lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m > -1), [(2, 4, 5, 8)] * 3 + [(2, 1, 5, 5)]),
    (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), [(2, 4, 5, 8), (2, 2, 6, 8), (2, 2, 6, 8)]),
]  # fmt: skip


def test_linear() -> None:
    def row(index: int) -> Callable[..., Any]:
        return lambda *groups: LINEAR[index][0](*groups[index])

    inputs = lambda: tuple(tuple(randn(*s) for s in shapes) for _, shapes in LINEAR)  # noqa: E731
    check_rows([row(i) for i in range(len(LINEAR))], inputs, rtol=1e-5, atol=1e-5)


CONVOLUTION: list[tuple[Callable[[], nn.Module], tuple[int, ...]]] = [
    (lambda: nn.Conv2d(4, 6, 3, stride=2, padding=1), (2, 4, 8, 8)), (lambda: nn.Conv2d(4, 6, 3, padding="same", dilation=2), (2, 4, 8, 8)),
    (lambda: nn.Conv2d(4, 8, (1, 3), groups=4, bias=False), (2, 4, 8, 8)), (lambda: nn.Conv2d(4, 6, 3), (4, 8, 8)), (lambda: nn.Conv1d(4, 6, 3, stride=2), (2, 4, 9)),
    (lambda: nn.Conv3d(2, 3, 2), (1, 2, 4, 4, 4)), (lambda: nn.ConvTranspose2d(4, 3, 3, stride=2, output_padding=1, padding=1), (1, 4, 5, 5)), (lambda: nn.MaxPool2d(3, 2, padding=1, ceil_mode=True), (2, 3, 8, 8)),
    (lambda: nn.MaxPool2d(2, dilation=2), (3, 8, 8)), (lambda: nn.MaxPool1d(2), (2, 3, 8)), (lambda: nn.AvgPool2d(3, 2, padding=1, count_include_pad=False), (2, 3, 8, 8)),
    (lambda: nn.AvgPool2d(2, divisor_override=3), (3, 8, 8)), (lambda: nn.AdaptiveAvgPool2d((3, 2)), (2, 3, 8, 7)), (lambda: nn.AdaptiveAvgPool2d(1), (3, 8, 7)),
    (lambda: nn.BatchNorm1d(3), (4, 3)), (lambda: nn.BatchNorm2d(3, affine=False), (2, 3, 4, 4)), (lambda: nn.BatchNorm2d(3, track_running_stats=False), (2, 3, 4, 4)), (lambda: nn.GroupNorm(2, 4), (2, 4, 5, 5)),
    (lambda: nn.InstanceNorm2d(3, affine=True), (2, 3, 4, 4)), (lambda: nn.PReLU(), (2, 3)), (lambda: nn.GRU(4, 5, batch_first=True), (2, 3, 4)), (lambda: nn.GRU(4, 5, 2, bias=False), (3, 4)),
    (lambda: nn.LSTM(4, 5, 2, bias=False), (3, 2, 4)), (lambda: nn.LSTM(4, 5), (3, 4)), (lambda: nn.Upsample(scale_factor=2), (1, 2, 3, 3)), (lambda: nn.RNN(4, 5), (3, 2, 4)), (lambda: nn.AvgPool1d(2), (2, 3, 8)),
]  # fmt: skip


def test_modules() -> None:
    modules = nn.ModuleList(factory() for factory, _ in CONVOLUTION).eval()

    def row(index: int) -> Callable[..., Any]:
        return lambda *xs: modules[index](xs[index])

    inputs = lambda: tuple(randn(*shape) for _, shape in CONVOLUTION)  # noqa: E731
    check_rows([row(i) for i in range(len(modules))], inputs, rtol=1e-5, atol=1e-6)


def test_indexing() -> None:
    table, index = randn(7, 3), torch.tensor([[0, 6, 2], [1, 1, 5]])
    negative = torch.tensor([0, -1, 2])
    check(nn.Embedding(7, 3, padding_idx=0), index)
    check(lambda x, i: [x.gather(0, i), x[i], x[:, i[0] % 3], torch.take_along_dim(x, i, 0)], table, index)
    check(lambda x, i: [x[i], x[..., i], x.index_select(1, i.abs())], table, negative)
    check(lambda x, i: x.index_select(0, i), table, index[0].to(I32))
    check(lambda x: x[[2, 0]], table)


def test_several_index_tensors() -> None:
    """Dims that follow each other and others, broadcast, masks with one value, and reductions."""
    x, i, j = randn(4, 5, 6), torch.tensor([[0], [-1], [2]]), torch.tensor([4, -5, 1, 0])
    check(
        lambda x, i, j: [x[i, j], x[:, i, j], x[i, :, j], x[..., i, j], x[i[:, 0].to(I32), i[:, 0]]],
        x,
        i,
        j,
    )
    values = randn(3, 4, 6)

    def writes(x: Tensor, i: Tensor, j: Tensor, values: Tensor) -> list[Tensor]:
        y, z = x.clone(), x.clone()
        y[i, j] = values
        z[:3, j[1:, None], j[None, 1:]] += values[0, 0, 0]
        added = torch.ops.aten.index_put(x, [i % 4, None, j], values[..., :5], True)
        y[y[..., 0] > 0] = values[0, 0]
        return [y, z, added, x.masked_scatter(x > 0, values.repeat(2, 1, 1))]

    check(writes, x, i, j, values)
    index = torch.tensor([[0, 3, 3], [1, 1, 2]])

    def scatters(x: Tensor, index: Tensor) -> list[Tensor]:
        rows = x[:, :, 0]
        means = rows.scatter_reduce(0, index, rows[2:], "mean", include_self=False)
        return [
            rows.scatter(0, index[:1], 2.0),
            rows.scatter_add(0, index, rows),
            means,
            rows.index_add(1, index[0, :2], rows[:, :2], alpha=2),
        ]

    check(scatters, x, index)


def test_inplace_updates_of_temporaries() -> None:
    def function(x: Tensor) -> Tensor:
        y = torch.empty(3, 4)
        y.copy_(x)
        y[1:, ::2] = 7
        y[0] += x[1]
        y.relu_().mul_(2)
        y[:, -1].fill_(3)
        return y.sub_(1)

    check(function, randn(3, 4), fresh=lambda: (randn(3, 4),))


def test_no_grad_and_control_flow_inside() -> None:
    def function(x: Tensor) -> Tensor:
        with torch.no_grad():
            y = x + 1
        return torch.cond(
            y.sum() > 0, lambda y: torch.cond(y[0] > 0, torch.sin, torch.cos, (y,)), lambda y: y * 2, (y,)
        )

    for sign in (1.0, -5.0):
        check(function, randn(3) + sign, fresh=lambda: (randn(3),))


def test_statistics_of_native_layer_norm() -> None:
    check(lambda x: torch.native_layer_norm(x, (4,), None, None, 1e-5), randn(3, 4), rtol=1e-5, atol=1e-6)


def test_empty_and_zero_d_tensors() -> None:
    check(lambda x: [x + 1, x.sum(1), x.reshape(3, 0), torch.cat([x, x])], randn(0, 3))
    check(lambda x: [x * 2, x.sum(), x.reshape(1, 1), x.expand(2, 3), x.unsqueeze(0)], randn())


def test_reductions_of_a_number() -> None:
    """Torch takes dim 0 of a tensor that has none, by name or by default."""
    rows = [
        lambda x: x.amax(0), lambda x: x.amin(), lambda x: x.argmax(0), lambda x: x.argmin(), lambda x: x.max(0)[1], lambda x: x.min(-1)[0],
        lambda x: x.sum(0), lambda x: x.float().logsumexp(0), lambda x: x.float().softmax(0), lambda x: x.cumsum(0),
    ]  # fmt: skip
    check_rows(rows, lambda: (make(F32),))
    check_rows(rows, lambda: (make(I64),))


def test_large_literal_is_a_parameter() -> None:
    small, large = torch.arange(8.0), torch.arange(100.0)
    captured = record(lambda x: x[:8] + torch.tensor(small.tolist()) + torch.tensor(large.tolist())[:8], randn(8))
    assert captured.builder.names().count("constant") == 1
    assert [t.numel() for t in captured.parameters.values()] == [100]


def test_int8_products() -> None:
    """uint8 is int8 with its highest bit flipped, and 128 times the sums of the other factor."""
    rows = [
        lambda s, u, w: torch._int_mm(s, w),
        lambda s, u, w: torch._int_mm(u, w),
        lambda s, u, w: torch._int_mm(s, w.t().contiguous().t()),
    ]
    draw = lambda low, high, dtype, *shape: torch.randint(low, high, shape, dtype=dtype)  # noqa: E731
    check_rows(
        rows, lambda: (draw(-128, 128, torch.int8, 3, 5), draw(0, 256, U8, 3, 5), draw(-128, 128, torch.int8, 5, 4))
    )
