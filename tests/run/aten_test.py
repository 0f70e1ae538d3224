# SPDX-License-Identifier: Apache-2.0
"""The long tail: ops that only torch has, called by name through the backend `aten`."""

from __future__ import annotations

import gc
import re
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from policy import check, launches
from torch import Tensor, nn

import straightline as sl
from straightline import _call

F32, F64, BF16, F16 = torch.float32, torch.float64, torch.bfloat16, torch.float16

TORCH = tuple(int(part) for part in torch.__version__.split(".")[:2])

Row = Callable[..., Any]


def through_aten(compiled: Any, phase: str = "run") -> list[dict[str, Any]]:
    """The statements that call an op of torch."""
    return [row for row in launches(compiled, phase) if row["backend"] == "aten"]


TAIL: dict[str, Row] = {
    "median": lambda x: x.median(1), "kthvalue": lambda x: x.kthvalue(2, 1), "cumprod": lambda x: x.cumprod(0),
    "cummax": lambda x: x.cummax(1), "logcumsumexp": lambda x: x.logcumsumexp(1), "diag": lambda x: x[:6, :6].diag() * 2,
    "diagonal": lambda x: x.diagonal(1).exp(), "diag_embed": lambda x: torch.diag_embed(x), "trace": lambda x: x[:6, :6].trace(),
    "inverse": lambda x: torch.linalg.inv(x[:6, :6] + 9 * torch.eye(6)), "solve": lambda x: torch.linalg.solve(x[:6, :6] + 9 * torch.eye(6), x[:6, 6]),
    "cholesky": lambda x: torch.linalg.cholesky(x @ x.t() + torch.eye(6)), "norm": lambda x: torch.linalg.norm(x, 3, dim=1),
    "matrix_exp": lambda x: torch.linalg.matrix_exp(x[:4, :4] * 0.1), "svd": lambda x: torch.linalg.svdvals(x), "det": lambda x: torch.linalg.det(x[:3, :3]),
    "scatter": lambda x: x.new_zeros(6, 7).scatter(1, x.argsort(1), x), "scatter_value": lambda x: x.scatter(1, x.argmax(1, keepdim=True), 9.0),
    "scatter_add": lambda x: x.new_zeros(3, 7).scatter_add(0, x.argsort(0) % 3, x), "index_add": lambda x: x.index_add(0, torch.tensor([1, 1, 5]), x[:3]),
    "index_put": lambda x: x.index_put((torch.tensor([0, 3]), torch.tensor([1, 6])), x[0, :2]),
    "index": lambda x: x[torch.tensor([0, 3]), torch.tensor([1, 6])], "masked_scatter": lambda x: x.masked_scatter(x > 0, x.flip(0)),
    "scatter_reduce": lambda x: x.new_zeros(3, 7).scatter_reduce(0, x.argsort(0) % 3, x, "amax"), "take": lambda x: x.take(x.argsort(0)),
    "searchsorted": lambda x: torch.searchsorted(x.sort(1)[0], x), "bucketize": lambda x: torch.bucketize(x, torch.tensor([-1.0, 0, 1])),
    "conv3d": lambda x: F.conv3d(x[None, None, None], x.new_ones(1, 1, 1, 2, 2)), "max_pool3d": lambda x: F.max_pool3d(x[None, None, None], (1, 2, 2)),
    "max_pool1d": lambda x: F.max_pool1d(x[None], 2), "avg_pool1d": lambda x: F.avg_pool1d(x[None], 3, 2), "lp_pool": lambda x: F.lp_pool1d(x[None].abs(), 2, 2),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x[None], (4, 5)), "adaptive_max": lambda x: F.adaptive_max_pool2d(x[None], 2),
    "nearest": lambda x: F.interpolate(x[None, None], scale_factor=2), "bilinear": lambda x: F.interpolate(x[None, None], scale_factor=1.7, mode="bilinear"),
    "bicubic": lambda x: F.interpolate(x[None, None], size=(9, 4), mode="bicubic", align_corners=True), "area": lambda x: F.interpolate(x[None, None], size=(3, 2), mode="area"),
    "grid_sample": lambda x: F.grid_sample(x[None, None], torch.stack([x, x.flip(0)], -1)[None].tanh(), align_corners=False),
    "fold": lambda x: F.unfold(x[None, None], 2), "reflect": lambda x: F.pad(x[None], (2, 1), mode="reflect"), "replicate": lambda x: F.pad(x[None], (2, 1), mode="replicate"),
    "circular": lambda x: F.pad(x[None], (2, 1), mode="circular"), "erfinv": lambda x: torch.erfinv(x.tanh()), "lgamma": lambda x: torch.lgamma(x.abs() + 1),
    "digamma": lambda x: torch.digamma(x.abs() + 1), "i0": lambda x: torch.special.i0(x), "renorm": lambda x: x.renorm(2, 0, 1.0),
    "cdist": lambda x: torch.cdist(x[None], x[None]), "cross": lambda x: torch.linalg.cross(x[:, :3], x[:, 3:6]), "kron": lambda x: torch.kron(x[:2], x[2:4]),
    "histc": lambda x: torch.histc(x, 5, -2.0, 2.0), "isin": lambda x: torch.isin(x.sign(), torch.tensor([0.0, 1.0])), "rot90": lambda x: x.rot90(),
    "tensor_split": lambda x: [part + 1 for part in x.tensor_split(3, 1)], "rnn": lambda x: x.unfold(1, 3, 2).sum(-1), "logsumexp": lambda x: x.logsumexp(1),
    "embedding_bag": lambda x: F.embedding_bag(torch.tensor([[0, 2], [5, 1]]), x), "batch_matrix_vector": lambda x: torch.addbmm(x[:2, :2], x[None, :2, :3], x[None, :3, :2]),
    "prelu": lambda x: F.prelu(x, x.new_full((1,), 0.2)), "celu": lambda x: F.celu(x, 0.7), "softshrink": lambda x: F.softshrink(x, 0.3), "rrelu": lambda x: F.rrelu(x),
    "glu": lambda x: F.glu(x[:, :6]), "pixel_shuffle": lambda x: F.pixel_shuffle(x[None, :4, None, :3], 2), "heaviside": lambda x: torch.heaviside(x, x.new_full((1,), 0.5)),
    "fft": lambda x: torch.fft.rfft(x).real, "fft_power": lambda x: torch.fft.fft2(x).abs(), "ifft": lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2, 7),
    "complex": lambda x: torch.view_as_real(torch.complex(x, x.flip(0)) * torch.polar(x.abs(), x)), "angle": lambda x: torch.complex(x, x.flip(1)).angle(),
    "eig": lambda x: torch.linalg.eigvals(x[:4, :4]).abs().sort()[0], "stft": lambda x: torch.stft(x.reshape(-1), 8, window=torch.hann_window(8), return_complex=True).abs(),
    "nonzero_static": lambda x: torch.nonzero_static(x > 0, size=5), "histogram": lambda x: torch.histogram(x.reshape(-1), x.new_tensor([-1.0, 0.0, 1.0]))[0],
}  # fmt: skip


@pytest.mark.parametrize("name", TAIL)
def test_tail(name: str) -> None:
    """Each runs, right; on one thread and two."""
    check(TAIL[name], (torch.randn(6, 7),), calls=[(torch.randn(6, 7),)], threads=1 + len(name) % 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_a_trace_that_cancels(dtype: torch.dtype) -> None:
    """Eager sums it in float64."""
    compiled = sl.compile(torch.trace, (torch.randn(6, 6, dtype=dtype),))
    for _ in range(50):
        x = torch.randn(6, 6, dtype=dtype)
        x[5, 5] = -x.diagonal()[:5].sum()
        assert torch.equal(compiled(x), x.cpu().trace().to(x.device))


@pytest.mark.parametrize("dtype", [F64, BF16, F16, torch.int64, torch.bool])
def test_dtypes(dtype: torch.dtype) -> None:
    """Sorting, placing and picking take any dtype; those of floats any float."""
    x = (torch.randn(5, 6) * 4).to(dtype)
    check(lambda x: (x.cummax(1), torch.zeros_like(x).index_put((torch.tensor([1, 3]),), x[:2]), x.diagonal()), (x,))
    if dtype.is_floating_point:
        check(lambda x: (x.cummin(1), x.cumprod(1), torch.logcumsumexp(x, 0)), (x,))


def test_inputs_have_names_that_the_text_uses() -> None:
    """What stands in the scope of a call would hide an input of the same name."""
    names = ["inputs", "outputs", "sizes", "pointers", "scalars", "arguments", "after", "grid", "constants"]
    scope: dict[str, Any] = {"torch": torch}
    results = ", ".join(f"torch.kthvalue({name}, 2, 0)[0], {name} * 2" for name in names)
    exec(f"def function({', '.join(names)}):\n    return {results}", scope)
    compiled = check(scope["function"], [torch.randn(5, 7) for _ in names])
    assert len(through_aten(compiled)) == len(names)


def test_places_that_native_kernels_do_not_take() -> None:
    """A 0-d tensor, and places in uint8 or int16: torch's business."""
    x, i = torch.randn(5), torch.tensor([0, 4, 2])
    check(lambda x, i: x.sum().gather(0, i * 0), (x, i))
    check(
        lambda x, i: (x[i.to(torch.int16).long()], x.index_put((i,), x[:3] * 2), x.index_add(0, i, x[:3], alpha=2)),
        (x, i),
    )
    check(lambda x, i: x.gather(0, i), (x, i[:0].to(torch.uint8)))


def test_results_that_nobody_reads_are_not_asked_for() -> None:
    """Singular values and eigenvalues without their vectors, as eager computes them; with them where they are read."""

    def model(x: Tensor) -> tuple[Tensor, ...]:
        square = x @ x.t()
        left, values, _ = torch.linalg.svd(x)
        return torch.linalg.svdvals(x), torch.linalg.eigvalsh(square), torch.linalg.svd(x)[1], values, left.abs()

    compiled = check(model, (torch.randn(5, 7),))
    asked = re.findall(r"aten::_linalg_(\w+)\.default.*?compute_u?v=(\w+)", compiled.ir("op"), re.DOTALL)
    assert asked == [("svd", "true"), ("svd", "false"), ("eigh", "false"), ("svd", "false")], asked


@pytest.mark.parametrize("shape", [(4, 5), (0, 3), (1,), ()])
def test_results_that_are_views(shape: tuple[int, ...]) -> None:
    """Bytes are copied where they are the result's; a negation to be done, gaps and other orders are torch's to copy."""
    x = torch.randn(*shape, 2)
    check(lambda x: torch.view_as_complex(x).conj().imag, (x,))
    check(lambda x: torch.view_as_complex(x).real.cummax(0)[0].mT if x.dim() == 3 else x.cummax(0)[0], (x,))
    check(lambda x: torch.linalg.qr(torch.atleast_2d(x) + 1)[1].abs(), (x,))


def test_what_becomes_of_it() -> None:
    """Explain says which statements are torch's, why, and through which door; the rest stays native."""

    def model(x: Tensor) -> Tensor:
        values, _ = torch.kthvalue(x.relu() + 1, 2, 1)
        return torch.histc(values, 5) * 2

    compiled = check(model, (torch.randn(6, 7),))
    rows = launches(compiled)
    assert [row["backend"] for row in rows] == ["native", "aten", "aten", "native"], rows
    kthvalue, histc = through_aten(compiled)
    assert kthvalue["op"] == "aten.kthvalue.default" and kthvalue["why"] == "aten: no native kernel", kthvalue
    assert (
        histc["op"] == "aten.histc.default" and "through Python, for it has an argument of type Scalar" in histc["why"]
    )
    assert f"aten_test.py:{model.__code__.co_firstlineno + 1}" in kthvalue["source"]
    text = compiled.ir("op")
    assert (
        'op.aten "aten::kthvalue.default"' in text and 'schema = "aten::kthvalue(Tensor self, SymInt k, int dim' in text
    )
    # Two equal calls share one declaration and one handle.
    twice = check(lambda x: (x.kthvalue(2, 1)[0], (x * 2).kthvalue(2, 1)[0]), (torch.randn(3, 4),))
    assert twice.ir("kernel").count("kernel.decl") == 1 and len(through_aten(twice)) == 2


def test_allow() -> None:
    """`allow` without "aten" refuses all such ops at once, with their lines and nearest forms; names are checked."""

    def model(x: Tensor) -> list[Tensor]:
        placed = x.index_put((torch.tensor([True, False, True, False]),), x[:2])
        return [placed, torch.kthvalue(x, 2)[0], F.interpolate(x[None, None], scale_factor=2.0, mode="bicubic")]

    x = torch.randn(4, 5)
    first = model.__code__.co_firstlineno
    with pytest.raises(sl.UnsupportedError) as caught:
        sl.compile(model, (x,), allow=("native", "onednn"))
    text = str(caught.value)
    for op, line in (("aten.index_put.default", first + 1), ("aten.kthvalue.default", first + 2)):
        assert re.search(rf"{op}\(.*\) at .*aten_test\.py:{line}\)?: .*'aten', which `allow` leaves out", text), text
    assert "nearest supported form: one value, or where with a mask" in text
    check(lambda x: x @ x.t(), (x,), allow=("native",))
    check(model, (x,), allow=["native", "aten"])
    for wrong, words in ((("native", "cuda"), "'cuda'; valid on cpu are native, onednn, aten"), ("native", "sequence of backends"),
                         (("aten",), "must have 'native'")):  # fmt: skip
        with pytest.raises(sl.UserError, match=re.escape(words)):
            sl.compile(model, (x,), allow=wrong)


@pytest.mark.parametrize("model", [
    lambda x: x.exp().resize_(3, 2), lambda x: x.tril(x[0, 0].long().item()), lambda x: x[0].repeat_interleave(x[0].long()),
])  # fmt: skip
def test_what_stays_refused(model: Row) -> None:
    """Views of memory that is not known, sizes without a bound: with the line, and what to do instead."""
    with pytest.raises(sl.UnsupportedError, match=r"aten_test\.py"):
        sl.compile(model, (torch.randn(6, 7),))


def test_named_extents() -> None:
    """Sizes and numbers known per call only: shapes, strides and arguments of the op."""
    b = torch.export.Dim("b", min=4, max=40)
    shapes = ({0: b},)

    def model(x: Tensor) -> tuple[Any, ...]:
        return (x.t().sort(1)[0], x.topk(x.shape[0] - 2, 0)[0], F.interpolate(x[None, None], size=(x.shape[0] * 2, 3), mode="bicubic"),
                torch.histc(x, 4, -2.0, 2.0), F.conv3d(x[None, None, None], x.new_ones(1, 1, 1, 2, 2)))  # fmt: skip

    check(model, (torch.randn(6, 5),), calls=[(torch.randn(n, 5),) for n in (4, 5, 17, 40)], dynamic_shapes=shapes)


def test_three_ways(ops: Any) -> None:
    """The straight line in C++ and in Python, and the interpreter, give the same bits, and the same failures."""

    def model(x: Tensor) -> tuple[Tensor, ...]:
        return x.t().cummax(1)[0] + 1, ops.triple(x, 2.0, "t"), x.topk(x.shape[0] - 1, 0)[0]

    shapes = ({0: torch.export.Dim("b", min=3, max=20)},)
    x = torch.randn(5, 4)
    ways = [
        sl.compile(model, (x,), dynamic_shapes=shapes, **way) for way in ({}, {"emit": "python"}, {"fast_path": False})
    ]
    for rows in (5, 3, 20):
        x = torch.randn(rows, 4)
        want = model(x)
        for compiled in ways:
            for got, exact in zip(compiled(x), want, strict=True):
                assert torch.equal(got, exact)
    for compiled in ways:
        with pytest.raises(sl.OpError, match=r"t: too large.*aten_test\.py") as caught:
            compiled(torch.full((3, 4), 1e6))
        assert isinstance(caught.value.__cause__, Refusal)


def test_over_parameters() -> None:
    """An op that reads parameters only is done once, in prepare; what `freeze=False` reads live stays in run."""

    class Rising(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 6))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.weight.kthvalue(2, 1, keepdim=True)[0]

    x = torch.randn(4, 6)
    model = Rising()
    compiled = check(model, (x,))
    assert len(through_aten(compiled, "prepare")) == 1 and not through_aten(compiled)
    live = sl.compile(model, (x,), freeze=False)
    assert len(through_aten(live)) == 1
    with torch.no_grad():
        model.weight.mul_(-1)
        assert torch.equal(live(x), model(x)) and not torch.equal(compiled(x), model(x))


def test_random_numbers() -> None:
    """Drawn per call from torch's own generator, in order: neither merged, nor drawn once in prepare."""

    def model(x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.rand(3) + x, torch.rand(3) + x

    x = torch.randn(3)
    compiled = sl.compile(model, (x,))
    for _ in range(2):
        torch.manual_seed(7)
        want = model(x)
        torch.manual_seed(7)
        got = compiled(x)
        torch.testing.assert_close(got, want)
        assert not torch.equal(got[0], got[1]) and not torch.equal(compiled(x)[0], got[0])


def test_in_a_branch_and_a_loop() -> None:
    def body(i: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return i + 1, x * x.kthvalue(2, 0, keepdim=True)[0] * 0.5

    def model(x: Tensor) -> Tensor:
        x = torch.cond(
            x.sum() > 0, lambda x: x + x.kthvalue(1, 0, True)[0], lambda x: x - x.kthvalue(2, 0, True)[0], (x,)
        )
        return torch.while_loop(lambda i, x: i < 3, body, (torch.tensor(0), x))[1]

    x = torch.randn(5, 3)
    compiled = sl.compile(model, (x,))
    for given in (x - x.mean() + 1, x - x.mean() - 1):
        torch.testing.assert_close(compiled(given), model(given))


# Custom ops -----------------------------------------------------------------------------------------------------------


class Refusal(Exception):
    """What the custom op below raises."""


@pytest.fixture
def ops() -> Iterator[Any]:
    """A library of custom ops whose kernels are Python code."""
    library = torch.library.Library("straightline_test", "FRAGMENT")
    seen: list[weakref.ref[Any]] = []

    def triple(x: Tensor, scale: float, label: str) -> Tensor:
        seen.append(weakref.ref(x))
        if x.sum() > 1e6:
            raise Refusal(f"{label}: too large")
        return x * 3 * scale

    def bump(x: Tensor, by: int) -> None:
        x.add_(by)

    def both(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        x.mul_(2)
        return x + y, y - 1

    def several(x: Tensor, scales: list[float]) -> list[Tensor]:
        return [x * scale for scale in scales]

    def wrong(x: Tensor) -> Tensor:
        return x.new_zeros(3)

    for schema, kernel, fake in (
        ("triple(Tensor x, float scale, str label) -> Tensor", triple, lambda x, scale, label: torch.empty_like(x)),
        ("bump(Tensor(a!) x, int by) -> ()", bump, lambda x, by: None),
        ("both(Tensor(a!) x, Tensor y) -> (Tensor, Tensor)", both, lambda x, y: (torch.empty_like(y), torch.empty_like(y))),
        ("several(Tensor x, float[] scales) -> Tensor[]", several, lambda x, scales: [torch.empty_like(x) for _ in scales]),
        ("wrong(Tensor x) -> Tensor", wrong, lambda x: torch.empty_like(x)),
    ):  # fmt: skip
        name = schema.partition("(")[0]
        library.define(schema)
        library.impl(name, kernel, "CPU")
        torch.library.register_fake(f"straightline_test::{name}", fake, lib=library)
    yield torch.ops.straightline_test
    library._destroy()


def test_custom_ops(ops: Any) -> None:
    def model(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        z = x.clone()
        ops.bump(z, 2)
        total, less = ops.both(z, y)
        return ops.triple(y, 0.5, 'a "quoted"\\ label'), z, total, less, *ops.several(x, [1.5, float("inf")])

    compiled = check(model, (torch.randn(3, 4), torch.randn(3, 4)), threads=2)
    assert all("its kernel is Python code" in row["why"] for row in through_aten(compiled))


def test_state_through_a_custom_op(ops: Any) -> None:
    """A module buffer that a custom op overwrites stays the module's own storage."""

    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(2))

        def forward(self, x: Tensor) -> Tensor:
            ops.bump(self.count, 1)
            return x + self.count

    model, x = Counter(), torch.randn(2)
    compiled = sl.compile(model, (x,))
    for calls in range(1, 4):
        torch.testing.assert_close(compiled(x), x + calls)
        assert model.count.tolist() == [calls, calls]


def test_exceptions(ops: Any) -> None:
    """What an op raises comes out with our location and torch's words; Python's exception is the cause. The next call is fine."""

    def model(x: Tensor) -> Tensor:
        return ops.triple(x, 1.0, "label") + 1

    x = torch.randn(3)
    compiled = sl.compile(model, (x,))
    for _ in range(2):
        with pytest.raises(sl.OpError) as caught:
            compiled(torch.full((3,), 1e6))
        assert isinstance(caught.value.__cause__, Refusal)
        place = rf"aten_test\.py:{model.__code__.co_firstlineno + 1}"
        assert re.search(rf"straightline_test::triple: Refusal: label: too large: .*{place}", str(caught.value)), str(
            caught.value
        )
        torch.testing.assert_close(compiled(x), x * 3 + 1)

    mask = torch.tensor([True, False, True])
    put = sl.compile(lambda x, m: x.index_put((m,), torch.zeros(2)), (x, mask))
    # torch's C functions hand out what an op raised since 2.13.
    words = "shape mismatch" if TORCH >= (2, 13) else "torch 2.* writes its message to standard error only"
    with pytest.raises(sl.OpError, match=rf"aten::index_put: {words}.*aten_test\.py") as caught:
        put(x, torch.ones(3, dtype=torch.bool))
    assert caught.value.__cause__ is None
    torch.testing.assert_close(put(x, mask), x.index_put((mask,), torch.zeros(2)))


def test_a_wrong_fake_kernel(ops: Any) -> None:
    compiled = sl.compile(lambda x: ops.wrong(x) + 1, (torch.randn(5),))
    with pytest.raises(
        sl.OpError, match=r"wrong: .*gave torch\.float32\[3\] where its fake kernel said torch\.float32\[5\]"
    ):
        compiled(torch.randn(5))


def test_a_changed_schema() -> None:
    """A program is prepared only while its op is the one that was captured."""
    x = torch.randn(3)
    library = torch.library.Library("straightline_schema", "DEF")
    library.define("f(Tensor x) -> Tensor")
    library.impl("f", lambda x: x + 1, "CompositeExplicitAutograd")
    compiled = sl.compile(lambda x: torch.ops.straightline_schema.f(x), (x,))
    torch.testing.assert_close(compiled(x), x + 1)
    library._destroy()
    gc.collect()
    with pytest.raises(sl.OpError, match="has no op straightline_schema::f in this process: import what registers it"):
        _call.weights(compiled._compilation.program, [])
    other = torch.library.Library("straightline_schema", "DEF")
    other.define("f(Tensor x, int k=2) -> Tensor")
    with pytest.raises(
        sl.OpError,
        match=r"its schema was .*f\(Tensor x\) -> Tensor' .* but here it is .*int k=2.*capture the program again",
    ):
        _call.weights(compiled._compilation.program, [])
    other._destroy()


@pytest.mark.parametrize("held", [False, True])
def test_threads(ops: Any, held: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight threads at once, with and without the GIL released around the call; Python kernels take it for themselves."""

    def model(x: Tensor) -> Tensor:
        return ops.triple(x, 2.0, "t").cummax(0)[0] + x.cumprod(0)

    x = torch.randn(64, 8)
    compile_module = sys.modules["straightline.compiled_function"]
    make = compile_module.CompiledFunction
    threshold = 1e9 if held else 0.0
    monkeypatch.setattr(
        compile_module,
        "CompiledFunction",
        lambda *parts: make(*parts[:-1], {**parts[-1], "gil_threshold_us": threshold}),
    )
    compiled = sl.compile(model, (x,))
    inputs = [torch.randn(64, 8) for _ in range(8)]
    wants = [model(x) for x in inputs]
    failures: list[BaseException] = []

    def work(x: Tensor, want: Tensor) -> None:
        try:
            for turn in range(40):
                if turn % 8 == 3:
                    with pytest.raises(sl.OpError):
                        compiled(torch.full((64, 8), 1e9))
                torch.testing.assert_close(compiled(x), want)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(inputs, wants)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def test_handles_go_with_the_program(ops: Any) -> None:
    from straightline import _aten_calls

    before = len(_aten_calls._plans)
    compiled = sl.compile(lambda x: ops.triple(x, 1.0, "t"), (torch.randn(3),))
    compiled(torch.randn(3))
    assert len(_aten_calls._plans) == before + 1
    del compiled
    gc.collect()
    assert len(_aten_calls._plans) == before


def test_a_result_that_nobody_reads_is_not_compared() -> None:
    """The fake kernel of embedding_bag is wrong about one for bfloat16, and nobody reads it."""
    check(nn.EmbeddingBag(10, 4, mode="sum").bfloat16(), (torch.randint(0, 10, (3, 5)),))
