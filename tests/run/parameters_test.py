# SPDX-License-Identifier: Apache-2.0
"""Other weights for a compiled program: loaded, beside each other, live, shared; no copy and no compilation."""

from __future__ import annotations

import copy
import gc
import threading
import weakref
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from straightline.testing.models.counter import Counter
from straightline.demo_models import DigitsCnn
from straightline.testing.models.small import Mlp
from torch import nn

import straightline as sl
from straightline import _call, _compiler


@pytest.fixture
def no_compilation(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """From the first use on the compiler must not be called."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something was compiled")

    class Guard:
        def __enter__(self) -> None:
            monkeypatch.setattr(_compiler, "compile", refuse)

        def __exit__(self, *_: object) -> None:
            monkeypatch.undo()

    yield Guard()  # type: ignore[misc]


class Scaled(nn.Module):
    """A parameter, a buffer, one that no state dict holds, a constant, and one that nothing reads."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 5)
        self.unread = nn.Linear(2, 2)
        self.register_buffer("scale", torch.rand(5))
        self.register_buffer("offset", torch.rand(5), persistent=False)
        self.constant = torch.randn(100)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x) * self.scale + self.offset + self.constant.sum()


class Tied(nn.Module):
    """An embedding whose weight is the head's as well."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 6)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.embed(x))


def same(compiled: object, model: nn.Module, *args: torch.Tensor) -> None:
    with torch.no_grad():
        torch.testing.assert_close(compiled(*args), model(*args), rtol=1e-4, atol=1e-5)  # type: ignore[operator]


@pytest.mark.parametrize("freeze", [True, False])
@pytest.mark.parametrize("make, sizes", [(Mlp, (32, 64)), (Mlp, (1, 64)), (DigitsCnn, (2, 1, 8, 8)), (Scaled, (3, 6))])
def test_loading(make: type[nn.Module], sizes: tuple[int, ...], freeze: bool, no_compilation: object) -> None:
    model, other, x = make().eval(), make().eval(), torch.randn(sizes)
    if isinstance(model, Scaled):
        other.constant, other.offset = model.constant, model.offset  # what no state dict holds stays
    compiled = sl.compile(model, (x,), freeze=freeze)
    same(compiled, model, x)
    with no_compilation:  # type: ignore[attr-defined]
        compiled.load_parameters(other.state_dict())
        same(compiled, other, x)
        arrays = (
            {name: tensor.numpy() for name, tensor in model.state_dict().items()}
            if x.device.type == "cpu"
            else model.state_dict()
        )
        compiled.load_parameters(arrays)
        same(compiled, model, x)


def test_what_is_not_persistent_may_be_loaded_too() -> None:
    model, other, x = Scaled(), Scaled(), torch.randn(3, 6)
    other.constant = model.constant
    compiled = sl.compile(model, (x,))
    compiled.load_parameters({**other.state_dict(), "offset": other.offset})
    same(compiled, other, x)
    compiled.load_parameters(model.state_dict())
    model.offset = other.offset  # left out: stays as it was loaded
    same(compiled, model, x)


def test_sets_beside_each_other(no_compilation: object) -> None:
    models = [Mlp().eval() for _ in range(4)]
    x = torch.randn(32, 64)
    first = sl.compile(models[0], (x,))
    with no_compilation:  # type: ignore[attr-defined]
        functions = [first] + [first.with_parameters(model.state_dict()) for model in models[1:]]
    for function, model in zip(functions, models, strict=True):
        same(function, model, x)
        assert function.code == first.code
        for name, tensor in function.parameters().items():
            assert torch.equal(tensor, model.state_dict()[name])
    functions[1].load_parameters(models[0].state_dict())
    for function, model in zip(functions, [models[0], models[0], *models[2:]], strict=True):
        same(function, model, x)
    kept = functions[2]
    del first, functions, function
    gc.collect()
    same(kept, models[2], x)


def test_programs_over_one_module_share_its_storage() -> None:
    """With freeze=False nothing is copied and nothing else is kept."""
    model = Mlp().eval()
    state = model.state_dict()
    for rows in (1, 32):
        function = sl.compile(model, (torch.randn(rows, 64),), freeze=False)
        parameters = function.parameters()
        assert {name: t.data_ptr() for name, t in parameters.items()} == {
            name: state[name].data_ptr() for name in parameters
        }
        facts = function.explain().facts
        assert facts["parameter_bytes"] == sum(t.nbytes for t in parameters.values())
        assert facts["prepared_bytes"] == 0


class Everything(nn.Module):
    """Parameters that are packed, read as they are, broadcast, strided, expanded; and a buffer that is updated."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(24, 16), nn.Linear(16, 10)
        self.norm = nn.LayerNorm(16)
        self.turned = nn.Parameter(torch.randn(10, 16).t())
        self.wide = nn.Parameter(torch.randn(1).expand(10))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One of each."""
        self.calls.add_(1)
        y = self.norm(torch.relu(self.first(x)))
        return self.second(y) + y @ self.turned + self.wide * self.calls


@pytest.mark.parametrize("rows", [1, 32])
@pytest.mark.parametrize("emit", ["cpp", "python"])
def test_a_frozen_program_is_a_snapshot(rows: int, emit: str) -> None:
    """Whatever is written into the module later: all of the old values, until load_parameters; never a mix."""
    model, x = Everything().eval(), torch.randn(rows, 24)
    compiled = sl.compile(model, (x,), emit=emit)
    untouched = sl.compile(copy.deepcopy(model), (x,), emit=emit)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter is not model.wide:
                parameter.neg_()
        model.wide.untyped_storage().copy_(torch.full((1,), 5.0).untyped_storage())
    assert torch.equal(compiled(x), untouched(x))  # the same program: the same bits
    assert model.calls == 1  # the buffer is the module's own
    assert compiled.explain()["kept_parameters"]
    compiled.load_parameters(model.state_dict())
    changed = sl.compile(copy.deepcopy(model), (x,), emit=emit)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter is not model.wide:
                parameter.zero_()
    assert torch.equal(compiled(x), changed(x))
    assert not torch.equal(compiled(x), untouched(x))


def test_the_programs_of_a_function_share_copies() -> None:
    model = Mlp().eval()
    compiled = sl.compile(model, [(torch.randn(1, 64),), (torch.randn(2, 64),)])
    shared = set(compiled.explain().programs[0]["kept_parameters"]) & set(
        compiled.explain().programs[1]["kept_parameters"]
    )
    sets = [dict(zip(f._binding.names, _call.parameters(f._weights), strict=True)) for f in compiled._all]
    assert shared and all(sets[0][name].data_ptr() == sets[1][name].data_ptr() for name in shared)


@pytest.mark.parametrize("freeze", [True, False])
def test_a_replaced_set_is_given_back(freeze: bool) -> None:
    model, x = Mlp().eval(), torch.randn(32, 64)
    compiled = sl.compile(model, (x,), freeze=freeze)
    loaded = {name: tensor.numpy().copy() for name, tensor in model.state_dict().items()}
    watched = [weakref.ref(array) for array in loaded.values()]
    compiled.load_parameters(loaded)
    del loaded
    gc.collect()
    assert freeze or all(watch() is not None for watch in watched)
    same(compiled, model, x)
    compiled.load_parameters(model.state_dict())
    gc.collect()
    assert not any(watch() is not None for watch in watched)


@pytest.mark.parametrize("freeze", [True, False])
def test_the_module_is_given_back(freeze: bool) -> None:
    """After loading others nothing keeps the tensors that it was compiled with."""
    model, other, x = Mlp().eval(), Mlp().eval(), torch.randn(32, 64)
    compiled = sl.compile(model, [(x,), (x[:1],)], freeze=freeze)
    watched = [weakref.ref(parameter) for parameter in model.parameters()] + [weakref.ref(model)]
    compiled.load_parameters(other.state_dict())
    del model
    gc.collect()
    assert not any(watch() is not None for watch in watched)
    same(compiled, other, x)


def test_loading_while_others_call() -> None:
    """Every result is wholly that of one set: never a mix of two, never freed memory."""
    models = [Mlp().eval() for _ in range(3)]
    x = torch.randn(32, 64)
    compiled = sl.compile(models[0], (x,))
    wanted = []
    for model in models:
        compiled.load_parameters(model.state_dict())
        wanted.append(compiled(x))
    stop = threading.Event()
    wrong: list[str] = []
    calls = [0] * 4

    def call(i: int) -> None:
        while not stop.is_set():
            y = compiled(x)
            calls[i] += 1
            if not any(torch.equal(y, want) for want in wanted):
                wrong.append(f"thread {i} call {calls[i]}")

    def load() -> None:
        for i in range(300):
            state = models[i % 3].state_dict()
            compiled.load_parameters({name: tensor.clone() for name, tensor in state.items()})
            gc.collect(0)

    callers = [threading.Thread(target=call, args=(i,)) for i in range(4)]
    for thread in callers:
        thread.start()
    loaders = [threading.Thread(target=load) for _ in range(2)]
    for thread in loaders:
        thread.start()
    for thread in loaders:
        thread.join()
    stop.set()
    for thread in callers:
        thread.join()
    assert not wrong, wrong[:5]
    assert all(calls)


def test_state_is_updated_where_it_was_loaded() -> None:
    model, x = Counter(), torch.randn(4)
    compiled = sl.compile(model, (x,))
    compiled(x)
    loaded = {"calls": torch.tensor(40), "mean": torch.randn(4)}
    other = compiled.with_parameters({"calls": torch.tensor(7), "mean": torch.zeros(4)})
    compiled.load_parameters(loaded)
    mean = loaded["mean"].clone()
    torch.testing.assert_close(compiled(x), x - mean)
    compiled(x), other(x)
    assert (model.calls.item(), loaded["calls"].item(), other.parameters()["calls"].item()) == (1, 42, 8)
    compiled.load_parameters(model.state_dict())
    compiled(x)
    assert (model.calls.item(), loaded["calls"].item()) == (2, 42)


@pytest.mark.parametrize("freeze", [True, False])
def test_tied_parameters(freeze: bool) -> None:
    model, other, x = Tied(), Tied(), torch.randint(0, 11, (5,))
    compiled = sl.compile(model, (x,), freeze=freeze)
    assert len(compiled.parameters()) == 1
    weight = other.embed.weight.detach()
    for given in (
        other.state_dict(),
        {"embed.weight": weight},
        {"head.weight": weight},
        {"embed.weight": weight, "head.weight": weight.clone()},
    ):
        compiled.load_parameters(model.state_dict())
        same(compiled, model, x)
        compiled.load_parameters(given)
        same(compiled, other, x)


def test_live_parameters_follow_assigned_data() -> None:
    """`parameter.data = other` gives the parameter other storage; a live program reads that from the next call on."""
    model, x = nn.Linear(6, 5), torch.randn(3, 6)
    live, frozen = sl.compile(model, (x,), freeze=False), sl.compile(copy.deepcopy(model), (x,))
    before = frozen(x)
    model.weight.data = torch.randn(5, 6)
    same(live, model, x)
    with torch.no_grad():
        model.weight.mul_(2)
    same(live, model, x)
    assert torch.equal(frozen(x), before)
    other = nn.Linear(6, 5)
    live.load_parameters(other.state_dict(keep_vars=True))
    other.bias.data = torch.randn(5)
    same(live, other, x)


def test_emitted_python_follows_too() -> None:
    model, x = nn.Linear(6, 5), torch.randn(3, 6)
    live = sl.compile(model, (x,), freeze=False, emit="python")
    model.weight.data = torch.randn(5, 6)
    same(live, model, x)
    frozen = sl.compile(model, (x,), emit="python")
    other = nn.Linear(6, 5)
    frozen.load_parameters(other.state_dict())
    same(frozen, other, x)


def test_numpy_models_load_arrays() -> None:
    model, x = Mlp().eval(), np.random.default_rng().standard_normal((4, 64)).astype(np.float32)
    compiled = sl.compile(model, (x,))
    other = Mlp().eval()
    compiled.load_parameters({name: tensor.numpy().copy() for name, tensor in other.state_dict().items()})
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(compiled(x)), other(torch.from_numpy(x)), rtol=1e-4, atol=1e-5)
