# SPDX-License-Identifier: Apache-2.0
"""Sizes: the larger and the smaller one of two, quotients and bounds, compared with Python's numbers."""

from __future__ import annotations

import random
import re

import pytest

from straightline.capture.extents import Dim, Extent, bounds, exact_quotient, maximum, minimum, value_of

_N, _T = Extent("n"), Extent("t")


def _expressions(numbers: random.Random, symbols: dict[str, tuple[int, int]]) -> list[tuple[str, Dim, Dim, Dim]]:
    """An op's name, its operands and what it gave; an operand may be what another one gave."""
    pool: list[Dim] = [_N, _T, _N * 2 + 1, _N // 3, 5, 0, 17, _N + _T, _N * _T]
    found = []
    for _ in range(3):
        x, y = numbers.choice(pool), numbers.choice(pool)
        op = numbers.choice(["max", "min", "add", "sub", "quarters"])
        result = {
            "max": lambda x=x, y=y: maximum(x, y, symbols), "min": lambda x=x, y=y: minimum(x, y, symbols),
            "add": lambda x=x, y=y: x + y, "sub": lambda x=x, y=y: x - y, "quarters": lambda x=x: (x + 7) // 4,
        }[op]()  # fmt: skip
        found.append((op, x, y, result))
        if len(found) < 3:
            pool.append(result)
    return found


def test_values_and_bounds() -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    numbers = random.Random(seed)
    ops = {"max": max, "min": min, "add": int.__add__, "sub": int.__sub__, "quarters": lambda x, _: (x + 7) // 4}
    for _ in range(150):
        low, least = numbers.randint(0, 20), numbers.randint(1, 5)
        symbols = {"n": (low, low + numbers.randint(0, 20)), "t": (least, least + numbers.randint(0, 3))}
        found = [(op, x, y, result, bounds(result, symbols)) for op, x, y, result in _expressions(numbers, symbols)]
        for n in range(symbols["n"][0], symbols["n"][1] + 1, 3):
            for t in range(symbols["t"][0], symbols["t"][1] + 1):
                at = {"n": n, "t": t}
                for op, x, y, result, (smallest, largest) in found:
                    value = value_of(result, at)
                    assert value == ops[op](value_of(x, at), value_of(y, at)), (op, x, y, at)
                    assert smallest <= value <= largest, (result, symbols)


def test_equal_sizes_have_equal_texts() -> None:
    symbols = {"n": (1, 10**9)}
    assert _N + maximum(256 - _N, 0, symbols) == maximum(_N, 256, symbols)
    assert maximum(_N, 256, symbols) == maximum(256, _N, symbols)
    assert maximum(_N, 256, symbols) + minimum(_N, 256, symbols) == _N + 256


@pytest.mark.parametrize(("low", "high", "wanted"), [(256, 999, _N), (1, 256, 256), (300, 300, _N)])
def test_bounds_decide_which_is_larger(low: int, high: int, wanted: Dim) -> None:
    assert maximum(_N, 256, {"n": (low, high)}) == wanted


def test_bounds_of_pads() -> None:
    symbols = {"n": (1, 10**9)}
    whole = maximum(_N, 256, symbols)
    assert bounds(maximum(256 - _N, 0, symbols), symbols) == (0, 255)
    assert bounds(whole, symbols) == (256, 10**9)
    assert bounds((whole + 255) // 256 * 256 - whole, symbols) == (0, 255)
    assert bounds((_N + 255) // 256 - _N // 256, symbols) == (0, 1)
    assert bounds(maximum(_N // 256, 1, symbols), symbols)[0] == 1


@pytest.mark.parametrize(
    ("x", "y", "wanted"),
    [
        (_N * _T * 4, _N * _T, 4), (_N * _N + _N, _N + 1, _N), ((_N + 2) * (_T * 3 + 1), _T * 3 + 1, _N + 2),
        (_N * 6 + 3, 3, _N * 2 + 1), (_N * 3, 2, None), (_N + 1, _N, None), (_N, _T, None), (_N, 0, None), (0, _N, 0),
    ],
)  # fmt: skip
def test_exact_quotients(x: Dim, y: Dim, wanted: Dim | None) -> None:
    assert exact_quotient(x, y) == wanted


def test_bounds_beyond_64_bits_stay_in_texts_of_64_bits() -> None:
    """Products of sizes without bounds: the larger one is right for every size that a tensor can have."""
    symbols = {name: (1, 999_999_999) for name in "abcn"}
    a, b, c = (Extent(name) for name in "abc")
    found = maximum(a * b * c * 4, _N, symbols)
    assert max(map(int, re.findall(r"\d+", str(found))), default=0) < 2**63
    for sizes in ({"a": 3, "b": 5, "c": 2, "n": 7}, {"a": 1, "b": 1, "c": 1, "n": 50_000}):
        assert value_of(found, sizes) == max(sizes["a"] * sizes["b"] * sizes["c"] * 4, sizes["n"])
