# SPDX-License-Identifier: Apache-2.0
"""Random programs that overwrite: what capture makes values of without torch's second trace gives what eager gives.

The graph that comes out runs by torch.fx here, without kernels: the question is which memory is whose. STRAIGHTLINE_PROPERTY_SEED
repeats a run.
"""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from straightline.capture.torch import torch_export
from straightline.capture.torch.functional import Functional
from torch import Tensor, nn
from torch.export.graph_signature import InputKind, OutputKind

_SEED = int(os.environ.get("STRAIGHTLINE_PROPERTY_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
_PROGRAMS = 400 if os.environ.get("CI") else 150
_N = 4


def _square(x: Tensor) -> Tensor:
    return x if x.shape == (_N, _N) else x.reshape(-1)[:1].expand(_N, _N)


def _overlaps(x: Tensor) -> bool:
    """Whether elements share memory, so that eager refuses to overwrite it."""
    return any(stride == 0 and size > 1 for stride, size in zip(x.stride(), x.shape))


def _writing(write: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, y: x * 2 if _overlaps(x) or x.shape != y.shape else write(x, y)


_OPS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sin": lambda x, y: x.sin(), "add": lambda x, y: _square(x) + _square(y), "product": lambda x, y: _square(x) @ _square(y),
    "linear": lambda x, y: F.linear(_square(x), _square(y)), "sum": lambda x, y: x.sum() + y, "clone": lambda x, y: x.clone(),
    "turned": lambda x, y: _square(x).t(), "row": lambda x, y: _square(x)[1], "rows": lambda x, y: _square(x)[1:3],
    "half": lambda x, y: _square(x).chunk(2)[1], "flat": lambda x, y: x.reshape(-1), "view": lambda x, y: x.contiguous().view(-1),
    "same type": lambda x, y: x.to(torch.float32), "repeated": lambda x, y: _square(x)[:1].expand(_N, _N), "detached": lambda x, y: x.detach(),
    "dropout": lambda x, y: F.dropout(x, 0.5, False),
    "add_": _writing(lambda x, y: x.add_(0.5)), "add itself_": _writing(lambda x, y: x.add_(x)), "mul_": _writing(lambda x, y: x.mul_(y)),
    "copy_": _writing(lambda x, y: x.copy_(y)), "relu_": _writing(lambda x, y: F.relu(x, inplace=True)), "tanh_": _writing(lambda x, y: x.tanh_()),
}  # fmt: skip


class _Program(nn.Module):
    """Each line makes a value of two others, by their places; two buffers, and one that is the first by another name or object."""

    def __init__(self, lines: list[tuple[str, int, int]], results: list[int], tie: str) -> None:
        super().__init__()
        self._lines, self._results = lines, results
        self.register_buffer("a", torch.randn(_N, _N))
        self.register_buffer("b", torch.randn(_N, _N))
        if tie:
            self.register_buffer("c", self.a if tie == "name" else self.a.detach())

    def extra_repr(self) -> str:
        """The lines."""
        return f"{self._lines}, {self._results}, buffers {[name for name, _ in self.named_buffers(remove_duplicate=False)]}"

    def forward(self, x: Tensor, y: Tensor) -> list[Tensor]:
        values = [x, y, *self.buffers()]
        for op, i, j in self._lines:
            values.append(_OPS[op](values[i % len(values)], values[j % len(values)]))
        return [values[i % len(values)] for i in self._results]


def _run(functional: Functional, model: nn.Module, inputs: tuple[Tensor, Tensor]) -> list[Tensor]:
    """The results; what the signature says is overwritten is."""
    state = dict(model.named_buffers(remove_duplicate=False))
    left, named, arguments = iter(inputs), dict[str, Tensor](), []
    for spec in functional.graph_signature.input_specs:
        is_input = spec.kind == InputKind.USER_INPUT
        arguments.append(next(left) if is_input else state[spec.target])
        named[spec.arg.name if is_input else spec.target] = arguments[-1]
    made = [value.clone() for value in torch.fx.GraphModule(nn.Module(), functional.graph)(*arguments)]
    results = []
    for spec, value in zip(functional.graph_signature.output_specs, made, strict=True):
        if spec.kind == OutputKind.USER_OUTPUT:
            results.append(value)
        else:
            named[spec.target].copy_(value)
    return results


def _seen(results: Any, model: nn.Module, inputs: tuple[Tensor, Tensor]) -> list[Tensor]:
    return [*(value.clone() for value in results), *inputs, *model.buffers()]


def _drawn(number: random.Random) -> _Program:
    """A program that writes often, mostly to what was made last."""
    weights = [3 if name.endswith("_") else 2 for name in _OPS]
    first = lambda: number.choice((-1, -1, -2, number.randrange(16)))  # noqa: E731
    lines = [
        (number.choices(list(_OPS), weights)[0], first(), number.randrange(16)) for _ in range(number.randrange(3, 9))
    ]
    return _Program(lines, [first() for _ in range(number.randrange(1, 4))], number.choice(("", "", "name", "object")))


def test_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", lambda whole, table: whole)
    number = random.Random(_SEED)
    torch.manual_seed(_SEED)
    plain = 0
    for _ in range(_PROGRAMS):
        model = _drawn(number).eval()
        inputs = (torch.randn(_N, _N), torch.randn(_N, _N))
        eager, mine = copy.deepcopy((model, inputs)), copy.deepcopy((model, inputs))
        try:
            want = _seen(eager[0](*eager[1]), *eager)
        except RuntimeError:  # what is read and overwritten overlaps in part
            continue
        captured = torch_export._decompose(torch_export._export(model, copy.deepcopy(inputs), {}, None))
        if isinstance(captured, Functional):
            plain += 1
            got = _seen(_run(captured, *mine), *mine)
            for i, (value, right) in enumerate(zip(got, want, strict=True)):
                assert torch.allclose(value, right), f"STRAIGHTLINE_PROPERTY_SEED={_SEED}: tensor {i} of {model}"
    assert plain > _PROGRAMS // 20, f"{plain} of {_PROGRAMS} programs are plain"
