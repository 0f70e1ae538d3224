# SPDX-License-Identifier: Apache-2.0
"""Each family of emitted CUDA kernels (tests/device/families.py), and the model set, on the host under sanitizers, with clusters and early starts.

Under ThreadSanitizer also the order of launches holds (host_device/machine.h). That both find what they are for is tested below.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from cuda_on_host import run_on_host
from tests.device.families import OWN, cases
from straightline.testing.models.cases import ALL, settled
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import straightline as sl


@pytest.mark.parametrize("sanitizer", ["thread", "address"])
@pytest.mark.parametrize("name", cases())
def test_family(name: str, sanitizer: str, tmp_path: Path) -> None:
    model, inputs = cases()[name]
    model.eval()
    with torch.no_grad():
        # Copies: a call may write rows of buffers, and then a kernel that did not write them would not show.
        right: Any = copy.deepcopy(model).double()(*(x.double() if x.is_floating_point() else x for x in inputs))
        like: Any = copy.deepcopy(model)(*inputs)
    with torch.backends.cudnn.flags(allow_tf32=False):
        compiled = sl.compile(model, inputs, target="cuda:sm_90", routes=OWN)
    right, like = ((y,) if isinstance(y, Tensor) else y for y in (right, like))
    got = tuple(torch.empty_like(y, memory_format=torch.contiguous_format) for y in like)
    run_on_host(compiled, model, inputs, got, tmp_path, sanitizer)
    for mine, best in zip(got, right, strict=True):
        assert (mine.double() - best.double()).abs().max() <= 1e-4 * best.double().abs().max().clamp_min(1e-30)


#: Their own kernels alone; convolutions of ResNet-18 take minutes here.
_MODELS = [name for name, (_, _, tail) in ALL.items() if not tail and not name.startswith("resnet")]


@pytest.mark.parametrize("name", _MODELS)
def test_model(name: str, tmp_path: Path) -> None:
    model, inputs = settled(ALL[name].make()), ALL[name].inputs()
    with torch.backends.cudnn.flags(allow_tf32=False):
        compiled = sl.compile(model, inputs, target="cuda:sm_90", routes=OWN)
    with torch.no_grad():
        right = pytree.tree_leaves(copy.deepcopy(model)(*inputs))
    got = tuple(torch.empty_like(y, memory_format=torch.contiguous_format) for y in right)
    run_on_host(compiled, model, inputs, got, tmp_path, "thread")
    for mine, best in zip(got, right, strict=True):
        assert (mine - best).abs().max() <= 2e-5 * best.abs().max()


class _Changed:
    """A program whose text was changed."""

    def __init__(self, compiled: Any, old: str, new: str) -> None:
        assert old in compiled.code
        self.code = compiled.code.replace(old, new)
        self._compiled = compiled

    def ir(self, level: str) -> str:
        return self._compiled.ir(level)


class _Rows(nn.Module):
    """Three launches, of which each waits for the one before it by itself; what they hand on lies side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(70, 300), nn.Linear(300, 40)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x).softmax(-1)).softmax(-1)


@pytest.mark.parametrize(
    ("sanitizer", "old", "new", "words"),
    [
        ("thread", "// CUDA C++ for sm_90.", "#define __syncthreads() ((void)0)", "data race"),
        (None, "  sl::awaitPrevious();\n", "  auto never = [] { sl::awaitPrevious(); };\n", "without waiting"),
        (
            "thread",
            "  sl::awaitPrevious();\n",
            "  struct Late {\n    ~Late() { sl::awaitPrevious(); }\n  } late;\n",
            "data race",
        ),
        ("address", ".k = 70, .lda", ".k = 71, .lda", "heap-buffer-overflow"),
        ("address", ".ldc = 300", ".ldc = 301", "use-after-poison"),
    ],
)
def test_a_fault_is_found(sanitizer: str | None, old: str, new: str, words: str, tmp_path: Path) -> None:
    model, x = _Rows().eval(), torch.randn(3, 70)
    compiled = sl.compile(model, (x,), target="cuda:sm_90", routes=OWN)
    run_on_host(compiled, model, (x,), (torch.empty(3, 40),), tmp_path / "right", sanitizer)
    with pytest.raises(AssertionError, match=words):
        run_on_host(_Changed(compiled, old, new), model, (x,), (torch.empty(3, 40),), tmp_path / "wrong", sanitizer)
