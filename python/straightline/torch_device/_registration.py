# SPDX-License-Identifier: Apache-2.0
"""Registers torch's device: which plug-in, the name, the C++ part, the module `torch.sl`."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import Any

from straightline import _devices, backend_plugins
from straightline.errors import UserError
from straightline.torch_device import _build, eager

_FREE_NAME = "privateuseone"


def chosen_backend() -> str:
    """The backend that STRAIGHTLINE_DEVICE names, or the only plug-in with a device."""
    names = _devices.names()
    wanted = os.environ.get("STRAIGHTLINE_DEVICE")
    if wanted:
        if wanted not in names:
            raise UserError(
                f"STRAIGHTLINE_DEVICE is {wanted!r} but {_listed(names)}: name its file in STRAIGHTLINE_BACKEND_PATH, or call "
                "straightline.load_backend before this import"
            )
        return wanted
    if len(names) != 1:
        raise UserError(
            f"{_listed(names)}: "
            + ("name one in STRAIGHTLINE_DEVICE" if names else "name a plug-in's file in STRAIGHTLINE_BACKEND_PATH")
        )
    return names[0]


def _listed(names: list[str]) -> str:
    if not names:
        return "no plug-in with a device is open"
    return (
        f"{'the plug-in' if len(names) == 1 else 'the plug-ins'} with a device {'is' if len(names) == 1 else 'are'} "
        + ", ".join(map(repr, names))
    )


def check_free(name: str) -> None:
    """Raises UserError where another package has torch's place for devices of its kind."""
    import torch

    taken = torch._C._get_privateuse1_backend_name()
    if taken == _FREE_NAME:
        return
    module = sys.modules.get(f"torch.{taken}") or getattr(torch, taken, None)
    whose = getattr(module, "__file__", None) or getattr(module, "__name__", None) or "another package"
    raise UserError(
        f"torch's device PrivateUse1 is {taken!r} ({whose}) and cannot be {name!r} (straightline.torch_device) too: a process "
        "has one such package; nearest: import one of them alone (TORCH_DEVICE_BACKEND_AUTOLOAD=0 keeps torch from loading any)"
    )


def register(name: str) -> Any:
    """Makes the device `name`; returns the C++ part."""
    import torch

    backend_plugins.open_all()
    backend = chosen_backend()
    check_free(name)
    native = _build.load()
    native.open(backend, name)
    torch.utils.rename_privateuse1_backend(name)
    from straightline.torch_device import device_module

    device_module.set_up(native, name)
    torch._register_device_module(name, device_module)
    sys.modules[f"torch.{name}"] = device_module
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    _set_kernels(native, backend)
    native.set_builder(eager.new_builder(name), _limit())
    native.register_ops(eager.direct_ops())
    _devices.set_torch_device(name, backend)
    return native


def _limit() -> int:
    text = os.environ.get("STRAIGHTLINE_DEVICE_PROGRAMS", "4096")
    if not text.isdigit() or int(text) < 1:
        raise UserError(f"STRAIGHTLINE_DEVICE_PROGRAMS is {text!r} but must be a number from 1 on")
    return int(text)


def _set_kernels(native: Any, backend: str) -> None:
    """Gives the C++ part the text of its kernels, and where their image is kept."""
    folder = Path(__file__).parent / "native"
    text = (folder / "kernels.cc.txt").read_text()
    headers = [
        (f"straightline/abi/{name}", (_build.headers() / "abi" / name).read_text()) for name in ("entry.h", "types.h")
    ]
    parts = [text, *(part for header in headers for part in header), backend, native.compiler()]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
    native.set_kernels(text, headers, str(_build.folder() / f"kernels-{digest}"))
