# SPDX-License-Identifier: Apache-2.0
"""How a compiled function is called: arguments, trees, aliases, numpy, `out=`, layouts."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, NamedTuple

import numpy as np
import pytest
import straightline as sl
import torch
from policy import check, clone
from straightline.capture.torch import graph_import
from torch import Tensor, nn


class Pair(NamedTuple):
    """Two tensors with names."""

    left: Tensor
    right: Tensor


@dataclasses.dataclass
class Batch:
    """A dataclass that torch's pytree knows."""

    data: Tensor
    scale: Tensor


torch.export.register_dataclass(Batch, serialized_type_name="straightline_tests.Batch")


# Arguments ------------------------------------------------------------------------------------------------------------


def test_keyword_arguments() -> None:
    def model(x: Tensor, *, y: Tensor, z: Tensor | None = None) -> Tensor:
        return x - y if z is None else x - y * z

    x, y, z = torch.randn(3), torch.randn(3), torch.randn(3)
    check(model, (x,), {"y": y})
    compiled = check(model, (x,), {"y": y, "z": z})
    assert torch.equal(compiled(x, z=z, y=y), compiled(x, y=y, z=z))
    with pytest.raises((TypeError, sl.StraightlineError), match="z"):
        compiled(x, y=y)


def test_positional_given_by_name() -> None:
    compiled = sl.compile(lambda x, y: x - y, (torch.randn(3), torch.randn(3)))
    x, y = torch.randn(3), torch.randn(3)
    assert torch.equal(compiled(y=y, x=x), x - y)


def test_constants_are_part_of_the_program() -> None:
    def model(x: Tensor, n: int, scale: float, flag: bool, nothing: None, name: str = "add") -> Tensor:
        y = x * scale + n if flag else x
        return y if nothing is None and name == "add" else -y

    x = torch.randn(4)
    compiled = check(model, (x, 3, 0.5, True, None))
    for other in (
        (4, 0.5, True, None),
        (3, 0.25, True, None),
        (3, 0.5, False, None),
        (3, 0.5, True, 1),
        (3, 0.5, True, x),
    ):
        with pytest.raises((sl.StraightlineError, TypeError)):
            compiled(x, *other)
    check(model, (x, 3, 0.5, False, None), {"name": "sub"})


def test_defaults_may_be_left_out() -> None:
    def model(x: Tensor, n: int = 2) -> Tensor:
        return x + n

    compiled = check(model, (torch.randn(3),))
    x = torch.randn(3)
    assert torch.equal(compiled(x, 2), x + 2)
    with pytest.raises(sl.StraightlineError):
        compiled(x, 3)


def test_variadic() -> None:
    def model(*xs: Tensor, **named: Tensor) -> Tensor:
        return sum(xs) * named["scale"]

    x = torch.randn(3)
    check(model, (x, x + 1, x * 2), {"scale": torch.tensor(2.0)})


def test_functions_lambdas_and_methods() -> None:
    class Owner:
        factor = 3.0

        def times(self, x: Tensor) -> Tensor:
            return x * self.factor

    x = torch.randn(2, 2)
    check(lambda x: x + 1, (x,))
    check(torch.tanh, (x,))
    check(Owner().times, (x,))
    layer = nn.Linear(2, 3)
    compiled = sl.compile(lambda x: layer(x).relu(), (x,))
    with torch.no_grad():
        assert torch.allclose(compiled(x), layer(x).relu(), atol=1e-6)


def test_exported_program() -> None:
    model = nn.Linear(4, 3).eval()
    x = torch.randn(2, 4)
    compiled = sl.compile(torch.export.export(model, (x,)))
    with torch.no_grad():
        assert torch.allclose(compiled(x), model(x), atol=1e-6)


# Trees ----------------------------------------------------------------------------------------------------------------


def test_trees_in_and_out() -> None:
    def model(a: dict[str, Any], b: tuple[Tensor, list[Tensor]], c: Pair) -> dict[str, Any]:
        total = a["x"] + b[0]
        return {
            "sum": total,
            "list": [b[1][0] * 2, (b[1][1], None)],
            "pair": Pair(c.right + 1, c.left - 1),
            "number": 3,
            "ordered": collections.OrderedDict(z=total * 2, a=total * 3),
        }

    x = [torch.randn(3) for _ in range(6)]
    compiled = check(model, ({"x": x[0], "unused": x[5]}, (x[1], [x[2], x[3]]), Pair(x[4], x[5])))
    out = compiled({"x": x[0], "unused": x[5]}, (x[1], [x[2], x[3]]), Pair(x[4], x[5]))
    assert isinstance(out["pair"], Pair) and list(out["ordered"]) == ["z", "a"] and out["list"][1][1] is None


def test_dataclasses() -> None:
    def model(batch: Batch) -> Batch:
        return Batch(batch.data * batch.scale, batch.scale + 1)

    out = check(model, (Batch(torch.randn(3, 2), torch.randn(2)),))(Batch(torch.ones(3, 2), torch.ones(2)))
    assert isinstance(out, Batch) and torch.equal(out.data, torch.ones(3, 2))


def test_several_outputs_and_the_same_twice() -> None:
    def model(x: Tensor) -> tuple[Tensor, ...]:
        y = x + 1
        return y, x * 2, y, y.t(), y[0], y.reshape(-1)

    compiled = check(model, (torch.randn(3, 4),))
    out = compiled(torch.randn(3, 4))
    assert out[0] is out[2] or out[0].data_ptr() == out[2].data_ptr()


def test_equal_results_have_memory_of_their_own() -> None:
    """Eager computes each: a caller may overwrite one of them."""
    x = torch.randn(5)
    for mine in (
        check(lambda x: (x * 2, x * 2), (x,)),
        torch.compile(lambda x: (x * 2, x * 2), backend="straightline"),
    ):
        one, other = mine(x)
        one.zero_()
        assert torch.equal(other, x * 2)


def test_one_tensor_given_twice_is_one_memory() -> None:
    def model(x: Tensor) -> tuple[Tensor, ...]:
        turned = (x * 2).t()
        return turned, torch.dropout(turned, 0.5, False), x.exp()

    compiled = torch.compile(model, backend="straightline", fullgraph=True)
    one, other, _ = compiled(torch.randn(3, 4))
    assert one.data_ptr() == other.data_ptr() and one.stride() == (1, 4)


def test_empty_and_constant_results() -> None:
    check(lambda x: (), (torch.randn(2),))
    check(lambda x: (None, 1, 2.5, True, "word", x.exp()), (torch.randn(2),))
    check(lambda x: torch.arange(6).reshape(2, 3), (torch.randn(2),))
    check(lambda: torch.ones(3), ())


# Aliases --------------------------------------------------------------------------------------------------------------


# Contract: E19.
def test_outputs_that_alias_inputs_are_views() -> None:
    def model(x: Tensor) -> tuple[Tensor, ...]:
        return x, x.t(), x[1:], x.view(-1)[::2], x.unsqueeze(0).expand(2, 3, 4), x.select(1, 2), x + 1

    compiled = check(model, (torch.randn(3, 4),))
    x = torch.randn(3, 4)
    out = compiled(x)
    want = model(x)
    x.add_(100)
    for got, eager in zip(out[:-1], want[:-1], strict=True):
        assert torch.equal(got, eager) and got.stride() == eager.stride() and got.data_ptr() == eager.data_ptr()
    assert not torch.equal(out[-1], x + 1)
    first = compiled(torch.full((3, 4), 7.0))[1]
    assert torch.equal(first, torch.full((4, 3), 7.0))  # kept alive by the view


# Contract: E19.
def test_outputs_that_alias_parameters_are_views() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3, 4))
            self.register_buffer("table", torch.randn(5))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return x @ self.weight.t(), self.weight.t(), self.table[1:]

    model = Tied()
    compiled = check(model, (torch.randn(2, 4),))
    _, weight, table = compiled(torch.randn(2, 4))
    with torch.no_grad():
        model.table[2] = 50.0
    assert table[1] == 50 and weight.data_ptr() == model.weight.data_ptr()
    del model, compiled
    assert weight.shape == (4, 3) and table[1] == 50


def test_what_is_written_and_returned() -> None:
    """An overwritten buffer or input that is a result as well: the result has the value that the call made."""

    class Log(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            self.total.add_(x)
            y.mul_(2)
            return self.total, y, y[1:]

    model = Log()
    compiled = sl.compile(model, (torch.ones(3), torch.ones(3)))
    for n in (1, 2, 3):
        y = torch.full((3,), 5.0)
        total, twice, part = compiled(torch.ones(3), y)
        assert torch.equal(total, torch.full((3,), float(n))) and torch.equal(model.total, total)
        assert torch.equal(twice, torch.full((3,), 10.0)) and torch.equal(y, twice) and torch.equal(part, y[1:])


# Contract: E19.
def test_what_is_written_and_returned_is_the_same_object() -> None:
    """As eager: the overwritten tensor itself, or a view of it; what merely has its value is a tensor of its own."""

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(2, 3))

        def forward(self, x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, ...]:
            self.total.add_(x)
            old = y.exp()
            y.mul_(2)
            new = z + 1
            z.copy_(new)
            return self.total, self.total[1:], old, y, y.t(), y.view(-1)[2:], new, new[0], z, y + z

    model = Both()
    compiled = check(model, [torch.randn(2, 3) for _ in range(3)], calls=[[torch.randn(2, 3) for _ in range(3)]])
    compiled = sl.compile(model, tuple(torch.randn(2, 3) for _ in range(3)))
    x, y, z = (torch.randn(2, 3) for _ in range(3))
    total, part, old, same, turned, flat, new, row, written, _ = compiled(x, y, z)
    assert same is y and written is z
    assert total.data_ptr() == model.total.data_ptr() and part.data_ptr() == model.total[1:].data_ptr()
    assert (
        turned.data_ptr() == y.data_ptr() and turned.stride() == (1, 3) and flat.data_ptr() == y.view(-1)[2:].data_ptr()
    )
    storages = {t.untyped_storage().data_ptr() for t in (y, z, model.total)}
    assert all(t.untyped_storage().data_ptr() not in storages for t in (old, new, row))
    z.zero_()
    assert new.abs().sum() > 0 and torch.equal(row, new[0])


@pytest.mark.parametrize("strides", [(3, 1), (1, 2)])
def test_the_old_value_of_what_is_returned_is_read_later(strides: tuple[int, int]) -> None:
    """The new value is made elsewhere and copied over the old one; the result is a view of where it was copied to."""

    def model(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        old = x.clone()
        x.copy_(x @ w)
        return x[1:], x.reshape(6), (old @ w).relu(), x

    examples = (torch.randn(6).as_strided((2, 3), strides), torch.randn(3, 3))
    compiled = check(model, examples)
    x = torch.randn(6).as_strided((2, 3), strides)
    part, flat, _, same = compiled(x, examples[1])
    assert same is x and part.data_ptr() == x[1:].data_ptr()
    assert (flat.data_ptr() == x.data_ptr()) == x.is_contiguous()


# numpy and out= -------------------------------------------------------------------------------------------------------


def test_numpy_in_numpy_out() -> None:
    compiled = sl.compile(lambda x, y: {"sum": x + y, "views": (x.T, x[1:])}, (np.ones((3, 2), np.float32),) * 2)
    x, y = (np.random.default_rng().standard_normal((3, 2)).astype(np.float32) for _ in range(2))
    out = compiled(x, y)
    assert isinstance(out["sum"], np.ndarray) and np.array_equal(out["sum"], x + y)
    assert np.shares_memory(out["views"][0], x) and np.array_equal(out["views"][1], x[1:])
    target = np.empty((3, 2), np.float32)
    single = sl.compile(lambda x: x * 2, (x,))
    assert single(x, out=target) is target and np.array_equal(target, x * 2)


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.int64, np.uint8, np.bool_, np.int8, np.int16])
def test_numpy_dtypes(dtype: type) -> None:
    x = np.array([[0, 1, 1], [1, 0, 1]], dtype)
    out = sl.compile(lambda x: (x.flip(1), x == 1), (x,))(x)
    assert out[0].dtype == dtype and np.array_equal(out[0], x[:, ::-1]) and np.array_equal(out[1], x == 1)


def test_out() -> None:
    compiled = sl.compile(lambda x: (x + 1, {"y": x.sum(1)}), (torch.randn(3, 4),))
    x, target = torch.randn(3, 4), (torch.empty(3, 4), {"y": torch.empty(3)})
    got = compiled(x, out=target)
    assert got[0] is target[0] and got[1]["y"] is target[1]["y"]
    assert torch.equal(target[0], x + 1) and torch.allclose(target[1]["y"], x.sum(1), atol=1e-5)
    single = sl.compile(lambda x: x * 2, (x,))
    for wrong in (torch.empty(4, 3), torch.empty(3, 4, dtype=torch.float64), x):
        with pytest.raises(sl.StraightlineError):
            single(x, out=wrong)


# Layouts --------------------------------------------------------------------------------------------------------------


def layouts() -> dict[str, Tensor]:
    base = torch.randn(4, 6, 5)
    return {
        "0-d": torch.randn(()),
        "zero-size": torch.randn(3, 0, 5),
        "transposed": base.transpose(0, 2),
        "permuted": base.permute(2, 0, 1),
        "strided": base[::2, 1::3],
        "offset": base[1:, 2:],
        "expanded": torch.randn(4, 1, 5).expand(4, 6, 5),
        "expanded 0-d": torch.randn(()).expand(3, 4),
        "overlapping": torch.randn(12).as_strided((4, 5), (2, 1)),
        "channels last": torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
        "column": base[:, :, 2],
    }


@pytest.mark.parametrize("name", list(layouts()))
def test_layout(name: str) -> None:
    x = layouts()[name]

    def model(x: Tensor) -> tuple[Tensor, ...]:
        flat = x.reshape(-1)
        return x * 2 + 1, x.abs().sum(), x.exp().sum(-1 if x.dim() else ()), flat + 1, flat.flip(0), torch.softmax(x, 0)

    again = clone(x)
    if x.numel() and name not in ("overlapping", "expanded", "expanded 0-d"):
        again.copy_(torch.randn(x.shape))
    compiled = check(model, (x,), calls=[(again,)])
    if x.dim() > 1 and x.numel() and name != "channels last" and not x.is_contiguous():
        with pytest.raises(sl.GuardError, match="stride"):
            compiled(torch.randn(x.shape))


def test_layouts_of_matrices() -> None:
    """Matrix products of every combination of layouts."""
    n = {"plain": torch.randn(6, 7), "transposed": torch.randn(7, 6).t(), "strided": torch.randn(12, 14)[::2, ::2],
         "expanded": torch.randn(1, 7).expand(6, 7), "overlapping": torch.randn(20).as_strided((6, 7), (1, 2))}  # fmt: skip
    right = [torch.randn(7, 5), torch.randn(5, 7).t(), torch.randn(14, 10)[::2, ::2]]
    for a in n.values():
        check(lambda a, b, c, d: (a @ b, a @ c, a @ d, a.t() @ a, torch.relu(a @ b) + 1), (a, *right))


def test_channels_last_convolution() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 4, 1)).eval()
    check(model, (torch.randn(2, 3, 8, 8).contiguous(memory_format=torch.channels_last),))
    check(model, (torch.randn(2, 8, 3, 8).transpose(1, 2),))
    check(model.to(memory_format=torch.channels_last), (torch.randn(2, 3, 8, 8),))


def test_parameters_of_any_layout() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Parameter(torch.randn(5, 4).t())
            self.b = nn.Parameter(torch.randn(8, 10)[::2, ::2])
            self.c = nn.Parameter(torch.randn(1, 5).expand(4, 5))
            self.register_buffer("d", torch.randn(9).as_strided((4, 5), (1, 1)))
            self.linear = nn.Linear(5, 4)
            self.linear.weight = nn.Parameter(torch.randn(5, 4).t())

        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            return (
                x + self.a,
                x * self.b - self.c,
                self.d + x,
                self.linear(x),
                x @ self.b.t(),
                self.a.sum(0),
                self.c * self.d,
            )

    check(Odd(), (torch.randn(4, 5),))


def test_one_tensor_given_twice() -> None:
    compiled = check(lambda x, y: x * 2 + y, (torch.randn(3), torch.randn(3)))
    x = torch.randn(3)
    assert torch.equal(compiled(x, x), x * 2 + x)


def test_one_example_given_twice() -> None:
    """Two arguments stay two, although one tensor was the example for both."""
    example, x, y = torch.randn(3, 3), torch.randn(3, 3), torch.randn(3, 3)
    for shapes in (None, ({0: torch.export.Dim("n", min=1, max=8)},) * 2):
        compiled = sl.compile(lambda x, y: x - 2 * y, (example, example), dynamic_shapes=shapes)
        assert torch.equal(compiled(x, y), x - 2 * y)


def test_a_constant_of_the_host_is_each_calls_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """As beside the results of a device; here every root is taken for one."""
    monkeypatch.setattr(graph_import, "_is_elsewhere", lambda home, node: node.name == "sqrt")
    model = lambda x: {"a": x * 2, "b": torch.tensor([4.0, 9.0]).sqrt()}  # noqa: E731
    for options in ({}, {"emit": "python"}, {"fast_path": False}):
        compiled = sl.compile(model, (torch.randn(3),), **options)
        first = compiled(torch.ones(3))["b"]
        assert torch.equal(first, torch.tensor([2.0, 3.0]))
        first.zero_()
        assert torch.equal(compiled(torch.ones(3))["b"], torch.tensor([2.0, 3.0]))
