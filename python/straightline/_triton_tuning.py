# SPDX-License-Identifier: Apache-2.0
"""Configurations of `@triton.autotune`: measured while compiling where a device of the target is, remembered in tuning.json.

Each configuration is a program that is the op alone, with tensors of the sizes of this call (of a size that only a call knows:
the example's). Floats are random, all else is zero, since an index may be out of range otherwise.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from straightline import _tuning, own_images, own_kernels
from straightline._tuning import Measured

#: The number of the configuration that is taken in this context, whatever is measured; -1: any.
_taken: ContextVar[int] = ContextVar("straightline_triton_configuration", default=-1)
#: Launches of one visit, and visits of each configuration in turn.
_LAUNCHES, _VISITS = 20, 7
#: What this process has measured, by machine and problem.
_known: dict[tuple[str, str], Measured] = {}


def taken() -> int:
    """The number of the configuration that is to be taken; -1: nobody says."""
    return _taken.get()


@contextmanager
def taking(number: int) -> Iterator[None]:
    """A block in which kernels are compiled with one of their configurations."""
    token = _taken.set(number)
    try:
        yield
    finally:
        _taken.reset(token)


def can_measure(arch: str) -> bool:
    """Whether the device of the program that is compiled is here, and is the target."""
    import torch

    number = own_images.place().number
    if not torch.cuda.is_available() or number >= torch.cuda.device_count():
        return False
    major, minor = torch.cuda.get_device_capability(number)
    return 10 * major + minor == own_images.number_of(arch)


def choose(
    op: str, arch: str, values: Mapping[str, Any], facts: str, names: Sequence[str], valid: Callable[[int], bool]
) -> Measured:
    """The fastest configuration and the times of all that can be compiled.

    Args:
        op: the op that launches the kernel.
        arch: the target's architecture, that of the device that is here.
        values: the arguments of the call, as `own_images.Maker` gets them.
        facts: all else that machine code depends on, as a text.
        names: the configurations.
        valid: whether one can be compiled, by its number.
    """
    from straightline import _targets

    place = own_images.place()
    machine = f"{_targets.machine(place.number)}, compiled for {arch}"
    shown = ", ".join(f"{name}={_shown(value)}" for name, value in values.items())
    problem = f"triton.{op.partition('::')[2]}({shown}) {hashlib.sha256(facts.encode()).hexdigest()[:16]}"
    path = _path() if place.cache else ""
    known = _known.get((machine, problem)) or _tuning._read(path, machine, {}).get(problem)
    able = [number for number in range(len(names)) if valid(number)]
    if known is None or list(known.times) != [names[number] for number in able]:
        times = dict(zip((names[number] for number in able), _times(op, values, able, place.number), strict=True))
        known = Measured(min(times, key=times.__getitem__), times)
        _tuning._write(path, machine, {problem: known})
    _known[machine, problem] = known
    return known


def _path() -> str:
    from straightline import _compiler

    folder = _compiler.cache_info()["directory"]
    return os.path.join(folder, _tuning._FILE) if folder else ""


def _shown(value: Any) -> str:
    if hasattr(value, "shape"):
        return f"{str(value.dtype).removeprefix('torch.')}{[_number(size) for size in value.shape]}"
    return str(_number(value)) if hasattr(value, "symbols") else repr(value)


def _number(size: Any) -> int:
    """The example's value of a size; where nothing is known of it, one within its bounds."""
    if not hasattr(size, "symbols"):
        return int(size)
    example = getattr(size, "example", None)
    return example if example is not None else max(getattr(size, "low", 1), min(getattr(size, "high", 1024), 1024))


def _times(op: str, values: Mapping[str, Any], able: Sequence[int], device: int) -> list[float]:
    """Microseconds of a launch of each configuration: the least of several visits, in turn."""
    import torch

    import straightline

    kernel = own_kernels.find(op)
    assert kernel is not None
    given = {name: _operand(value, device) for name, value in values.items()}
    tensors = [value for value in given.values() if isinstance(value, torch.Tensor)]
    constants = {name: value for name, value in given.items() if not isinstance(value, torch.Tensor)}
    programs = []
    for number in able:
        with taking(number):
            programs.append(straightline.compile(own_kernels.alone(kernel, constants), tuple(tensors), launch="stream"))
    least = [float("inf")] * len(able)
    with torch.cuda.device(device):
        for _ in range(_VISITS):
            for place, program in enumerate(programs):
                begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                program(*tensors)
                begin.record()
                for _ in range(_LAUNCHES):
                    program(*tensors)
                end.record()
                end.synchronize()
                least[place] = min(least[place], begin.elapsed_time(end) * 1000 / _LAUNCHES)
    return least


def _operand(value: Any, device: int) -> Any:
    import torch

    if not hasattr(value, "shape"):
        return _number(value) if hasattr(value, "symbols") else value
    shape = [_number(size) for size in value.shape]
    if value.dtype.is_floating_point and value.dtype.itemsize > 1:
        return torch.randn(shape, device=f"cuda:{device}").to(value.dtype)
    return torch.zeros(shape, dtype=value.dtype, device=f"cuda:{device}")
