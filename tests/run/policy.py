# SPDX-License-Identifier: Apache-2.0
"""The numeric policy (straightline.testing.policy) with what the environment says of these tests: the device, and how to launch."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import straightline as sl
import torch
from straightline import _internal
from straightline.testing import policy as _policy
from straightline.testing.policy import (
    ExactVariance,
    bytes_of,
    check_call,
    check_close,
    check_tree,
    clone,
    in_float64,
    launches,
    reference_of,
    same_bits,
    torch_errors,
)

__all__ = [
    "OWN_BACKEND", "ExactVariance", "bytes_of", "check", "check_call", "check_close", "check_tree", "clone", "in_float64", "is_native",
    "launches",
    "reference_of", "same_bits", "torch_errors",
]  # fmt: skip

#: The backend of Straightline's own kernels where tests make their models and inputs.
OWN_BACKEND = "cuda" if torch.get_default_device().type == "cuda" else "native"

#: What `check` compiles for where nothing says so: the device of a plug-in (STRAIGHTLINE_BACKEND_PATH), with tensors on the host.
_TARGET = os.environ.get("STRAIGHTLINE_TEST_TARGET")

#: How `check` compiles what does not say how it is launched; None: as it is by default.
_LAUNCH = os.environ.get("STRAIGHTLINE_TEST_LAUNCH")


def check(
    model: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    calls: Sequence[Sequence[Any]] = (),
    **options: Any,
) -> Any:
    """`straightline.testing.policy.check`, launched as the environment says where `options` do not."""
    if _TARGET:
        options.setdefault("target", _TARGET)
    if _LAUNCH:
        options.setdefault("launch", _LAUNCH)
    with _through_a_file() if os.environ.get("STRAIGHTLINE_TEST_SAVED") else contextlib.nullcontext():
        return _policy.check(model, args, kwargs, calls=calls, **options)


@contextlib.contextmanager
def _through_a_file() -> Iterator[None]:
    """What is compiled within this is saved and loaded; what cannot be called here stays as it is."""
    compile_ = _internal.compile

    def saved(*args: Any, **kwargs: Any) -> Any:
        function = compile_(*args, **kwargs)
        if not isinstance(function, sl.CompiledFunction):
            return function
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.sl")
            function.save(path, ("host",), libraries=("aten", "onednn"))
            return sl.load(path)

    _internal.compile = saved
    try:
        yield
    finally:
        _internal.compile = compile_


def is_native(function: Callable[..., Any], *inputs: torch.Tensor) -> bool:
    """Whether the function compiles to kernels of ours alone, without a call of torch's ops."""
    return all(row["backend"] != "aten" for row in launches(_internal.compile(function, inputs)))
