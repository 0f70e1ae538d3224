# SPDX-License-Identifier: Apache-2.0
"""The execution contract, shown from Python: named extents, state, branches, loops, mutation."""

from __future__ import annotations

import copy
import re

import pytest
import straightline as sl
import torch
from straightline.testing.models.cond import Cond, Double
from straightline.testing.models.counter import Counter, RowCache
from straightline.testing.models.lstm import LstmTagger
from straightline.testing.models.small import Mlp
from policy import OWN_BACKEND, check, check_call, check_close, check_tree, clone, launches, reference_of
from torch import Tensor, nn
from torch.export import Dim


def run_region(compiled: object) -> list[str]:
    """Lines of `kernel.run` of the kernel level."""
    lines = compiled.ir("kernel").splitlines()  # type: ignore[attr-defined]
    start = next(i for i, line in enumerate(lines) if "kernel.run" in line)
    return lines[start:]


# Named extents --------------------------------------------------------------------------------------------------------


# Contract: E2.
def test_one_program_serves_all_sizes() -> None:
    model = Mlp().eval()
    batch = Dim("b", min=1, max=64)
    sizes = [1, 2, 7, 64, 33, 1]
    compiled = check(
        model, (torch.randn(7, 64),), calls=[(torch.randn(n, 64),) for n in sizes], dynamic_shapes=({0: batch},)
    )
    assert re.search(r"kernel\.extent @b min\(1\) max\(64\)", compiled.ir("kernel"))
    for size in (65, 0):
        with pytest.raises(sl.GuardError, match=rf"(?s)b.*{size}|{size}.*b") as failure:
            compiled(torch.randn(size, 64))
        assert "64" in str(failure.value) or "1" in str(failure.value)
    check_call(compiled, model, reference_of(model), (torch.randn(5, 64),))


@pytest.mark.parametrize("threads", [1, 2])
def test_named_extents_in_shapes(threads: int) -> None:
    """Sizes computed from a named extent, reshapes over it, and two inputs that share it."""

    class Attend(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(16)

        def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            z = torch.softmax(x @ y.transpose(1, 2), -1).amax(-1, keepdim=True) * y
            return self.norm(z), torch.cat([x, y], 1).sum(1), x.reshape(-1, 16).relu()

    batch, tokens = Dim("b", min=1, max=8), Dim("t", min=1, max=40)
    shapes = ({0: batch, 1: tokens}, {0: batch, 1: tokens})

    def inputs(b: int, t: int) -> tuple[Tensor, Tensor]:
        return torch.randn(b, t, 16), torch.randn(b, t, 16)

    calls = [inputs(1, 1), inputs(8, 40), inputs(3, 17), inputs(1, 33)]
    compiled = check(Attend(), inputs(2, 5), calls=calls, dynamic_shapes=shapes, threads=threads)
    with pytest.raises(sl.GuardError):
        compiled(torch.randn(2, 5, 16), torch.randn(3, 5, 16))


def test_product_over_a_named_extent() -> None:
    rows = Dim("rows", min=1, max=10)
    example, shapes = (torch.randn(3, 4),), ({0: rows},)
    check(lambda x: x.t() @ x, example, calls=[(torch.randn(n, 4),) for n in (1, 10)], dynamic_shapes=shapes)
    sl.compile(lambda x: x.t() @ x, example, dynamic_shapes=shapes, allow=(OWN_BACKEND,))


def test_a_size_as_a_result() -> None:
    rows = Dim("rows", min=1, max=10)
    compiled = check(
        lambda x: (x * 2, x.shape[0], x.shape[0] + 1),
        (torch.randn(3, 4),),
        calls=[(torch.randn(n, 4),) for n in (1, 10)],
        dynamic_shapes=({0: rows},),
    )
    assert compiled(torch.randn(6, 4))[1:] == (6, 7)


def test_dynamic_convolution() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 5))
    batch = Dim("b", min=1, max=16)
    calls = [(torch.randn(n, 3, 8, 8),) for n in (1, 16, 5)]
    check(model.eval(), (torch.randn(3, 3, 8, 8),), calls=calls, dynamic_shapes=({0: batch},))


def test_every_other_element_of_any_size() -> None:
    """Torch rounds (n + 1) // 2 where we would write ceildiv: the sizes are equal."""

    def parts(x: Tensor) -> list[Tensor]:
        return [x[::2] + 1, x[1::2] * 2, x[::3].sum(0), x[2::5, 1::2].relu(), x[1:-1:2] - 1]

    n = torch.export.Dim("n", min=8, max=64)
    check(
        parts, (torch.randn(12, 7),), calls=[(torch.randn(k, 7),) for k in (8, 9, 10, 11, 64)], dynamic_shapes=({0: n},)
    )


# State ----------------------------------------------------------------------------------------------------------------


# Contract: E7.
@pytest.mark.parametrize("make,width", [(Counter, 4), (RowCache, 4)])
def test_state_is_updated_in_place(make: type[nn.Module], width: int) -> None:
    model = make()
    eager, reference = copy.deepcopy(model), reference_of(model)
    compiled = sl.compile(model, (torch.randn(width),))
    places = {name: buffer.data_ptr() for name, buffer in model.named_buffers()}
    for name, buffer in model.named_buffers():
        assert torch.equal(buffer, eager.get_buffer(name)), "compiling ran the model"
    for _ in range(5):
        x = torch.randn(width)
        check_tree(compiled(x), eager(x), reference(x.double()))
        for name, buffer in model.named_buffers():
            check_close(buffer, eager.get_buffer(name), reference.get_buffer(name), name)
    assert {name: buffer.data_ptr() for name, buffer in model.named_buffers()} == places


# Contract: E7.
def test_state_is_not_copied() -> None:
    """The kernel that makes a state's new value writes the state's own buffer; no statement copies it."""
    for model in (Counter(), RowCache()):
        compiled = sl.compile(model, (torch.randn(4),))
        text = compiled.ir("kernel")
        states = re.findall(r"(%\S+) = kernel\.state \"(\w+)\"", text)
        assert len(states) == len(list(model.buffers())), text
        assert "kernel.copy" not in text
        for value, name in states:
            views = {value}
            for view, base in re.findall(r"(%\S+) = kernel\.view (%\w+)", text):
                if base in views:
                    views.add(view)
            written = [
                line for line in run_region(compiled)
                if "kernel.launch" in line and views & set(re.findall(r"%\w+", line.partition("outs(")[2].split(")")[0]))
            ]  # fmt: skip
            assert len(written) == 1, (name, written, text)
            if isinstance(model, Counter):
                assert "kernel.launch @copy" not in written[0], written
    # Nothing else is copied either: what Counter launches is its three results.
    rows = launches(sl.compile(Counter(), (torch.randn(4),)))
    assert not [row for row in rows if row["op"] == "copy"], rows


def test_state_read_after_it_is_written() -> None:
    """Old and new value of one buffer, both read after the update is made."""

    class Swap(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("a", torch.randn(3, 5))
            self.register_buffer("b", torch.randn(3, 5))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            old = self.a.clone()
            self.a.copy_(self.b + x)
            self.b.copy_(old)
            return old * 2, self.a.sum(0) + self.b[1]

    model = Swap()
    eager, reference = copy.deepcopy(model), reference_of(model)
    compiled = sl.compile(model, (torch.randn(3, 5),))
    for _ in range(3):
        x = torch.randn(3, 5)
        check_tree(compiled(x), eager(x), reference(x.double()))
        for name, buffer in model.named_buffers():
            check_close(buffer, eager.get_buffer(name), reference.get_buffer(name), name)


def test_state_shifted_onto_itself() -> None:
    """A rolling window: every element is read at another place than it is written to."""

    class Window(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("window", torch.zeros(6, 4))

        def forward(self, x: Tensor) -> Tensor:
            self.window.copy_(torch.cat([self.window[1:], x[None]]))
            return self.window.sum(0)

    model = Window()
    eager, reference = copy.deepcopy(model), reference_of(model)
    compiled = sl.compile(model, (torch.randn(4),))
    for _ in range(8):
        x = torch.randn(4)
        check_tree(compiled(x), eager(x), reference(x.double()))
        check_close(model.window, eager.window, reference.window, "window")


def test_state_flipped_and_transposed_onto_itself() -> None:
    class Turn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("a", torch.randn(5, 5))
            self.register_buffer("b", torch.randn(7))

        def forward(self, x: Tensor) -> Tensor:
            self.a.copy_(self.a.t() + x)
            self.b.copy_(self.b.flip(0))
            return self.a @ x

    model = Turn()
    eager, reference = copy.deepcopy(model), reference_of(model)
    compiled = sl.compile(model, (torch.randn(5),))
    for _ in range(3):
        x = torch.randn(5)
        check_tree(compiled(x), eager(x), reference(x.double()))
        for name, buffer in model.named_buffers():
            check_close(buffer, eager.get_buffer(name), reference.get_buffer(name), name)


def test_inputs_are_mutated_in_place() -> None:
    def step(x: Tensor, cache: Tensor, at: Tensor) -> Tensor:
        cache[2:4] = x
        x.mul_(2).add_(1)
        at.add_(1)
        return cache.abs().sum() + at

    compiled = check(step, (torch.randn(2, 3), torch.randn(6, 3), torch.tensor(4)), calls=[
        (torch.randn(2, 3), torch.randn(6, 3), torch.tensor(-1)),
    ])  # fmt: skip
    x, cache, at = torch.randn(2, 3), torch.randn(6, 3), torch.tensor(0)
    want = x.clone() * 2 + 1
    place = x.data_ptr()
    compiled(x, cache, at)
    assert x.data_ptr() == place and torch.allclose(x, want) and at == 1
    assert "kernel.copy" not in compiled.ir("kernel")


def test_mutated_input_of_any_layout() -> None:
    def step(x: Tensor) -> Tensor:
        x.add_(1)
        return x * 2

    for x in (torch.randn(4, 5).t(), torch.randn(4, 10)[:, ::2], torch.randn(())):
        check(step, (x,))


# Control flow ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
def test_both_branches(threads: int) -> None:
    model = Cond()
    compiled = check(
        model, (torch.ones(4),), calls=[(-torch.ones(4),), (torch.rand(4),), (-torch.rand(4),)], threads=threads
    )
    assert compiled.ir("kernel").count("kernel.if") == 1


def test_branches_over_larger_work() -> None:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(64, 64), nn.Linear(64, 64, bias=False)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            def left(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
                return torch.softmax(self.a(x), -1), y + 1

            def right(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
                return self.b(x).relu() + y, y.clone()

            y = x * 3
            return torch.cond(x[0, 0] > 0, left, right, (x, y))

    inputs = [torch.randn(32, 64) for _ in range(4)]
    for i, x in enumerate(inputs):
        x[0, 0] = 1.0 if i % 2 else -1.0
    for threads in (1, 2):
        check(Branches(), (inputs[0],), calls=[(x,) for x in inputs], threads=threads)


def test_while_loop() -> None:
    calls = [(torch.full((3,), value),) for value in (20.0, 1e-3, 400.0, 0.0, -1.0)]
    check(Double(), (torch.ones(3),), calls=calls)


@pytest.mark.parametrize("layers,bidirectional", [(1, False), (2, True)])
@pytest.mark.parametrize("threads", [1, 2])
def test_lstm_is_a_loop(layers: int, bidirectional: bool, threads: int) -> None:
    model = LstmTagger(layers=layers, bidirectional=bidirectional).eval()
    compiled = check(model, (torch.randn(3, 50, 8),), calls=[(torch.randn(3, 50, 8),)], threads=threads)
    text = compiled.ir("kernel")
    assert text.count("kernel.for") == layers * (2 if bidirectional else 1)
    assert re.search(r"arith\.constant 50 : index|kernel\.size\(50\)", text), text
    assert compiled.code.count("for (int64_t") >= 1


def test_clones() -> None:
    """The helper of these tests keeps strides and values."""
    x = torch.randn(4, 6).t()[::2]
    y = clone(x)
    assert torch.equal(x, y) and x.stride() == y.stride() and x.data_ptr() != y.data_ptr()
