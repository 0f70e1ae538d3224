# SPDX-License-Identifier: Apache-2.0
"""Attention that a model writes as two products and a softmax is one kernel on a device; what it computes, on the host (cuda_on_host.py)."""

from __future__ import annotations

import copy
import math
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from cuda_on_host import run_on_host
from statements import launches_of
from torch import Tensor, nn
from torch.nn import functional as F

import straightline as sl
from straightline.testing.device import check

_TARGET = "cuda:sm_90"
#: Of the largest result: a score is rounded to 2**-11 of its factors, a weight to 2**-9 of itself (bfloat16).
_ALLOWED = {torch.float32: 4e-3, torch.float16: 4e-3, torch.bfloat16: 3e-2}


@contextmanager
def _tf32(allowed: bool = True) -> Iterator[None]:
    matmul = torch.backends.cuda.matmul
    before, matmul.allow_tf32 = matmul.allow_tf32, allowed
    try:
        yield
    finally:
        matmul.allow_tf32 = before


def _compile(model: nn.Module, given: tuple[Tensor, ...], target: str = _TARGET, **options: Any) -> Any:
    with _tf32():
        return sl.compile(model.eval(), given, target=target, **options)


def _is_attention(compiled: Any) -> bool:
    ops = [row["op"] for row in launches_of(compiled)]
    is_attention = "scaled_dot_product_attention" in ops
    assert is_attention != any("matmul" in op for op in ops), ops
    return is_attention


def _check(
    model: nn.Module, compiled: Any, given: tuple[Tensor, ...], folder: Path, sanitizer: str | None = None
) -> None:
    exact = model(*(x.double() if x.is_floating_point() else x for x in given))
    got = torch.empty_like(exact, dtype=given[0].dtype, memory_format=torch.contiguous_format)
    run_on_host(compiled, model, given, (got,), folder, sanitizer)
    assert torch.equal(got.isnan(), exact.isnan())
    got, exact = got.double().nan_to_num(), exact.nan_to_num()
    error = (got - exact).abs().max() / exact.abs().max().clamp_min(1e-3)
    assert error < _ALLOWED[given[0].dtype], float(error)


class Written(nn.Module):
    """softmax(q @ k^T * scale + masks) @ v as models write it."""

    def __init__(self, scaled: str, windows: int, is_joined: bool) -> None:
        super().__init__()
        self.scaled, self.windows, self.is_joined = scaled, windows, is_joined
        self.register_buffer("of_heads", torch.rand(3, 1, 1) / 8)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *masks: Tensor) -> Tensor:
        images, heads, queries, size = q.shape
        scale, dtype = 0.7 / math.sqrt(size), q.dtype
        if self.scaled == "queries":
            q = q * scale
        if self.scaled == "keys":
            k = scale * k
        if self.is_joined:  # as with torch.bmm
            q, k, v = (x.reshape(images * heads, *x.shape[2:]) for x in (q, k, v))
        scores = q @ k.transpose(-1, -2)
        if self.scaled == "scores" or (self.scaled == "by head" and self.is_joined):
            scores = scores * scale
        if self.scaled == "divided":
            scores = scores / (1 / scale)
        joined = scores.shape
        if self.scaled == "by head" and not self.is_joined:
            scores = scores * self.of_heads[:heads].to(dtype)
        for mask in masks:
            if mask.dtype == torch.bool:
                scores = scores.masked_fill(
                    mask if not self.is_joined else mask.view(images * heads, 1, -1), -torch.inf
                )
                continue
            if mask.ndim == 5:
                apart = scores.view(images // self.windows, self.windows, heads, queries, scores.shape[-1])
                scores = (apart + mask).view(joined)
            elif self.is_joined:
                scores = (scores.view(images, heads, queries, scores.shape[-1]) + mask).view(joined)
            else:
                scores = mask + scores
        weights = F.softmax(scores, dim=-1, dtype=torch.float32 if dtype != torch.float64 else None).to(dtype)
        return (weights @ v).view(images, heads, queries, size).transpose(1, 2) * 2


def _random_case(pick: Any, dtype: torch.dtype) -> tuple[Written, tuple[Tensor, ...]]:
    windows, heads = pick([2, 3]), pick([1, 3])
    images = windows * pick([1, 2])
    queries, keys = pick([1, 5, 49]), pick([2, 17, 49, 70])
    size = pick([16, 20, 32, 64, *([96, 128] if dtype is not torch.float32 else [])])
    q = torch.randn(images, heads, queries, size)
    k, v = (torch.randn(images, keys, heads, size).transpose(1, 2) for _ in "kv")
    of_windows = torch.randn(1, windows, 1, queries, keys)
    of_windows[:, -1, :, queries // 2] = -torch.inf  # nothing is left of that row, which is NaN
    kinds: list[list[Tensor]] = [
        [], [torch.randn(heads, queries, keys)], [torch.randn(images, 1, 1, keys), torch.randn(1, heads, queries, keys)],
        [of_windows], [torch.randn(1, heads, queries, keys), of_windows], [torch.randn(images, heads, queries, keys)],
        [torch.rand(images, heads, 1, keys) < 0.6],
    ]  # fmt: skip
    masks = pick(kinds)
    is_joined = pick([False, True]) and all(mask.ndim < 5 for mask in masks)
    model = Written(pick(["queries", "keys", "scores", "divided", "by head"]), windows, is_joined)
    return model, tuple(x.to(dtype) if x.is_floating_point() else x for x in (q, k, v, *masks))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("number", range(5))
def test_random_attention(number: int, dtype: torch.dtype, tmp_path: Path) -> None:
    """By either kernel: also few queries, which lanes hold (`cuda_attention_held.h`)."""
    seed = random.randrange(1 << 31)
    print(f"seed {seed}")
    torch.manual_seed(seed)
    pick = random.Random(seed).choice
    model, given = _random_case(pick, dtype)
    routes = {"scaled_dot_product_attention": pick(["cuda.attention", "cuda.attention_warps"])}
    compiled = _compile(model, given, routes=routes)
    is_out_of_range = dtype == torch.float16 and model.scaled == "by head" and not model.is_joined
    assert _is_attention(compiled) != is_out_of_range  # the queries would have the scale
    _check(model, compiled, given, tmp_path, "thread" if number == 0 else None)


@pytest.mark.parametrize("copied", ["heads joined", "elements apart"])
def test_keys_that_the_run_copies_are_read_behind_the_copy(copied: str, tmp_path: Path) -> None:
    """Keys that no kernel writes are read before the kernel before has ended; a copy of them in the run is written by it."""

    class Copied(nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            if copied == "heads joined":
                q, k, v = (x.reshape(6, *x.shape[2:]) for x in (q, k, v))
            return F.scaled_dot_product_attention(q, k, v)

    model = Copied()
    q, k, v = (torch.randn(2, size, 3, 32).transpose(1, 2).half() for size in (5, 17, 17))
    if copied == "elements apart":
        k, v = (x.transpose(-1, -2).contiguous().transpose(-1, -2) for x in (k, v))
    routes = {"scaled_dot_product_attention": "cuda.attention"}
    compiled = _compile(model, (q, k, v), routes=routes)
    assert "copy" in compiled.ir("kernel") and "early = 0" in compiled.ir("kernel")
    got = torch.empty(q.shape if copied != "heads joined" else (6, 5, 32), dtype=q.dtype)
    run_on_host(compiled, model, (q, k, v), (got,), tmp_path, "thread")
    torch.testing.assert_close(got.double(), model(q.double(), k.double(), v.double()), rtol=0, atol=4e-3)
    read_as_they_are = _compile(model, tuple(x.contiguous() for x in (q, k, v)), routes=routes)
    assert "copy" not in read_as_they_are.ir("kernel") and "early = 1" in read_as_they_are.ir("kernel")


class Plain(nn.Module):
    """Attention with one mask."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return torch.softmax(q @ k.transpose(-1, -2) * 0.3 + mask, -1) @ v


class InFloat32(nn.Module):
    """16-bit products whose scores, masks and softmax are float32."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *masks: Tensor) -> Tensor:
        scores = (q @ k.transpose(-1, -2)).float() * 0.3
        for mask in masks:
            scores = scores + mask.float()
        return torch.softmax(scores, -1).to(q.dtype) @ v


def test_masks_that_are_added_up_in_float32() -> None:
    """Their sum in 16 bits would be another mask: one with large numbers takes what the other one says, or is infinite."""
    q, k, v = (
        torch.randn(2, 3, size, 32).transpose(1, 2).contiguous().transpose(1, 2).to(torch.bfloat16)
        for size in (5, 17, 17)
    )
    masks = (torch.full((2, 1, 5, 17), 1000.0).to(torch.bfloat16), torch.randn(1, 3, 5, 17).to(torch.bfloat16))
    for count in (0, 1, 2):
        assert _is_attention(_compile(InFloat32(), (q, k, v, *masks[:count]))) == (count < 2)


def test_no_keys_of_a_named_number(tmp_path: Path) -> None:
    """A sum of nothing is zero, though a row whose mask keeps no key is NaN."""
    t = torch.export.Dim("t", min=0, max=64)
    q, k, v, mask = torch.randn(2, 3, 5, 32), torch.randn(2, 3, 17, 32), torch.randn(2, 3, 17, 32), torch.randn(5, 17)
    model = Plain()
    with _tf32():
        compiled = sl.compile(model, (q, k, v, mask), target=_TARGET, dynamic_shapes=(None, {2: t}, {2: t}, {1: t}))
    assert _is_attention(compiled)
    got = torch.empty(2, 3, 5, 32)
    run_on_host(compiled, model, (q, k[:, :, :0], v[:, :, :0], mask[:, :0]), (got,), tmp_path)
    assert torch.equal(got, torch.zeros(2, 3, 5, 32))


class OfImages(Written):
    """Of tensors [images, windows, heads, tokens, features]."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *masks: Tensor) -> Tensor:
        return super().forward(*(x.flatten(0, 1) for x in (q, k, v)), *masks)


@pytest.mark.parametrize("kernel", ["cuda.attention", "cuda.attention_warps"])
@pytest.mark.parametrize("queries", [1, 49])
def test_windows_of_several_images(kernel: str, queries: int, tmp_path: Path) -> None:
    """Masks by turns and a row that keeps nothing, by each body; the number of images is named."""
    model = OfImages("queries", 3, False)
    images = torch.export.Dim("images", min=2, max=4)
    bias, mask = torch.randn(2, queries, 49), torch.randn(1, 3, 1, queries, 49)
    mask[:, 1, :, 0] = -torch.inf

    def given(count: int) -> tuple[Tensor, ...]:
        return *(torch.randn(count, 3, 2, n, 32) for n in (queries, 49, 49)), bias, mask

    compiled = _compile(
        model, given(2), routes={"scaled_dot_product_attention": kernel},
        dynamic_shapes={"q": {0: images}, "k": {0: images}, "v": {0: images}, "masks": (None, None)},
    )  # fmt: skip
    assert _is_attention(compiled)
    for count in (2, 3):
        _check(model, compiled, given(count), tmp_path)


def test_a_rule_for_the_op_that_the_products_become(recwarn: pytest.WarningsRecorder) -> None:
    """It names an op that capture has not seen: it is followed, and nothing warns."""
    model = Written("scores", 1, False)
    q, k, v = (
        torch.randn(1, 2, 9, 32),
        torch.randn(1, 9, 2, 32).transpose(1, 2),
        torch.randn(1, 9, 2, 32).transpose(1, 2),
    )
    compiled = _compile(model, (q, k, v), routes={"scaled_dot_product_attention": "cuda.attention_warps"})
    assert [(row["ops"], row["decides"]) for row in compiled.routes().rules] == [(1, 1)]
    assert not [each for each in recwarn if each.category is sl.RouteWarning]


def test_where_it_stays_as_written() -> None:
    """On a CPU, where products of float32 are not rounded, and where a head is too large."""
    model = Written("scores", 1, False)
    given = tuple(torch.randn(1, 2, 9, 32) for _ in "qkv")
    assert _is_attention(_compile(model, given))
    assert not _is_attention(_compile(model, given, target="cpu"))
    assert not _is_attention(sl.compile(model, given, target=_TARGET))
    assert not _is_attention(_compile(model, tuple(torch.randn(1, 2, 9, 65) for _ in "qkv")))


class ShiftedWindows(nn.Module):
    """A layer of Swin (torchvision, timm): attention within windows, which may be shifted over the image's edge."""

    def __init__(self, dim: int, heads: int, size: int, window: int, shift: int) -> None:
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads))
        place = torch.stack(torch.meshgrid(*[torch.arange(window)] * 2, indexing="ij")).flatten(1)
        apart = (place[:, :, None] - place[:, None, :]).permute(1, 2, 0) + window - 1
        self.register_buffer("places", (apart[..., 0] * (2 * window - 1) + apart[..., 1]).flatten())
        self.register_buffer("mask", self._mask(size) if shift else None)

    def _mask(self, size: int) -> Tensor:
        region, number = torch.zeros(size, size), 0
        cuts = ((0, -self.window), (-self.window, -self.shift), (-self.shift, None))
        for rows in cuts:
            for columns in cuts:
                region[rows[0] : rows[1], columns[0] : columns[1]] = number
                number += 1
        across = size // self.window
        region = region.view(across, self.window, across, self.window).permute(0, 2, 1, 3).reshape(across**2, -1)
        apart = region.unsqueeze(1) - region.unsqueeze(2)
        return apart.masked_fill(apart != 0, -100.0).masked_fill(apart == 0, 0.0)

    def forward(self, x: Tensor) -> Tensor:
        images, size, _, dim = x.shape
        across, area = size // self.window, self.window**2
        if self.shift:
            x = torch.roll(x, shifts=(-self.shift, -self.shift), dims=(1, 2))
        x = x.view(images, across, self.window, across, self.window, dim).permute(0, 1, 3, 2, 4, 5)
        x = x.reshape(images * across**2, area, dim)
        qkv = self.qkv(x).reshape(x.size(0), area, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        scores = (q * (dim // self.heads) ** -0.5).matmul(k.transpose(-2, -1))
        bias = self.table[self.places].view(area, area, -1).permute(2, 0, 1).contiguous().unsqueeze(0)
        scores = scores + bias
        if self.shift:
            scores = scores.view(images, across**2, self.heads, area, area)
            scores = scores + self.mask.unsqueeze(1).unsqueeze(0)
            scores = scores.view(-1, self.heads, area, area)
        weights = F.dropout(F.softmax(scores, dim=-1), p=0.1, training=self.training)
        x = self.out(weights.matmul(v).transpose(1, 2).reshape(x.size(0), area, dim))
        x = x.view(images, across, across, self.window, self.window, dim).permute(0, 1, 3, 2, 4, 5)
        x = x.reshape(images, size, size, dim)
        return torch.roll(x, shifts=(self.shift, self.shift), dims=(1, 2)) if self.shift else x


@pytest.mark.parametrize("images", [1, 2])
def test_shifted_windows(images: int, tmp_path: Path) -> None:
    """The mask and the bias are added up once, before the first run: a call launches projections and attention."""
    model = nn.Sequential(ShiftedWindows(32, 2, 14, 7, 0), ShiftedWindows(32, 2, 14, 7, 3)).eval()
    given = (torch.randn(images, 14, 14, 32),)
    compiled = _compile(model, given, routes={"linear": "cuda"})
    ops = Counter(row["op"] for row in launches_of(compiled))
    assert (
        ops["scaled_dot_product_attention"] == 2 and ops["linear"] == 4 and not {"softmax", "matmul", "copy"} & set(ops)
    ), ops
    got = torch.empty(images, 14, 14, 32)
    with torch.inference_mode():
        run_on_host(compiled, model, given, (got,), tmp_path)
        exact = model.double()(given[0].double())
    assert (got - exact).abs().max() < 4e-3 * exact.abs().max()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("images", [1, 3])
def test_shifted_windows_against_eager(images: int, dtype: torch.dtype) -> None:
    """On a CPU as it is written; where tests run on a device, by its attention kernel."""
    model = nn.Sequential(ShiftedWindows(64, 2, 14, 7, 0), ShiftedWindows(64, 2, 14, 7, 3)).eval().to(dtype)
    given = (torch.randn(images, 14, 14, 64).to(dtype),)
    is_device = given[0].is_cuda
    with _tf32():
        compiled = sl.compile(model, given)
        check(compiled, model, copy.deepcopy(model).double(), given, tf32=is_device and dtype == torch.float32)
    ops = Counter(row["op"] for row in launches_of(compiled))
    assert ops["scaled_dot_product_attention"] == (2 if is_device else 0), ops


_TEXT = """
func.func @attend(%q: tensor<6x2x5x16xELEMENT> {op.name = "q"}, %k: tensor<6x2x9x16xELEMENT> {op.name = "k"}, %m: tensor<3x1x5x9xELEMENT> {op.name = "m"})
    -> (tensor<6x2x5x16xELEMENT> {op.name = "y"}) {
  %y = op.scaled_dot_product_attention %q, %k, %k mask %m {empty_is_nan, is_causal = false, scale = 0.25 : f64}
      : (tensor<6x2x5x16xELEMENT>, tensor<6x2x9x16xELEMENT>, tensor<6x2x9x16xELEMENT>, tensor<3x1x5x9xELEMENT>) -> tensor<6x2x5x16xELEMENT>
  return %y : tensor<6x2x5x16xELEMENT>
}
"""


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_op_on_a_cpu(dtype: torch.dtype) -> None:
    """Masks by turns and rows that they leave nothing of, by the kernel (float32), as products (float64) and widened (bfloat16)."""
    text = _TEXT.replace("ELEMENT", {torch.float32: "f32", torch.float64: "f64", torch.bfloat16: "bf16"}[dtype])
    q, k, mask = (torch.randn(size).to(dtype) for size in ((6, 2, 5, 16), (6, 2, 9, 16), (3, 1, 5, 9)))
    mask[1, :, 2] = -torch.inf
    got = sl.compile_mlir(text)(q, k, mask)
    scores = q.double() @ k.double().transpose(-1, -2) * 0.25 + mask.double().repeat(2, 1, 1, 1)
    exact = scores.softmax(-1) @ k.double()
    torch.testing.assert_close(
        got.double(), exact, rtol=0, equal_nan=True, atol=2e-2 if dtype == torch.bfloat16 else 1e-5
    )
