# SPDX-License-Identifier: Apache-2.0
"""`slots=` and `sl.slot`: which kernels a call takes, without compiling."""

from __future__ import annotations

import itertools
import json
import threading
from typing import Any

import pytest
import torch
from policy import OWN_BACKEND
from torch import Tensor, nn

import straightline as sl
from straightline import _call, _compiler
from straightline._slots import place_of

ON_DEVICE = OWN_BACKEND == "cuda"
LINEAR = ["cuda", "cublaslt"] if ON_DEVICE else ["native.gemm", "native.gemv"]
CONVOLUTION = ("cuda", "cudnn") if ON_DEVICE else ("native.convolution", "native.convolution_direct")
SLOTS = {"linear": LINEAR, "convolution": CONVOLUTION}


class Model(nn.Module):
    """A convolution and a linear of one row."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.fc = nn.Conv2d(8, 8, 3), nn.Linear(8 * 4 * 4, 8)

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return self.fc(torch.relu(self.conv(x)).flatten(1)) * scale


X = torch.randn(1, 8, 6, 6)


def same(function: Any, model: nn.Module, *args: Any) -> None:
    with torch.no_grad():
        torch.testing.assert_close(function(*args), model(*args), rtol=1e-4, atol=1e-5)


def test_every_slot_of_every_op(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model().eval()
    function = sl.compile(model, (X,), slots=SLOTS)
    assert function.slots == {op: tuple(targets) for op, targets in SLOTS.items()}
    assert len(function.examples) == 4 and function.examples[1].endswith(
        f"with linear = {LINEAR[0]}, convolution = {CONVOLUTION[1]}"
    )
    monkeypatch.setattr(_compiler, "compile", None)  # nothing is compiled from here on
    seen = set()
    for linear in SLOTS["linear"]:
        for convolution in SLOTS["convolution"]:
            with sl.slot(linear=linear, convolution=convolution):
                same(function, model, X)
                number = place_of(function._slots)({"linear": linear, "convolution": convolution})
                seen.add(number)
            whys = [row["why"] for row in [function, *function._slotted][number].routes().rows if row["phase"] == "run"]
            assert any(
                why.startswith(linear) and f"route linear = {linear} (the argument slots)" in why for why in whys
            )
            assert any(why.startswith(convolution) and f"route convolution = {convolution} " in why for why in whys)
    assert seen == {0, 1, 2, 3}


class Counted(nn.Module):
    """A state tells which programs ran: they share it."""

    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        return self.fc(x) + self.count


def test_states_and_parameters_are_shared() -> None:
    model, x = Counted().eval(), torch.randn(1, 8)
    function = sl.compile(model, (x,), slots={"linear": LINEAR})
    with torch.no_grad():
        product = model.fc(x)
    torch.testing.assert_close(function(x), product + 1)
    with sl.slot(linear=LINEAR[1]):
        torch.testing.assert_close(function(x), product + 2)
        with sl.slot(linear=LINEAR[0]):
            torch.testing.assert_close(function(x), product + 3)
        torch.testing.assert_close(function(x), product + 4)
    zero = {"fc.weight": torch.zeros(8, 8), "fc.bias": torch.zeros(8), "count": model.count}
    function.load_parameters(zero)
    for target in LINEAR:
        with sl.slot(linear=target):
            assert float(function(x).sum()) > 0 and len(set(function(x).flatten().tolist())) == 1
    other = function.with_parameters({**zero, "fc.bias": torch.ones(8)})
    with sl.slot(linear=LINEAR[1]):
        difference = other(x) - function(x)
    assert set(difference.flatten().tolist()) <= {0.0, 1.0, 2.0}, "states are shared, the bias is not"
    assert other.slots == function.slots and len(other._slotted) == 1


def test_several_examples_and_named_sizes() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval()
    few, many = torch.randn(2, 8), torch.randn(3, 8, dtype=torch.float32)
    function = sl.compile(model, [(few,), (many,)], slots={"linear": LINEAR})
    for target in LINEAR:
        with sl.slot(linear=target):
            same(function, model, few)
            same(function, model, many)
            with pytest.raises(sl.GuardError):
                function(torch.randn(4, 8))
    rows = torch.export.Dim("rows", min=1, max=4)
    named = sl.compile(model, (few,), dynamic_shapes=({0: rows},), slots={"linear": [OWN_BACKEND, "auto"]})
    for target in (OWN_BACKEND, "auto"):
        with sl.slot(linear=target):
            same(named, model, torch.randn(4, 8))


def test_each_thread_chooses() -> None:
    model = Model().eval()
    function = sl.compile(model, (X,), slots=SLOTS)
    errors = []

    def work(linear: str) -> None:
        try:
            with sl.slot(linear=linear):
                for _ in range(200):
                    same(function, model, X)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(target,)) for target in LINEAR * 4]
    for thread in threads:
        thread.start()
    same(function, model, X)
    for thread in threads:
        thread.join()
    assert not errors, errors[0]


def test_a_choice_that_the_function_does_not_have() -> None:
    model = Model().eval()
    function, plain = sl.compile(model, (X,), slots=SLOTS), sl.compile(model, (X,))
    with sl.slot(linear="onednn"):
        with pytest.raises(
            sl.UserError,
            match=f"slot linear is chosen as 'onednn', but the function was compiled with {LINEAR[0]}, {LINEAR[1]}",
        ):
            function(X)
        same(plain, model, X)  # has no slots
    with sl.slot(softmax=OWN_BACKEND):
        same(function, model, X)
    with pytest.raises(sl.UserError, match="slot linear is 3 but must be a target such as 'native'"):
        sl.slot(linear=3)  # type: ignore[arg-type]
    same(function, model, X)


@pytest.mark.parametrize(
    ("slots", "words"),
    [
        ({"linear": ["native"]}, r"slot 'linear' is \['native'\] but must have two targets or more, each once"),
        ({"linear": ["native", "native"]}, "must have two targets or more, each once"),
        ({"linear": "native"}, "slots is {'linear': 'native'} but must be a dict of ops and their targets"),
        (
            {"linear": ["native", "aten"]},
            "slot 'linear' has 'aten': what stays torch's is decided when the model is captured",
        ),
        (["linear"], r"slots is \['linear'\] but must be a dict"),
        ({"linear": [OWN_BACKEND, "mkl"]}, r"route linear = mkl \(the argument slots\): unknown backend 'mkl'"),
        (
            {"liner": [OWN_BACKEND, "auto"]},
            r"route liner = .* \(the argument slots\): unknown op 'liner'; the nearest is 'linear'",
        ),
        ({"in the : way : ": [OWN_BACKEND, "auto"]}, "slots has 'in the : way : ': .*; an entry is"),
        (
            {name: ["native", "onednn", "auto"] for name in ("linear", "matmul", "convolution")},
            "slots make 27 programs but at most 16 are compiled",
        ),
    ],
)
def test_slots_that_are_none(slots: Any, words: str) -> None:
    with pytest.raises(sl.UserError, match=words):
        sl.compile(Model().eval(), (X,), slots=slots)


class Packed(nn.Module):
    """Two convolutions, whose weights are packed, and a linear."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.fc = nn.Conv2d(8, 16, 3), nn.Conv2d(16, 16, 1), nn.Linear(16 * 4 * 4, 32)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(torch.relu(self.second(torch.relu(self.first(x)))).flatten(1))


def packings(function: Any) -> list[int]:
    """How many statements of prepare each program has."""
    rows = [json.loads(one._compilation.explain_json)["statements"] for one in function._all]
    return [sum(row["phase"] == "prepare" for row in of) for of in rows]


def held(function: Any) -> list[int]:
    """Bytes of prepared data that the weights of each program hold themselves."""
    return [_call.prepared_bytes(one._weights) for one in function._all]


@pytest.mark.skipif(ON_DEVICE, reason="weights of the device's libraries are not packed")
@pytest.mark.parametrize("emit", ["cpp", "python"])
def test_what_is_packed_in_the_same_way_is_packed_once(emit: str) -> None:
    model, x = Packed().eval(), torch.randn(64, 8, 6, 6)
    alone = [sl.compile(model, (x,), routes={"linear": target}, emit=emit) for target in ("native", "onednn")]
    function = sl.compile(model, (x,), slots={"linear": ["native", "onednn"]}, emit=emit)
    assert packings(alone[0]) == [3] and held(alone[1])[0] > 0
    # oneDNN reads the linear's weight as it is: its program finds all of its prepared data there.
    assert packings(alone[1]) == [2] and packings(function) == [3, 0]
    assert held(function) == [held(alone[0])[0], 0]
    for target in ("native", "onednn", "native"):
        with sl.slot(linear=target):
            same(function, model, x)
    other = Packed().eval()
    function.load_parameters(other.state_dict())
    separate = function.with_parameters(model.state_dict())
    assert held(function) == held(separate) == [held(alone[0])[0], 0]
    for target in ("native", "onednn"):
        with sl.slot(linear=target):
            same(function, other, x)
            same(separate, model, x)
    second = function._slotted[0]  # lives without the first, whose memory it uses
    del function, separate
    same(second, other, x)


@pytest.mark.skipif(ON_DEVICE, reason="kernels of the host")
def test_each_choice_adds_what_is_not_there() -> None:
    """Direct and blocked convolutions have packings of their own; the linear has one."""
    model, x = Packed().eval(), torch.randn(1, 8, 6, 6)
    slots = {
        "convolution": ["native.convolution", "native.convolution_direct"],
        "linear": ["native.gemm", "native.gemv"],
    }
    function = sl.compile(model, (x,), slots=slots)
    alone = [
        sl.compile(model, (x,), routes={"convolution": a, "linear": b})
        for a in slots["convolution"]
        for b in slots["linear"]
    ]
    assert held(function)[1:] == [0, 0, 0]
    assert held(function)[0] < sum(held(one)[0] for one in alone)
    assert sum(packings(function)) < sum(packings(one)[0] for one in alone)
    buffers = [json.loads(one._compilation.explain_json).get("prepared", []) for one in function._all]
    distinct = {row for of in buffers for row in of}
    assert sum(packings(function)) == len(distinct)
    for choice in itertools.product(*slots.values()):
        with sl.slot(convolution=choice[0], linear=choice[1]):
            same(function, model, x)


def test_live_parameters_are_not_shared() -> None:
    model = Model().eval()
    function = sl.compile(model, (X,), slots={"linear": [OWN_BACKEND, "auto"]}, freeze=False)
    assert function._binding.sharing is None
    with torch.no_grad():
        model.fc.weight.mul_(2)
    for target in (OWN_BACKEND, "auto"):
        with sl.slot(linear=target):
            same(function, model, X)


def test_what_has_no_slots() -> None:
    model = Model().eval()
    function = sl.compile(model, (X,), slots={"linear": LINEAR})
    with pytest.raises(sl.UserError, match="specialize is for one program, but this function has slots"):
        function.specialize({})
    with pytest.raises(sl.UserError, match="specialize is 2, but programs for frequent sizes have no slots"):
        sl.compile(model, (X,), slots={"linear": LINEAR}, specialize=2)


def test_programs_from_mlir_and_python_text() -> None:
    model = Model().eval()
    text = sl.compile(model, (X,)).ir("op")
    state = {name: tensor.detach() for name, tensor in model.named_parameters()}
    function = sl.compile_mlir(text, state, slots={"linear": LINEAR})
    python = sl.compile(model, (X,), slots={"linear": LINEAR}, emit="python")
    for target in LINEAR:
        with sl.slot(linear=target):
            same(function, model, X)
            same(python, model, X)
