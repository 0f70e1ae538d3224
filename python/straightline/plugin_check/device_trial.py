# SPDX-License-Identifier: Apache-2.0
"""One problem as a kernel of a device gets it: operands in the device's memory, plans with constants there, runs by its `launch`.

What the host sees of a buffer are copies: `DeviceMemory.upload` and `download` enqueue them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import c_int64, c_void_p
from typing import Any

import numpy
from numpy.lib.stride_tricks import as_strided

from straightline.plugin_check import abi
from straightline.plugin_check.device_abi import Device, Thunk
from straightline.plugin_check.trial import Broken, Handle, Memory, Trial

#: Bytes before and behind the elements of a buffer that no kernel may write.
GUARD = 256
_PATTERN = 0xA5
_HOST = b"host"


class OnDevice:
    """What enqueues work on device 0 of a description. Any thread; a queue is one thread's at a time."""

    def __init__(self, backend: str, device: Device) -> None:
        self.backend, self.device = backend.encode(), device

    def call(self, name: str, queue: int, *arguments: Any) -> None:
        """A function that enqueues; raises `Broken` where it fails."""
        context = abi.context()
        status = getattr(self.device, name)(queue, context, *arguments)
        said = context.text.decode(errors="replace") or "no text"
        if status or context.status:
            raise Broken(f"{name} fails with status {status or context.status} ({said})")

    def wait(self, queue: int) -> None:
        """Until the queue has passed everything; raises `Broken` where its work has failed."""
        event = self.device.record(queue)
        self.device.synchronize(event)
        self.device.event_destroy(event)
        if self.device.failure:
            context = abi.context()
            if status := self.device.failure(queue, context):
                said = context.text.decode(errors="replace") or "no text"
                raise Broken(f"the queue's work fails with status {status} ({said})")

    @contextmanager
    def queue(self) -> Iterator[int]:
        """A queue that is destroyed at the end, when its work has run."""
        made = self.device.queue_create(0)
        if not made:
            raise Broken("queue_create gives NULL")
        try:
            yield made
        finally:
            self.device.queue_destroy(made)


class DeviceMemory:
    """`count` elements in the device's memory, between guards, with a copy of all of it on the host."""

    def __init__(self, on: OnDevice, dtype: str, count: int) -> None:
        self._on, self.dtype = on, numpy.dtype(dtype)
        self._bytes = count * self.dtype.itemsize
        self._held = numpy.full(self._bytes + 2 * GUARD, _PATTERN, numpy.uint8)
        self._block = on.device.allocate(0, self._held.nbytes, GUARD)
        if not self._block:
            raise Broken(f"allocate gives NULL for {self._held.nbytes} bytes")
        self.address = self._block + GUARD
        self.elements = self._held[GUARD : GUARD + self._bytes].view(self.dtype)

    def __del__(self) -> None:
        if getattr(self, "_block", None):
            self._on.device.deallocate(0, self._block, self._held.nbytes)

    def tensor(self, shape: Sequence[int], strides: Sequence[int]) -> numpy.ndarray:
        """Of the host's copy; strides in elements."""
        return as_strided(self.elements, tuple(shape), tuple(step * self.dtype.itemsize for step in strides))

    def slack_is_intact(self) -> bool:
        """Whether the guards are, in the host's copy."""
        return bool((self._held[:GUARD] == _PATTERN).all() and (self._held[GUARD + self._bytes :] == _PATTERN).all())

    def upload(self, queue: int) -> None:
        """Enqueues the copy to the device; the host's copy stays as it is until then."""
        self._copy(queue, self._block, self._on.device.space, self._held.ctypes.data, _HOST)

    def download(self, queue: int) -> None:
        """Enqueues the copy to the host."""
        self._copy(queue, self._held.ctypes.data, _HOST, self._block, self._on.device.space)

    def spoil(self, queue: int, garbage: numpy.ndarray) -> None:
        """Enqueues other bytes for all elements on the device; `garbage` lives until the queue has passed it."""
        if self._bytes:
            self._on.call("copy", queue, self.address, self._on.device.space, garbage.ctypes.data, _HOST, self._bytes)

    @property
    def bytes(self) -> int:
        """Of the elements."""
        return self._bytes

    def _copy(self, queue: int, to: int, to_space: bytes, source: int, source_space: bytes) -> None:
        self._on.call("copy", queue, to, to_space, source, source_space, self._held.nbytes)


class DeviceTrial(Trial):
    """A problem for one kernel of a device."""

    def __init__(self, on: OnDevice, *arguments: Any, **named: Any) -> None:
        self.on = on
        self._thunks: list[Any] = []
        super().__init__(*arguments, where="", **named)

    def _described(
        self, operands: Sequence[tuple[str, Sequence[int], Sequence[int], bool]], told: dict[str, Any]
    ) -> abi.Described:
        made = super()._described(operands, told)
        made.view.device = self.on.backend
        return made

    def _memory(self, dtype: str, count: int) -> Memory:
        return DeviceMemory(self.on, dtype, count)

    def moving(self) -> list[bool]:
        """Which operands are another tensor in each call."""
        return [not place.constant for place in self._inputs]

    def uploaded(self, queue: int) -> list[DeviceMemory]:
        """The operands, on their way to the device."""
        made: list[Any] = self.inputs()
        for memory in made:
            memory.upload(queue)
        return made

    def cleared(self, queue: int) -> list[DeviceMemory]:
        """Memory for the results, filled with the pattern of the guards."""
        made: list[Any] = self.outputs()
        for memory in made:
            memory.upload(queue)
        return made

    def start(
        self, queue: int, handle: Handle, inputs: Sequence[Memory], outputs: Sequence[Memory]
    ) -> DeviceMemory | None:
        """Enqueues a run as a program does; raises `Broken` where that fails.

        Returns:
            The workspace, which lives until the queue has passed the run.
        """
        workspace = DeviceMemory(self.on, "uint8", self._workspace_bytes) if self._workspace_bytes else None
        if workspace is not None:
            workspace.upload(queue)
        count, sizes = len(inputs), self.sizes()
        addresses = [handle.value, *(memory.address for memory in (*inputs, *outputs))]
        addresses.append(workspace.address if workspace else None)
        failed: list[int] = []

        def entry(context: Any, team: abi.Team, pointers: Any, scalars: Any) -> None:
            places = (c_void_p * (count + 1))(*pointers[1 : 1 + count])
            if sizes:
                places[count] = ctypes.cast(scalars, c_void_p).value
            results = (c_void_p * max(len(outputs), 1))(*pointers[1 + count : 1 + count + len(outputs)])
            status = self.kernel.run(context, team, pointers[0], places, results, pointers[len(addresses) - 1])
            if status:
                failed.append(int(status))

        thunk = Thunk(entry)
        self._thunks.append(thunk)  # a device may call it later
        self.on.call(
            "launch",
            queue,
            ctypes.cast(thunk, c_void_p),
            (c_void_p * len(addresses))(*addresses),
            len(addresses),
            (c_int64 * max(len(sizes), 1))(*sizes),
            len(sizes),
        )
        if failed:
            raise Broken(f"run fails with status {failed[0]}")
        return workspace

    def run(self, handle: Handle, inputs: Sequence[Memory], outputs: Sequence[Memory]) -> None:
        """On a queue of its own, with operands that are on the device; the results are on the host when it returns."""
        with self.on.queue() as queue:
            self.run_on(queue, handle, inputs, outputs)

    def run_on(self, queue: int, handle: Handle, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """The same on a queue of the caller's."""
        workspace = self.start(queue, handle, inputs, outputs)
        for memory in (*inputs, *outputs, *([workspace] if workspace else ())):
            memory.download(queue)
        self.on.wait(queue)
        if workspace and not workspace.slack_is_intact():
            raise Broken("run writes beside its workspace")
