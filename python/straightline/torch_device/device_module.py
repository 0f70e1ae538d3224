# SPDX-License-Identifier: Apache-2.0
"""`torch.sl`: devices, streams, events, random state and memory, as in torch's other device modules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from straightline.torch_device import eager

_native: Any = None
_name = "sl"
#: Read by torch.utils.checkpoint, which keeps the random state of devices that have been used alone.
_initialized = True

Stream = torch.Stream
Event = torch.Event


def set_up(native: Any, name: str) -> None:
    """Gives the module its C++ part, once."""
    global _native, _name
    _native, _name = native, name


def _index(device: Any) -> int:
    """The number of a device given as a number, a text, a torch.device or None (the current one)."""
    if device is None:
        return current_device()
    if isinstance(device, int):
        found = device
    else:
        named = torch.device(device)
        if named.type != _name:
            raise ValueError(f"device is {str(named)!r} but must be of type {_name!r}, such as '{_name}:0'")
        found = current_device() if named.index is None else named.index
    if not 0 <= found < device_count():
        raise ValueError(f"device is {found} but must be 0 to {device_count() - 1}")
    return found


def _device(device: Any) -> torch.device:
    return torch.device(_name, _index(device))


# --- devices


def is_available() -> bool:
    """Whether there is a device."""
    return device_count() > 0


def is_initialized() -> bool:
    """Always: the plug-in is open."""
    return True


def _is_in_bad_fork() -> bool:
    return bool(_native.is_forked())


def init() -> None:
    """Nothing is left to do."""


def device_count() -> int:
    """How many devices there are."""
    return int(_native.device_count())


def current_device() -> int:
    """The number of this thread's device."""
    return int(_native.current_device())


def set_device(device: Any) -> None:
    """Makes a device this thread's."""
    _native.set_device(_index(device))


class device:
    """Makes a device this thread's for the `with` block."""

    def __init__(self, device: Any) -> None:
        self._index = _index(device)
        self._before = -1

    def __enter__(self) -> None:
        """Changes the device."""
        self._before = current_device()
        set_device(self._index)

    def __exit__(self, *_: object) -> None:
        """Changes it back."""
        set_device(self._before)


def synchronize(device: Any = None) -> None:
    """Waits for all work of a device; what failed in it is raised."""
    torch.accelerator.synchronize(_index(device))


def get_device_name(device: Any = None) -> str:
    """The plug-in's backend with the device's number."""
    return f"{_native.backend()}:{_index(device)}"


# --- streams


def current_stream(device: Any = None) -> torch.Stream:
    """The stream on which this thread uses a device."""
    return torch.accelerator.current_stream(_index(device))


def default_stream(device: Any = None) -> torch.Stream:
    """The stream that threads use that have chosen none."""
    return _native.stream(_index(device), 0)  # type: ignore[no-any-return]


def set_stream(stream: torch.Stream) -> None:
    """This thread uses the stream's device on it from now on."""
    torch.accelerator.set_stream(stream)


@contextmanager
def stream(stream: torch.Stream | None) -> Iterator[None]:
    """This thread uses the stream's device on it for the `with` block; None: nothing changes."""
    if stream is None:
        yield
        return
    before, index = current_stream(stream.device), current_device()
    set_stream(stream)
    try:
        yield
    finally:
        set_stream(before)
        set_device(index)


# --- random state


def manual_seed(seed: int) -> None:
    """Seeds the current device's generator."""
    default_generator().manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all devices."""
    for i in range(device_count()):
        default_generator(i).manual_seed(seed)


def seed() -> int:
    """Seeds the current device's generator with a random number, which it returns."""
    return int(default_generator().seed())


def initial_seed() -> int:
    """The seed of the current device's generator."""
    return int(default_generator().initial_seed())


def default_generator(device: Any = None) -> torch.Generator:
    """The generator that a device uses where a call gives none."""
    return _native.default_generator(_index(device))  # type: ignore[no-any-return]


def get_rng_state(device: Any = None) -> torch.Tensor:
    """Seed and offset of a device's generator."""
    return default_generator(device).get_state()


def set_rng_state(state: torch.Tensor, device: Any = None) -> None:
    """Makes a device's generator go on from a state."""
    default_generator(device).set_state(state)


# --- memory


def memory_allocated(device: Any = None) -> int:
    """Bytes of tensors on a device, rounded up to blocks."""
    return int(torch.accelerator.memory_allocated(_index(device)))


def max_memory_allocated(device: Any = None) -> int:
    """The most that `memory_allocated` was."""
    return int(torch.accelerator.max_memory_allocated(_index(device)))


def memory_reserved(device: Any = None) -> int:
    """Bytes that were taken from a device, for tensors and for later ones."""
    return int(torch.accelerator.memory_reserved(_index(device)))


def reset_peak_memory_stats(device: Any = None) -> None:
    """`max_memory_allocated` begins again."""
    torch.accelerator.reset_peak_memory_stats(_index(device))


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free bytes of a device, and all of its bytes."""
    free, total = torch.accelerator.get_memory_info(_index(device))
    return int(free), int(total)


def empty_cache() -> None:
    """Gives back what no tensor uses, after all work has ended."""
    _native.empty_cache()


# --- autocast


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Types to which torch.autocast lowers ops."""
    return [torch.bfloat16, torch.float16]


def is_bf16_supported() -> bool:
    """Always."""
    return True


# --- inductor

_OF_INDUCTOR = ("Scheduling", "PythonWrapperCodegen", "CppWrapperCodegen", "WrapperFxCodegen")


def __getattr__(name: str) -> Any:
    if name in _OF_INDUCTOR:
        from straightline.torch_device import inductor

        return getattr(inductor, name)
    raise AttributeError(f"module 'torch.{_name}' has no attribute {name!r}")


# --- ops


def registered_ops() -> tuple[str, ...]:
    """ATen ops that have a kernel for the device by name; all others go to the same kernel by its fallback."""
    return tuple(sorted(torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1")))


def op_counts() -> list[dict[str, Any]]:
    """What ran so far: a row for each op and route, with `op`, `route` (kernels, or "cpu"), `calls` and `programs`."""
    return eager.counts(_native)
