# SPDX-License-Identifier: Apache-2.0
"""Windows of tensors, volumes, attention of other shapes and factories against eager, without a call of torch on either target."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from cuda_on_host import compare
from policy import check
from resize_test import Ops, aten_ops, rng, tensor  # noqa: F401  (rng is a fixture)
from torch import Tensor, nn

import straightline as sl

F32, F64, F16, BF16, I64 = torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64

attend = F.scaled_dot_product_attention


class Attention(Ops):
    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> list[Any]:  # type: ignore[override]
        return [function(q, k, v, mask) for function in self._functions]


def native(model: list[Callable[..., Any]] | nn.Module, *inputs: Tensor, **options: Any) -> None:
    """Compares with eager; nothing may be a call of torch, on a device neither."""
    model = Ops(model) if isinstance(model, list) else model
    assert not aten_ops(check(model, inputs, **options))
    shapes = {key: value for key, value in options.items() if key == "dynamic_shapes"}
    assert not aten_ops(sl.compile(model, inputs, target="cuda:sm_90", **shapes))


@pytest.mark.parametrize("dtype", [F32, F64, BF16, I64])
def test_unfold(dtype: torch.dtype, rng: random.Random) -> None:  # noqa: F811
    sizes = [rng.randint(4, 30), rng.randint(1, 5), rng.randint(4, 30)]
    x = torch.randint(-9, 9, sizes).to(dtype)
    functions: list[Callable[..., Any]] = []
    for dim in (0, 2):
        for _ in range(3):
            length = rng.randint(1, min(16, sizes[dim]))
            functions.append(lambda x, d=dim, n=length, s=rng.randint(1, 9): x.unfold(d, n, s))
    functions += [
        lambda x: x.unfold(0, x.shape[0], 1),
        lambda x: x.flatten()[: 4 * (x.numel() // 4)].unfold(0, 4, 4) + 1,
    ]
    print(sizes)
    native(functions, x)


def test_long_windows() -> None:
    x = torch.randn(2, 900)
    native([lambda x: x.unfold(1, 100, 40) * 2, lambda x: x.unfold(1, 64, 16)], x)
    assert len(aten_ops(check(Ops([lambda x: x.unfold(1, 101, 40) * 2]), (x,)))) == 1
    assert not aten_ops(sl.compile(Ops([lambda x: x.unfold(1, 101, 40) * 2]), (x,), target="cuda:sm_90"))


@pytest.mark.parametrize("dtype", [F32, F64, F16, BF16])
def test_fold(dtype: torch.dtype, rng: random.Random) -> None:  # noqa: F811
    functions: list[Callable[..., Any]] = []
    x = tensor(rng, dtype, [rng.randint(1, 3), rng.randint(1, 4), rng.randint(7, 13), rng.randint(7, 13)])
    for _ in range(4):
        kernel = [rng.randint(1, 3) for _ in range(2)]
        # Each element lies in a window: strides up to the kernel, and no gaps.
        stride = [rng.randint(1, k) for k in kernel]
        padding = [rng.randint(0, k // 2) for k in kernel]
        sizes = [s * rng.randint(2, 4) + k - 2 * p for s, k, p in zip(stride, kernel, padding)]
        dilation = [rng.randint(1, 2) for _ in range(2)]
        print(kernel, stride, padding, sizes, dilation)
        functions.append(lambda x, k=kernel, s=stride, p=padding, d=dilation: F.unfold(x, k, d, p, s))
        functions.append(
            lambda x, k=kernel, s=stride, p=padding, n=sizes: F.fold(F.unfold(x.repeat(1, 1, 3, 3)[..., : n[0], : n[1]], k, 1, p, s), n, k, 1, p, s)
        )  # fmt: skip
    native([*functions, lambda x: F.unfold(x[0], 2, stride=2), lambda x: F.fold(F.unfold(x[0], 1), x.shape[2:], 1)], x)


def test_fold_that_leaves_elements_out() -> None:
    x = torch.randn(1, 4, 9)
    assert len(aten_ops(check(lambda x: F.fold(x, (8, 8), 2, stride=3), (x,)))) == 1


def test_shuffles() -> None:
    x = torch.randn(2, 8, 4, 6)
    native([lambda x: F.channel_shuffle(x, 4), lambda x: F.pixel_shuffle(x, 2), lambda x: F.pixel_unshuffle(x, 2)], x)


def test_factories() -> None:
    native([
        lambda x: torch.tril_indices(7, 5, 1) + x.long(), lambda x: torch.triu_indices(5, 9, -1) + x.long(),
        lambda x: [window(9) * x for window in (torch.hann_window, torch.hamming_window, torch.blackman_window, torch.bartlett_window, torch.kaiser_window)],
        lambda x: torch.kaiser_window(10, False, 5.0) + x, lambda x: torch.hamming_window(10, False, 0.5, 0.4, dtype=F64) + x,
        lambda x: torch.fft.fftfreq(7) + x, lambda x: torch.fft.rfftfreq(8, 0.5) + x, lambda x: torch.eye(3, 5) + x,
        lambda x: torch.linspace(-1, 2, 17) + x, lambda x: torch.logspace(0, 1, 5) + x,
        lambda x: x[torch.tril_indices(1, 1)[0]] + torch.tril_indices(40, 40)[1],
    ], torch.randn(1))  # fmt: skip


# Volumes --------------------------------------------------------------------------------------------------------------


def volume(rng: random.Random, transposed: bool) -> nn.Module:  # noqa: F811
    groups = rng.choice([1, 1, 2, 4])
    kernel = [rng.randint(1, 3) for _ in range(3)]
    if transposed:
        stride = [kernel[0], rng.randint(1, 3), rng.randint(1, 3)]
        padding = [0, *(rng.randint(0, k - 1) for k in kernel[1:])]
        return nn.ConvTranspose3d(8, 4, kernel, stride, padding, groups=groups, bias=rng.random() < 0.5)
    stride = kernel if rng.random() < 0.3 else [rng.randint(1, 2) for _ in range(3)]
    padding = [0, 0, 0] if rng.random() < 0.3 else [rng.randint(0, 2) for _ in range(3)]
    dilation = [rng.randint(1, 2) for _ in range(3)]
    channels = 24 if groups != 1 or rng.random() < 0.5 else 8
    return nn.Sequential(nn.Conv3d(8, channels, 1), nn.Conv3d(channels, 4, kernel, stride, padding, dilation, groups))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", [F32, F64])
def test_convolutions(dtype: torch.dtype, transposed: bool, rng: random.Random) -> None:  # noqa: F811
    model = volume(rng, transposed).to(dtype).eval().requires_grad_(False)
    print(model)
    x = tensor(rng, dtype, [rng.randint(1, 2), 8, *(rng.randint(5, 8) for _ in range(3))])
    assert not aten_ops(check(model, (x,)))
    assert not aten_ops(sl.compile(model, (x,), target="cuda:sm_90"))


def test_convolutions_of_halves() -> None:
    x = torch.randn(1, 8, 4, 6, 5).to(BF16)
    for layer in (
        nn.Conv3d(8, 4, 3, padding=1),
        nn.Conv3d(8, 4, (2, 3, 3), (2, 3, 3)),
        nn.Conv3d(8, 8, (1, 3, 3), groups=8),
    ):
        assert not aten_ops(check(layer.to(BF16).eval(), (x,)))
    assert len(aten_ops(check(nn.Conv3d(8, 8, 3, groups=8).to(BF16).eval(), (x,)))) == 1


def test_convolutions_that_stay_torchs() -> None:
    layer, x = nn.Conv3d(3, 4, (3, 7, 7)).eval(), torch.randn(1, 3, 4, 9, 9)
    assert len(aten_ops(check(layer, (x,)))) == 1


def test_convolutions_by_numbers() -> None:
    """A weight that is no tensor of the model."""
    x = torch.randn(1, 2, 3, 6, 7)
    native(
        [
            lambda x: F.conv3d(x, x.new_ones(4, 2, 2, 2, 2)),
            lambda x: F.conv_transpose3d(x, x.new_ones(2, 3, 2, 2, 2) * 2),
        ],
        x,
    )


@pytest.mark.parametrize("dtype", [F32, F64, BF16])
def test_transposed_convolutions_that_overlap(dtype: torch.dtype, rng: random.Random) -> None:  # noqa: F811
    for _ in range(3):
        kernel, stride = ([rng.randint(1, 4) for _ in range(3)] for _ in range(2))
        dilation = [rng.randint(1, 2) for _ in range(3)]
        # Of images of 3 and more at least one element is left.
        padding = [rng.randint(0, min(2, 1 + d * (k - 1) // 2)) for k, d in zip(kernel, dilation)]
        more = [rng.randint(0, max(s, d) - 1) for s, d in zip(stride, dilation)]
        groups = rng.choice([1, 2, 4])
        layer = nn.ConvTranspose3d(8, 12, kernel, stride, padding, more, groups, rng.random() < 0.5, dilation)
        print(layer)
        x = tensor(rng, dtype, [rng.randint(1, 2), 8, *(rng.randint(3, 6) for _ in range(3))])
        native(layer.to(dtype).eval().requires_grad_(False), x)


@pytest.mark.parametrize("dtype", [F32, F64])
def test_pools(dtype: torch.dtype, rng: random.Random) -> None:  # noqa: F811
    x = tensor(rng, dtype, [rng.randint(1, 2), 3, *(rng.randint(5, 9) for _ in range(3))])
    functions: list[Callable[..., Any]] = []
    for _ in range(3):
        kernel = [rng.randint(1, 3) for _ in range(3)]
        options = {"stride": [rng.randint(1, 3) for _ in range(3)], "padding": [rng.randint(0, k // 2) for k in kernel], "ceil_mode": rng.random() < 0.5}  # fmt: skip
        print(kernel, options)
        functions.append(lambda x, k=kernel, o=options: F.max_pool3d(x, k, **o, dilation=(1, 2, 2)))
        functions.append(lambda x, k=kernel, o=options: F.avg_pool3d(x, k, **o, count_include_pad=False))
        functions.append(lambda x, k=kernel, o=options: F.avg_pool3d(x, k, **o))
    functions += [lambda x: F.avg_pool3d(x, 2, divisor_override=3), lambda x: F.max_pool3d(x[0], 2)]
    native(functions, x)


def test_named_batch() -> None:
    b = torch.export.Dim("b", min=1, max=9)
    functions = [
        nn.Conv3d(4, 6, 3, padding=1).eval(), nn.Conv3d(4, 6, 2, 2).eval(), nn.ConvTranspose3d(4, 6, 3, 2, 1, 1).eval(), lambda x: F.max_pool3d(x, 2), lambda x: F.avg_pool3d(x, 2),
        lambda x: x.unfold(2, 2, 1), lambda x: F.unfold(x[:, :, 0], 3), lambda x: attend(x, x, x), lambda x: attend(x, x, x[..., :3]),
    ]  # fmt: skip
    native(functions, torch.randn(2, 4, 4, 5, 6), calls=[(torch.randn(5, 4, 4, 5, 6),)], dynamic_shapes=({0: b},))


# Attention ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [F32, F64, F16, BF16])
def test_attention(dtype: torch.dtype, rng: random.Random) -> None:  # noqa: F811
    heads, groups, queries, keys, e, ev = 4, 2, rng.randint(1, 20), rng.randint(1, 30), 8 * rng.randint(1, 4), 8 * rng.randint(1, 5)  # fmt: skip
    print(queries, keys, e, ev)
    q = torch.randn(2, 3, heads, queries, e).to(dtype)
    k, v = torch.randn(2, 3, heads, keys, e).to(dtype), torch.randn(2, 3, heads, keys, ev).to(dtype)
    seen = torch.rand(2, 1, 1, queries, keys) > 0.3
    seen[..., 0] = True
    native(Attention([
        lambda q, k, v, m: attend(q, k, k), lambda q, k, v, m: attend(q, k, v), lambda q, k, v, m: attend(q, k, v, m),
        lambda q, k, v, m: attend(q, k, k, m[0, 0, 0]), lambda q, k, v, m: attend(q[0], k[0], v[0], is_causal=True),
        lambda q, k, v, m: attend(q[0, 0], k[0, 0], v[0, 0], m[0, 0], scale=0.3), lambda q, k, v, m: attend(q[0, 0, 0], k[0, 0, 0], v[0, 0, 0]),
        lambda q, k, v, m: attend(q[0, 0], k[0, 0], k[0, 0]), lambda q, k, v, m: attend(q, k[:, :, :groups], v[:, :, :groups], enable_gqa=True),
        lambda q, k, v, m: attend(q, k[:, :, :groups], k[:, :, :groups], enable_gqa=True),
    ]), q, k, v, seen)  # fmt: skip


def test_for_a_device(tmp_path: Any) -> None:
    model = Ops([
        lambda x: x.unfold(3, 3, 2), lambda x: F.unfold(x[:, :, 0], 3, padding=1), lambda x: F.fold(F.unfold(x[:, :, 0], 3, padding=1), (5, 6), 3, padding=1),
        nn.Conv3d(4, 6, 3, padding=1), nn.Conv3d(4, 6, 2, 2), lambda x: F.max_pool3d(x, 2), lambda x: attend(x, x, x[..., :3]),
    ])  # fmt: skip
    compare(model, (torch.randn(1, 4, 4, 5, 6),), tmp_path, {})
