# SPDX-License-Identifier: Apache-2.0
"""Which framework a module of `sys.modules` really is: another one may stand there by torch's name, as Paddle's proxy does."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any

_ONEDNN = os.path.join(os.path.dirname(__file__), "libstraightline_backend_onednn.so")


def imported_torch() -> ModuleType | None:
    """PyTorch, where it is imported; None for a module of that name whose tensors are another framework's."""
    module = sys.modules.get("torch")
    return module if getattr(getattr(module, "Tensor", None), "__module__", None) == "torch" else None


def installed_torch() -> ModuleType | None:
    """PyTorch, imported where it is installed; None where it is not, or where another module stands in its place."""
    if "torch" not in sys.modules:
        try:
            import torch  # noqa: F401
        except ModuleNotFoundError:
            return None
    return imported_torch()


def imported_paddle() -> ModuleType | None:
    """Paddle, where it is imported."""
    module = sys.modules.get("paddle")
    return module if hasattr(module, "Tensor") else None


def is_paddle(value: object) -> bool:
    """Whether a value is a tensor of Paddle; parameters are."""
    paddle = imported_paddle()
    return paddle is not None and isinstance(value, paddle.Tensor)


def not_pytorch(module: object) -> str:
    """Words for a module named torch that is not PyTorch: "not PyTorch: its Tensor is paddle.Tensor"."""
    tensor = getattr(module, "Tensor", None)
    if not isinstance(tensor, type):
        return "not PyTorch: it has no Tensor"
    return f"not PyTorch: its Tensor is {tensor.__module__}.{tensor.__qualname__}"


def records_gradient(value: Any) -> bool:
    """Whether a tensor with `stop_gradient` (Paddle's opposite of `requires_grad`) would be recorded now."""
    if value.stop_gradient is not False:
        return False
    framework = sys.modules.get(type(value).__module__.partition(".")[0])
    enabled = getattr(framework, "is_grad_enabled", None)
    return enabled is None or bool(enabled())


@functools.cache
def keep_for_paddle() -> None:
    """Opens Paddle's own oneDNN where Paddle is installed, before the backend `onednn` opens another one.

    Both files are named libdnnl.so.3, and the loader takes the first of a name for all: Paddle could not be imported any more.
    Beside Paddle's the backend's kernel is not available, which `explain` says.
    """
    if "paddle" in sys.modules or not os.path.exists(_ONEDNN):
        return
    try:
        found = importlib.util.find_spec("paddle")
    except (ImportError, ValueError):
        return
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        path = os.path.join(folder, "libs", "libdnnl.so.3")
        if os.path.exists(path):
            try:
                ctypes.CDLL(path, os.RTLD_LAZY | os.RTLD_LOCAL)
            except OSError:
                return  # a Paddle that cannot be imported either
