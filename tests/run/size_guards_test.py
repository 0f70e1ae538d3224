# SPDX-License-Identifier: Apache-2.0
"""Sizes that torch.export is left to find (Dim.AUTO, Dim.DYNAMIC): relations hold by types, or each call checks them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.export import Dim

import straightline as sl
from straightline.capture.builder import Extent
from straightline.capture.torch.size_guards import size_guards
from straightline.capture.torch.symbolic_sizes import scaled
from straightline.errors import CheckError

WAYS: dict[str, dict[str, Any]] = {"line": {}, "python": {"emit": "python"}, "interpreter": {"fast_path": False}}


@pytest.fixture(autouse=True)
def _seeded() -> None:
    seed = random.randrange(2**31)
    print(f"seed {seed}")
    torch.manual_seed(seed)


def _below(limit: int) -> Callable[[Tensor], Tensor]:
    return lambda x: x + 1 if x.shape[0] * x.shape[1] < limit else x - 1


def _not_longer(x: Tensor, y: Tensor) -> Tensor:
    return x + 1 if x.shape[0] <= y.shape[0] else x - 1


def _one_more(x: Tensor, pair: tuple[Tensor, Tensor]) -> Tensor:
    return x + pair[1].sum() if x.shape[0] - pair[0].shape[0] >= 1 else x


#: Function, shapes of its example, dynamic dims, shapes that are right, shapes that are wrong with error and words.
CASES: dict[str, tuple[Any, ...]] = {
    "twice another": (
        lambda x, y: x + torch.cat([y, y]), [(8, 3), (4, 3)], ({0}, {0}), [[(6, 3), (3, 3)], [(40, 3), (20, 3)]],
        [([(7, 3), (4, 3)], sl.GuardError, r"'x': dim 0 is 7 but .* s0 \* 2 = 8")],
    ),
    "equal": (
        lambda x, y: x + y, [(8,), (8,)], ({0}, {0}), [[(3,), (3,)]],
        [([(7,), (4,)], sl.GuardError, "'y': dim 0 is 4")],
    ),
    "a multiple": (
        lambda x: x.view(-1, 4) * 2, [(12,)], ({0},), [[(8,)], [(64,)]],
        [([(13,)], sl.GuardError, r"dim 0 is 13 but .* s0 \* 4, and no whole number s0 gives this size")],
    ),
    "two conditions in one": (
        lambda x, y: torch.baddbmm(x, y, y), [(2, 4, 4), (2, 4, 4)], ({0, 1, 2}, {0, 1, 2}), [[(3, 5, 5), (3, 5, 5)]],
        [([(3, 5, 5), (3, 5, 4)], sl.GuardError, "dim 2 is 4")],
    ),
    "one of two": (
        lambda x, y: torch.addr(x, y, y), [(5, 5), (5,)], ({0, 1}, {0}), [[(3, 3), (3,)]],
        [([(4, 4), (5,)], sl.GuardError, "dim 0 is 5")],
    ),
    "a range": (
        lambda x: x + 1 if 5 < x.shape[0] < 100 else x, [(8,)], ({0},), [[(6,)], [(99,)]],
        [([(5,)], sl.GuardError, "dim 0 is 5"), ([(100,)], sl.GuardError, "dim 0 is 100")],
    ),
    "not a number": (
        lambda x: x + 1 if x.shape[0] != 7 else x, [(8,)], ({0},), [[(6,)], [(9,)]],
        [([(7,)], CheckError, "dim 0 of 'x' must not be 7")],
    ),
    "at most another": (
        _not_longer, [(8,), (9,)], ({0}, {0}), [[(3,), (3,)], [(2,), (30,)]],
        [([(4,), (3,)], CheckError, "dim 0 of 'x' must be at most dim 0 of 'y'")],
    ),
    "a product": (
        _below(100), [(8, 3)], ({0, 1},), [[(33, 3)], [(2, 2)]],
        [([(10, 10)], CheckError, "must be less than 100")],
    ),
    "zero and one": (
        lambda x: x + 1, [(8,)], ({0},), [[(2,)]],
        [([(0,)], sl.GuardError, "dim 0 is 0"), ([(1,)], sl.GuardError, "dim 0 is 1")],
    ),
}  # fmt: skip


def _tensors(shapes: list[tuple[int, ...]]) -> tuple[Tensor, ...]:
    return tuple(torch.randn(shape) for shape in shapes)


@pytest.mark.parametrize("hint", [Dim.AUTO, Dim.DYNAMIC], ids=["AUTO", "DYNAMIC"])
@pytest.mark.parametrize("name", CASES)
def test_guards(name: str, hint: Any) -> None:
    function, example, dims, right, wrong = CASES[name]
    shapes = tuple(dict.fromkeys(sorted(of), hint) for of in dims)
    for way in WAYS.values():
        compiled = sl.compile(function, _tensors(example), dynamic_shapes=shapes, **way)
        for given in [example, *right]:
            args = _tensors(given)
            torch.testing.assert_close(compiled(*args), function(*args))
        for given, error, words in wrong:
            with pytest.raises(error, match=words):
                compiled(*_tensors(given))
        args = _tensors(example)  # a call that failed leaves nothing behind
        torch.testing.assert_close(compiled(*args), function(*args))


def test_sizes_of_tensors_in_a_tuple() -> None:
    """A difference of sizes may be negative: the check says so, nothing else fails."""
    example = (torch.randn(8), (torch.randn(7), torch.randn(3)))
    shapes = ({0: Dim.AUTO}, ({0: Dim.AUTO}, None))
    compiled = sl.compile(_one_more, example, dynamic_shapes=shapes)
    args = (torch.randn(9), (torch.randn(4), torch.randn(3)))
    torch.testing.assert_close(compiled(*args), _one_more(*args))
    with pytest.raises(
        CheckError, match=r"dim 0 of 'x' - dim 0 of 'pair\[0\]' must be at least 1|dim 0 of 'pair\[0\]'"
    ):
        compiled(torch.randn(4), (torch.randn(6), torch.randn(3)))


def test_an_exported_program() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return _not_longer(x, y)

    exported = torch.export.export(
        Model(), (torch.randn(8), torch.randn(9)), dynamic_shapes=({0: Dim.AUTO}, {0: Dim.AUTO})
    )
    compiled = sl.compile(exported)
    x = torch.randn(3)
    torch.testing.assert_close(compiled(x, x), x + 1)
    words = r"dim 0 of 'x' must be at most dim 0 of 'y': s\d+ <= s\d+ \(s\d+ = 4, s\d+ = 3\)"
    with pytest.raises(CheckError, match=words):
        compiled(torch.randn(4), x)


@pytest.mark.parametrize(
    "guard",
    [
        "L['x'].size()[0] in (3, 4)",
        "L['z'].size()[0] > 2",
        "L['x'].size()[0] >",
    ],
)
def test_a_guard_that_compares_no_two_sizes_is_refused(guard: str) -> None:
    with pytest.raises(sl.UnsupportedError, match="calls would have to check that .* named Dim"):
        size_guards([guard], {"x": [3]}, {})


def test_a_guard_of_several_comparisons() -> None:
    guards = size_guards(["3 < L['x'].size()[0] < 9 and L['x'].size()[0] != 5"], {"x": [Extent("n")]}, {"n": (0, 99)})
    assert [guard.words for guard in guards] == [
        "3 must be less than dim 0 of 'x'", "dim 0 of 'x' must be less than 9", "dim 0 of 'x' must not be 5"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("guard", "words"),
    [
        ("L['x'].size()[0] < 3 or L['x'].size()[0] > 9", ["dim 0 of 'x' < 3 or dim 0 of 'x' > 9 must hold"]),
        ("L['x'].size()[0] < 3 or L['x'].size()[1] > 9", ["dim 0 of 'x' must be less than 3"]),
        ("min(L['x'].size()[0], L['x'].size()[0] * L['x'].size()[1]) == L['x'].size()[0]", []),
        (
            "torch.sym_min(L['x'].size()[0], L['x'].size()[0] * L['x'].size()[1]) == L['x'].size()[0]",
            [],
        ),  # of torch 2.15
        ("torch.sym_max(L['x'].size()[0], 4) == 5", ["dim 0 of 'x' must be at least 4", "dim 0 of 'x' must be 5"]),
        ("1 < max(1, L['x'].size()[0])", ["dim 0 of 'x' must be greater than 1", "1 must be less than dim 0 of 'x'"]),
        ("max(L['x'].size()[0], 4) == 5", ["dim 0 of 'x' must be at least 4", "dim 0 of 'x' must be 5"]),
        ("math.trunc(0.5*torch.sym_float(L['x'].size()[0])) != 7", ["math.trunc(0.5 * torch.sym_float(dim 0 of 'x'))"]),
        ("L['x'].size()[0] // (L['x'].size()[0] // 3) == 3", ["dim 0 of 'x' // (dim 0 of 'x' // 3) must be 3"]),
    ],
)
def test_guards_of_alternatives(guard: str, words: list[str]) -> None:
    """What the bounds decide is left out."""
    found = size_guards([guard], {"x": [Extent("n"), Extent("m")]}, {"n": (0, 99), "m": (2, 8)})
    assert len(found) == len(words)
    for one, said in zip(found, words, strict=True):
        assert one.words.startswith(said)


#: Functions for which torch's guards have alternatives or sizes that only a call can show to be equal: shapes that are right,
#: the first of them the example, and shapes that are wrong.
EVERY_SIZE: dict[str, tuple[Callable[..., Any], list[list[tuple[int, ...]]], list[list[tuple[int, ...]]]]] = {
    "matmul": (torch.matmul, [[(2, 3, 4), (4, 5)], [(6, 2, 3), (3, 8)]], [[(2, 3, 4), (5, 4)]]),
    "instance_norm": (F.instance_norm, [[(2, 3, 4, 5)], [(4, 2, 7, 3)]], []),
    "conv3d": (F.conv3d, [[(2, 3, 4, 5, 6), (4, 3, 2, 2, 3)], [(3, 5, 6, 7, 8), (2, 5, 3, 3, 2)]], []),
    "linear": (lambda x, w: F.linear(x.view(x.shape[0] // 3, -1), w[: w.shape[0] // 2]), [[(6, 4), (4, 12)], [(9, 5), (8, 15)]], []),
    "glu": (lambda x: F.glu(x, 0), [[(4, 6)], [(8, 3)]], [[(7, 3)]]),
    "reshape_as": (torch.Tensor.reshape_as, [[(6, 4), (2, 3, 4)], [(12, 5), (4, 3, 5)]], [[(6, 4), (5, 3, 4)]]),
    "view": (lambda x, y: x.view(-1, y.shape[0]), [[(6, 4), (8,)], [(6, 10), (20,)]], [[(6, 10), (7,)]]),
    "replicate": (lambda x: F.pad(x, (1, 2), mode="replicate"), [[(2, 3, 6)], [(3, 4, 9)]], []),
    "interpolate by 1.7": (lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"), [[(2, 2, 6, 9)], [(3, 2, 10, 31)]], []),
    "interpolate by 0.6": (lambda x: F.interpolate(x, scale_factor=0.6), [[(2, 2, 6, 9)], [(3, 2, 10, 31)]], []),
    "area": (lambda x: F.interpolate(x, scale_factor=0.5, mode="area"), [[(2, 2, 6, 8)], [(3, 2, 10, 31)]], []),
}  # fmt: skip


@pytest.mark.parametrize("name", EVERY_SIZE)
def test_every_size_named(name: str) -> None:
    function, right, wrong = EVERY_SIZE[name]

    class Model(torch.nn.Module):
        def forward(self, *given: Tensor) -> Tensor:
            return function(*given)

    sized = tuple(tuple(Dim.AUTO for _ in shape) for shape in right[0])
    compiled = sl.compile(torch.export.export(Model(), _tensors(right[0]), dynamic_shapes=(sized,)))
    for shapes in right:
        given = _tensors(shapes)
        torch.testing.assert_close(compiled(*given), function(*given), rtol=1e-4, atol=1e-4)
    for shapes in wrong:
        with pytest.raises(sl.UserError):
            compiled(*_tensors(shapes))


def test_scaled_sizes() -> None:
    """The whole part of a size times a float, and those floats for which no fraction has it."""
    for factor in (0.1, 0.25, 0.5, 0.6, 1.5, 1.7, 2.5, 224 / 256):
        sizes = random.sample(range(2**31), 2000)
        assert [scaled(size, factor) for size in sizes] == [math.trunc(factor * size) for size in sizes]
    for factor in (0.29, 0.7, math.pi, 0.0, -0.5):
        with pytest.raises(sl.UnsupportedError, match="whole part of a size times"):
            scaled(100, factor)


class OfAny(torch.nn.Module):
    """A product of as many tensors as are given."""

    def forward(self, *factors: Tensor) -> Tensor:
        return factors[0] * factors[1] + factors[0].sum(0)


def test_an_exported_program_of_variable_arguments() -> None:
    """Its guards are about `factors[0]`, where the program calls it `factors_0`."""
    size = {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}
    x = torch.randn(3, 4)
    exported = torch.export.export(OfAny(), (x, torch.randn(3, 4)), dynamic_shapes=((size, size),))
    compiled = sl.compile(exported)
    for given in ((torch.randn(5, 2), torch.randn(5, 2)), (x, x)):
        torch.testing.assert_close(compiled(*given), OfAny()(*given))
    with pytest.raises(sl.UserError, match="dim 0 is 5"):
        compiled(x, torch.randn(5, 4))


#: Function, and shapes of tensors and of indices: no shape function of torch relates their sizes.
UNRELATED: dict[str, tuple[Any, list[tuple[int, ...]], list[tuple[int, ...]]]] = {
    "index_add": (lambda x, y, i: x.index_add(0, i, y), [(5, 4), (2, 4)], [(2,)]),
    "index_reduce": (lambda x, y, i: x.index_reduce(0, i, y, "amax"), [(5, 4), (2, 4)], [(2,)]),
    "index_put": (lambda x, y, i: x.index_put((i,), y, accumulate=True), [(5, 4), (2, 4)], [(2,)]),
    "put": (lambda x, y, i: x.put(i, y, accumulate=True), [(5, 4), (2,)], [(2,)]),
    "select_scatter": (lambda x, y: x.select_scatter(y, 0, 1), [(5, 4), (4,)], []),
    "slice_scatter": (lambda x, y: x.slice_scatter(y, 1, 1, 3), [(5, 4), (5, 2)], []),
    "masked_select": (lambda x, y: torch.masked_select(x, y < 0), [(5, 4), (4,)], []),
}


@pytest.mark.filterwarnings("ignore:index_reduce:UserWarning")
@pytest.mark.parametrize("name", UNRELATED)
def test_sizes_that_an_op_needs_to_be_equal(name: str) -> None:
    """They are one size, and a call where they differ is refused as others are."""
    function, shapes, indices = UNRELATED[name]
    sized = [tuple(Dim.AUTO if name != "slice_scatter" or d == 0 else None for d in range(len(s))) for s in shapes]

    class Model(torch.nn.Module):
        def forward(self, *given: Tensor) -> Tensor:
            return function(*given)

    def made(more: int) -> tuple[Tensor, ...]:
        grown = [tuple(n + more if d is not None else n for n, d in zip(s, ds)) for s, ds in zip(shapes, sized)]
        return (
            *(torch.randn(shape) for shape in grown),
            *(torch.randint(0, 5, (s[0] + more,)) for s in indices),
        )

    dynamic = ((*sized, *((Dim.AUTO,) for _ in indices)),)
    compiled = sl.compile(torch.export.export(Model(), made(0), dynamic_shapes=dynamic))
    for more in (0, 3):
        given = made(more)
        torch.testing.assert_close(compiled(*given), function(*given))
    wrong = list(made(0))
    wrong[1] = torch.randn([size + 1 for size in wrong[1].shape])
    with pytest.raises(sl.GuardError, match="dim . is"):
        compiled(*wrong)


@pytest.mark.parametrize(
    ("least", "function"),
    [
        (4, lambda x: x.select_scatter(torch.zeros(4), 0, 3)),
        (3, lambda x: x.select_scatter(torch.zeros(4), 0, -3)),
        (4, lambda x: x.slice_scatter(torch.zeros(3, 4), 0, 1, 4)),
        (6, lambda x: x.slice_scatter(torch.zeros(3, 4), 0, 1, 7, 2)),
    ],
)
def test_writes_at_a_number_need_as_many_elements(least: int, function: Any) -> None:
    """What torch traces says nothing of it: a smaller tensor was written past its end."""

    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return function(x)

    compiled = sl.compile(torch.export.export(Model(), (torch.randn(9, 4),), dynamic_shapes=({0: Dim.AUTO},)))
    for size in (least, least + 5):
        x = torch.randn(size, 4)
        torch.testing.assert_close(compiled(x), function(x))
    with pytest.raises(sl.GuardError, match=f"dim 0 is {least - 1} but .* in \\[{least}, "):
        compiled(torch.randn(least - 1, 4))


def test_a_source_of_a_named_size_for_a_slice_of_a_number() -> None:
    """Torch does it, which looks at both sizes."""

    class Model(torch.nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return x.slice_scatter(y, 0, 1, 4)

    exported = torch.export.export(
        Model(), (torch.randn(6, 4), torch.randn(3, 4)), dynamic_shapes=({0: Dim.AUTO}, {0: Dim.AUTO})
    )
    compiled = sl.compile(exported)
    assert "dim 0 of what is written has the named size s1, not 3" in compiled.ir("op")
    given = torch.randn(7, 4), torch.randn(3, 4)
    torch.testing.assert_close(compiled(*given), Model()(*given))
    # Before 2.13 torch's message stands in standard error alone.
    with pytest.raises(
        sl.OpError, match="expected src to have a size equal to the slice of self|to standard error only"
    ):
        compiled(torch.randn(7, 4), torch.randn(2, 4))
