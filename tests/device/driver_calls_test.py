# SPDX-License-Identifier: Apache-2.0
"""What runs on an NVIDIA device: answers against float64, and what is asked of the driver. `straightline bench` has the times.

A call launches a graph and tells it what changed, and does nothing else.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import straightline as sl
import torch
from straightline import _call
from straightline.testing import policy
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils import _pytree as pytree

from bench.cuda_cases import CUDA_CASES, CUDA_CHAINS

_CALLS = 200
_PARTS = 12  # of the programs, for as many processes


def check(model: Any, inputs: tuple[Tensor, ...], got: Any, what: str) -> None:
    """Compares with eager and float64 by the policy; results are where eager's are."""
    eager = model(*inputs)
    exact = policy.reference_of(model)(*policy.in_float64(inputs))
    for mine, torchs in zip(pytree.tree_leaves(got), pytree.tree_leaves(eager), strict=True):
        assert mine.device == torchs.device, what
    try:
        results = len(pytree.tree_leaves(got))  # torch_errors knows of the inputs, too, which calls may write
        policy.check_tree(got, eager, exact, errors=lambda: policy.torch_errors(model, (inputs, {}))[:results])
    except AssertionError as failure:
        raise AssertionError(f"{what}: {failure}") from None


def _kernels_seen(call: Callable[[], object]) -> int:
    """Kernels of ten calls as NVIDIA's profiler sees them."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(10):
            call()
        torch.cuda.synchronize()
    events = [event for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    return len([event for event in events if not event.name.lower().startswith(("memcpy", "memset"))])


@pytest.mark.parametrize(
    ("case", "expected"),
    [*((case, 1) for case in CUDA_CASES), *CUDA_CHAINS],
    ids=lambda value: getattr(value, "name", ""),
)
def test_what_a_call_asks_of_the_driver(case: Any, expected: int | None) -> None:
    """`expected`: kernels; None: as many as `explain` shows."""
    model, inputs = case.make()
    model, inputs = model.cuda(), tuple(x.cuda() for x in inputs)
    compiled = sl.compile(model, inputs)
    with torch.inference_mode():
        check(model, inputs, compiled(*inputs), case.name)
        before = _call.cuda_calls()
        for _ in range(_CALLS):
            compiled(*inputs)
            torch.cuda.synchronize()  # calls that overlap take an arena each, and the first of them allocates it
        asked = {kind: count - before[kind] for kind, count in _call.cuda_calls().items()}
        rows = [row for row in compiled.explain().statements if row["phase"] == "run"]
        # A single kernel needs no arena, and so no event that says when it is free again.
        kinds = ("synchronizations", "copies", "allocations", "loads", *(("events",) if expected == 1 else ()))
        quiet = {kind: asked[kind] for kind in kinds}
        assert len(rows) == (expected or len(rows)) and asked["graph_launches"] == _CALLS, (case.name, len(rows), asked)
        assert not asked["launches"] and not asked["instantiations"], (case.name, asked)
        assert not any(quiet.values()), (case.name, asked)
        seen = _kernels_seen(lambda: compiled(*inputs))
        # A library may start several kernels for one call of it.
        own = all(row["backend"] == "cuda" for row in rows)
        assert seen == 10 * len(rows) if own else seen >= 10 * len(rows), (
            f"{case.name}: the profiler saw {seen} in 10 calls"
        )


class _Scalars(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        z = torch.where(x > y, torch.exp(-x.abs()), torch.tanh(y))
        special = torch.erf(x) + torch.sin(y) * torch.log1p(x.abs()) + torch.rsqrt(y.abs() + 1) + torch.pow(x.abs(), y)
        rounded = torch.floor(x) + torch.round(y) + torch.maximum(x, y) + F.softplus(x)
        return z, special, rounded, torch.full_like(x, float("inf")), x.isnan() | (x == y)


class _Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(5))

    def forward(self, x: Tensor) -> Tensor:
        self.count.add_(1)
        return x + self.count


class _Linears(nn.Module):
    """Bias, activation and residual around two products."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(features, hidden), nn.Linear(hidden, features, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.silu(self.up(x)))


_FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def _products() -> Iterator[tuple[str, Any, tuple[Tensor, ...]]]:
    """Products of many sizes; the models are of the types that the names say."""
    linears = ((1, 1024, 3072), (3, 77, 333), (16, 512, 100), (17, 64, 48), (130, 768, 1000), (8, 4096, 64))
    short = (((33, 17), (17, 9)), ((3, 1, 128), (3, 128, 64)))
    long = (((2, 3, 129, 1023), (2, 3, 1023, 65)), ((4, 64, 2048), (4, 2048, 32)))
    for dtype in _FLOATS:
        for rows, features, hidden in linears:
            x = torch.randn(rows, features).to(dtype)
            yield f"linears {dtype} {rows}x{features}x{hidden}", _Linears(features, hidden).to(dtype), (x,)
        repeated = torch.randn(5, 1, 40).to(dtype).expand(5, 7, 40)
        yield f"linear {dtype} of 3 dims, expanded", nn.Linear(40, 24).to(dtype), (repeated,)
        # Nothing is more precise than float64: long sums of it differ from torch's by the rounding of both.
        for a, b in short if dtype is torch.float64 else short + long:
            x, y = torch.randn(a).to(dtype), torch.randn(b).to(dtype)
            yield f"matmul {dtype} {a} {b}", lambda x, y: F.relu(x @ y) + 1, (x, y)
            yield f"matmul transposed {dtype} {a} {b}", lambda x, y: x.mT @ y.mT, (x.mT.contiguous(), y.mT.contiguous())
    yield "misaligned matmul", lambda x, y: x @ y, (torch.randn(65 * 64 + 1)[1:].view(65, 64), torch.randn(64, 40))


def _attention() -> Iterator[tuple[str, Any, tuple[Tensor, ...]]]:
    """Whole and as products; queries that share heads, masks, lengths that fill no tile."""

    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])

    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for heads, shared, s, t, d in (
            (16, 8, 1, 512, 128),
            (4, 4, 77, 77, 64),
            (6, 2, 5, 130, 40),
            (8, 8, 300, 300, 64),
        ):
            q, k, v = (torch.randn(2, h, n, d).to(dtype) for h, n in ((heads, s), (shared, t), (shared, t)))
            name = f"attention {dtype} {heads}/{shared} {s}x{t}x{d}"
            yield name, attend, (q, k, v)
            yield name + " causal", lambda q, k, v: attend(q, k, v, causal=True), (q, k, v)
            yield name + " bool mask", attend, (q, k, v, torch.rand(2, 1, s, t) < 0.7)
            yield name + " mask", attend, (q, k, v, torch.randn(s, t).to(dtype))


def _widely() -> Iterator[tuple[str, Any, tuple[Tensor, ...]]]:
    """More kernels of the two families: types, shapes, strides, sizes that fill no block."""
    for dtype in (torch.float32, torch.float64):
        yield f"scalars {dtype}", _Scalars(), (torch.randn(70, 333).to(dtype), torch.randn(333).to(dtype))
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        yield (
            f"large {dtype}",
            lambda x, b: F.gelu(x + b) * x,
            (torch.randn(2000, 1024).to(dtype), torch.randn(1024).to(dtype)),
        )
    yield "odd", lambda x: x * 2 + 1, (torch.randn(1000003),)
    yield "misaligned", lambda x: x * 2 + 1, (torch.randn(4000001)[1:],)
    yield "transposed", lambda x, y: x.t() + y, (torch.randn(513, 700), torch.randn(700, 513))
    yield "integers", lambda x, y: (x * 3 + y, x & y, x > y), (
        torch.randint(-9, 9, (999, 7)), torch.randint(-9, 9, (7,)),
    )  # fmt: skip
    rows = {
        (70000, 8): 1, (4096, 128): 1, (16, 4096): 1, (3, 300000): 1, (50, 1001): 1, (64, 100000): 0, (512, 24): 0, (7, 0): 1,
    }  # fmt: skip
    for shape, dim in rows.items():
        yield f"sum {shape} over {dim}", lambda x, dim=dim: (x.sum(dim), x.float().mean(dim)), (torch.randn(shape),)
        if 0 not in shape:
            both = lambda x, dim=dim: (F.softmax(x, dim), x.argmax(dim), x.amin(dim))  # noqa: E731
            yield f"softmax {shape} over {dim}", both, (torch.randn(shape),)
    yield from _products()
    yield from _attention()
    yield "everything", lambda x: (x.sum(), x.amax()), (torch.randn(128, 96),)
    yield "in the middle", lambda x: x - x.mean((1, 2), keepdim=True), (torch.randn(6, 40, 33, 2),)


@pytest.fixture(autouse=True)
def exact_products() -> Iterator[None]:
    """No TF32, and not the GELU of torch's fast path, which is the approximation by tanh whatever the model says."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.mha.set_fastpath_enabled(False)
    yield
    torch.backends.mha.set_fastpath_enabled(True)


@pytest.mark.parametrize("first", range(_PARTS))
def test_programs(first: int) -> None:
    """Every `_PARTS`-th of the programs; one failure does not keep the others from being seen."""
    failures = []
    for name, model, inputs in itertools.islice(_widely(), first, None, _PARTS):
        try:
            _check_one(name, model, inputs)
        except Exception as error:
            failures.append(f"{name}: {type(error).__name__}: {str(error)[:1500]}")
    assert not failures, "\n".join(failures)


def _check_one(name: str, model: Any, inputs: tuple[Tensor, ...]) -> None:
    model = model.eval().cuda() if isinstance(model, nn.Module) else model
    given = tuple(x.cuda() for x in inputs)
    if name == "misaligned":
        given = (torch.randn(4000001, device="cuda")[1:],)
    if name == "misaligned matmul":
        given = (torch.randn(65 * 64 + 1, device="cuda")[1:].view(65, 64), given[1])
    if name.endswith("expanded"):
        given = (given[0][:, :1].expand(5, 7, 40),)
    compiled = sl.compile(model, given)
    got = compiled(*given)
    if name.startswith("softmax"):  # positions of equals may differ in torch, the values may not
        x, dim = given[0], 0 if "over 0" in name else 1
        assert torch.equal(x.gather(dim, got[1].unsqueeze(dim)).squeeze(dim), x.amax(dim)), name
        check(lambda x, dim=dim: (F.softmax(x, dim), x.amin(dim)), given, (got[0], got[2]), name)
    else:
        check(model, given, got, name)


def _norm_gelu() -> tuple[nn.Module, tuple[Tensor, ...], Any]:
    model, inputs = CUDA_CASES[3].make()
    model, inputs = model.cuda(), tuple(x.cuda() for x in inputs)
    return model, inputs, sl.compile(model, inputs)


def test_stream() -> None:
    """A call goes behind what the caller's stream has to do, and returns before that is done."""
    model, inputs, compiled = _norm_gelu()
    compiled(*inputs)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(2_000_000_000)  # a second: other processes may keep the host busy
        late = inputs[0] * 3
        got = compiled(late)
        assert not side.query(), "a call returned only after the device was done"
        side.synchronize()
        check(model, (late,), got, "on another stream, behind late work")


def test_graph() -> None:
    """A call under the capture of a graph becomes part of it."""
    model, inputs, compiled = _norm_gelu()
    compiled(*inputs)
    graph = torch.cuda.CUDAGraph()
    fixed = torch.randn_like(inputs[0])
    with torch.cuda.graph(graph):
        captured = compiled(fixed)
    fixed.copy_(torch.randn_like(fixed))
    graph.replay()
    check(model, (fixed,), captured, "replayed in an outer graph")


def test_weights() -> None:
    """Other parameters for a compiled program."""
    model, inputs, compiled = _norm_gelu()
    other = copy.deepcopy(model)
    other.norm.weight.mul_(2)
    compiled.load_parameters(other.state_dict())
    check(other, inputs, compiled(*inputs), "other weights")


def test_named_sizes() -> None:
    """One program for many sizes."""
    batch = torch.export.Dim("batch", min=2, max=5000)
    example = (torch.randn(5, 64, device="cuda"), torch.randn(64, device="cuda"))
    dynamic = sl.compile(lambda x, b: F.relu(x + b), example, dynamic_shapes=({0: batch}, None))
    for size in (2, 33, 4999):
        x, b = torch.randn(size, 64, device="cuda"), torch.randn(64, device="cuda")
        check(lambda x, b: F.relu(x + b), (x, b), dynamic(x, b), f"batch {size}")


def test_state() -> None:
    """A buffer of the module is updated in its own storage."""
    counter = _Counter().cuda()
    counted = sl.compile(counter, (torch.randn(5, device="cuda"),))
    for i in range(1, 4):
        x = torch.randn(5, device="cuda")
        assert torch.equal(counted(x), x + i) and torch.equal(counter.count, torch.full_like(x, i))


def test_refusals() -> None:
    """Tensors that are elsewhere."""
    _, inputs, compiled = _norm_gelu()
    for call in (lambda: compiled(inputs[0].cpu()), lambda: compiled(*inputs, out=torch.empty(16, 1024))):
        try:
            call()
        except sl.UserError as error:
            assert "cpu" in str(error) and "cuda" in str(error), error
        else:
            raise AssertionError("a tensor on the cpu was taken")
