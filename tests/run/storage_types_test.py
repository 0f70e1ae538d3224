# SPDX-License-Identifier: Apache-2.0
"""Unsigned integers of 16, 32 and 64 bits, floats of 8: moved by our kernels, computed with by torch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
import straightline as sl
import torch
from policy import launches
from torch import Tensor, nn

DTYPES = [torch.uint16, torch.uint32, torch.uint64]
FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu]
WAYS: list[dict[str, Any]] = [{}, {"emit": "python"}, {"fast_path": False}]

MOVES: dict[str, Callable[[Tensor], Tensor]] = {
    "permute": lambda x: x.permute(2, 0, 1).clone(), "slice": lambda x: x[1:, ::2].clone(), "cat": lambda x: torch.cat([x, x[:1]]),
    "expand": lambda x: x[:1].expand(4, 3, 5).clone(), "flip": lambda x: x.flip(1), "reshape": lambda x: x.transpose(0, 1).reshape(-1),
    "stack": lambda x: torch.stack([x, x]), "select": lambda x: x[:, 1].clone(), "unbind": lambda x: torch.cat(x.unbind(1)),
}  # fmt: skip

COMPUTED: dict[str, Callable[[Tensor], Tensor]] = {
    "add": lambda x: x + x, "compare": lambda x: x == x.flip(0), "float": lambda x: x.to(torch.float32) * 2,
    "from floats": lambda x: (x.to(torch.float64) * 0.25).to(x.dtype), "signed": lambda x: x.to(torch.int64) + 1,
    "mul": lambda x: x * 3, "full": lambda x: torch.full_like(x, 7), "bitwise": lambda x: x.bitwise_and(x.flip(0)),
    "where": lambda x: torch.where(x == x[0], x, x.flip(1)), "sum": lambda x: x.sum(), "table": lambda x: x[torch.tensor([1, 0])],
}  # fmt: skip


def numbers(dtype: torch.dtype) -> Tensor:
    """Half of them above the largest signed number."""
    info = numpy.iinfo(str(dtype).removeprefix("torch."))
    x = numpy.random.default_rng(torch.initial_seed() % 2**32).integers(
        0, info.max, (2, 3, 5), info.dtype, endpoint=True
    )
    return torch.from_numpy(x).to(torch.get_default_device())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MOVES)
def test_moves(name: str, dtype: torch.dtype) -> None:
    x = numbers(dtype)
    compiled = sl.compile(MOVES[name], (x,))
    got = compiled(x)
    assert got.dtype == dtype and torch.equal(got, MOVES[name](x))
    assert all(row["backend"] != "aten" for row in launches(compiled))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", COMPUTED)
def test_torch_computes(name: str, dtype: torch.dtype) -> None:
    """What eager has no kernel for is refused as there."""
    x, model = numbers(dtype), COMPUTED[name]
    try:
        want = model(x)
    except (RuntimeError, NotImplementedError):
        pytest.skip("torch has no kernel for it")
    for way in WAYS:
        got = sl.compile(model, (x,), **way)(x)
        assert got.dtype == want.dtype and torch.equal(got, want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_state_parameters_and_numpy(dtype: torch.dtype) -> None:
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", numbers(dtype))
            self.register_buffer("last", torch.zeros_like(self.table))

        def forward(self, x: Tensor) -> Tensor:
            self.last.copy_(x)
            return torch.cat([self.table, x])

    model, x = Table(), numbers(dtype)
    compiled = sl.compile(model, (x,))
    assert torch.equal(compiled(x), torch.cat([model.table, x]))
    assert torch.equal(compiled.parameters()["last"], x)
    if x.device.type == "cpu":
        of_numpy = sl.compile(lambda x: x.flip(1), (x.numpy(),))
        assert numpy.array_equal(of_numpy(x.numpy()), numpy.flip(x.numpy(), 1))
    with pytest.raises(sl.GuardError, match=str(dtype).removeprefix("torch.")):
        compiled(x.to(torch.int64))


def test_by_the_backend() -> None:
    model = lambda x: torch.cat([x, x.flip(0)]).to(torch.int64) + 1  # noqa: E731
    x = numbers(torch.uint32)
    assert torch.equal(torch.compile(model, backend="straightline", fullgraph=True)(x), model(x))


def test_without_torchs_ops_it_is_refused() -> None:
    own = "cuda" if torch.get_default_device().type == "cuda" else "native"
    with pytest.raises(sl.UnsupportedError, match=r"aten.add.Tensor\(uint16\[2, 3, 5\].*numbers of torch.uint16"):
        sl.compile(lambda x: x + x, (numbers(torch.uint16),), allow=[own])


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_integers_with_and_without_sign_in_one_kernel(bits: int) -> None:
    signed, unsigned = f"tensor<24xi{bits}>", f"tensor<24xui{bits}>"
    text = f"""module {{ func.func @forward(%x: {signed}, %y: {unsigned}) -> ({signed}, {unsigned}) {{
      %a = op.to_dtype %x : ({signed}) -> {unsigned}
      %b = op.mul %a, %y : ({unsigned}, {unsigned}) -> {unsigned}
      %c = op.maximum %b, %y : ({unsigned}, {unsigned}) -> {unsigned}
      %d = op.to_dtype %c : ({unsigned}) -> {signed}
      %e = op.add %d, %x : ({signed}, {signed}) -> {signed}
      return %e, %c : {signed}, {unsigned} }} }}"""
    compiled = sl.compile_mlir(text)
    for _ in range(2):
        x = numpy.random.default_rng().integers(-100, 100, 24).astype(f"int{bits}")
        y = numpy.random.default_rng().integers(0, 200, 24).astype(f"uint{bits}")
        got, larger = compiled(x, y)
        want = numpy.maximum(x.astype(y.dtype) * y, y)
        assert numpy.array_equal(larger, want) and numpy.array_equal(got, want.astype(x.dtype) + x)
    if bits > 8:
        assert len([row for row in compiled.explain().statements if row["phase"] == "run"]) == 1


# Floats of 8 bits


def same_bytes(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.view(torch.uint8), b.view(torch.uint8))


@pytest.mark.parametrize("dtype", FLOAT8)
@pytest.mark.parametrize("name", MOVES)
def test_moves_of_float8(name: str, dtype: torch.dtype) -> None:
    x = torch.randn(2, 3, 5).abs().to(dtype)
    try:
        want = MOVES[name](x)
    except (RuntimeError, NotImplementedError):
        pytest.skip("torch has no kernel for it")
    compiled = sl.compile(MOVES[name], (x,))
    assert same_bytes(compiled(x), want)
    assert all(row["backend"] != "aten" for row in launches(compiled))


@pytest.mark.parametrize("dtype", FLOAT8)
def test_casts_of_float8(dtype: torch.dtype) -> None:
    x = torch.randn(7, 5).abs()
    for model in (
        lambda x: (x * 2).to(dtype),
        lambda x: x.to(dtype).to(torch.float32) + 1,
        lambda x: x.to(dtype).t().to(torch.bfloat16),
    ):
        for way in WAYS:
            got, want = sl.compile(model, (x,), **way)(x), model(x)
            assert same_bytes(got, want) if got.dtype == dtype else torch.equal(got, want)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_weights_of_float8(dtype: torch.dtype) -> None:
    """They are made wide once, before the first call; new ones are taken."""

    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weight", torch.randn(6, 5).to(dtype))
            self.scale = nn.Parameter(torch.tensor(0.5))

        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.linear(x, self.weight.to(torch.float32) * self.scale)

    model, x = Small().requires_grad_(False), torch.randn(3, 5)
    compiled = sl.compile(model, (x,))
    torch.testing.assert_close(compiled(x), model(x))
    assert all(row["backend"] != "aten" for row in launches(compiled))
    other = Small().requires_grad_(False)
    compiled.load_parameters(other.state_dict())
    torch.testing.assert_close(compiled(x), other(x))
    assert compiled.parameters()["weight"].dtype == dtype
    by_compile = torch.compile(model, backend="straightline", fullgraph=True)
    torch.testing.assert_close(by_compile(x), model(x))
