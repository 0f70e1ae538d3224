# SPDX-License-Identifier: Apache-2.0
"""What torch's inductor asks of a device's module. It has no code generator for the device, and this says so.

Inductor imports it (by `torch.sl.Scheduling`) when it compiles anything in a process that has the device.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor.codegen.common import DeviceOpOverrides, get_device_op_overrides, register_device_op_overrides

from straightline.errors import UnsupportedError


class _Refuses(type):
    """Inductor asks a class what it can before it makes objects of it."""

    def __getattr__(cls, name: str) -> Any:
        raise AttributeError(name) if name.startswith("__") else _refusal()


class _NoCodeGenerator(metaclass=_Refuses):
    """Refuses where inductor would generate code."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise _refusal()


def _refusal() -> UnsupportedError:
    name = torch._C._get_privateuse1_backend_name()
    return UnsupportedError(
        f"torch.compile's backend 'inductor' has no code generator for the device {name!r}; nearest: "
        "torch.compile(model, backend='straightline'), or straightline.compile"
    )


Scheduling = PythonWrapperCodegen = CppWrapperCodegen = WrapperFxCodegen = _NoCodeGenerator

get_device_op_overrides("cpu")  # torch fills its table once, before others may write into it
register_device_op_overrides(torch._C._get_privateuse1_backend_name(), DeviceOpOverrides())
