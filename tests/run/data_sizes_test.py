# SPDX-License-Identifier: Apache-2.0
"""Sizes that depend on data: masks, nonzero, numbers by `item`, repetitions, sets; each executor against eager."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import straightline as sl

Model = Callable[..., Any]

WAYS: dict[str, dict[str, Any]] = {"line": {}, "python": {"emit": "python"}, "interpreter": {"fast_path": False}}


def seeded() -> torch.Generator:
    seed = random.randrange(2**31)
    print(f"seed {seed}")
    return torch.Generator(torch.get_default_device()).manual_seed(seed)


def check(model: Model, calls: list[tuple[Any, ...]], example: int = 0, **options: Any) -> list[Any]:
    """Compiles for one call and compares all of them, three ways."""
    compiled = [sl.compile(model, calls[example], **way, **options) for way in WAYS.values()]
    for args in calls:
        want = model(*args)
        for way, function in zip(WAYS, compiled, strict=True):
            got = function(*args)
            for one, exact in zip(_leaves(got), _leaves(want), strict=True):
                if isinstance(exact, Tensor):
                    assert one.shape == exact.shape and one.dtype == exact.dtype, (way, one.shape, exact.shape)
                torch.testing.assert_close(one, exact)
    return compiled


def _leaves(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def rows(generator: torch.Generator, *shape: int) -> list[tuple[Tensor]]:
    """Random numbers; none, all and one of which are above zero."""
    x = torch.randn(*shape, generator=generator)
    one = -x.abs() - 1
    one.view(-1)[int(torch.randint(x.numel(), (), generator=generator))] = 1.0
    more = [torch.randn(*shape, generator=generator) for _ in range(3)]
    return [(y,) for y in (x, -x.abs() - 1, x.abs() + 1, one, *more)]


MASKS: dict[str, Model] = {
    "nonzero": lambda x: torch.nonzero(x > 0),
    "nonzero_of_floats": lambda x: torch.nonzero(x.clamp(min=0)),
    "nonzero_as_tuple": lambda x: torch.nonzero(x > 0, as_tuple=True),
    "argwhere": lambda x: torch.argwhere(x > 0),
    "where": lambda x: torch.where(x > 0),
    "mask": lambda x: x[x > 0],
    "rows": lambda x: x[x[:, 0] > 0],
    "columns": lambda x: x[:, x[0] > 0],
    "masked_select": lambda x: x.masked_select(x > 0),
    "masked_select_broadcast": lambda x: x.masked_select(x[:, :1] > 0),
    "then_elementwise": lambda x: (x[x > 0] * 2 + 1).sqrt(),
    "then_rows_and_columns": lambda x: x[x[:, 0] > 0].relu() + x[0],
    "then_sum": lambda x: x[x > 0].sum() + x.sum(),
    "then_mean_of_rows": lambda x: x[x[:, 0] > 0].softmax(1).sum(0),
    "then_matmul": lambda x: x[x[:, 0] > 0] @ x.t(),
    "then_product_of_itself": lambda x: x[x[:, 0] > 0].t() @ x[x[:, 0] > 0],
    "then_gather": lambda x: x[torch.nonzero(x[:, 0] > 0)[:, 0]],
    "then_cat": lambda x: torch.cat([x[x[:, 0] > 0], x]),
    "then_cat_behind": lambda x: torch.cat([x * 2, x[x[:, 0] > 0], x[x[:, 1] > 0]]),
    "then_cat_columns": lambda x: torch.cat([x[:, x[0] > 0], x + 1, x[:, x[1] > 0]], 1),
    "then_transpose": lambda x: x[x[:, 0] > 0].t().contiguous(),
    "twice": lambda x: x[x > 0][x[x > 0] < 1],
    "its_size": lambda x: (x[x > 0], torch.nonzero(x > 0).shape[0]),
    "its_size_in_arithmetic": lambda x: x / (x[x > 0].shape[0] + 1),
    "a_range_of_its_size": lambda x: torch.arange(torch.nonzero(x > 0).shape[0]) * 2,
    "ones_of_its_size": lambda x: torch.ones(3, torch.nonzero(x > 0).shape[0]),
    "scatter_back": lambda x: torch.zeros(5).index_add(0, torch.nonzero(x > 0)[:, 0], x[x > 0]),
    "two_masks": lambda x: (x[x > 0], x[x < 0]),
    "cumulative": lambda x: x[x > 0].cumsum(0),
    "linear": lambda x: F.linear(x[x[:, 0] > 0], torch.ones(3, 4), torch.ones(3)),
    "layer_norm": lambda x: F.layer_norm(x[x[:, 0] > 0], (4,)),
}  # fmt: skip


@pytest.mark.parametrize("name", MASKS)
def test_masks(name: str) -> None:
    check(MASKS[name], rows(seeded(), 5, 4))


@pytest.mark.parametrize("name", ["nonzero", "mask", "rows", "then_matmul", "then_cat", "then_sum", "two_masks"])
def test_masks_of_named_sizes(name: str) -> None:
    generator = seeded()
    calls = [(torch.randn(n, 4, generator=generator),) for n in (5, 1, 17, 64)]
    check(MASKS[name], calls, dynamic_shapes=({0: torch.export.Dim("b", max=64)},))


COMPLEX: dict[str, Model] = {
    "masked_select": lambda z: z.masked_select(z.real > 0),
    "masked_select_broadcast": lambda z: z[:, :1].masked_select(z.imag > 0),
    "masked_select_of_a_conjugate": lambda z: z.conj().masked_select(z.real > 0),
    "nonzero": lambda z: z.nonzero(),
    "argwhere": lambda z: torch.argwhere(z[0]),
    "argwhere_of_a_number": lambda z: torch.argwhere(z[0, 0]),
    "nonzero_of_a_conjugate": lambda z: z.conj().nonzero(),
    "sum_of_those_that_are_not_zero": lambda z: z.masked_select(z != 0).sum(),
}


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_numbers(name: str, dtype: torch.dtype) -> None:
    """A complex number is not zero if one of its parts is not; NaN is not zero, and -0 is."""
    generator = seeded()
    some = torch.randn(6, 5, dtype=dtype, generator=generator)
    some[torch.rand(6, 5, generator=generator) > 0.5] = 0
    some[0, :4] = torch.tensor([complex(0, 1), complex(2, 0), complex(-0.0, -0.0), complex(0, float("nan"))])
    compiled = check(
        COMPLEX[name], [(some.nan_to_num(),), (torch.zeros(6, 5, dtype=dtype),), (some.nan_to_num().flip(0),)]
    )
    assert not any(row["backend"] == "aten" for row in compiled[0].explain().statements)
    assert compiled[0](some).shape == COMPLEX[name](some).shape


def test_a_large_mask_on_several_threads() -> None:
    generator = seeded()
    calls = [(torch.randn(700, 300, generator=generator) + shift,) for shift in (0.0, -5.0, 5.0, 1.0)]
    check(lambda x: (x[x > 0].exp(), torch.nonzero(x > 0)), calls, threads=2)


def sliced(x: Tensor, n: Tensor) -> Tensor:
    count = n.item()
    torch._check(count >= 0)
    torch._check(count <= x.shape[0])
    return x[:count] * 2


def numbers(n: Tensor) -> Tensor:
    count = n.item()
    torch._check(count >= 0)
    torch._check(count <= 10)
    return torch.arange(count) + 1


NUMBERS: dict[str, tuple[Model, range]] = {
    "slice": (sliced, range(6)),
    "slice_without_check": (lambda x, n: x[: n.item()] + 1, range(-7, 8)),
    "slice_to_the_end": (lambda x, n: x[n.item() :] + 1, range(-7, 8)),
    "slice_of_columns": (lambda x, n: x[:, : n.item()] + 1, range(-5, 6)),
    "number": (lambda x, n: x * n.item(), range(-2, 3)),
    "number_in_arithmetic": (lambda x, n: x + (2 * n.item() + 1), range(-2, 3)),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers(name: str) -> None:
    model, values = NUMBERS[name]
    x = torch.randn(5, 4, generator=seeded())
    check(model, [(x, torch.tensor(n)) for n in values], example=len(values) // 2 + 1)


def test_a_range() -> None:
    check(numbers, [(torch.tensor(n),) for n in range(11)], example=3)


def test_a_float() -> None:
    x = torch.randn(5, 4, generator=seeded())
    check(lambda x, n: x * n.item(), [(x, torch.tensor(n)) for n in (2.5, 0.0, -1.0)])


def repeated(x: Tensor, counts: Tensor) -> Tensor:
    y = torch.repeat_interleave(x, counts, dim=0)
    torch._check(y.shape[0] <= 30)
    return y + 1


def test_repetitions() -> None:
    generator = seeded()
    x = torch.randn(6, 3, generator=generator)
    counts = [torch.randint(0, 6, (6,), generator=generator) for _ in range(4)]
    check(repeated, [(x, c) for c in (*counts, torch.zeros(6, dtype=torch.int64))])
    fixed = torch.tensor([1, 0, 2, 3, 0, 1])
    check(lambda x, c: torch.repeat_interleave(x, c, dim=0, output_size=7), [(x, fixed), (x, fixed.flip(0))])


def _counted(x: Tensor, most: int, **how: Any) -> Tensor:
    counts = torch.bincount(x, **how)
    torch._check(counts.shape[0] <= most)
    return counts


def _traces_bincount() -> bool:
    """Whether torch's traces give the result of bincount its elements: older ones give it those of the argument."""
    mode = FakeTensorMode(shape_env=ShapeEnv(allow_dynamic_output_shape_ops=True))
    x = mode.from_tensor(torch.zeros(3, dtype=torch.int32))
    with mode:
        return torch.bincount(x).dtype == torch.int64


_TRACES_BINCOUNT = pytest.mark.skipif(not _traces_bincount(), reason="this torch traces bincount with other elements")


@_TRACES_BINCOUNT
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.int8])
@pytest.mark.parametrize("minlength", [0, 6, 20])
def test_bincount(dtype: torch.dtype, minlength: int) -> None:
    generator = seeded()
    calls = [(torch.randint(0, most, (30,), generator=generator).to(dtype),) for most in (12, 1, 3, 20)]
    check(lambda x: _counted(x, 40, minlength=minlength), calls)
    weights = [(x, torch.rand(30, generator=generator)) for (x,) in calls]
    check(lambda x, w: _counted(x, 40, weights=w, minlength=minlength), weights)
    named = [(torch.randint(0, 9, (n,), generator=generator).to(dtype),) for n in (5, 0, 1, 30)]
    check(lambda x: _counted(x, 40, minlength=minlength), named, dynamic_shapes=({0: torch.export.Dim("n", max=64)},))


@_TRACES_BINCOUNT
def test_bincount_of_a_known_length() -> None:
    """Where a model says how many there are, each call is compared with it."""

    def model(x: Tensor) -> Tensor:
        counts = torch.bincount(x, minlength=6)
        torch._check(counts.shape[0] == 6)
        return counts * torch.arange(6)

    (compiled, *_) = check(model, [(torch.tensor([0, 5, 5, 2]),), (torch.tensor([1, 1, 1, 1]),)])
    with pytest.raises(sl.UserError, match="a size that depends on data is not 6"):
        compiled(torch.tensor([0, 6, 1, 1]))
    with pytest.raises(sl.UserError, match="bincount: a number is below 0"):
        compiled(torch.tensor([0, -1, 1, 1]))
    for dtype in (torch.uint8, torch.int8):  # has a bound of its own
        check(torch.bincount, [(torch.tensor([0, 5, 5, 2], dtype=dtype),), (torch.tensor([9, 0, 1, 1], dtype=dtype),)])
    check(torch.bincount, [(torch.zeros(0, dtype=torch.uint8),)])
    with pytest.raises(sl.UnsupportedError, match=r"has no bound.*nearest supported form: torch\._check"):
        sl.compile(torch.bincount, (torch.tensor([0, 5]),))
    sl.compile(model, (torch.tensor([0, 5, 5, 2]),), target="cuda:sm_90", allow=["cuda"])


UNIQUE: dict[str, Model] = {
    "values": lambda x: torch.unique(x),
    "all": lambda x: torch.unique(x, return_inverse=True, return_counts=True),
    "counts": lambda x: torch.unique(x, return_counts=True),
    "consecutive": lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True),
}


@pytest.mark.parametrize("name", UNIQUE)
def test_unique(name: str) -> None:
    generator = seeded()
    calls = [(torch.randint(0, high, (4, 6), generator=generator),) for high in (3, 1, 100, 10)]
    check(UNIQUE[name], calls)
    check(UNIQUE[name], [(torch.randint(0, 5, (9,), generator=generator).float(),) for _ in range(3)])


class SelfLoops(nn.Module):
    """A graph convolution as torch_geometric has it: self-loops are replaced, by a mask, by one for each node."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 8)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        kept = edges[:, edges[0] != edges[1]]
        loops = torch.arange(x.shape[0])
        edges = torch.cat([kept, torch.stack([loops, loops])], 1)
        source, target = edges[0], edges[1]
        degree = torch.zeros(x.shape[0]).scatter_add(0, target, torch.ones(target.shape[0]))
        norm = degree.pow(-0.5)
        weight = norm[source] * norm[target]
        messages = self.linear(x)[source] * weight[:, None]
        return torch.zeros(x.shape[0], 8).index_add(0, target, messages).relu()


def test_a_graph_convolution_with_self_loops() -> None:
    generator = seeded()
    model = SelfLoops().eval()
    calls = [
        (torch.randn(7, 5, generator=generator), torch.randint(0, 7, (2, 20), generator=generator)) for _ in range(4)
    ]
    same = torch.randint(0, 7, (1, 20), generator=generator).expand(2, 20).contiguous()
    with torch.no_grad():
        check(model, [*calls, (calls[0][0], same)])


def test_results_are_tensors_of_their_own() -> None:
    """Results of several calls, of other sizes each, and what a user does with them."""
    x = torch.randn(6, 4, generator=seeded())
    function = sl.compile(MASKS["rows"], (x,))
    first = function(x)
    kept = first.clone()
    second = function(-x)
    first += 1
    assert torch.equal(first, kept + 1) and torch.equal(second, -x[x[:, 0] < 0])
    assert second.is_contiguous() and second.storage_offset() == 0


def test_numpy() -> None:
    x = numpy.random.default_rng(random.randrange(2**31)).standard_normal((5, 4)).astype("float32")
    function = sl.compile(MASKS["rows"], (x,))
    for given in (x, -x, abs(x) + 1, -abs(x) - 1):
        numpy.testing.assert_array_equal(function(given), given[given[:, 0] > 0])


def test_threads() -> None:
    """Calls of several threads at once, with sizes of their own."""
    generator = seeded()
    function = sl.compile(MASKS["then_cat_behind"], (torch.randn(40, 4, generator=generator),))
    inputs = [torch.randn(40, 4, generator=generator) + shift for shift in (-1.0, 0.0, 1.0, 9.0)]
    failures: list[str] = []

    def work(x: Tensor) -> None:
        want = MASKS["then_cat_behind"](x)
        for _ in range(50):
            if not torch.equal(function(x), want):
                failures.append(f"{x.mean()}")

    workers = [threading.Thread(target=work, args=(x,)) for x in inputs]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


@pytest.mark.parametrize("way", WAYS)
def test_a_number_out_of_its_bounds(way: str) -> None:
    """What torch._check says is checked in each call, and the next call is unaffected."""
    x = torch.randn(5, 4)
    function = sl.compile(sliced, (x, torch.tensor(3)), **WAYS[way])
    for wrong in (6, -1):
        with pytest.raises(sl.UserError, match=rf"is {wrong} but must be in \[0, 5\].*data_sizes_test\.py"):
            function(x, torch.tensor(wrong))
    torch.testing.assert_close(function(x, torch.tensor(5)), x * 2)


def test_a_largest_element_of_nothing() -> None:
    x = torch.randn(5, 4)
    function = sl.compile(lambda x: x[x > 0].amax(), (x,))
    assert function(x) == x.max()
    with pytest.raises(sl.UserError, match=r"is 0 but must be in \[1, 20\]"):
        function(-x.abs())


@pytest.mark.parametrize("model", [
    lambda n: torch.arange(n.item()), lambda n: torch.ones(n.item()), lambda n: torch.repeat_interleave(torch.ones(3), n.expand(3)),
])  # fmt: skip
def test_a_size_without_a_bound(model: Model) -> None:
    """The op, its line, and what to write."""
    with pytest.raises(sl.UnsupportedError, match=r"data_sizes_test\.py.*torch\._check"):
        sl.compile(model, (torch.tensor(3),))


SLICES: dict[str, Model] = {
    "stack": lambda x, n: torch.stack([x[:n], x[:n] * 2]), "rows": lambda x, n: x[:n].reshape(n, 1, 4) + 1,
    "attention": lambda x, n: F.scaled_dot_product_attention(x[None, :n], x[None, :n], x[None, :n]),
    "product": lambda x, n: x[:n].t() @ x[:n], "cat": lambda x, n: torch.cat([x[:n], x]),
}  # fmt: skip


@pytest.mark.parametrize("name", SLICES)
def test_slices_by_a_number_without_bounds(name: str) -> None:
    """Each slice has a size of its own, and torch says that they are equal."""

    def model(x: Tensor, i: Tensor) -> Any:
        return SLICES[name](x, i.item())

    x = torch.randn(8, 4)
    check(model, [(x, torch.tensor(n)) for n in (3, 8, 1)])


#: Places that are numbers without bounds, and some that eager takes and that it does not.
PLACES: dict[str, tuple[Model, list[int], list[int]]] = {
    "select": (lambda x, n: x[n] * 2, [3, -2, 0, 7, -8], [8, -9]),
    "select of columns": (lambda x, n: (x * 2)[:, n], [3, -4, 0], [4, -5]),
    "narrow": (lambda x, n: x.narrow(0, n, 2) + 1, [3, -2, 0, 6, -8], [7, -9, -1]),
    "roll": (lambda x, n: x.roll(n, 0), [3, -2, 0, 8, 21, -30], []),
    "roll of all": (lambda x, n: x.roll(n) + 1, [3, -2, 40], []),
    "roll of two": (lambda x, n: x.roll((n, 1), (1, 0)), [3, -2, 9], []),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_places_by_a_number_without_bounds(name: str) -> None:
    function, right, wrong = PLACES[name]

    def model(x: Tensor, i: Tensor) -> Any:
        return function(x, i.item())

    x = torch.randn(8, 4)
    compiled = sl.compile(model, (x, torch.tensor(1)))
    assert all(row["backend"] != "aten" for row in compiled.explain().statements)
    for n in right:
        assert torch.equal(compiled(x, torch.tensor(n)), function(x, n)), n
    for n in wrong:
        with pytest.raises((IndexError, RuntimeError)):
            function(x, n)
        with pytest.raises(sl.UserError, match="out of range|narrow: 2 elements from u0 on are not within|u0 >= -8"):
            compiled(x, torch.tensor(n))
    sl.compile(model, (x, torch.tensor(1)), target="cuda:sm_90", allow=["cuda"])


#: Writes at an integer tensor of rank 0, or at the number in it; places that eager takes and some that it does not.
WRITES: dict[str, tuple[Callable[[Tensor, Tensor], Any], list[int], list[int]]] = {
    "a row": (lambda x, i: x.__setitem__(i, x[0] * 2), [3, -2, 0, 7, -8], [8, -9]),
    "a row of numbers": (lambda x, i: x.__setitem__(i.item(), 2.5), [3, -2, 7], [8, -9]),
    "a row of an int32": (lambda x, i: x.__setitem__(i.int(), x[1]), [3, -2], [8]),
    "a column": (lambda x, i: x.__setitem__((slice(None), i), x[:, 0] + 1), [3, -4, 0], [4, -5]),
    "a column of a number": (lambda x, i: x.__setitem__((slice(2, 5), i.item()), x[:3, 0] + 1), [3, -4], [4, -5]),
    "the last dim": (lambda x, i: x.__setitem__((..., i), 1), [3, -4, 0], [4, -5]),
    "an element": (lambda x, i: x.__setitem__((i, 2), x[0, 0] * 3), [3, -8], [8]),
    "with a new dim": (lambda x, i: x.__setitem__((i, None), x[None, 0] - 1), [3, -8], [8]),
    "leading ones": (lambda x, i: x.__setitem__((i, slice(1, 3)), x[None, :1, :2] + 1), [3, -8], [8]),
    "another type": (lambda x, i: x.__setitem__(i, torch.arange(4)), [3, -1], []),
    "in place": (lambda x, i: x[i].mul_(3), [3, -8, 0], [8, -9]),
    "add to it": (lambda x, i: x.__setitem__(i, x[i] + 1), [3, -8, 0], [8, -9]),
    "from it on": (lambda x, i: x.__setitem__(slice(i, None), 0), [3, 0, 8, -2, 20, -20], []),
    "up to it": (lambda x, i: x.__setitem__(slice(None, i.item()), x[0]), [3, 0, 8, -2, 20, -20], []),
    "some rows": (lambda x, i: x.__setitem__(slice(i.item(), i.item() + 2), x[0]), [3, 0, 7, -3, 20], []),
    "that many rows": (lambda x, i: x.__setitem__(slice(i.item(), i.item() + 2), x[:2] * 2), [3, 0, 6, -3], [7, -1, 20]),
    "columns": (lambda x, i: x.__setitem__((slice(1, 3), slice(i, i + 1)), 5.0), [3, 0, -3, 9], []),
    "in place from it on": (lambda x, i: x[i.item() :].neg_(), [3, 0, 8, -2], []),
}  # fmt: skip


#: Torch up to 2.11 at least exports these with a number that nothing bounds, which is refused in words.
_NOT_OF_OLD_TRACES = ("in place", "add to it", "up to it", "some rows", "that many rows")


@pytest.mark.parametrize("name", [n for n in WRITES if torch.__version__ >= (2, 13) or n not in _NOT_OF_OLD_TRACES])
def test_writes_at_a_number(name: str) -> None:
    """A ring buffer's, a cache's: the tensor written is an input, or a copy of one."""
    write, right, wrong = WRITES[name]

    def model(x: Tensor, i: Tensor) -> Tensor:
        y = x + 1
        write(y, i)
        write(x, i)
        return y

    x = torch.randn(8, 4, generator=seeded())
    for way in WAYS.values():
        compiled = sl.compile(model, (x.clone(), torch.tensor(1)), **way)
        assert all(row["backend"] != "aten" for row in compiled.explain().statements)
        for n in right:
            given, wanted = x.clone(), x.clone()
            want = model(wanted, torch.tensor(n))
            torch.testing.assert_close(compiled(given, torch.tensor(n)), want, rtol=0, atol=0)
            torch.testing.assert_close(given, wanted, rtol=0, atol=0)
        for n in wrong:
            with pytest.raises((IndexError, RuntimeError)):
                model(x.clone(), torch.tensor(n))
            with pytest.raises(sl.UserError, match="out of range|as torch says it is|u0 >= -|u0 <= "):
                compiled(x.clone(), torch.tensor(n))
    sl.compile(model, (x, torch.tensor(1)), target="cuda:sm_90", allow=["cuda"])


def _written_beside_places(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    y = x + 1
    y[i, torch.tensor([1, 2])] = 0
    return y


def test_writes_at_numbers_that_are_no_places() -> None:
    """A tensor of places beside the number (which torch captures from 2.15 on), and too many dims."""
    x = torch.randn(8, 4, generator=seeded())
    if torch.__version__ < "2.15":
        with pytest.raises(sl.UnsupportedError, match="a number or size that depends on data"):
            sl.compile(_written_beside_places, (x, torch.tensor(1)))
    else:
        compiled = sl.compile(_written_beside_places, (x, torch.tensor(1)))
        for n in (0, 7, -8):
            assert torch.equal(compiled(x, torch.tensor(n)), _written_beside_places(x, torch.tensor(n)))
        with pytest.raises(sl.UserError, match="u0 <= 7"):
            compiled(x, torch.tensor(8))
    with pytest.raises(sl.UserError, match="too many indices for tensor of dimension 2"):
        sl.compile(lambda x, i: (x + 1).__setitem__((i, i, i), 0), (x, torch.tensor(1)))


def test_a_number_without_bounds_is_no_argument() -> None:
    """Of an op of torch's; it ended the process."""
    with pytest.raises(sl.UnsupportedError, match=r"depends on data"):
        sl.compile(lambda x, i: x.tril(i.item()), (torch.randn(8, 4), torch.tensor(3)))


@pytest.mark.parametrize("name", MASKS)
def test_for_a_device(name: str) -> None:
    """One wait a size, and one a check of sizes; no op of torch's."""
    compiled = sl.compile(MASKS[name], (torch.randn(5, 4),), target="cuda:sm_90", allow=["cuda"])
    waits = [row for row in compiled.explain().statements if row["op"] == "read on the host"]
    ir = compiled.ir("kernel")
    assert len(waits) == ir.count("kernel.set_extent ") + ir.count("kernel.check ") > 0


def test_an_out_that_cannot_be_given() -> None:
    x = torch.randn(5, 4)
    with pytest.raises(sl.UserError, match="depends on data"):
        sl.compile(MASKS["mask"], (x,))(x, out=torch.empty(3))


def test_by_the_backend() -> None:
    """Graphs of Dynamo that have such sizes."""
    generator = seeded()
    with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        for model in (MASKS["then_elementwise"], MASKS["nonzero"], MASKS["then_cat"]):
            torch._dynamo.reset()
            compiled = torch.compile(model, backend="straightline", fullgraph=True)
            for (x,) in rows(generator, 5, 4):
                torch.testing.assert_close(compiled(x), model(x))


@pytest.mark.parametrize("dim", [0, 1, 2])  # of -1 torch's fake kernel has the sizes of another tensor
@pytest.mark.parametrize("consecutive", [False, True])
@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.bool, torch.uint8])
def test_unique_along_a_dim(dim: int, consecutive: bool, dtype: torch.dtype) -> None:
    generator = seeded()
    find = torch.unique_consecutive if consecutive else torch.unique

    def model(x: Tensor) -> Any:
        values, inverse, counts = find(x, dim=dim, return_inverse=True, return_counts=True)
        return values, inverse, counts, values.sum()

    most = 2 if dtype in (torch.bool, torch.uint8) else 3
    calls = [(torch.randint(0, most, (7, 3, 2), generator=generator).to(dtype),) for _ in range(4)]
    compiled = check(model, [*calls, (torch.zeros(7, 3, 2, dtype=dtype),)])
    assert all(row["backend"] != "aten" for row in compiled[0].explain().statements)
    edges = lambda e: torch.unique(e, dim=1)  # noqa: E731  (of a graph)
    check(edges, [(torch.randint(0, 4, (2, 30), generator=generator),) for _ in range(3)])
    sl.compile(edges, (torch.zeros(2, 30, dtype=torch.int64),), target="cuda:sm_90", allow=["cuda"])
    with pytest.raises(sl.UnsupportedError, match="unique along dim 0 of parts of 40 elements"):
        sl.compile(lambda x: torch.unique(x, dim=0), (torch.zeros(3, 40),))


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("counts", [False, True])
def test_results_of_unique_that_are_not_asked_for(inverse: bool, counts: bool) -> None:
    """They have no elements, as in ATen."""
    ops = torch.ops.aten
    says_sizes = torch.__version__ >= (2, 12)  # of `_unique` older ones say that it finds one number
    function = lambda x: [  # noqa: E731
        *ops._unique2(x, True, inverse, counts), *ops.unique_consecutive(x, inverse, counts),
        *(ops._unique(x, True, inverse) if says_sizes else ()),
    ]  # fmt: skip
    x = torch.randint(0, 4, (3, 4))
    got, eager = sl.compile(function, (x,))(x), function(x)
    assert [y.shape for y in got] == [y.shape for y in eager]
    assert all(torch.equal(a, b) for a, b in zip(got, eager))


@_TRACES_BINCOUNT
def test_bincount_of_a_trace_with_other_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    """As torch 2.11 traces it: the ops behind it have those elements, so it is refused."""
    monkeypatch.setattr("straightline.capture.torch.aten_data_sizes.dtype_name", lambda dtype: "i32")
    words = r"bincount with a result of i64 that torch .* traces as i32, .*; nearest supported form: a newer torch"
    with pytest.raises(sl.UnsupportedError, match=words):
        sl.compile(lambda x: _counted(x, 40), (torch.tensor([0, 5, 5], dtype=torch.int32),))
