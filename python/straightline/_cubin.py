# SPDX-License-Identifier: Apache-2.0
"""What a kernel takes of a processor, read from the machine code that NVRTC makes (ELF with NVIDIA's sections)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

_CUDA = 190  # e_machine
#: Attributes of section .nv.info: bytes of a function's stack, where registers are spilled to, and its registers.
_FRAME_SIZE, _REGISTERS = 0x11, 0x2F


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
    return image[:4] == b"\x7fELF" and struct.unpack_from("<H", image, 18) == (_CUDA,)


def resources_of(image: bytes) -> Iterator[Resources]:
    """Yields the resources of every kernel in a cubin."""
    if not is_cubin(image):
        raise ValueError(f"not a cubin: it begins with {image[:20]!r}")
    (table,) = struct.unpack_from("<Q", image, 40)
    size, count, names_at = struct.unpack_from("<HHH", image, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", image, table + i * size) for i in range(count)]
    names = headers[names_at][4]
    sections = {_c_string(image, names + header[0]): header for header in headers}
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
