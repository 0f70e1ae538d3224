# SPDX-License-Identifier: Apache-2.0
"""Interpolations and adaptive pools against eager: random sizes, types, options; no call of torch on either target."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from cuda_on_host import compare, run_on_host
from policy import check
from statements import launches_of
from torch import Tensor, nn

import straightline as sl

F32, F64, F16, BF16, U8 = torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.uint8

_MODES = {1: ("nearest", "nearest-exact", "linear"), 2: ("nearest", "nearest-exact", "bilinear", "bicubic"), 3: ("nearest", "nearest-exact", "trilinear")}  # fmt: skip


@pytest.fixture
def rng() -> random.Random:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    torch.manual_seed(seed)
    return random.Random(seed)


class Ops(nn.Module):
    """Some functions of one tensor."""

    def __init__(self, functions: list[Callable[[Tensor], Any]]) -> None:
        super().__init__()
        self._functions = functions
        self._layers = nn.ModuleList([function for function in functions if isinstance(function, nn.Module)])

    def forward(self, x: Tensor) -> list[Any]:
        layers = iter(self._layers)
        return [next(layers)(x) if isinstance(function, nn.Module) else function(x) for function in self._functions]


def aten_ops(compiled: Any) -> list[str]:
    """Ops that are calls of torch."""
    return [row["op"] for row in launches_of(compiled) if row["backend"] == "aten"]


def interpolation(rng: random.Random, mode: str, sizes: list[int], dtype: torch.dtype) -> dict[str, Any]:
    """Options of F.interpolate; scale factors as they are, or only to find the sizes by."""
    options: dict[str, Any] = {"mode": mode}
    if rng.random() < 0.4:
        options["size"] = [rng.randint(1, 2 * size + 3) for size in sizes]
    else:
        whole = rng.random() < 0.4
        factors = [rng.randint(1, 3) if whole else rng.uniform(1 / size, 2.6) for size in sizes]
        options["scale_factor"] = [max(factor, 1.001 / size) for factor, size in zip(factors, sizes)]
        if rng.random() < 0.5:
            options["recompute_scale_factor"] = rng.random() < 0.5
    if "linear" in mode or mode == "bicubic":
        options["align_corners"] = rng.random() < 0.5
    targets = options.get("size") or [int(size * f) for size, f in zip(sizes, options["scale_factor"])]
    if mode in ("bilinear", "bicubic") and dtype in (F32, F64) and min(*sizes, *targets) > 1 and rng.random() < 0.3:
        options |= {"antialias": True, "align_corners": False}
    return options


def tensor(rng: random.Random, dtype: torch.dtype, shape: list[int]) -> Tensor:
    """Random data, row-major or channels last."""
    x = torch.randint(0, 255, shape).to(dtype) if dtype == U8 else torch.randn(shape).to(dtype)
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return x.to(memory_format=formats[len(shape)]) if len(shape) in formats and rng.random() < 0.3 else x


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("dtype", [F32, F64, F16, BF16, U8])
def test_interpolation(rank: int, dtype: torch.dtype, rng: random.Random) -> None:
    sizes = [rng.randint(1, (23, 11, 6)[rank - 1]) for _ in range(rank)]
    modes = _MODES[rank] if dtype != U8 else _MODES[rank][:2]
    options = [interpolation(rng, mode, sizes, dtype) for mode in modes for _ in range(3)]
    print(sizes, options)
    x = tensor(rng, dtype, [rng.randint(1, 3), rng.randint(1, 5), *sizes])
    compiled = check(Ops([lambda x, o=o: F.interpolate(x, **o) for o in options]), (x,))  # type: ignore[misc]
    assert not aten_ops(compiled)


@pytest.mark.parametrize("channels", [1, 3, 4, 6])
@pytest.mark.parametrize("antialias", [False, True])
def test_interpolation_of_bytes(antialias: bool, channels: int, rng: random.Random) -> None:
    """The integers of ATen's CPU kernels, which are others for up to four channels, and for each layout."""
    h, w = rng.randint(1, 60), rng.randint(2, 60)
    functions: list[Callable[[Tensor], Tensor]] = []
    for mode in ("bilinear", "bicubic"):
        for _ in range(4):
            options: dict[str, Any] = {"mode": mode, "antialias": antialias, "align_corners": rng.random() < 0.4}
            if rng.random() < 0.5:
                options["size"] = [
                    rng.randint(1, 2 * h + 2),
                    rng.choice([rng.randint(2, 2 * w + 2), w, w + 1, w - (w > 2)]),
                ]
            else:  # also where a size stays, and eager leaves the dim as it is
                options["scale_factor"] = [max(f, low) for f, low in zip((rng.uniform(0.1, 2.2), rng.choice([1.01, rng.uniform(0.1, 3)])), (1.001 / h, 2.001 / w))]  # fmt: skip
                options["recompute_scale_factor"] = rng.random() < 0.3
            functions.append(lambda x, o=options: F.interpolate(x, **o))  # type: ignore[misc]
            print((h, w), options)
    model = Ops(functions)
    row_major = torch.randint(0, 256, (rng.randint(1, 2), channels, h, w), dtype=U8)
    for x in (row_major, row_major.contiguous(memory_format=torch.channels_last), torch.full_like(row_major, 255)):
        compiled = sl.compile(model, (x,))
        assert not aten_ops(compiled)
        for got, want in zip(compiled(x), model(x), strict=True):
            assert torch.equal(got, want)


def test_weights_of_bytes_next_to_one(rng: random.Random) -> None:
    """The largest weight that eager meets while it sums those beyond the border decides how all are scaled."""
    x = torch.randint(0, 256, (1, 1, 700, 298), dtype=U8)
    model = Ops([lambda x: F.interpolate(x, size=(700, 297), mode="bicubic")])
    compiled = sl.compile(model, (x,))
    assert not aten_ops(compiled) and torch.equal(compiled(x)[0], model(x)[0])


@pytest.mark.parametrize("channels", [3, 4, 5])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_nearest_by_factors_that_are_not_the_ratio_of_sizes(rank: int, channels: int, rng: random.Random) -> None:
    """Eager's kernels differ where sizes stay or double, and for volumes of four channels and more that lie channels last."""
    formats = {2: torch.channels_last, 3: torch.channels_last_3d}
    functions = [
        lambda x, f=[rng.choice([rng.uniform(1, 1.2), rng.uniform(2, 2.2), 2.0, 1.0]) for _ in range(rank)], m=m: F.interpolate(x, scale_factor=f, mode=m, recompute_scale_factor=False)
        for _ in range(4) for m in ("nearest", "nearest-exact")
    ]  # fmt: skip
    x = torch.randn(2, channels, *(rng.randint(3, 6) for _ in range(rank)))
    for given in (x, *([x.contiguous(memory_format=formats[rank])] if rank in formats else [])):
        check(Ops(functions), (given,))


def _by_the_scale(factor: float, count: int) -> Tensor:
    """Factors of ATen's CUDA kernels (UpSample.cuh): the element of the result times the inverse of the scale, in float32."""
    return torch.arange(count).float() * torch.tensor(1 / factor).float()


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_nearest_for_a_device(rank: int, tmp_path: Any, rng: random.Random) -> None:
    """The places of ATen's CUDA kernels, where a double size is no exception, and one that stays for images alone."""
    sizes, factors = [6, *(rng.randint(3, 6) for _ in range(rank - 1))], [1.13, *[2.2] * (rank - 1)]
    x = torch.randn(1, 4, *sizes)
    model = Ops([lambda x: F.interpolate(x, scale_factor=factors, mode="nearest", recompute_scale_factor=False)])
    expected = x
    for dim, (size, factor) in enumerate(zip(sizes, factors), 2):
        count = int(size * factor)
        if rank != 2 or count != size:
            expected = expected.index_select(dim, _by_the_scale(factor, count).floor().long().clamp_max(size - 1))
    compiled = sl.compile(model, (x,), target="cuda:sm_90")
    got = torch.empty_like(expected)
    run_on_host(compiled, model, (x,), (got,), tmp_path)
    assert torch.equal(got, expected)


def test_linear_for_a_device_where_a_size_stays(tmp_path: Any) -> None:
    """ATen's CUDA kernels copy where all sizes stay, its CPU kernels each dim whose size stays."""
    options = {"mode": "bilinear", "recompute_scale_factor": False}
    model = Ops([
        lambda x: F.interpolate(x, scale_factor=[1.1, 1.05], **options) + 1, lambda x: F.interpolate(x, scale_factor=[1.1, 2.2], **options),
        lambda x: F.interpolate(x, scale_factor=[1.1, 2.2], align_corners=True, **options),
    ])  # fmt: skip
    x = torch.randn(1, 2, 6, 5)
    wide = [torch.nn.functional.interpolate(x, scale_factor=[1.0, 2.2], align_corners=a, **options) for a in (False, True)]  # fmt: skip
    place = ((_by_the_scale(1.1, 6) + 0.5 / 1.1) - 0.5).clamp_min(0)
    first = place.floor().long()
    share = (place - first)[:, None]
    expected = (x + 1, wide[0][:, :, first] * (1 - share) + wide[0][:, :, (first + 1).clamp_max(5)] * share, wide[1])
    got = tuple(torch.empty_like(y) for y in expected)
    run_on_host(sl.compile(model, (x,), target="cuda:sm_90"), model, (x,), got, tmp_path)
    torch.testing.assert_close(got, expected)
    assert not torch.allclose(expected[1], model(x)[1])  # on the CPU the rows stay


def test_cubic_for_a_device_where_all_sizes_stay(tmp_path: Any) -> None:
    """ATen's CUDA kernel copies; its CPU kernel goes by the factors where one of the sizes is 1."""
    options = {"mode": "bicubic", "recompute_scale_factor": False}
    model = Ops([
        lambda x: F.interpolate(x[..., :1], scale_factor=[1.08, 1.63], **options), lambda x: F.interpolate(x[..., :1, :], scale_factor=[1.3, 1.1], **options),
        lambda x: F.interpolate(x, scale_factor=[1.1, 1.05], **options), lambda x: F.interpolate(x[..., :1], size=(6, 1), align_corners=True, mode="bicubic"),
    ])  # fmt: skip
    x = torch.randn(1, 2, 6, 5)
    expected = tuple(y.contiguous() for y in (x[..., :1], x[..., :1, :], x, x[..., :1]))
    got = tuple(torch.empty_like(y) for y in expected)
    run_on_host(sl.compile(model, (x,), target="cuda:sm_90"), model, (x,), got, tmp_path)
    torch.testing.assert_close(got, expected, rtol=0, atol=0)
    assert not torch.allclose(model(x)[0], expected[0])


@pytest.mark.parametrize("dtype", [F32, F64, F16, BF16])
def test_adaptive_pools(dtype: torch.dtype, rng: random.Random) -> None:
    sizes = [rng.randint(1, 13) for _ in range(3)]
    targets = [[rng.randint(1, 13) for _ in range(3)] for _ in range(2)] + [[n // rng.choice([d for d in (1, 2, 3) if n % d == 0]) for n in sizes]]  # fmt: skip
    print(sizes, targets)
    x = tensor(rng, dtype, [2, 3, *sizes])
    functions: list[Callable[[Tensor], Any]] = []
    for t in targets:
        functions += [
            lambda x, t=t: F.adaptive_avg_pool3d(x, t), lambda x, t=t: F.adaptive_avg_pool2d(x[:, 0], t[1:]),
            lambda x, t=t: F.adaptive_avg_pool1d(x[0, 0], t[2]), lambda x, t=t: F.adaptive_max_pool2d(x[0], t[1:]),
            lambda x, t=t: F.adaptive_max_pool1d(x[0, 0], t[2]), lambda x, t=t: F.adaptive_max_pool3d(x, t),
        ]  # fmt: skip
    assert not aten_ops(check(Ops(functions), (x,)))


def test_many_terms(rng: random.Random) -> None:
    functions = [lambda x: F.adaptive_avg_pool2d(x, (3, 4)), lambda x: F.adaptive_max_pool2d(x, (4, 3)), lambda x: F.interpolate(x, (3, 4), mode="bicubic", antialias=True)]  # fmt: skip
    assert not aten_ops(check(Ops(functions), (torch.randn(2, 2, 41, 50),)))


def test_named_sizes(rng: random.Random) -> None:
    b, h = torch.export.Dim("b", min=1, max=9), torch.export.Dim("h", min=3, max=40)
    functions = [lambda x: F.interpolate(x, scale_factor=(2.0, 3.0)), lambda x: F.interpolate(x[:, :, :2], size=(5, 9), mode="bilinear"), lambda x: F.adaptive_avg_pool2d(x[:, :, :2], (3, 4))]  # fmt: skip
    x, y = torch.randn(2, 3, 5, 6), torch.randn(4, 3, 4, 6)
    assert not aten_ops(check(Ops(functions), (x,), calls=[(y,)], dynamic_shapes=({0: b, 2: h},)))


def test_infinity_stays_where_it_is() -> None:
    x = torch.randn(1, 1, 6, 7)
    x[0, 0, 2, 3] = -torch.inf
    check(lambda x: [F.interpolate(x, (12, 15), mode="bilinear"), F.adaptive_avg_pool2d(x, (4, 5))], (x,))


def test_what_stays_torchs() -> None:
    h = torch.export.Dim("h", min=3, max=40)
    x = torch.randn(1, 3, 8, 6)
    functions = [
        lambda x: F.interpolate(x, size=(x.shape[2] * 2, 9), mode="bilinear"),
        lambda x: F.adaptive_avg_pool2d(x, (3, 4)),
    ]
    for function in functions:
        compiled = sl.compile(Ops([function]), (x,), dynamic_shapes=({2: h},))
        assert len(aten_ops(compiled)) == 1
    aa = sl.compile(
        Ops([lambda x: F.interpolate(x, (5, 5), mode="bilinear", antialias=True)]), (torch.randn(1, 1, 4, 1),)
    )
    assert len(aten_ops(aa)) == 1
    narrow, x = Ops([lambda x: F.interpolate(x, (5, 1), mode="bilinear", antialias=True)]), torch.randn(1, 2, 4, 7)
    compiled = sl.compile(narrow, (x,))
    assert len(aten_ops(compiled)) == 1 and torch.equal(compiled(x)[0], narrow(x)[0])
    pixels = torch.randint(0, 256, (1, 5, 4, 6), dtype=U8)
    narrow = Ops([lambda x: F.interpolate(x, (5, 1), mode="bilinear"), lambda x: F.interpolate(x[..., :1], (5, 1), mode="bicubic")])  # fmt: skip
    compiled = sl.compile(narrow, (pixels,))
    assert len(aten_ops(compiled)) == 2 and all(map(torch.equal, compiled(pixels), narrow(pixels)))
    wide = Ops([lambda x: F.interpolate(x, (5, 5), mode="bilinear")])  # a device's torch rounds in another way
    assert len(aten_ops(sl.compile(wide, (pixels,), target="cuda:sm_90"))) == 1


def test_for_a_device(tmp_path: Any, rng: random.Random) -> None:
    model = Ops([
        lambda x: F.interpolate(x, (9, 13), mode="bilinear"), lambda x: F.interpolate(x, scale_factor=2.0),
        lambda x: F.interpolate(x, (4, 3), mode="nearest"), lambda x: F.interpolate(x, scale_factor=1.7, mode="bicubic"),
        lambda x: F.adaptive_avg_pool2d(x, (3, 5)), lambda x: F.adaptive_max_pool2d(x, (4, 5)),
    ])  # fmt: skip
    inputs = (torch.randn(2, 3, 7, 6),)
    compiled = sl.compile(model, inputs, target="cuda:sm_90")
    assert not aten_ops(compiled)
    compare(model, inputs, tmp_path, {})


def test_a_default_device_elsewhere() -> None:
    """Places and weights are computed on the CPU whatever torch's default device is at capture."""
    model = Ops(
        [
            lambda x: F.interpolate(x, (7, 9), mode="bilinear"),
            lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"),
            lambda x: F.interpolate(x, (3, 4), mode="bilinear", antialias=True),
            lambda x: F.adaptive_max_pool2d(F.adaptive_avg_pool2d(x, (4, 5)), (3, 2)),
            lambda x: F.fold(F.unfold(x, 3), (5, 6), 3) + x.unfold(2, 3, 1)[..., :1, 0].sum(),
        ]
    )
    x = torch.randn(1, 3, 5, 6)
    with torch.device("meta"):
        compiled = sl.compile(model, (x,))
    for got, want in zip(compiled(x), model(x), strict=True):
        torch.testing.assert_close(got, want)
