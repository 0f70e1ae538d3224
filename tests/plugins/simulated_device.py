# SPDX-License-Identifier: Apache-2.0
"""The device of examples/backend_device through ctypes: sl_device_desc, and what sim_device.h has for tests."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_char_p, c_int32, c_int64, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from straightline.plugin_check.abi import Context, DType
from straightline.plugin_check.device_abi import Code, Device, Give, Image, Source, SourceFile

SPACE = b"sim"
#: DLPack's (code, bits) of what random numbers are drawn for, by torch's names.
DTYPES = {
    "float16": (2, 16),
    "bfloat16": (4, 16),
    "float32": (2, 32),
    "float64": (2, 64),
    "int8": (0, 8),
    "uint8": (1, 8),
    "int16": (0, 16),
    "int32": (0, 32),
    "int64": (0, 64),
    "bool": (6, 8),
}


class _Backend(Structure):
    _fields_ = [
        ("size", c_uint64),
        ("abi_version", ctypes.c_uint32),
        ("name", c_char_p),
        ("kernels", c_void_p),
        ("kernel_count", c_int32),
        ("device", POINTER(Device)),
    ]


class Failed(Exception):
    """A function of the device gave another status than SL_OK: its number and text."""


class Simulated:
    """The opened plug-in. Queues that are made here are destroyed by `close`."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))
        self.library.straightline_backend_v1.restype = POINTER(_Backend)
        self.library.sim_device_set_delay.argtypes = [c_int64, c_uint64]
        self.library.sim_device_set_limit.argtypes = [c_int32, c_uint64]
        for name in ("live_bytes", "pinned_bytes", "executed"):
            getattr(self.library, f"sim_device_{name}").restype = c_int64
        self.backend = self.library.straightline_backend_v1()[0]
        self.device: Any = self.backend.device[0]
        self._queues: list[int] = []

    def __getattr__(self, name: str) -> Any:
        """`live_bytes` is sim_device_live_bytes of the library."""
        return getattr(self.library, f"sim_device_{name}")

    def queue(self, device: int = 0) -> int:
        made = self.device.queue_create(device)
        assert made
        self._queues.append(made)
        return int(made)

    def close(self) -> None:
        for queue in self._queues:
            self.device.queue_destroy(queue)
        self._queues = []

    def call(self, name: str, queue: int, *arguments: Any) -> None:
        """One of the functions that enqueue."""
        context = Context(size=ctypes.sizeof(Context), statement=-1)
        status = getattr(self.device, name)(queue, context, *arguments)
        assert (status == 0) == (context.status == 0)
        if status:
            raise Failed(status, context.text.decode())

    def wait(self, queue: int) -> None:
        """Until the queue has passed everything; a failure of its work is raised."""
        event = self.device.record(queue)
        self.device.synchronize(event)
        self.device.event_destroy(event)
        self.call("copy", queue, None, SPACE, None, SPACE, 0)

    def write(self, queue: int, address: int, data: bytes) -> None:
        self.call("copy", queue, address, SPACE, ctypes.c_char_p(data), b"host", len(data))
        self.wait(queue)  # `data` lives until here

    def read(self, queue: int, address: int, size: int) -> bytes:
        out = ctypes.create_string_buffer(size)
        self.call("copy", queue, out, b"host", address, SPACE, size)
        self.wait(queue)
        return out.raw

    def random(self, queue: int, kind: int, dtype: str, count: int, seed: int, offset: int) -> bytes:
        code, bits = DTYPES[dtype]
        address = self.device.allocate(0, count * bits // 8, 64)
        try:
            self.call("random", queue, kind, DType(code, bits, 1), address, count, seed, offset)
            return self.read(queue, address, count * bits // 8)
        finally:
            self.device.deallocate(0, address, 0)

    def compile(self, text: str, headers: dict[str, str], machine: str = "") -> bytes:
        files = (SourceFile * max(len(headers), 1))(*((n.encode(), t.encode()) for n, t in headers.items()))
        source = Source(
            ctypes.sizeof(Source),
            b"unit",
            text.encode(),
            machine.encode(),
            files,
            len(headers),
            ctypes.sizeof(SourceFile),
        )
        images: list[bytes] = []
        give = Give(lambda _user, image, size: images.append(ctypes.string_at(image, size)))
        reason = ctypes.create_string_buffer(2000)
        status = self.device.compile(source, give, None, reason, len(reason))
        if status:
            assert not images
            raise Failed(status, reason.value.decode())
        (image,) = images
        return image

    def load(self, image: bytes, symbol: str, arguments: int, device: int = 0) -> int:
        held = Image(ctypes.sizeof(Image), image, len(image), 0)
        code = Code(ctypes.sizeof(Code), symbol.encode(), ctypes.pointer(held), None, 0, 1, arguments, 0)
        reason = ctypes.create_string_buffer(2000)
        kernel = c_void_p()
        status = self.device.load(device, code, kernel, reason, len(reason))
        if status:
            raise Failed(status, reason.value.decode())
        assert kernel.value
        return kernel.value

    def start(self, queue: int, kernel: int, *values: int) -> None:
        numbers = (c_int64 * max(len(values), 1))(*values)
        base = ctypes.addressof(numbers)
        pointers = (c_void_p * max(len(values), 1))(*(base + 8 * i for i in range(len(values))))
        self.call("start", queue, kernel, None, pointers)
