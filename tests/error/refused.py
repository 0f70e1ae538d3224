# SPDX-License-Identifier: Apache-2.0
"""Tensors that no program takes, each with the words that name why, when compiling and when calling."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from straightline.errors import UnsupportedError, UserError
from torch._subclasses.fake_tensor import FakeTensorMode


class Subclass(torch.Tensor):
    """A tensor subclass of a user."""


class Hostile(torch.Tensor):
    """A tensor subclass that fails whatever is asked of it."""

    @classmethod
    def __torch_function__(cls, *_: Any) -> Any:
        raise RuntimeError("hostile")


@dataclass(frozen=True)
class Refused:
    """How to make the tensor [2, 3] and what is said about it."""

    make: Callable[[], torch.Tensor]
    compile_class: type[Exception]
    compile_words: str
    call_words: str


def _quantised() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(torch.ones(2, 3), 0.1, 0, torch.qint8)


def _sparse_rows() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.ones(2, 3).to_sparse_csr()


REFUSED: dict[str, Refused] = {
    "meta": Refused(
        lambda: torch.ones(2, 3, device="meta"), UserError, "on device meta", "on device 'meta' .* 'cpu'"
    ),
    "fake": Refused(
        lambda: FakeTensorMode().from_tensor(torch.ones(2, 3)), UserError, "fake tensor", "fake tensor"
    ),
    "subclass": Refused(
        lambda: torch.ones(2, 3).as_subclass(Subclass),
        UnsupportedError,
        "subclass Subclass, expected torch.Tensor",
        "is a Subclass, a subclass of torch.Tensor",
    ),
    "subclass that raises": Refused(
        lambda: torch.ones(2, 3).as_subclass(Hostile),
        UnsupportedError,
        "subclass Hostile, expected torch.Tensor",
        "is a Hostile, a subclass of torch.Tensor",
    ),
    "zero tensor": Refused(
        lambda: torch._efficientzerotensor((2, 3)),
        UserError,
        r"is a zero tensor of autograd's, which has no storage, expected clone\(\)",
        "is a tensor without storage",
    ),
    "nested": Refused(
        lambda: torch.nested.nested_tensor([torch.ones(3), torch.ones(2)]),
        UnsupportedError,
        "is a nested tensor, expected a padded one",
        "is a nested tensor: give a padded one",
    ),
    "mkldnn": Refused(
        lambda: torch.ones(2, 3).to_mkldnn(),
        UnsupportedError,
        "layout torch._mkldnn, expected torch.strided",
        "has the layout torch._mkldnn: give a dense tensor",
    ),
    "sparse": Refused(
        lambda: torch.ones(2, 3).to_sparse(), UnsupportedError, "sparse_coo, expected torch.strided", "sparse_coo"
    ),
    "sparse rows": Refused(
        _sparse_rows, UnsupportedError, "sparse_csr, expected torch.strided", "sparse_csr"
    ),
    "quantised": Refused(_quantised, UnsupportedError, "quantised .*qint8", "quantized .*qint8"),
    "conj": Refused(
        lambda: torch.ones(2, 3, dtype=torch.complex64).conj(), UnsupportedError,
        r"conj or neg view, expected resolve_conj\(\)", "complex64 but .*float32",
    ),
    "neg": Refused(
        lambda: torch.ones(2, 3, dtype=torch.complex64).conj().imag,
        UnsupportedError,
        r"neg view, expected .*resolve_neg\(\)",
        r"negated view .*x\.resolve_neg\(\)",
    ),
}  # fmt: skip
