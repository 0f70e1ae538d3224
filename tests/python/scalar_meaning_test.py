# SPDX-License-Identifier: Apache-2.0
"""The scalar meaning of elementwise ops against torch: literals are folded by straightline-opt and compared."""

from __future__ import annotations

import os
import random
import re
import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

INF = float("inf")
#: Edge values; random ones join them.
EDGES = [-7.5, -2.5, -1.0, -0.5, -0.0, 0.0, 0.25, 0.5, 1.0, 1.5, 2.5, 3.5, 30.0, INF, -INF, float("nan")]
SECOND_EDGES = [2.0, -2.0, 3.0, 0.5, 1.0, 0.0, -0.25, 2.0, -1.5, INF, 2.5, -0.5, 3.0, 1.0, 2.0, 1.0]
POSITIVE = [0.125, 0.5, 1.0, 2.0, 7.25, 1000.0]
INTEGERS = [-7, 7, -8, 8, 0, 5, -1, 3]
SECOND_INTEGERS = [3, -3, 4, 4, 5, -2, 2, -3]
DTYPES = {"f32": torch.float32, "i64": torch.int64, "i1": torch.bool, "ui8": torch.uint8}


@dataclass
class Case:
    """One op on literals and what torch gives."""

    op: str
    operands: list[torch.Tensor]
    expected: torch.Tensor
    attributes: str = ""
    #: Absolute error allowed.
    absolute: float = 1e-7


def _kind(tensor: torch.Tensor) -> str:
    return next(name for name, dtype in DTYPES.items() if dtype == tensor.dtype)


def _type(tensor: torch.Tensor) -> str:
    return f"tensor<{tensor.numel()}x{_kind(tensor)}>"


def _literal(tensor: torch.Tensor) -> str:
    if tensor.dtype == torch.float32:
        words = (struct.unpack("<I", struct.pack("<f", value))[0] for value in tensor.tolist())
        return ", ".join(f"0x{word:08X}" for word in words)
    return ", ".join(str(value).lower() for value in tensor.tolist())


def _cases(seed: int) -> list[Case]:
    rng = random.Random(seed)
    x = torch.tensor(EDGES + [rng.uniform(-9, 9) for _ in range(8)])
    y = torch.tensor(SECOND_EDGES + [rng.choice((-1, 1)) * rng.uniform(0.1, 9) for _ in range(8)])
    positive = torch.tensor(POSITIVE + [rng.uniform(0.01, 50) for _ in range(8)])
    i, j = torch.tensor(INTEGERS), torch.tensor(SECOND_INTEGERS)
    finite = x[torch.isfinite(x)]
    cases: list[Case] = []

    def unary(names: str, operand: torch.Tensor) -> None:
        cases.extend(Case(name, [operand], getattr(torch, name)(operand)) for name in names.split())

    def binary(names: str, a: torch.Tensor, b: torch.Tensor) -> None:
        cases.extend(Case(name, [a, b], getattr(torch, name)(a, b)) for name in names.split())

    def truncated(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.div(a, b, rounding_mode="trunc")

    unary("neg abs exp expm1 reciprocal sin cos tan tanh sigmoid relu erf floor ceil round trunc sign", x)
    unary("isnan isinf logical_not", x)
    unary("log log1p log2 log10 sqrt", positive)  # upstream folds all of math but rsqrt and atan2
    unary("neg abs sign relu bitwise_not logical_not", i)
    functions: list[tuple[str, Callable[[torch.Tensor], torch.Tensor], str]] = [
        ("silu", F.silu, ""),
        ("hardsigmoid", F.hardsigmoid, ""),
        ("hardswish", F.hardswish, ""),
        ("leaky_relu", F.leaky_relu, "{negative_slope = 0.01 : f64}"),
        ("elu", F.elu, "{alpha = 1.0 : f64}"),
        ("softplus", F.softplus, "{beta = 1.0 : f64, threshold = 20.0 : f64}"),
        ("clamp", lambda t: t.clamp(-1, 2), "{min = -1.0 : f64, max = 2.0 : f64}"),
    ]
    functions.append(("special", torch.exp2, '{function = "exp2"}'))
    cases.append(Case("special", [x, y], torch.copysign(x, y), '{function = "copysign"}'))
    cases += [Case(name, [x], function(x), attributes) for name, function, attributes in functions]
    # torch gives NaN for infinity in f32 but infinity in f64: finite values only. 1 + erf and 1 + tanh cancel, which
    # leaves an ulp of 1 times x / 2, whatever the order of the factors.
    for form in ("none", "tanh"):
        expected = F.gelu(finite.double(), approximate=form).float()
        cases.append(Case("gelu", [finite], expected, f'{{approximate = "{form}"}}', 2.0**-23 * 9 / 2))
    binary("add sub mul div floor_divide remainder fmod pow maximum minimum", x, y)
    binary("add sub mul floor_divide remainder fmod maximum minimum bitwise_and bitwise_or bitwise_xor", i, j)
    for a, b in ((x, y), (i, j)):
        binary("eq ne lt le gt ge logical_and logical_or logical_xor", a, b)
        cases.append(Case("trunc_divide", [a, b], truncated(a, b)))
    cases.append(Case("pow", [i, j.abs()], torch.pow(i, j.abs())))
    cases += [Case("to_dtype", [finite], finite.to(dtype)) for dtype in (torch.int64, torch.bool)]
    cases += [Case("to_dtype", [i], i.to(dtype)) for dtype in (torch.float32, torch.bool, torch.uint8)]
    return cases


def _text(number: int, case: Case) -> str:
    names = [f"%a{place}" for place in range(len(case.operands))]
    lines = [
        f"  {name} = op.constant dense<[{_literal(operand)}]> : {_type(operand)}"
        for name, operand in zip(names, case.operands, strict=True)
    ]
    types, result = ", ".join(_type(operand) for operand in case.operands), _type(case.expected)
    lines.append(f"  %r = op.{case.op} {', '.join(names)} {case.attributes} : ({types}) -> {result}")
    body = "\n".join(lines)
    return f"func.func @case{number}() -> {result} {{\n{body}\n  return %r : {result}\n}}\n"


def _opt() -> str:
    built = Path(__file__).parents[2].glob("build/*/tools/straightline-opt")
    candidates = sorted(built, key=lambda path: path.stat().st_mtime)
    tool = os.environ.get("STRAIGHTLINE_OPT") or (str(candidates[-1]) if candidates else "")
    if not tool:
        pytest.fail("straightline-opt is not built; set STRAIGHTLINE_OPT to its path")
    return tool


def _parse(token: str, dtype: torch.dtype) -> float | int | bool:
    if token in ("true", "false"):
        return token == "true"
    if token.startswith("0x"):
        return struct.unpack("<f", struct.pack("<I", int(token, 16)))[0]
    return float(token) if dtype == torch.float32 else int(token)


def test_scalar_meaning_is_torch() -> None:
    """Each op folds, and to what torch gives."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    cases = _cases(seed)
    module = "".join(_text(number, case) for number, case in enumerate(cases))
    command = [_opt(), "--canonicalize", "--mlir-print-elementsattrs-with-hex-if-larger=-1", "-"]
    folded = subprocess.run(command, input=module, capture_output=True, text=True, check=True).stdout
    bodies = dict(re.findall(r"func\.func @case(\d+)\(\)(.*?)\n  }", folded, re.DOTALL))
    for number, case in enumerate(cases):
        found = re.search(r"op\.constant dense<\[?(.*?)\]?> : .*\n +return", bodies[str(number)])
        assert found and f"op.{case.op} " not in bodies[str(number)], (
            f"op.{case.op} did not fold: {bodies[str(number)]}"
        )
        tokens = found.group(1).split(", ")
        values = [_parse(token, case.expected.dtype) for token in tokens] * (case.expected.numel() // len(tokens))
        actual = torch.tensor(values, dtype=case.expected.dtype)
        torch.testing.assert_close(
            actual,
            case.expected,
            rtol=2e-6,
            atol=case.absolute,
            equal_nan=True,
            msg=lambda text, case=case, got=values: f"op.{case.op}({case.operands}): {text}; got {got}",
        )
