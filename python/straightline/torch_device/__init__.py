# SPDX-License-Identifier: Apache-2.0
"""PyTorch's device "sl" over the device of a plug-in: `import straightline.torch_device`, then `torch.randn(2, device="sl")`.

STRAIGHTLINE_DEVICE names the plug-in's backend; without it, it is the only one that has a device. Torch may be imported before or
after; with STRAIGHTLINE_DEVICE set, `import torch` alone is enough (an entry point of torch's).
"""

from __future__ import annotations

from typing import Any

#: The type of the device.
NAME = "sl"


_registered: Any = None


def _register() -> Any:
    """Makes the device, once; returns the C++ part."""
    global _registered
    if _registered is None:
        from straightline.torch_device import _registration

        _registered = _registration.register(NAME)
    return _registered


def registered_ops() -> tuple[str, ...]:
    """ATen ops that have a kernel for the device by name; all others go to the same kernel by its fallback."""
    import torch

    return torch.get_device_module(NAME).registered_ops()  # type: ignore[no-any-return]


def op_counts() -> list[dict[str, Any]]:
    """What ran so far: a row for each op and route, with `op`, `route` (kernels, or "cpu"), `calls` and `programs`."""
    import torch

    return torch.get_device_module(NAME).op_counts()  # type: ignore[no-any-return]


def programs_built() -> int:
    """Programs of one op that were compiled since the process began."""
    return int(_register().programs_built())


_register()
