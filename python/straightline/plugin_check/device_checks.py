# SPDX-License-Identifier: Apache-2.0
"""What `straightline plugin check` tries of a device: memory, the order of queues and events, its compiler, random numbers.

Work is enqueued in an order that is drawn at random, on several queues, with sleeps and long copies between: a host that does the
same at once says what memory has to hold in the end.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_int64, c_void_p
from typing import Any

import numpy

from straightline.plugin_check.abi import Context, DType
from straightline.plugin_check.device_abi import BITS, NORMAL, UNIFORM, Code, Device, Give, Image, Properties, Source
from straightline.plugin_check.trial import Broken

BLOCK, BLOCKS, STEPS, ROUNDS = 4096, 6, 120, 5
LONG = 1 << 24  #: bytes of a copy that takes its queue a while
HOST = b"host"
FLOAT32, INT32 = DType(2, 32, 1), DType(0, 32, 1)
#: A kernel as Straightline prints it, without our headers.
KERNEL = """
struct sl_ctx; struct sl_team { void* shared; int index; int size; };
extern "C" void check_add_start(sl_ctx*, sl_team team, void* const* arguments) {
  float* y = *static_cast<float**>(arguments[0]);
  const float* x = *static_cast<const float**>(arguments[1]);
  const long long count = *static_cast<const long long*>(arguments[2]);
  for (long long i = 0; i < count; ++i) y[i] = x[i] + 1.0f;
}
"""


class DeviceChecks:
    """The checks of one device description, each a method that says what it found or raises `Broken`."""

    def __init__(self, device: Device, seed: int) -> None:
        self._device: Any = device
        self._space = device.space
        self._random = numpy.random.default_rng(seed)

    def all(self) -> Iterator[tuple[str, Callable[[], str]]]:
        """The checks by name; those of features that the device lacks are left out."""
        yield "properties", self._properties
        yield "memory", self._memory
        yield "copies", self._copies
        yield "order in a queue", self._order
        yield "order between queues", self._events
        if self._device.count and self._device.count() > 1:
            yield "order between devices", self._devices
        yield "a queue that ends", self._ends
        if self._device.finish:
            yield "finish", self._finishes
        if self._device.allocate_host:
            yield "pinned memory", self._pinned
        if self._device.record_timed:
            yield "times", self._times
        if self._device.random:
            yield "random numbers", self._numbers
        if self._device.compile:
            yield "compiler", self._compiles

    # --- what the checks are made of

    def _expect(self, holds: object, text: str) -> None:
        if not holds:
            raise Broken(text)

    def _call(self, name: str, queue: int, *arguments: Any) -> None:
        """A function that enqueues."""
        context = Context(size=ctypes.sizeof(Context), statement=-1)
        status = getattr(self._device, name)(queue, context, *arguments)
        said = context.text.decode(errors="replace")
        self._expect(not status, f"{name} gives status {status}: {said}")
        self._expect(not context.status, f"{name} gives SL_OK and writes status {context.status}: {said}")

    def _copy(self, queue: int, to: int, to_space: bytes, source: int, source_space: bytes, size: int) -> None:
        self._call("copy", queue, to, to_space, source, source_space, size)

    def _wait(self, queue: int) -> None:
        event = self._device.record(queue)
        self._expect(event, "record gives NULL")
        self._device.synchronize(event)
        self._expect(self._device.query(event) == 1, "query is not 1 behind synchronize")
        self._device.event_destroy(event)
        if self._device.failure:
            context = Context(size=ctypes.sizeof(Context), statement=-1)
            status = self._device.failure(queue, context)
            self._expect(not status, f"failure gives {status}: {context.text.decode(errors='replace')}")

    @contextmanager
    def _queues(self, count: int) -> Iterator[list[int]]:
        queues = [self._device.queue_create(0) for _ in range(count)]
        self._expect(all(queues), "queue_create gives NULL")
        try:
            yield queues
        finally:
            for queue in queues:
                self._device.queue_destroy(queue)

    @contextmanager
    def _blocks(self, count: int, size: int = BLOCK) -> Iterator[list[int]]:
        blocks = [self._device.allocate(0, size, 256) for _ in range(count)]
        self._expect(all(blocks), f"allocate gives NULL for {size} bytes")
        try:
            yield blocks
        finally:
            for block in blocks:
                self._device.deallocate(0, block, size)

    def _read(self, queue: int, address: int, size: int) -> bytes:
        out = ctypes.create_string_buffer(size)
        self._copy(queue, ctypes.addressof(out), HOST, address, self._space, size)
        self._wait(queue)
        return out.raw

    # --- the checks

    def _properties(self) -> str:
        count = self._device.count() if self._device.count else 1
        self._expect(count >= 1, f"count is {count}")
        properties = Properties(size=ctypes.sizeof(Properties))
        if self._device.properties:
            self._device.properties(0, properties)
        self._expect(
            properties.vector_bytes in (0, 16, 32, 64, 128, 256),
            f"vector_bytes is {properties.vector_bytes}, not a power of two",
        )
        self._expect(properties.start_us >= 0 and properties.bytes_per_us >= 0, "start_us or bytes_per_us is below 0")
        self._expect(
            not (self._device.load or self._device.start)
            or (self._device.load and self._device.start and self._device.unload),
            "of load, unload and start some are NULL and some are not",
        )
        self._expect(
            not self._device.compile or self._device.compiler, "compile without compiler, which says its version"
        )
        self._expect(not self._device.compile or self._device.load, "compile without load")
        self._expect(not self._device.random or self._device.random_step, "random without random_step")
        return f"{count} devices, {(properties.name or b'no name').decode(errors='replace')}"

    def _memory(self) -> str:
        sizes = [int(size) for size in self._random.integers(1, 1 << 16, 64)]
        held = [
            (self._device.allocate(0, size, alignment), size, alignment)
            for size, alignment in zip(sizes, [64, 256] * 32)
        ]
        ranges = sorted((address, address + size) for address, size, _ in held if address)
        self._expect(len(ranges) == len(held), "allocate gives NULL")
        for address, _, alignment in held:
            self._expect(address % alignment == 0, f"allocate gives {address:#x} for an alignment of {alignment}")
        for (_, end), (begin, _) in zip(ranges, ranges[1:]):
            self._expect(end <= begin, f"allocate gives overlapping memory at {begin:#x}")
        for address, size, _ in held:
            self._device.deallocate(0, address, size)
        self._expect(
            not self._device.allocate(0, 1 << 60, 64), "allocate gives memory for 2^60 bytes; NULL is out of memory"
        )
        with self._blocks(1):
            pass
        return f"{len(held)} blocks apart and aligned, and NULL for what is too large"

    def _copies(self) -> str:
        sizes = (0, 1, 63, BLOCK, (1 << 20) + 1)
        with self._queues(1) as (queue,), self._blocks(2, max(sizes)) as (first, second):
            for size in sizes:
                data = self._random.bytes(max(size, 1))[:size]
                held = ctypes.create_string_buffer(data, max(size, 1))
                self._copy(queue, first, self._space, ctypes.addressof(held), HOST, size)
                self._copy(queue, second, self._space, first, self._space, size)
                found = self._read(queue, second, size) if size else b""
                self._expect(found == data, f"{size} bytes that went to the device and back are others")
        return "to the device, within it and back"

    def _order(self) -> str:
        for round_number in range(ROUNDS):
            with self._queues(1) as queues:
                self._play(queues, f"round {round_number} on one queue")
        return f"{ROUNDS} rounds of {STEPS} copies"

    def _events(self) -> str:
        for round_number in range(ROUNDS):
            with self._queues(3) as queues:
                self._play(queues, f"round {round_number} on three queues")
        return f"{ROUNDS} rounds of {STEPS} copies on three queues, with events between"

    def _play(self, queues: list[int], what: str) -> None:
        """Copies between blocks, from and to the host, on queues drawn at random; an event where two queues use one block."""
        with self._blocks(BLOCKS) as blocks, self._blocks(2, LONG) as (long_from, long_to):
            expected = [bytes(BLOCK)] * BLOCKS
            kept: list[Any] = []  # host memory that copies read, until all is over
            zeros = ctypes.create_string_buffer(BLOCK)
            for block in blocks:
                self._copy(queues[0], block, self._space, ctypes.addressof(zeros), HOST, BLOCK)
            self._wait(queues[0])
            last: list[int | None] = [None] * BLOCKS  # the queue that used a block last
            for _ in range(STEPS):
                at = int(self._random.integers(len(queues)))
                to, source = (int(i) for i in self._random.integers(BLOCKS, size=2))
                if self._random.random() < 0.05:
                    self._copy(queues[at], long_to, self._space, long_from, self._space, LONG)
                if self._random.random() < 0.05:
                    time.sleep(self._random.random() * 1e-3)
                for other in {last[to], last[source]} - {None, at}:
                    event = self._device.record(queues[other])  # type: ignore[index]
                    self._device.wait(queues[at], event)
                    self._device.event_destroy(event)  # legal while waits for it are enqueued
                last[to] = last[source] = at
                if to == source or self._random.random() < 0.3:
                    data = self._random.bytes(BLOCK)
                    kept.append(ctypes.create_string_buffer(data, BLOCK))
                    self._copy(queues[at], blocks[to], self._space, ctypes.addressof(kept[-1]), HOST, BLOCK)
                    expected[to] = data
                else:
                    self._copy(queues[at], blocks[to], self._space, blocks[source], self._space, BLOCK)
                    expected[to] = expected[source]
            for queue in queues:
                self._wait(queue)
            for i, block in enumerate(blocks):
                found = self._read(queues[0], block, BLOCK)
                self._expect(found == expected[i], f"{what}: block {i} does not hold what the order of the calls says")

    def _devices(self) -> str:
        """Data goes from device 0 to device 1 by memory of the host, which is used again in each round."""
        rounds = 40
        with self._blocks(1) as (source,), self._queues(1) as (first,), self._blocks(2, LONG) as long:
            to, second = self._device.allocate(1, BLOCK, 256), self._device.queue_create(1)
            self._expect(to and second, "allocate or queue_create gives NULL on device 1")
            between, sent, found = ctypes.create_string_buffer(BLOCK), [], []
            for _ in range(rounds):
                sent.append(ctypes.create_string_buffer(self._random.bytes(BLOCK), BLOCK))
                found.append(ctypes.create_string_buffer(BLOCK))
                if self._random.random() < 0.3:
                    self._copy(first, long[1], self._space, long[0], self._space, LONG)
                self._copy(first, source, self._space, ctypes.addressof(sent[-1]), HOST, BLOCK)
                self._copy(first, ctypes.addressof(between), HOST, source, self._space, BLOCK)
                self._order_behind(first, second)
                self._copy(second, to, self._space, ctypes.addressof(between), HOST, BLOCK)
                self._copy(second, ctypes.addressof(found[-1]), HOST, to, self._space, BLOCK)
                self._order_behind(second, first)
            self._wait(second)
            self._wait(first)
            self._device.queue_destroy(second)
            self._device.deallocate(1, to, BLOCK)
            wrong = [i for i in range(rounds) if sent[i].raw != found[i].raw]
            self._expect(
                not wrong, f"round {wrong[:1]}: device 1 does not wait for an event of device 0, or the reverse"
            )
        return f"{rounds} rounds from device 0 to device 1, with events between"

    def _order_behind(self, earlier: int, later: int) -> None:
        event = self._device.record(earlier)
        self._device.wait(later, event)
        self._device.event_destroy(event)

    def _ends(self) -> str:
        with self._blocks(1, LONG) as (block,):
            held, out = ctypes.create_string_buffer(self._random.bytes(LONG), LONG), ctypes.create_string_buffer(LONG)
            queue = self._device.queue_create(0)
            self._copy(queue, block, self._space, ctypes.addressof(held), HOST, LONG)
            self._copy(queue, ctypes.addressof(out), HOST, block, self._space, LONG)
            self._device.queue_destroy(queue)
            self._expect(out.raw == held.raw, "queue_destroy returns before the queue's work has run")
        return "queue_destroy waits for what is enqueued"

    def _finishes(self) -> str:
        with self._queues(3) as queues, self._blocks(3, LONG) as blocks:
            held, outs = ctypes.create_string_buffer(self._random.bytes(LONG), LONG), []
            for queue, block in zip(queues, blocks):
                outs.append(ctypes.create_string_buffer(LONG))
                self._copy(queue, block, self._space, ctypes.addressof(held), HOST, LONG)
                self._copy(queue, ctypes.addressof(outs[-1]), HOST, block, self._space, LONG)
            self._device.finish(0)
            self._expect(
                all(out.raw == held.raw for out in outs), "finish returns before all queues have run their work"
            )
        return "it waits for all queues"

    def _pinned(self) -> str:
        address = self._device.allocate_host(0, BLOCK, 64)
        self._expect(address and address % 64 == 0, f"allocate_host gives {address}")
        data = self._random.bytes(BLOCK)
        ctypes.memmove(address, data, BLOCK)
        with self._queues(1) as (queue,), self._blocks(1) as (block,):
            self._copy(queue, block, self._space, address, HOST, BLOCK)
            found = self._read(queue, block, BLOCK)
        self._device.deallocate_host(0, address, BLOCK)
        self._expect(found == data, "a copy from pinned memory brings other bytes")
        return "the host reads and writes it, and copies take it"

    def _times(self) -> str:
        with self._queues(1) as (queue,), self._blocks(2, LONG) as (first, second):
            events = [self._device.record_timed(queue)]
            for _ in range(3):
                self._copy(queue, second, self._space, first, self._space, LONG)
                events.append(self._device.record_timed(queue))
            for event in events:
                self._device.synchronize(event)
            parts = [self._device.elapsed_ms(a, b) for a, b in zip(events, events[1:])]
            whole = self._device.elapsed_ms(events[0], events[-1])
            for event in events:
                self._device.event_destroy(event)
        self._expect(all(part >= 0 for part in parts), f"times of copies one after the other are {parts} ms")
        self._expect(
            abs(whole - sum(parts)) <= 0.01 * max(whole, 1), f"parts of {parts} ms do not sum to the whole, {whole} ms"
        )
        return f"{whole:.3f} ms of copies in parts"

    def _numbers(self) -> str:
        count = 1 << 16

        def draw(queue: int, block: int, kind: int, seed: int, offset: int) -> numpy.ndarray:
            dtype = INT32 if kind == BITS else FLOAT32
            self._call("random", queue, kind, dtype, block, count, seed, offset)
            return numpy.frombuffer(self._read(queue, block, 4 * count), numpy.int32 if kind == BITS else numpy.float32)

        with self._queues(1) as (queue,), self._blocks(1, 4 * count) as (block,):
            for kind, mean, deviation in ((UNIFORM, 0.5, 12**-0.5), (NORMAL, 0.0, 1.0)):
                step = self._device.random_step(kind, FLOAT32, count)
                self._expect(step > 0, "random_step is 0")
                first, again = draw(queue, block, kind, 7, 0), draw(queue, block, kind, 7, 0)
                self._expect(numpy.array_equal(first, again), "equal seed and offset give other numbers")
                for seed, offset in ((8, 0), (7, step)):
                    other = draw(queue, block, kind, seed, offset)
                    self._expect(
                        (other == first).mean() < 0.01,
                        f"seed {seed}, offset {offset} repeat those of seed 7, offset 0",
                    )
                self._expect(numpy.isfinite(first).all(), "some number is not finite")
                self._expect(
                    abs(first.mean() - mean) < 8 * deviation / count**0.5, f"the mean of kind {kind} is {first.mean()}"
                )
                self._expect(
                    abs(first.std() - deviation) < 0.05 * deviation, f"the deviation of kind {kind} is {first.std()}"
                )
            uniform = draw(queue, block, UNIFORM, 9, 0)
            self._expect(
                uniform.min() >= 0 and uniform.max() < 1, f"uniform numbers go from {uniform.min()} to {uniform.max()}"
            )
            bits = draw(queue, block, BITS, 7, 0)
            ones = [float(((bits >> i) & 1).mean()) for i in range(32)]
            self._expect(
                all(abs(one - 0.5) < 0.03 for one in ones),
                f"bits of integers are 1 in {min(ones)} to {max(ones)} of them",
            )
        return "uniform, normal and bits, by seed and offset alone"

    def _image(self, text: str) -> tuple[int, bytes, str]:
        """Status, image and what the compiler says of a unit."""
        source = Source(ctypes.sizeof(Source), b"check", text.encode(), b"", None, 0, 16)
        images: list[bytes] = []
        give = Give(lambda _user, image, size: images.append(ctypes.string_at(image, size)))
        reason = ctypes.create_string_buffer(4000)
        status = self._device.compile(source, give, None, reason, len(reason))
        self._expect(
            bool(images) == (status == 0) and len(images) < 2, f"compile gives status {status} and {len(images)} images"
        )
        return int(status), images[0] if images else b"", reason.value.decode(errors="replace")

    def _compiles(self) -> str:
        self._expect(self._device.compiler(), "compiler gives no version")
        status, _, said = self._image("this is no C++")
        self._expect(status != 0 and said, f"text that is no C++ gives status {status} and the reason {said!r}")
        status, image, said = self._image(KERNEL)
        self._expect(status == 0, f"a kernel does not compile: {said}")
        held = Image(ctypes.sizeof(Image), image, len(image), 0)
        code = Code(ctypes.sizeof(Code), b"check_add", ctypes.pointer(held), None, 0, 0, 3, 0)
        kernel, reason = c_void_p(), ctypes.create_string_buffer(4000)
        status = self._device.load(0, code, kernel, reason, len(reason))
        self._expect(status == 0, f"the kernel cannot be loaded: {reason.value.decode(errors='replace')}")
        count = BLOCK // 4
        with self._queues(1) as (queue,), self._blocks(2) as (x, y):
            data = self._random.standard_normal(count).astype(numpy.float32)
            self._copy(queue, x, self._space, data.ctypes.data, HOST, BLOCK)
            self._wait(queue)
            values = (c_int64 * 3)(y, x, count)
            places = (c_void_p * 3)(*(ctypes.addressof(values) + 8 * i for i in range(3)))
            self._call("start", queue, kernel, None, places)
            values[2] = -1  # start has copied them
            found = numpy.frombuffer(self._read(queue, y, BLOCK), numpy.float32)
        self._device.unload(kernel)
        self._expect(numpy.array_equal(found, data + 1), "a kernel that adds one does not")
        return f"a kernel compiled, loaded and started, by {self._device.compiler().decode(errors='replace')}"
