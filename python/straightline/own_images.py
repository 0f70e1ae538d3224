# SPDX-License-Identifier: Apache-2.0
"""Machine code of users' kernels: what a launch of a cubin gets (docs/design/own_kernels.md, "Machine code")."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from straightline import _cubin
from straightline.errors import StraightlineError, UnsupportedError, UserError

#: Bytes of shared memory that a block may have (CUDA Programming Guide, "Technical Specifications per Compute Capability").
_SHARED_BYTES = {
    75: 65536, 80: 166912, 86: 101376, 87: 166912, 89: 101376, 90: 232448, 100: 232448, 103: 232448, 110: 232448, 120: 101376,
    121: 101376,
}  # fmt: skip
#: The sizes of a grid that a device takes, in x, y and z.
_MOST_BLOCKS = (2**31 - 1, 65535, 65535)


@dataclass(frozen=True)
class Parameter:
    """What one parameter of a kernel gets."""

    #: "tensor": the argument of the op with the name `value`; "result": result number `value`; "bits": the integer `value`,
    #: of which the kernel reads as many bytes as the parameter has; "size": an int that only a call knows.
    kind: str
    value: Any
    #: Addresses are multiples of it.
    alignment: int = 1


@dataclass(frozen=True)
class MachineCode:
    """One launch of a kernel that is machine code."""

    image: bytes = field(repr=False)
    #: The architecture that it is for, "sm_90".
    machine: str
    #: The kernel's name in the image.
    symbol: str
    #: What people read of it.
    text: str = field(repr=False)
    parameters: tuple[Parameter, ...]
    #: Blocks in x, y and z: numbers, or sizes that only a call knows.
    grid: tuple[Any, Any, Any]
    #: Of a block.
    threads: int
    #: Of a block, in addition to what the kernel declares.
    shared_bytes: int = 0
    #: A sentence for `explain`.
    note: str = ""
    #: Whether it touches memory only after it has waited for the kernel before it.
    waits: bool = False
    #: Whether its blocks wait for each other, so that all of them have to run at once.
    cooperative: bool = False


#: Gives the launch for the arguments of an op by name (tensors as `capture.own_calls.Sized`), its results and the target's
#: architecture, "sm_90".
Maker = Callable[[Mapping[str, Any], Sequence[Any], str], MachineCode]


@dataclass(frozen=True)
class Place:
    """Where the program runs that is captured."""

    #: "cuda:sm_90"; "": nobody said.
    target: str = ""
    #: The number of the device.
    number: int = 0
    #: Whether files may keep what is found out while compiling.
    cache: bool = True


_place: ContextVar[Place] = ContextVar("straightline_place", default=Place())


@contextmanager
def compiling_for(place: Place) -> Iterator[None]:
    """A block in which graphs are captured for a place."""
    token = _place.set(place)
    try:
        yield
    finally:
        _place.reset(token)


def place() -> Place:
    """Where the program runs that is captured in this context."""
    return _place.get()


def is_for_cuda() -> bool:
    """Whether the program that is captured runs machine code of users."""
    return place().target.startswith("cuda:")


def machine_of(target: str, op: str) -> str:
    """The architecture of a program's target, "sm_90".

    Raises:
        UnsupportedError: the program runs elsewhere.
    """
    kind, _, arch = target.partition(":")
    if kind != "cuda" or not arch.startswith("sm_"):
        where = "the host" if kind in ("", "cpu") else target
        raise UnsupportedError(
            f"{op} is a CUDA kernel but the program runs on {where}; the nearest supported form is a target such as cuda:sm_90"
        )
    return arch


def asked(option: str, op: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function of the user's gives that is an option of an op.

    Raises:
        UserError: it raised something.
    """
    try:
        return function(*arguments)
    except StraightlineError:
        raise
    except Exception as error:
        raise UserError(f"{option} of {op} raised {type(error).__name__}: {error}") from error


def checked_grid(given: Any, op: str) -> tuple[Any, Any, Any]:
    """A grid of one to three numbers of blocks as three.

    Raises:
        UserError: it is something else, or without blocks.
    """
    items = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    fits = 1 <= len(items) <= 3
    for item, most in zip(items, _MOST_BLOCKS):
        is_number = isinstance(item, int) and not isinstance(item, bool)
        fits = fits and (1 <= item <= most if is_number else hasattr(item, "symbols"))  # an Extent
    if not fits:
        raise UserError(
            f"grid of {op} is {given!r}, expected 1 to 3 numbers of blocks, from 1 to {', '.join(map(str, _MOST_BLOCKS))}"
        )
    x, y, z = (*items, 1, 1)[:3]
    return x, y, z


def check_shared(op: str, shared_bytes: int, arch: str, advice: str) -> None:
    """Compares the shared memory of a block with what the architecture has.

    Raises:
        UserError: it takes more.
    """
    most = _SHARED_BYTES.get(number_of(arch))
    if most is not None and shared_bytes > most:
        raise UserError(
            f"{op} takes {shared_bytes} bytes of shared memory a block but {arch} has {most}; the nearest supported form has "
            f"{advice}"
        )


def number_of(arch: str) -> int:
    """90 of "sm_90a"."""
    found = re.match(r"sm_(\d+)", arch)
    return int(found[1]) if found else 0


def runs_on(machine: str, arch: str) -> bool:
    """Whether devices of `arch` run machine code for `machine`: an equal or earlier one of the same generation."""
    code, device = number_of(machine), number_of(arch)
    return code == device if machine.endswith("a") else code // 10 == device // 10 and code <= device


def read_cubin(source: Any) -> tuple[bytes, str] | None:
    """The machine code that a kernel is given as, and where it is from; None: the source is no machine code.

    Raises:
        UserError: there is no such file.
        UnsupportedError: it is PTX, or several images in one.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        data, where = bytes(source), f"source of {len(source)} bytes"
    elif isinstance(source, (str, os.PathLike)) and os.fspath(source).endswith((".cubin", ".fatbin", ".ptx")):
        where = os.fspath(source)
        try:
            with open(where, "rb") as file:
                data = file.read()
        except OSError as error:
            raise UserError(f"source {where}: {error.strerror}") from error
        where = f"source {where}"
    else:
        return None
    if _cubin.is_cubin(data):
        return data, where
    what = "a fatbin" if data[:4] == b"\x50\xed\x55\xba" else "PTX" if b".version" in data[:4096] else "no cubin"
    raise UnsupportedError(f"{where} is {what}: it begins with {data[:8]!r}; the nearest supported form is a cubin")


def cubin_kernel(
    image: bytes,
    where: str,
    name: str,
    parameters: Sequence[Any],
    results: int,
    op: str,
    grid_of: Callable[[Mapping[str, Any]], tuple[Any, int]],
    shared_of: Callable[[Mapping[str, Any]], int],
) -> Maker:
    """The launches of a kernel of a cubin whose parameters are the op's arguments and then its results.

    `grid_of` gives blocks and threads, `shared_of` the bytes of dynamic shared memory, for arguments by name.

    Raises:
        UserError: it has no such kernel, or one with other parameters.
        UnsupportedError: it is of a format that is not known.
    """
    try:
        machine, kernels = _cubin.architecture_of(image), _cubin.kernels_of(image)
    except ValueError as error:
        raise UnsupportedError(f"{where}: {error}") from error
    if name not in kernels:
        raise UserError(f"{where} has no kernel {name}, it has {', '.join(kernels) or 'none'}")
    sizes = _cubin.parameters_of(image, name)
    wanted = [*(f"'{p.name}'" for p in parameters), *(f"result {i}" for i in range(results))]
    if len(sizes) != len(wanted):
        raise UserError(
            f"the kernel {name} of {where} takes {len(sizes)} parameters but the schema of {op} gives {len(wanted)}: "
            f"{', '.join(wanted)}"
        )
    allowed = {"tensor": (8,), "integer": (1, 2, 4, 8), "number": (4, 8)}
    kinds = [*(p.kind for p in parameters), *(["tensor"] * results)]
    for role, kind, size in zip(wanted, kinds, sizes):
        if size not in allowed[kind]:
            raise UserError(
                f"the kernel {name} of {where} has a parameter of {size} bytes where the schema of {op} gives {role}, "
                f"expected {' or '.join(map(str, allowed[kind]))}"
            )

    def make(values: Mapping[str, Any], results_of: Sequence[Any], arch: str) -> MachineCode:
        if not runs_on(machine, arch):
            raise UserError(
                f"{op} is a cubin for {machine} but the target is {arch}; give a cubin for {arch}, or the kernel's source"
            )
        made = [_parameter(p, size, values[p.name], op) for p, size in zip(parameters, sizes)]
        made += [Parameter("result", i) for i in range(len(results_of))]
        blocks, threads = grid_of(values)
        shared = shared_of(values)
        check_shared(op, shared, arch, "less")
        text = f"{name}, a cubin for {machine} of {len(image)} bytes."
        return MachineCode(image, machine, name, text, tuple(made), (blocks, 1, 1), threads, shared)

    return make


def _parameter(parameter: Any, size: int, value: Any, op: str) -> Parameter:
    if parameter.kind == "tensor":
        return Parameter("tensor", parameter.name) if value is not None else Parameter("bits", 0)
    if parameter.kind == "number":
        return Parameter("bits", float_bits(float(value), size, f"'{parameter.name}' of {op}"))
    if isinstance(value, int):
        return Parameter("bits", integer_bits(int(value), size, f"'{parameter.name}' of {op}"))
    if size < 8:
        raise UserError(
            f"'{parameter.name}' of {op} is the size {value}, which only a call knows, but the kernel's parameter has {size} "
            "bytes, expected 8, an int64_t"
        )
    return Parameter("size", value)


def integer_bits(value: int, size: int, what: str) -> int:
    """An integer of `size` bytes, which may also be unsigned, as a signed one of 8.

    Raises:
        UserError: it does not fit.
    """
    if not -(2 ** (8 * size - 1)) <= value < 2 ** (8 * size):
        raise UserError(f"{what} is {value}, which does not fit the {size} bytes of the kernel's parameter")
    return value - 2**64 if value >= 2**63 else value


def float_bits(value: float, size: int, what: str) -> int:
    """The bits of a float of 2, 4 or 8 bytes as an integer.

    Raises:
        UserError: it is finite and rounds to infinity.
    """
    form = {2: "<e", 4: "<f", 8: "<d"}[size]
    try:
        data = struct.pack(form, value)
    except OverflowError as error:
        raise UserError(
            f"{what} is {value!r}, which does not fit the {size} bytes of the kernel's parameter, a float"
        ) from error
    return int.from_bytes(data, "little", signed=True)
