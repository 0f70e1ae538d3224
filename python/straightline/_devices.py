# SPDX-License-Identifier: Apache-2.0
"""Devices of plug-ins as places of programs: "NAME" or "NAME:MACHINE", with tensors in host memory or on torch's device."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterable
from typing import Any

from straightline.errors import UserError

#: Places that are no plug-in's: the CPU, and devices that targets of ours know.
_OWN = frozenset({"cpu", "cuda"})

#: The type of torch's device over a plug-in's ("sl"), and the plug-in's backend: `straightline.torch_device` sets both.
_torch_device: tuple[str, str] | None = None


def set_torch_device(type: str, backend: str) -> None:
    """Says that torch's devices of a type are those of a plug-in's backend."""
    global _torch_device
    _torch_device = (type, backend)


def is_plugin(place: str) -> bool:
    """Whether a program's place is the device of a plug-in."""
    return place.partition(":")[0] not in _OWN


def names() -> list[str]:
    """The backends of this process's plug-ins that have a device."""
    from straightline import _compiler, backend_plugins  # which a saved model does without

    backend_plugins.open_all()
    rows = json.loads(_compiler.backends_json(probe=False))
    return [row["name"] for row in rows if row["space"] and row["name"] not in _OWN]


def machine(place: str, number: int) -> str:
    """What measured times of a plug-in's device depend on: its names, its version and the host's part of a call."""
    from straightline import _compiler
    from straightline.plugin_check import abi
    from straightline.plugin_check.device_abi import Device, Properties

    backend = place.partition(":")[0]
    rows = json.loads(_compiler.backends_json(probe=True))
    version = next((row.get("version") for row in rows if row["name"] == backend), "")
    properties = Properties(size=ctypes.sizeof(Properties))
    address = abi.device_of(backend)
    if address and (device := Device.from_address(address)).properties:
        device.properties(number, properties)
    name = (properties.name or b"").decode(errors="replace")
    return ", ".join(filter(None, (place, name, version)))


def torch_name(number: int) -> str:
    """A device of the plug-in by torch's name, "sl:0"; without torch's device "plug-in:0"."""
    return f"{_torch_device[0] if _torch_device is not None else 'plug-in'}:{number}"


def is_there(tensor: Any) -> bool:
    """Whether a tensor is on torch's device over a plug-in's."""
    if _torch_device is None:
        return False
    return getattr(getattr(tensor, "device", None), "type", "cpu") == _torch_device[0]


def is_supported(tensor: Any) -> bool:
    """Whether programs take tensors of this one's device at all."""
    return tensor.device.type in _OWN or is_there(tensor)


def place_of(tensors: Iterable[Any], target: object) -> str | None:
    """The place of a program for a plug-in's device, where its tensors are on one or the target names one; else None.

    Raises:
        UserError: The tensors are on the device of another backend than the target, or the target is a tensor's device.
    """
    there, here = _torch_device if _torch_device is not None and any(map(is_there, tensors)) else ("", None)
    if target is None:
        return here
    if _torch_device is not None and target == _torch_device[0]:
        return _torch_device[1]  # by torch's name
    backend = target.partition(":")[0] if isinstance(target, str) else ""
    is_named = bool(backend) and backend not in _OWN and backend in names()
    if here is not None and (not is_named or backend != here):
        nearest = "" if is_named else f": give target='{here}', leave it out, or give inputs on the cpu"
        raise UserError(f"target is {target!r} but an example input is on {there}, the device of '{here}'{nearest}")
    return str(target) if is_named else None


def number_of(tensors: Iterable[Any]) -> int:
    """The number of the device on which tensors are; 0 where none is on one.

    Raises:
        UserError: They are on two devices.
    """
    found: dict[int, int] = {tensor.device.index or 0: i for i, tensor in enumerate(tensors, 1) if is_there(tensor)}
    if len(found) > 1:
        (first, i), (second, j) = sorted(found.items())[:2]
        raise UserError(
            f"example tensor {i} is on {torch_name(first)} but example tensor {j} is on {torch_name(second)}: "
            "a program runs on one device"
        )
    return next(iter(found), 0)


def check_together(tensors: dict[str, Any]) -> None:
    """Raises UserError where some tensors are on the device and others are not."""
    there = [name for name, tensor in tensors.items() if is_there(tensor)]
    away = [name for name in tensors if name not in there]
    if there and away:
        raise UserError(
            f"{there[0]} is on {_torch_device[0]} but {', '.join(away)} {'is' if len(away) == 1 else 'are'} not: "  # type: ignore[index]
            "move the model and its inputs"
        )


def request(number: int, tensors: Iterable[Any]) -> dict[str, Any]:
    """The options for `_compiler.compile` that say where a program runs and where its tensors are."""
    return {"threads": 1, "device": number, "host_edges": int(not any(map(is_there, tensors)))}
