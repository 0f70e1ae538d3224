# SPDX-License-Identifier: Apache-2.0
"""What emitted CUDA C++ computes, without a device: groups of products, attention in parts, halves of rows (cuda_on_host.py)."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from cuda_on_host import compare, run_on_host
from statements import launches_of
from torch import Tensor, nn
from torch.nn import functional as F

import straightline as sl

from bench.cases.models import DecodeStep, RmsNorm
from bench.cases.recurrent import Layers

_OWN = {"linear": "cuda", "matmul": "cuda"}


def _r(*sizes: int) -> Tensor:
    return torch.randn(sizes)


@pytest.fixture
def tf32() -> Iterator[None]:
    """Products of float32 may round their factors."""
    before, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, True
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


class Projections(nn.Module):
    """Three products of one x, of different widths, with and without biases, each with an epilogue of its own."""

    def __init__(self, dim: int, widths: tuple[int, int, int], norm: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim) if norm else nn.Identity()
        self.a, self.b, self.c = (nn.Linear(dim, width, bias=width % 2 == 0) for width in widths)

    def forward(self, x: Tensor, r: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = self.norm(x)
        return torch.relu(self.a(y)), self.b(y) + r, self.c(y)


class Gated(nn.Module):
    """SwiGLU between a norm and a residual, with biases."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(dim)
        self.gate, self.up, self.down = nn.Linear(dim, hidden), nn.Linear(dim, hidden), nn.Linear(hidden, dim)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Rotary(nn.Module):
    """Rotary embedding behind a norm of heads, whose result is read elsewhere too."""

    def __init__(self, heads: int, size: int) -> None:
        super().__init__()
        self.heads, self.size = heads, size
        self.norm = nn.LayerNorm(size)
        self.register_buffer("cos", torch.randn(1, size))
        self.register_buffer("sin", torch.randn(1, size))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.view(-1, self.heads, self.size)
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        a, b = y.chunk(2, -1)
        return y * self.cos + torch.cat((-b, a), -1) * self.sin, y.amax(-1)


def _compare(model: nn.Module, inputs: tuple[Tensor, ...], folder: Path, families: list[str] | None) -> None:
    rows = compare(model, inputs, folder, _OWN)
    assert families is None or [row["family"] for row in rows] == families, [row["kernel"] for row in rows]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_decode_step(dtype: torch.dtype, tmp_path: Path) -> None:
    model = DecodeStep(2, dim=256, heads=4, kv_heads=2, head_dim=64, ffn=384, tokens=40).to(dtype)
    _compare(model, (torch.randn(1, 1, 256).to(dtype),), tmp_path, None)


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize(
    ("rows", "dim", "widths"), [(1, 512, (70, 33, 8)), (5, 64, (128, 64, 64)), (16, 30, (6, 5, 40)), (3, 7, (2, 1, 9))]
)
def test_products_of_different_widths(
    rows: int, dim: int, widths: tuple[int, int, int], norm: bool, tmp_path: Path
) -> None:
    """Rows of 30 and of 7 elements do not begin at multiples of 16 bytes."""
    inputs = (torch.randn(rows, dim), torch.randn(rows, widths[1]))
    _compare(Projections(dim, widths, norm), inputs, tmp_path, ["gemv_group"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 4])
def test_gated_products(rows: int, dtype: torch.dtype, tmp_path: Path) -> None:
    model = Gated(96, 200).to(dtype)
    _compare(model, (torch.randn(rows, 96).to(dtype),), tmp_path, ["gemv_group", "gemv"])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("rows", [64, 130])
def test_products_of_many_rows(rows: int, dtype: torch.dtype, tmp_path: Path, tf32: None) -> None:
    """By warps, as the PTX for devices after sm_90 computes them; rows that no tile divides."""
    for number, (model, inputs, families) in enumerate(
        (
            (Projections(72, (70, 33, 8), False), (_r(rows, 72), _r(rows, 33)), ["matmul_group"]),
            (Gated(256, 328), (_r(2, rows // 2, 256),), ["row_reduction", "matmul_group", "matmul"]),
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        given = tuple(x.to(dtype) for x in inputs)
        part = 2e-3 if dtype == torch.float32 else None  # factors of 10 bits
        launched = compare(model.to(dtype), given, folder, _OWN, part, "cuda:sm_90")
        assert [row["family"] for row in launched] == families


class Sideways(nn.Module):
    """Weights as GPT-2's checkpoints have them, [k, n]; the last product is by an embedding's, turned."""

    def __init__(self, dim: int, hidden: int, words: int) -> None:
        super().__init__()
        self.up, self.down = nn.Parameter(torch.randn(dim, hidden)), nn.Parameter(torch.randn(hidden, dim))
        self.bias, self.words = nn.Parameter(torch.randn(hidden)), nn.Embedding(words, dim)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x + F.gelu(torch.addmm(self.bias, x, self.up)) @ self.down
        return y @ self.words.weight.t(), F.linear(y, self.up.t())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 3, 16])
def test_weights_that_lie_sideways_are_turned_once(rows: int, dtype: torch.dtype, tmp_path: Path) -> None:
    """Those of up and down, which two products share; an embedding's lies as it should."""
    model = Sideways(48, 100, 70).to(dtype).eval()
    x = torch.randn(rows, 48).to(dtype)
    _compare(model, (x,), tmp_path, None)
    compiled = sl.compile(model, (x,), target="cuda:sm_90", routes=_OWN)
    turned = [row for row in compiled.explain().statements if row["kernel"].startswith("transpose")]
    assert [row["phase"] for row in turned] == ["prepare", "prepare"], "up once for both of its products"
    assert {row["family"] for row in launches_of(compiled)} <= {"gemv", "gemv_group"}
    live = sl.compile(model, (x,), target="cuda:sm_90", routes=_OWN, freeze=False).explain()
    assert live["prepared_bytes"] == 0


def test_weights_that_are_views(tmp_path: Path) -> None:
    class Views(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.flat, self.wide = nn.Parameter(torch.randn(32 * 48)), nn.Parameter(torch.randn(48, 64))

        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            return (
                x @ self.flat.view(32, 48),
                F.linear(x, self.wide[:, ::2]),
                x @ self.wide[:32, 1:41],
                x @ self.wide.exp()[:32],
            )

    _compare(Views().eval(), (torch.randn(4, 32),), tmp_path, None)


class Repeated(nn.Module):
    """A sideways weight in a loop, and one in a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.again, self.once = nn.Parameter(torch.randn(32, 32) * 0.2), nn.Parameter(torch.randn(32, 32))
        self.bias = nn.Parameter(torch.randn(32))

    def forward(self, x: Tensor) -> Tensor:
        def step(i: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return i + 1, torch.tanh(y @ self.again) + self.bias

        _, y = torch.while_loop(lambda i, y: i < 3, step, (torch.zeros((), dtype=torch.int64), x))
        return torch.cond(y.sum() > 0, lambda y: y @ self.once, lambda y: y - 1, (y,))


@pytest.mark.parametrize("options", [{}, {"freeze": False}])
def test_weights_that_lie_sideways_in_loops_and_branches(options: dict[str, bool]) -> None:
    """Turned by prepare, outside of them."""
    rows = (
        sl.compile(Repeated().eval(), (torch.randn(2, 32),), target="cuda:sm_90", routes=_OWN, **options)
        .explain()
        .statements
    )
    turned = [row["phase"] for row in rows if row["kernel"].startswith("transpose")]
    assert turned == ([] if options else ["prepare", "prepare"])
    products = [row["family"] for row in rows if "matmul" in row["op"] or "linear" in row["op"]]
    assert products == ["matmul" if options else "gemv"] * 2


def test_a_norm_that_somebody_else_reads_stays_a_kernel(tmp_path: Path) -> None:
    class Read(Projections):
        def forward(self, x: Tensor, r: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            y = self.norm(x)
            return torch.relu(self.a(y)), self.b(y) + r, y

    inputs = (torch.randn(2, 64), torch.randn(2, 32))
    _compare(Read(64, (16, 32, 8), True), inputs, tmp_path, ["row_reduction", "gemv_group"])


class Cached(nn.Module):
    """Attention over a cache and what is new."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal

    def forward(self, q: Tensor, old: Tensor, new: Tensor, mask: Tensor | None = None) -> Tensor:
        keys, values = torch.cat((old, new), 2), torch.cat((2 * old, 1 - new), 2)
        return F.scaled_dot_product_attention(
            q, keys, values, mask, is_causal=self.causal, enable_gqa=q.shape[1] != keys.shape[1]
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("heads", "shared", "s", "old", "new", "d", "mask"),
    [
        (4, 2, 1, 150, 1, 128, None),  # two rows a block, in two groups of 16 lanes or one after the other
        (2, 2, 1, 70, 3, 64, torch.bool),
        (3, 1, 2, 9, 300, 32, torch.float32),  # six rows
        (8, 1, 1, 600, 2, 96, None),  # 12 pieces of 16 bytes for 16 lanes, or 24 for 32
        (1, 1, 3, 5, 2, 256, torch.bool),
    ],
)
def test_attention_of_few_queries(
    heads: int,
    shared: int,
    s: int,
    old: int,
    new: int,
    d: int,
    mask: torch.dtype | None,
    dtype: torch.dtype,
    tmp_path: Path,
) -> None:
    """In parts that lie apart; one row of a mask keeps nothing."""
    inputs = [torch.randn(2, heads, s, d).to(dtype), *(torch.randn(2, shared, n, d).to(dtype) for n in (old, new))]
    if mask is not None:
        keep = torch.rand(s, old + new) < 0.6
        keep[-1] = mask is torch.float32
        inputs.append(keep if mask is torch.bool else torch.randn(s, old + new).to(dtype))
    compiled = sl.compile(Cached(False), tuple(inputs), target="cuda:sm_80")
    held = re.findall(r"\.held = (\d)", compiled.code)
    assert held == ["0"] if d * dtype.itemsize > 512 else held in (["4"], ["8"])
    _compare(Cached(False), tuple(inputs), tmp_path, None)


def test_causal_attention_of_few_queries(tmp_path: Path) -> None:
    inputs = (torch.randn(1, 2, 4, 64), torch.randn(1, 2, 2, 64), torch.randn(1, 2, 2, 64))
    _compare(Cached(True), inputs, tmp_path, None)


class StaticCache(nn.Module):
    """Attention of one token over caches in which it writes its own rows: norms of queries and keys, rotary embedding, grouped queries."""

    def __init__(self, layers: int, heads: int, kv_heads: int, size: int, tokens: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, size
        dim = heads * size
        self.norms = nn.ModuleList(RmsNorm(dim) for _ in range(layers))
        self.q = nn.ModuleList(nn.Linear(dim, dim, bias=False) for _ in range(layers))
        self.k = nn.ModuleList(nn.Linear(dim, kv_heads * size, bias=False) for _ in range(layers))
        self.v = nn.ModuleList(nn.Linear(dim, kv_heads * size, bias=False) for _ in range(layers))
        self.o = nn.ModuleList(nn.Linear(dim, dim, bias=False) for _ in range(layers))
        self.q_norms = nn.ModuleList(RmsNorm(size) for _ in range(layers))
        self.k_norms = nn.ModuleList(RmsNorm(size) for _ in range(layers))
        for layer in range(layers):
            self.register_buffer(f"keys{layer}", torch.randn(1, kv_heads, tokens, size))
            self.register_buffer(f"values{layer}", torch.randn(1, kv_heads, tokens, size))
        self.register_buffer("cos", torch.randn(tokens, size))
        self.register_buffer("sin", torch.randn(tokens, size))

    def _rotary(self, x: Tensor, at: Tensor) -> Tensor:
        a, b = x.chunk(2, -1)
        return x * self.cos[at] + torch.cat((-b, a), -1) * self.sin[at]

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        for layer, norm in enumerate(self.norms):
            keys, values = self.get_buffer(f"keys{layer}"), self.get_buffer(f"values{layer}")
            y = norm(x)
            q = self._rotary(
                self.q_norms[layer](self.q[layer](y).view(1, 1, self.heads, self.size)).transpose(1, 2), at
            )
            k = self._rotary(
                self.k_norms[layer](self.k[layer](y).view(1, 1, self.kv_heads, self.size)).transpose(1, 2), at
            )
            keys.index_copy_(2, at, k)
            values.index_copy_(2, at, self.v[layer](y).view(1, 1, self.kv_heads, self.size).transpose(1, 2))
            seen = torch.arange(keys.shape[2], device=x.device) <= at
            a = F.scaled_dot_product_attention(q, keys, values, seen.view(1, 1, 1, -1), enable_gqa=True)
            x = x + self.o[layer](a.transpose(1, 2).reshape(1, 1, -1))
        return x


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_token_with_a_static_cache(dtype: torch.dtype, tmp_path: Path) -> None:
    """Both norms of a layer are one launch, which writes the key's row and beside them copies the value's: four launches a layer."""
    model = StaticCache(3, 4, 2, 64, 40).to(dtype)
    given = (torch.randn(1, 1, 256).to(dtype), torch.tensor([17]))
    rows = compare(model, given, tmp_path, _OWN, target="cuda:sm_90")
    families = [[part["family"] for part in row.get("parts", [row])] for row in rows]
    layer = [["gemv_group"], ["row_reduction", "row_reduction", "scatter_rows"], ["attention"], ["gemv"]]
    assert families[-8:] == layer * 2, rows
    every = [family for row in families for family in row]
    assert every.count("scatter_rows") == 3, "keys go where they belong at once"
    assert len(families) <= 12 + 4, (
        "the first value does not wait for the tables of cosines, which are longer than a launch"
    )


def test_rotary_embedding_is_one_kernel(tmp_path: Path) -> None:
    model = Rotary(4, 64)
    compiled = sl.compile(model.eval(), (torch.randn(3, 256),), target="cuda:sm_80")
    assert "copy" not in " ".join(str(row["kernel"]) for row in compiled.explain().statements)
    _compare(model, (torch.randn(3, 256),), tmp_path, None)


def test_weights_of_the_run_wait() -> None:
    """A weight that the run computes is not read before the kernel ahead has ended."""

    class Computed(nn.Module):
        def forward(self, x: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
            return F.linear(x, a * 2), F.linear(x, b + 1)

    given = (torch.randn(2, 64), torch.randn(32, 64), torch.randn(48, 64))
    code = sl.compile(Computed(), given, target="cuda:sm_90", routes=_OWN).code
    assert re.findall(r"\.early = (\d)", code) == ["0"]
    fixed = Projections(64, (32, 48, 16), False).eval()
    code = sl.compile(fixed, (torch.randn(2, 64), torch.randn(2, 48)), target="cuda:sm_90", routes=_OWN).code
    assert re.findall(r"\.early = (\d)", code) == ["1"]


def test_a_route_to_one_kernel_leaves_no_groups() -> None:
    given = (torch.randn(2, 64), torch.randn(2, 48))
    model = Projections(64, (32, 48, 16), False).eval()
    compiled = sl.compile(model, given, target="cuda:sm_90", routes={"linear": "cuda.gemv"})
    assert [row["family"] for row in compiled.explain().statements if row["phase"] == "run"] == ["gemv"] * 3


class Reduced(nn.Module):
    """Reductions of one operand."""

    def __init__(self, *functions: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(function(x) for function in self.functions)


_PARTS = ["row_reduction"] * 2  #: of each row, then of them


@pytest.mark.parametrize(
    ("function", "shape", "families"),
    [
        (lambda x: x.sum(), (300, 250), _PARTS),
        (lambda x: (x * x).sum(-1, keepdim=True).sqrt(), (2, 70000), _PARTS),
        (lambda x: x.mean((0, 2)), (200, 3, 300), _PARTS[:1]),  # not neighbours
        (lambda x: x.amax(-1), (3, 66000), _PARTS),
        (lambda x: x.amin(0), (40000, 7), _PARTS),
        (
            lambda x: torch.where(x > 2.5, 2.0, torch.where(x < -2.5, 0.5, x.sign())).prod(1),
            (2, 33000, 3),
            _PARTS,
        ),  # exact
        (lambda x: x.var(-1), (1, 70000), _PARTS * 2),
        (lambda x: x.softmax(0), (33000, 4), [*_PARTS * 2, "pointwise"]),
        (lambda x: F.layer_norm(x, (90000,), x[0].exp()), (2, 90000), ["pointwise", *_PARTS * 2, "pointwise"]),
        (lambda x: x.logsumexp(-1), (2, 70000), _PARTS * 2),
        (lambda x: x.sum(-1), (1, 65537), ["row_reduction"]),  # a prime
    ],
)
def test_long_rows_are_reduced_in_parts(
    function: Callable[[Tensor], Tensor], shape: tuple[int, ...], families: list[str], tmp_path: Path
) -> None:
    _compare(Reduced(function), (torch.randn(shape),), tmp_path, families)


class Applied(nn.Module):
    """A function of two operands."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.function(x, y)


_ALL = (512, 640)


@pytest.mark.parametrize(
    ("function", "shapes", "dtype"),
    [
        (lambda x, y: ((x + y) ** 2).sum(), (_ALL, (640,)), torch.float32),
        (lambda x, y: ((x + y) ** 2).sum(), (_ALL, (512, 1)), torch.float32),
        (lambda x, y: ((x + y) ** 2).sum(), (_ALL, ()), torch.float32),
        (lambda x, y: (x * x.T * y).abs().sum(), ((600, 1), (1,)), torch.float32),
        (lambda x, y: (x - y.T).abs().mean(), (_ALL, (640, 512)), torch.float32),
        (lambda x, y: (x - 2 * x.T + y).sum(1), ((768, 768), (768,)), torch.float32),  # one operand both ways
        (lambda x, y: (x - 2 * x.T + y).sum(0), ((768, 768), (768,)), torch.float32),
        (lambda x, y: (x * y).exp().sum(), ((640, 512), (640, 1)), torch.bfloat16),
        (lambda x, y: (x * y).amax(), (_ALL, (640,)), torch.float16),
        (lambda x, y: (x * y).amin((0, 1)), ((256, 512, 8), (512, 1)), torch.float32),
        (lambda x, y: (x * y).abs().sum((0, 1)), ((512, 128, 8), (512, 1, 8)), torch.float32),
        (lambda x, y: (x * y).abs().sum(0), ((70000, 8), (8,)), torch.float32),
        (lambda x, y: (x * y).abs().sum((1, 2)), ((2, 512, 640), (640,)), torch.float32),
        (lambda x, y: (x * y[:, 1:]).abs().sum(), ((40, 128, 66), (128, 67)), torch.float32),
        (lambda x, y: (x[:, 8:] + y.permute(2, 0, 1)).abs().sum(), ((64, 136, 32), (128, 32, 64)), torch.float32),
        (lambda x, y: torch.linalg.norm(x - y), (_ALL, (640,)), torch.float32),
        (lambda x, y: (x - y > 3).any().float(), (_ALL, (640,)), torch.float32),
    ],
)
def test_what_reductions_in_parts_read_is_not_copied(
    function: Callable[[Tensor, Tensor], Tensor],
    shapes: tuple[tuple[int, ...], ...],
    dtype: torch.dtype,
    tmp_path: Path,
) -> None:
    """Parts of what is repeated, turned or sliced are views of it: what is kept are a number or two of each part."""
    model, given = Applied(function), tuple(torch.randn(shape).to(dtype) for shape in shapes)
    rows = compare(model, given, tmp_path, _OWN)
    assert [row["family"] for row in rows[:2]] == _PARTS and {row["family"] for row in rows[2:]} <= {"pointwise"}, rows
    parts = math.prod(int(extent) for extent in re.findall(r"\d+", rows[0]["kernel"].rpartition("_by_")[0]))
    assert parts >= 216 // 3, rows[0]["kernel"]
    assert sl.compile(model, given, target="cuda:sm_80", routes=_OWN).explain()["arena_bytes"] <= 4 * parts + 64


@pytest.mark.parametrize(("shape", "dim"), [((2, 70000), 1), ((33000, 3), 0), ((66000,), 0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
def test_places_in_long_rows(shape: tuple[int, ...], dim: int, dtype: torch.dtype, tmp_path: Path) -> None:
    """The first of equals, and of NaNs, wherever parts begin."""
    model = Reduced(
        lambda x: x.argmax(dim), lambda x: x.argmin(dim), lambda x: (x > 8).any(dim), lambda x: (x < 9).all(dim)
    )
    x = torch.randint(-9, 10, shape).to(dtype)
    compiled = sl.compile(model, (x,), target="cuda:sm_80")
    for number in range(2 if dtype is torch.float32 else 1):
        got = tuple(torch.empty_like(y) for y in model(x))
        run_on_host(compiled, model, (x,), got, tmp_path / str(number))
        for mine, its in zip(got, model(x), strict=True):
            assert torch.equal(mine, its)
        if dtype is torch.float32:
            x = x.clamp(-9, 8)  # none is greater than 8
            places = torch.randint(x.numel(), (5,))
            x.view(-1)[places] = torch.tensor([torch.nan, torch.inf, torch.nan, -torch.inf, torch.nan])


@pytest.mark.parametrize(
    ("steps", "batch", "features", "hidden", "dtype"),  # linears of 16 rows at most
    [
        (4, 1, 3, 5, torch.float32),
        (7, 2, 4, 33, torch.float32),
        (5, 3, 7, 20, torch.float64),
        (7, 2, 4, 33, torch.bfloat16),
    ],
)
@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU, nn.RNN])
def test_all_steps_in_one_kernel(
    cell: type[nn.RNNBase], steps: int, batch: int, features: int, hidden: int, dtype: torch.dtype, tmp_path: Path
) -> None:
    """One block; from a start, and both directions of two layers from zeros and from a start, of any order of dims."""
    start = torch.randn(1, batch, hidden).to(dtype)
    starts = (start, start / 2) if cell is nn.LSTM else (start,)
    _compare(
        Layers(cell, features, hidden, bias=batch != 2).to(dtype),
        (torch.randn(steps, batch, features).to(dtype), *starts),
        tmp_path,
        None,
    )
    model = Layers(cell, features, hidden, num_layers=2, bidirectional=True, batch_first=True, bias=batch > 1).to(dtype)
    x = torch.randn(batch, steps, features).to(dtype)
    starts = tuple(torch.randn(4, batch, hidden).to(dtype) for _ in starts)
    for number, given in enumerate(((x,), (x, *starts))):
        (tmp_path / str(number)).mkdir()
        _compare(model, given, tmp_path / str(number), None)
    compiled = sl.compile(model, (x,), target="cuda:sm_80")
    assert sum(row["family"] == "recurrent_sequence" for row in compiled.explain().statements) == 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("both", [False, True])
def test_a_projection_behind_all_steps(both: bool, dtype: torch.dtype, tmp_path: Path) -> None:
    """From zeros, from a start, and from c alone; the kernel's weight is made before the first run."""
    model = Layers(nn.LSTM, 5, 20, num_layers=2, bidirectional=both, batch_first=True, proj_size=7).to(dtype)
    x = torch.randn(3, 6, 5).to(dtype)
    h, c = (torch.randn(4 if both else 2, 3, width).to(dtype) for width in (7, 20))
    for number, given in enumerate(((x,), (x, h, c), (x, torch.zeros_like(h), c))):
        (tmp_path / str(number)).mkdir()
        _compare(model, given, tmp_path / str(number), None)
    rows = sl.compile(model, (x,), target="cuda:sm_90").explain().statements
    assert sum(row["family"] == "recurrent_sequence" for row in rows) == (4 if both else 2)
    first = next(i for i, row in enumerate(rows) if row["phase"] == "run")
    assert any(row["family"] not in ("copy", "pack") for row in rows[:first])


def test_a_projection_of_any_number_of_steps(tmp_path: Path) -> None:
    """From zeros one kernel, also without steps; from a start a loop."""
    model = Layers(nn.LSTM, 3, 8, bidirectional=True, proj_size=2).eval()
    h, c = torch.randn(2, 2, 2), torch.randn(2, 2, 8)
    for given in (False, True):
        starts = (h, c) if given else ()
        compiled = sl.compile(
            model, (torch.randn(4, 2, 3), *starts), target="cuda:sm_90", routes=_OWN,
            dynamic_shapes=({0: torch.export.Dim("steps", min=0, max=50)}, *((tuple({} for _ in starts),) if given else ())),
        )  # fmt: skip
        kinds = [row["family"] for row in compiled.explain().statements]
        assert kinds.count("recurrent_sequence") == (0 if given else 2)
        for steps in (0, 1, 6):
            x = torch.randn(steps, 2, 3)
            none = (torch.empty(0, 2, 4), *(starts or (torch.zeros_like(h), torch.zeros_like(c))))
            right = model(x, *starts) if steps else none
            got = tuple(torch.empty_like(t) for t in right)
            run_on_host(compiled, model, (x, *starts), got, tmp_path / f"{given}{steps}")
            for mine, its in zip(got, right, strict=True):
                torch.testing.assert_close(mine, its)


@pytest.mark.parametrize(  # of 5 one block, of 140 a cluster
    ("cell", "hidden", "given"),
    [(nn.LSTM, 5, True), (nn.LSTM, 140, False), (nn.GRU, 5, False), (nn.GRU, 140, True), (nn.RNN, 5, True)],
)
def test_any_number_of_steps(cell: type[nn.RNNBase], hidden: int, given: bool, tmp_path: Path) -> None:
    """Without steps the last states are the first ones (eager refuses such)."""
    model = Layers(cell, 3, hidden, bidirectional=True).eval()
    start = torch.randn(2, 2, hidden)
    starts = ((start, start / 2) if cell is nn.LSTM else (start,)) if given else ()
    compiled = sl.compile(
        model, (torch.randn(4, 2, 3), *starts), target="cuda:sm_90", routes=_OWN,
        dynamic_shapes=({0: torch.export.Dim("steps", min=0, max=50)}, *((tuple({} for _ in starts),) if given else ())),
    )  # fmt: skip
    for steps in (0, 1, 6):
        x = torch.randn(steps, 2, 3)
        right = (
            model(x, *starts)
            if steps
            else (torch.empty(0, 2, 2 * hidden), *(starts or [torch.zeros_like(start)] * (1 + (cell is nn.LSTM))))
        )
        got = tuple(torch.empty_like(t) for t in right)
        run_on_host(compiled, model, (x, *starts), got, tmp_path / str(steps))
        for mine, its in zip(got, right, strict=True):
            torch.testing.assert_close(mine, its)


@pytest.mark.parametrize(("cell", "hidden", "steps"), [(nn.LSTM, 130, 4), (nn.GRU, 140, 33), (nn.RNN, 260, 33)])
def test_steps_in_a_loop(cell: type[nn.RNNBase], hidden: int, steps: int, tmp_path: Path) -> None:
    """Layers too large for one kernel: in both directions a step's h goes to its place and to y at once."""
    model = Layers(cell, 3, hidden, bidirectional=True).eval()
    x = torch.randn(steps, 1, 3)
    assert sl.compile(model, (x,), target="cuda:sm_80", routes=_OWN).code.count("for (") >= 2
    _compare(model, (x,), tmp_path, None)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("cell", [nn.GRU, nn.RNN])
def test_a_sequence_in_parts(cell: type[nn.RNNBase], dtype: torch.dtype, tmp_path: Path) -> None:
    """What a later call goes on from has all that the kernel knew: the same bits."""
    model = Layers(cell, 6, 21).to(dtype).eval()
    x, h = torch.randn(9, 1, 6).to(dtype), torch.randn(1, 1, 21).to(dtype)

    def ours(x: Tensor, h: Tensor, name: str) -> tuple[Tensor, ...]:
        got = tuple(torch.empty_like(t) for t in model(x, h))
        (tmp_path / name).mkdir()
        run_on_host(sl.compile(model, (x, h), target="cuda:sm_80", routes=_OWN), model, (x, h), got, tmp_path / name)
        return got

    whole, last = ours(x, h, "whole")
    first, between = ours(x[:5], h, "first")
    second, end = ours(x[5:], between, "second")
    assert torch.equal(torch.cat((first, second)), whole) and torch.equal(end, last)


_HARD = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan])


@pytest.mark.parametrize(
    ("k", "shape", "dim", "dtype", "ways"),
    [
        (8, (5, 64), 1, torch.float32, ["0"]),
        (2, (9, 100), 1, torch.bfloat16, ["0"]),
        (None, (3, 100), 1, torch.int64, ["1"]),
        (None, (700, 3), 0, torch.float32, ["1"]),
        (50, (2, 3000), 1, torch.bfloat16, ["2"]),
        (50, (1, 3000), 1, torch.float64, ["2"]),
        (40, (2, 30000), 1, torch.float32, ["2", "2"]),
        (None, (2, 5001), 1, torch.float32, ["1", "3"]),
    ],
)
def test_rows_in_order(
    k: int | None, shape: tuple[int, ...], dim: int, dtype: torch.dtype, ways: list[str], seed: int, tmp_path: Path
) -> None:
    """As a stable sort: random numbers, and ties with NaN and both zeros. 16-bit words, 64-bit ones and pairs."""
    largest = seed % 2 == 0
    model = Reduced(lambda x: x.sort(dim=dim, descending=largest)[0] if k is None else x.topk(k, dim, largest)[0])
    places = Reduced(lambda x: x.argsort(dim, largest) if k is None else x.topk(k, dim, largest)[1])
    x = torch.randint(-5, 6, shape).to(dtype) if seed % 4 < 2 else (torch.randn(shape) * 99).to(dtype)
    if dtype.is_floating_point and seed % 4 < 2:
        x = torch.where(torch.rand(shape) < 0.3, _HARD[torch.randint(5, shape)].to(dtype), x)
    best, where = x.sort(dim=dim, stable=True, descending=largest)
    for number, (one, want) in enumerate(((model, best), (places, where))):
        want = want.narrow(dim, 0, shape[dim] if k is None else k)
        compiled = sl.compile(one, (x,), target="cuda:sm_80")
        assert re.findall(r"TopkTune\{[^}]*\.variant = (\d)", compiled.code) == ways
        got = torch.empty(want.shape, dtype=want.dtype)
        run_on_host(compiled, one, (x,), (got,), tmp_path / str(number))
        torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    ("shape", "threads"), [((3, 133), 32), ((2, 5001), 256), ((1, 10007), 1024), ((2, 20000), 32), ((16411,), 1024)]
)
def test_running_sums(shape: tuple[int, ...], threads: int, tmp_path: Path) -> None:
    """A warp a row, a block, and parts of rows (20,000 = 125 * 160; 16,411 is a prime), also behind an infinity and NaN."""
    x = torch.randint(-9, 10, shape)
    hard = x.float()
    hard.view(-1)[[x.numel() // 3, x.numel() // 2]] = torch.tensor([torch.inf, torch.nan])
    for number, given in enumerate((x, x.float(), hard)):
        model = Reduced(lambda x: x.cumsum(-1))
        compiled = sl.compile(model, (given,), target="cuda:sm_80")
        assert f".threads = {threads}" in compiled.code
        got = torch.empty_like(given)
        run_on_host(compiled, model, (given,), (got,), tmp_path / str(number))
        torch.testing.assert_close(got, given.cumsum(-1), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", ["x + 1003.3", "1003.3 + x", "x - 0.7 x", "1.003 - x", "x * 1.003", "x + 3 x"])
def test_numbers_beside_half_tensors(name: str, tmp_path: Path) -> None:
    """As eager has them on a device: numbers and alpha are float32, and the result is rounded once."""
    functions = {
        "x + 1003.3": lambda x: x + 1003.3,
        "1003.3 + x": lambda x: 1003.3 + x,
        "x - 0.7 x": lambda x: torch.sub(x, x * 1.003, alpha=0.7),
        "1.003 - x": lambda x: 1.003 - x,
        "x * 1.003": lambda x: x * 1.003,
        "x + 3 x": lambda x: torch.add(x, x, alpha=3),
    }
    x = torch.randn(257).bfloat16()
    model = Reduced(functions[name])
    compiled = sl.compile(model, (x,), target="cuda:sm_80")
    got = torch.empty_like(x)
    run_on_host(compiled, model, (x,), (got,), tmp_path)
    wide = x.float()
    want = {"x - 0.7 x": wide - 0.7 * (wide * 1.003).bfloat16().float()}.get(name, functions[name](wide)).bfloat16()
    torch.testing.assert_close(got, want, rtol=0, atol=0)


class Attend(nn.Module):
    """Attention with a product behind it, whose result is wanted with the tokens before the heads."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *mask: Tensor) -> Tensor:
        y = F.scaled_dot_product_attention(q, k, v, *mask, is_causal=self.causal, enable_gqa=q.shape[1] != k.shape[1])
        return y.transpose(1, 2) * 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("number", range(4))
def test_attention_by_warps(number: int, dtype: torch.dtype, tmp_path: Path) -> None:
    """Random heads, sizes and masks, also ones that keep nothing of a row. Factors of float32 have 10 bits of mantissa here."""
    seed = random.randrange(1 << 31)
    print(f"seed {seed}")
    pick = random.Random(seed).choice
    torch.manual_seed(seed)
    heads, groups, d = (
        pick([1, 2]),
        pick([1, 3]),
        pick([16, 20, 40, 64, *([96, 128] if dtype is not torch.float32 else [])]),
    )
    s, t = pick([5, 16, 33, 70]), pick([1, 17, 64, 100, 130])
    q = torch.randn(1, heads * groups, s, d)
    k, v = (torch.randn(1, t, heads, d).transpose(1, 2) for _ in "kv")
    keep = torch.rand(heads * groups, s, t) < 0.3
    keep[:, s // 2] = False
    mask: list[Tensor] = pick([[], [keep], [torch.randn(s, t)], [torch.rand(1, t) < 0.5]])
    given = tuple(x.to(dtype) if x.is_floating_point() else x for x in (q, k, v, *mask))
    model = Attend(pick([False, True]) and not mask)
    before, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, True
    try:
        compiled = sl.compile(
            model, given, target="cuda:sm_90", routes={"scaled_dot_product_attention": "cuda.attention_warps"}
        )
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    (row,) = [row for row in launches_of(compiled) if row["family"] == "attention"]
    assert ".warps = " in compiled.code and row["backend"] == "cuda", row
    exact = model(*(x.double() if x.is_floating_point() else x for x in given))
    got = torch.empty_like(exact, dtype=dtype, memory_format=torch.contiguous_format)
    run_on_host(compiled, model, given, (got,), tmp_path, "thread" if number == 0 else None)
    # A score is rounded to 2**-11 of its factors, or a weight to 2**-9 of itself (bfloat16).
    allowed = {torch.float32: 4e-3, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
    error = (got.double() - exact).abs().max() / exact.abs().max().clamp_min(1e-3)
    assert error < allowed, float(error)


def test_attention_by_warps_of_a_named_number_of_keys(tmp_path: Path) -> None:
    """Also of none: rows are zero, and no copy of keys is under way where warps merge what they have."""
    keys = torch.export.Dim("keys", min=0, max=300)
    q, k, v = (torch.randn(1, 2, n, 32, dtype=torch.bfloat16) for n in (5, 7, 7))
    compiled = sl.compile(
        Attend(False), (q, k, v), target="cuda:sm_90", routes={"scaled_dot_product_attention": "cuda.attention_warps"},
        dynamic_shapes=(None, {2: keys}, {2: keys}),
    )  # fmt: skip
    (row,) = [row for row in launches_of(compiled) if row["family"] == "attention"]
    assert ".warps = " in compiled.code and ".warps = 1," not in compiled.code, row
    for n in (0, 1, 200):
        given = (q, *(torch.randn(1, 2, n, 32, dtype=torch.bfloat16) for _ in "kv"))
        exact = Attend(False)(*(x.double() for x in given))
        got = torch.empty_like(exact, dtype=q.dtype, memory_format=torch.contiguous_format)
        run_on_host(compiled, Attend(False), given, (got,), tmp_path)
        assert (got.double() - exact).abs().max() <= 3e-2 * exact.abs().max(), n


class Picked(nn.Module):
    """Rows by a mask, and where it is true."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 5))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        rows = x[x[:, 0] > 0]
        return rows @ self.weight, torch.nonzero(x > 0.5), rows.softmax(-1).sum(0)


@pytest.mark.parametrize("sign", [1, -1])
def test_sizes_that_depend_on_data(tmp_path: Path, sign: int) -> None:
    x = torch.randn(300, 6)
    x[:, 0] = x[:, 0].abs() * sign if sign < 0 else x[:, 0]
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        # Not watched: elements where a mask is false are all written to one place, which nothing reads.
        compare(Picked(), (x,), tmp_path / "picked", {}, sanitizer=None)
