# SPDX-License-Identifier: Apache-2.0
"""Memory between two pages that nothing may touch."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence

import numpy
from numpy.lib.stride_tricks import as_strided

_PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Buffer:
    """`count` elements that begin right behind a page without access (at "start"), or end right before one (at "end").

    The other end has less than a page of slack, which is filled with a pattern.
    """

    def __init__(self, dtype: str, count: int, where: str) -> None:
        self.dtype = numpy.dtype(dtype)
        size = max(count * self.dtype.itemsize, 1)
        pages = -(-size // _PAGE)
        self._map = mmap.mmap(-1, (pages + 2) * _PAGE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        for guard in (base, base + (pages + 1) * _PAGE):
            if _libc.mprotect(guard, _PAGE, 0) != 0:
                raise OSError(ctypes.get_errno(), "mprotect")
        begin = base + _PAGE
        self.address = begin if where == "start" else begin + pages * _PAGE - count * self.dtype.itemsize
        self._whole = self._view("uint8", begin, pages * _PAGE)
        self._whole[:] = 0xA5
        self._first, self._bytes = self.address - begin, count * self.dtype.itemsize
        self.elements = self._view(dtype, self.address, count)

    @staticmethod
    def _view(dtype: str, address: int, count: int) -> numpy.ndarray:
        kind = numpy.dtype(dtype)
        raw = (ctypes.c_uint8 * (count * kind.itemsize)).from_address(address)
        return numpy.frombuffer(raw, kind, count)

    def tensor(self, shape: Sequence[int], strides: Sequence[int]) -> numpy.ndarray:
        """Strides in elements."""
        return as_strided(self.elements, tuple(shape), tuple(step * self.dtype.itemsize for step in strides))

    def slack_is_intact(self) -> bool:
        """Whether nothing was written beside the elements."""
        last = self._first + self._bytes
        return bool((self._whole[: self._first] == 0xA5).all() and (self._whole[last:] == 0xA5).all())
