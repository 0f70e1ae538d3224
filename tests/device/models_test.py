# SPDX-License-Identifier: Apache-2.0
"""The model set on an NVIDIA device: answers by the policy against float64, in a graph and by stream, and when a call may wait.

Float32 is tried as torch's defaults have it (convolutions round to TF32) and exact, some models also in 16-bit floats.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import straightline as sl
import torch
from straightline import _call
from straightline.testing import policy
from straightline.testing.device import check, converted, has_convolutions
from straightline.testing.models.cases import ALL, settled
from straightline.testing.models.cond import Cond, Double
from straightline.testing.models.counter import Counter as CountingModel
from torch import Tensor, nn

_HALVES = (
    "resnet-18 1", "resnet-18 10", "mobilenet", "vit", "decoder, 16 tokens", "gpt2", "mixture", "convnext", "unet, nearest",
    "digits cnn 16",
)  # fmt: skip
_CALLS = 20


class Work(NamedTuple):
    """A model in one type; tf32: convolutions of float32 may round."""

    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Tensor, ...]]
    dtype: torch.dtype
    tf32: bool


def works() -> Iterator[Work]:
    """What is tried; the exact float32 of a model without convolutions is its float32."""
    for name, case in ALL.items():
        yield Work(name, case.make, case.inputs, torch.float32, True)
        yield Work(name, case.make, case.inputs, torch.float32, False)
        if name in _HALVES:
            yield Work(name, case.make, case.inputs, torch.float16, True)
        if name in ("resnet-18 1", "mobilenet", "gpt2"):
            yield Work(name, case.make, case.inputs, torch.bfloat16, True)
    yield Work("cond", Cond, lambda: (torch.randn(4),), torch.float32, True)
    yield Work("while", Double, lambda: (torch.rand(4) + 0.1,), torch.float32, True)
    yield Work("counter", CountingModel, lambda: (torch.randn(4),), torch.float32, True)


def _title(work: Work) -> str:
    kind = str(work.dtype).removeprefix("torch.")
    return f"{work.name} {'exact ' if not work.tf32 else ''}{kind}"


@pytest.fixture(autouse=True)
def torchs_settings() -> Iterator[None]:
    """Models make their own tensors on the device; the fast path's GELU is another one than the models' and is off."""
    allowed = torch.backends.cudnn.allow_tf32
    torch.set_default_device("cuda")
    torch.backends.mha.set_fastpath_enabled(False)
    yield
    torch.set_default_device(None)
    torch.backends.mha.set_fastpath_enabled(True)
    torch.backends.cudnn.allow_tf32 = allowed


def _waits_only_for_numbers(compiled: Any, inputs: tuple[Tensor, ...]) -> None:
    """A call waits for the device where `explain` shows a number that the host reads, and nowhere else."""
    reads = sum(row["op"] == "read on the host" for row in compiled.explain().statements if row["phase"] == "run")
    before = _call.cuda_calls()["synchronizations"]
    for _ in range(_CALLS):
        compiled(*inputs)
    waits = _call.cuda_calls()["synchronizations"] - before
    assert bool(waits) == bool(reads), f"{reads} reads on the host are shown, but {_CALLS} calls waited {waits} times"


@pytest.mark.parametrize("work", list(works()), ids=_title)
def test_model(work: Work) -> None:
    torch.backends.cudnn.allow_tf32 = work.tf32
    model = settled(work.make()).to(work.dtype).cuda()
    of_convolutions = has_convolutions(model)
    if not work.tf32 and not of_convolutions:
        pytest.skip("it has no convolution that could round")
    eager, reference = copy.deepcopy(model), policy.reference_of(model)
    others = copy.deepcopy(model), policy.reference_of(model)
    inputs = converted(work.inputs(), work.dtype)
    tf32 = work.tf32 and work.dtype is torch.float32 and of_convolutions
    compiled = sl.compile(model, policy.clone(inputs))
    by_stream = sl.compile(copy.deepcopy(model), policy.clone(inputs), launch="stream")  # which writes its buffers, too
    for _ in range(2):
        check(compiled, eager, reference, inputs, tf32)
        check(by_stream, *others, inputs, tf32)
        inputs = converted(work.inputs(), work.dtype)
    _waits_only_for_numbers(compiled, inputs)


class _Residuals(nn.Module):
    """Linears to whose results a tensor is added, with a bias and without, and one at addresses that are multiples of 4 bytes alone."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(96, 64), nn.Linear(64, 64, bias=False)

    def forward(self, x: Tensor, r: Tensor, odd: Tensor) -> tuple[Tensor, ...]:
        y = self.first(x) + r
        z = y + self.second(y)
        return z, self.second(z) + odd[1:].view(r.shape)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_residuals_of_products(dtype: torch.dtype) -> None:
    model = _Residuals().to(dtype).eval()
    inputs = (torch.randn(3, 50, 96, dtype=dtype), torch.randn(3, 50, 64, dtype=dtype), torch.randn(9601, dtype=dtype))
    compiled = policy.check(model, inputs, routes={"linear": "cublaslt"})
    run = [row for row in compiled.explain().statements if row["phase"] == "run"]
    assert [row["backend"] for row in run if row.get("backend")].count("cublaslt") == 3
