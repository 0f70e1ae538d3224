# SPDX-License-Identifier: Apache-2.0
"""What a kernel takes of a processor, read from the machine code that NVRTC makes (ELF with NVIDIA's sections)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

_CUDA = 190  # e_machine
#: Attributes of section .nv.info: bytes of a function's stack, where registers are spilled to, and its registers.
_FRAME_SIZE, _REGISTERS = 0x11, 0x2F
#: Of section .nv.info.<kernel>: ordinal, offset and size of a parameter.
_PARAMETER = 0x17


class Resources(NamedTuple):
    """What one kernel takes of a multiprocessor."""

    kernel: str
    registers: int  # of a thread
    shared: int  # bytes that the kernel declares
    stack: int  # bytes of a thread


def _c_string(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()


def is_cubin(image: bytes) -> bool:
    """Whether it begins as one."""
    return len(image) >= 64 and image[:4] == b"\x7fELF" and struct.unpack_from("<H", image, 18) == (_CUDA,)


def _sections(image: bytes) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and header of each section."""
    (table,) = struct.unpack_from("<Q", image, 40)
    size, count, names_at = struct.unpack_from("<HHH", image, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", image, table + i * size) for i in range(count)]
    for header in headers:
        yield _c_string(image, headers[names_at][4] + header[0]), header


def resources_of(image: bytes) -> Iterator[Resources]:
    """Yields the resources of every kernel in a cubin."""
    if not is_cubin(image):
        raise ValueError(f"not a cubin: it begins with {image[:20]!r}")
    sections = dict(_sections(image))
    symbols, strings = sections[".symtab"], sections[".strtab"][4]
    facts: dict[tuple[str, int], int] = {}
    _, _, _, _, at, length, *_ = sections.get(".nv.info", (0,) * 10)
    end = at + length
    while at < end:
        form, attribute, value = struct.unpack_from("<BBH", image, at)
        at += 4
        if form == 4:  # `value` bytes follow
            if attribute in (_FRAME_SIZE, _REGISTERS):
                number, fact = struct.unpack_from("<II", image, at)
                (name,) = struct.unpack_from("<I", image, symbols[4] + number * symbols[9])
                facts[_c_string(image, strings + name), attribute] = fact
            at += value
    for name in sections:
        if name.startswith(".text."):
            kernel = name.removeprefix(".text.")
            shared = sections.get(f".nv.shared.{kernel}")
            registers = facts.get((kernel, _REGISTERS), 0)
            yield Resources(kernel, registers, shared[5] if shared else 0, facts.get((kernel, _FRAME_SIZE), 0))


def architecture_of(image: bytes) -> str:
    """The architecture that a cubin is for: "sm_90", or "sm_90a" where it says that only such devices take it.

    Raises:
        ValueError: it is no cubin, or of another format.
    """
    if not is_cubin(image):
        raise ValueError(f"not a cubin: it begins with {image[:20]!r}")
    (flags,) = struct.unpack_from("<I", image, 48)
    if image[8] == 7:  # of CUDA 12 and before
        return f"sm_{flags & 0xFF}{'a' if flags & 0x800 else ''}"
    if image[8] == 8:
        return f"sm_{flags >> 8 & 0xFF}"
    raise ValueError(f"a cubin of format {image[8]}, known are 7 and 8")


def kernels_of(image: bytes) -> tuple[str, ...]:
    """The names of its kernels."""
    return tuple(found.kernel for found in resources_of(image))


def parameters_of(image: bytes, kernel: str) -> tuple[int, ...]:
    """The bytes of each parameter of a kernel of a cubin, in order."""
    sections = dict(_sections(image))
    _, _, _, _, at, length, *_ = sections[f".nv.info.{kernel}"]
    end = at + length
    sizes: dict[int, int] = {}
    while at < end:
        form, attribute, value = struct.unpack_from("<BBH", image, at)
        at += 4
        if form == 4:
            if attribute == _PARAMETER:
                _, ordinal, _, facts = struct.unpack_from("<IHHI", image, at)
                sizes[ordinal] = facts >> 18 & 0x3FFF
            at += value
    return tuple(sizes[number] for number in sorted(sizes))
