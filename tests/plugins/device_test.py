# SPDX-License-Identifier: Apache-2.0
"""examples/backend_device: its memory, queues, events, random numbers and compiler, called as the runtime calls them."""

from __future__ import annotations

import ctypes
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest
from builds import ROOT, command, example
from straightline.plugin_check.abi import DType
from simulated_device import DTYPES, SPACE, Failed, Simulated
from straightline.plugin_check.device_abi import BITS, NORMAL, UNIFORM, Properties

ADD = """
#include "abi.h"
#include "sub/one.h"
extern "C" void add_start(sl_ctx* ctx, sl_team, void* const* a) {
  float* y = *(float**)a[0];
  const float* x = *(const float**)a[1];
  const long n = *(const long*)a[2];
  if (n < 0) {
    ctx->status = 2;
    ctx->detail[0] = n;
    ctx->detail[2] = 4;
    return;
  }
  for (long i = 0; i < n; ++i) y[i] = x[i] + kOne;
}
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return example("device", tmp_path_factory.mktemp("device"))


@pytest.fixture
def sim(library: Path) -> Iterator[Simulated]:
    made = Simulated(library)
    live = [made.live_bytes(0), made.live_bytes(1)]
    yield made
    made.hold(0)
    made.set_delay(0, 1)
    made.close()
    for device in (0, 1):
        made.set_limit(device, 1 << 32)
        assert made.live_bytes(device) == live[device], "a test freed what it allocated"


@pytest.fixture
def memory(sim: Simulated) -> Iterator[list[int]]:
    """Four blocks of 4,096 bytes of device 0."""
    blocks = [sim.device.allocate(0, 4096, 256) for _ in range(4)]
    yield blocks
    for block in blocks:
        sim.device.deallocate(0, block, 4096)


def floats(data: bytes) -> numpy.ndarray:
    return numpy.frombuffer(data, numpy.float32)


def headers() -> dict[str, str]:
    abi = ROOT / "runtime/abi"
    types, entry = (abi / "types.h").read_text(), (abi / "entry.h").read_text()
    return {
        "abi.h": '#include "straightline/abi/entry.h"\n',
        "straightline/abi/entry.h": entry,
        "straightline/abi/types.h": types,
        "sub/one.h": "constexpr float kOne = 1;\n",
    }


def adder(sim: Simulated, device: int = 0) -> int:
    return sim.load(sim.compile(ADD, headers()), "add", 3, device)


def test_plugin_check(library: Path) -> None:
    report = json.loads(command(sys.executable, "-m", "straightline", "plugin", "check", library, "--json"))
    assert report["failed"] == 0
    for name in ("linear", "relu", "softmax"):
        checks = {check["name"]: check for check in report["kernels"][f"sim.{name}"]}
        assert checks["accepts"]["status"] == checks["results"]["status"] == "passed"
        assert not checks["accepts"]["detail"].startswith("0 of")


def test_properties(sim: Simulated) -> None:
    assert sim.device.count() == 2
    assert sim.device.missing(1) is None
    assert b"two simulated devices" in sim.device.missing(2)
    assert not sim.device.queue_create(2)
    properties = Properties(size=ctypes.sizeof(Properties))
    sim.set_limit(1, 12345)
    sim.device.properties(1, properties)
    assert properties.name == b"Simulated accelerator"
    assert properties.memory_bytes == 12345
    assert properties.vector_bytes in (16, 32, 64)


def test_an_address_faults_on_the_host(library: Path) -> None:
    text = f"""
import sys, ctypes, pathlib
sys.path.insert(0, {str(Path(__file__).parent)!r})
from simulated_device import Simulated
sim = Simulated(pathlib.Path({str(library)!r}))
address = sim.device.allocate(0, 16, 16)
print("allocated", flush=True)
ctypes.string_at(address, 1)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.stdout == "allocated\n"
    assert done.returncode == -11


def test_memory_has_a_limit_and_is_given_back(sim: Simulated) -> None:
    before = sim.live_bytes(0)
    sim.set_limit(0, before + 1024)
    first = sim.device.allocate(0, 1000, 64)
    assert first
    assert sim.live_bytes(0) == before + 1024
    assert not sim.device.allocate(0, 1, 1), "over the limit"
    elsewhere = sim.device.allocate(1, 1, 1)
    assert elsewhere, "the other device has a limit of its own"
    sim.device.deallocate(1, elsewhere, 1)
    sim.device.deallocate(0, first, 1000)
    again = sim.device.allocate(0, 1000, 64)
    assert again == first
    sim.device.deallocate(0, again, 1000)


def test_blocks_do_not_overlap_and_gaps_join(sim: Simulated) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)  # noqa: T201
    draw = random.Random(seed)
    live: dict[int, int] = {}
    highest = 0
    for _ in range(2000):
        if live and draw.random() < 0.5:
            address = draw.choice(list(live))
            sim.device.deallocate(0, address, live.pop(address))
            continue
        size = draw.randrange(1, 5000)
        address = sim.device.allocate(0, size, 256)
        assert address % 256 == 0
        assert all(address + size <= other or other + bytes_ <= address for other, bytes_ in live.items())
        live[address] = size
        highest = max(highest, address + size)
    for address, size in live.items():
        sim.device.deallocate(0, address, size)
    whole = sim.device.allocate(0, highest - min(live), 256)
    assert whole == min(live) or whole < min(live), "one gap again"
    sim.device.deallocate(0, whole, 0)


def test_fresh_memory_is_nan(sim: Simulated, memory: list[int]) -> None:
    assert numpy.isnan(floats(sim.read(sim.queue(), memory[0], 64))).all()


def test_copies_are_asynchronous_and_in_order(sim: Simulated, memory: list[int]) -> None:
    queue = sim.queue()
    sim.hold(1)
    executed = sim.executed()
    data = bytearray(b"abcd")
    out = ctypes.create_string_buffer(4)
    sim.call("copy", queue, memory[0], SPACE, (ctypes.c_char * 4).from_buffer(data), b"host", 4)
    sim.call("copy", queue, memory[1], SPACE, memory[0], SPACE, 4)
    sim.call("copy", queue, out, b"host", memory[1], SPACE, 4)
    event = sim.device.record(queue)
    data[:] = b"efgh"  # nothing has been read yet
    assert sim.device.query(event) == 0
    assert sim.executed() == executed
    sim.hold(0)
    sim.device.synchronize(event)
    assert sim.device.query(event) == 1
    assert out.raw == b"efgh"
    sim.device.event_destroy(event)


@pytest.mark.parametrize(
    ("destination", "source", "words"),
    [
        (("own", SPACE), ("own", b"host"), "source .* is said to be host memory but is an address of device 0"),
        (("own", b"host"), ("own", SPACE), "destination .* is said to be host memory but is an address of device 0"),
        (("host", SPACE), ("own", SPACE), "destination .* is said to be memory of device 0 but is host memory"),
        (
            ("own", SPACE),
            ("other", SPACE),
            "source .* is said to be memory of device 0 but is memory of the other device",
        ),
        (
            ("own", b"cuda"),
            ("own", SPACE),
            "destination is in space 'cuda', this device copies between 'host' and 'sim'",
        ),
        (("own", SPACE), ("freed", SPACE), "source .* with 16 bytes is not allocated on device 0"),
        (("end", SPACE), ("own", SPACE), "destination .* with 16 bytes is not allocated on device 0"),
    ],
)
def test_copies_from_wrong_spaces_are_refused(
    sim: Simulated, memory: list[int], destination: tuple[str, bytes], source: tuple[str, bytes], words: str
) -> None:
    other = sim.device.allocate(1, 16, 16)
    freed = sim.device.allocate(0, 16, 16)
    sim.device.deallocate(0, freed, 16)
    host = ctypes.create_string_buffer(16)
    places = {
        "own": memory[0],
        "end": memory[3] + 4096 - 8,
        "other": other,
        "freed": freed,
        "host": ctypes.addressof(host),
    }
    with pytest.raises(Failed, match=words):
        sim.call("copy", sim.queue(), places[destination[0]], destination[1], places[source[0]], source[1], 16)
    sim.device.deallocate(1, other, 16)


def test_a_queue_waits_for_an_event_of_another(sim: Simulated, memory: list[int]) -> None:
    sim.set_delay(3000, random.randrange(2**32))
    first, second = sim.queue(), sim.queue()
    for round_ in range(20):
        data = numpy.full(4, round_, numpy.float32).tobytes()
        sim.call("copy", first, memory[0], SPACE, ctypes.c_char_p(data), b"host", 16)
        event = sim.device.record(first)
        sim.device.wait(second, event)
        sim.device.event_destroy(event)  # legal while waits are enqueued
        assert floats(sim.read(second, memory[0], 16)).tolist() == [round_] * 4


def test_timed_events_and_moved_ones(sim: Simulated) -> None:
    queue, other = sim.queue(), sim.queue()
    first = sim.device.record_timed(queue)
    sim.device.synchronize(first)
    sim.hold(1)
    second = sim.device.record_timed(queue)
    assert sim.device.query(second) == 0
    assert sim.device.record_again(queue, first) == 1
    assert sim.device.query(first) == 0, "it fires at the new point"
    sim.hold(0)
    sim.device.synchronize(first)
    assert 0 <= sim.device.elapsed_ms(second, first) < 60_000
    assert sim.device.record_again(other, second) == 1
    sim.device.synchronize(second)
    assert sim.device.elapsed_ms(first, second) >= 0
    for event in (first, second):
        sim.device.event_destroy(event)


def test_an_event_outlives_its_queue(sim: Simulated) -> None:
    queue = sim.device.queue_create(0)
    event = sim.device.record(queue)
    sim.device.queue_destroy(queue)
    sim.device.synchronize(event)
    assert sim.device.query(event) == 1
    sim.device.event_destroy(event)


def test_finish_waits_for_all_queues_of_a_device(sim: Simulated, memory: list[int]) -> None:
    sim.set_delay(5000, 7)
    events = []
    for _ in range(3):
        queue = sim.queue()
        for _ in range(5):
            sim.call("copy", queue, memory[0], SPACE, memory[1], SPACE, 16)
        events.append(sim.device.record(queue))
    sim.device.finish(0)
    assert [sim.device.query(event) for event in events] == [1, 1, 1]
    for event in events:
        sim.device.event_destroy(event)


def test_pinned_memory_is_of_the_host(sim: Simulated, memory: list[int]) -> None:
    before = sim.pinned_bytes()
    address = sim.device.allocate_host(0, 64, 64)
    assert sim.pinned_bytes() == before + 64
    ctypes.memset(address, 3, 64)
    queue = sim.queue()
    sim.call("copy", queue, memory[0], SPACE, address, b"host", 64)
    assert sim.read(queue, memory[0], 64) == b"\3" * 64
    sim.device.deallocate_host(0, address, 64)
    assert sim.pinned_bytes() == before


def test_compiled_kernels(sim: Simulated, memory: list[int]) -> None:
    kernel, queue = adder(sim), sim.queue()
    again = adder(sim)  # the same image: opened once
    x = numpy.random.default_rng().standard_normal(100).astype(numpy.float32)
    sim.write(queue, memory[0], x.tobytes())
    sim.start(queue, kernel, memory[1], memory[0], 100)
    sim.device.unload(kernel)  # waits for what was started
    sim.start(queue, again, memory[2], memory[1], 100)
    assert (floats(sim.read(queue, memory[2], 400)) == x + 1 + 1).all()
    sim.device.unload(again)


def test_random_delays_change_no_bit(sim: Simulated, memory: list[int]) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)  # noqa: T201
    kernel, queues = adder(sim), [sim.queue(), sim.queue()]
    zeros = bytes(400)
    for trial in range(50):
        sim.set_delay(200, seed + trial)
        sim.call("copy", queues[0], memory[0], SPACE, ctypes.c_char_p(zeros), b"host", 400)
        for step in range(10):
            on, other = queues[step % 2], queues[(step + 1) % 2]
            sim.start(on, kernel, memory[(step + 1) % 2], memory[step % 2], 100)
            event = sim.device.record(on)
            sim.device.wait(other, event)
            sim.device.event_destroy(event)
        assert (floats(sim.read(queues[0], memory[0], 400)) == 10).all()
    sim.device.unload(kernel)


def test_a_kernels_status_is_told_once_by_the_next_use_of_the_queue(sim: Simulated, memory: list[int]) -> None:
    kernel, queue, other = adder(sim), sim.queue(), sim.queue()
    sim.start(queue, kernel, memory[0], memory[1], -3)
    sim.device.finish(0)
    sim.start(other, kernel, memory[0], memory[1], 1)
    with pytest.raises(Failed) as told:
        sim.start(queue, kernel, memory[0], memory[1], 1)
    assert told.value.args == (2, "in earlier work of this queue, kernel add: index -3 is out of range [0, 5)")
    sim.start(queue, kernel, memory[0], memory[1], 1)
    sim.wait(queue)
    sim.device.unload(kernel)


def test_a_kernel_does_not_get_an_address_of_the_other_device(sim: Simulated, memory: list[int]) -> None:
    kernel, queue = adder(sim), sim.queue()
    other = sim.device.allocate(1, 16, 16)
    sim.start(queue, kernel, memory[0], other, 1)
    with pytest.raises(Failed, match=r"kernel add: argument 1, .* is memory of the other device, not of device 0"):
        sim.wait(queue)
    sim.device.deallocate(1, other, 16)
    freed = sim.device.allocate(0, 16, 16)
    sim.device.deallocate(0, freed, 16)
    sim.start(queue, kernel, freed, memory[0], 1)
    with pytest.raises(Failed, match="argument 0, .* is freed memory of device 0"):
        sim.wait(queue)
    sim.device.unload(kernel)


@pytest.mark.parametrize(
    ("text", "machine", "words"),
    [
        ("int f( {", "", r"clang\S* failed on unit: (.|\n)*error: expected"),
        ("#include <vector>\n", "", "vector"),
        ("", "v2", "target=.sim. has none"),
    ],
)
def test_what_does_not_compile(sim: Simulated, text: str, machine: str, words: str) -> None:
    with pytest.raises(Failed, match=words):
        sim.compile(text, {}, machine)


def test_headers_stay_in_their_folder(sim: Simulated) -> None:
    with pytest.raises(Failed, match=r"header '\.\./x\.h' cannot be written"):
        sim.compile("", {"../x.h": ""})


def test_bad_images(sim: Simulated) -> None:
    with pytest.raises(Failed, match="the image of kernel add cannot be used"):
        sim.load(b"not a library", "add", 3)
    with pytest.raises(Failed, match="it has no symbol sub_start"):
        sim.load(sim.compile(ADD, headers()), "sub", 3)


def test_the_compilers_version_names_the_processor(sim: Simulated) -> None:
    assert b"clang" in sim.device.compiler()
    assert b"processor" in sim.device.compiler()


def values_of(dtype: str, data: bytes) -> numpy.ndarray:
    if dtype == "bfloat16":
        return (numpy.frombuffer(data, numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)
    return numpy.frombuffer(data, numpy.dtype(dtype))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_random_floats(sim: Simulated, dtype: str) -> None:
    seed = random.randrange(2**63)
    print("seed", seed)  # noqa: T201
    count, queue = 100_001, sim.queue()
    uniform = values_of(dtype, sim.random(queue, UNIFORM, dtype, count, seed, 5)).astype(numpy.float64)
    assert uniform.min() >= 0
    assert uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 6 * (1 / 12 / count) ** 0.5 + 0.5 * 2**-8
    normal = values_of(dtype, sim.random(queue, NORMAL, dtype, count, seed, 5)).astype(numpy.float64)
    assert abs(normal.mean()) < 6 / count**0.5
    assert abs(normal.std() - 1) < 0.02
    assert abs((normal[1:] * normal[:-1]).mean()) < 6 / count**0.5
    assert len(set(normal[:1000])) > 300


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "bool"])
def test_random_bits(sim: Simulated, dtype: str) -> None:
    count, queue = 10_000, sim.queue()
    values = values_of(dtype, sim.random(queue, BITS, dtype, count, random.randrange(2**63), 0))
    bits = numpy.unpackbits(values.view(numpy.uint8)).reshape(count, -1)
    ones = bits.mean(axis=0)
    free = ones if dtype != "bool" else ones[-1:]
    assert (abs(free - 0.5) < 6 * 0.5 / count**0.5).all()


def test_random_numbers_follow_from_seed_and_offset(sim: Simulated) -> None:
    queue, other = sim.queue(), sim.queue()
    whole = sim.random(queue, UNIFORM, "float32", 800, 11, 3)
    assert whole == sim.random(other, UNIFORM, "float32", 800, 11, 3)
    assert whole != sim.random(queue, UNIFORM, "float32", 800, 12, 3)
    for dtype, each in (("float32", 4), ("int8", 4), ("float64", 2)):
        code, _ = DTYPES[dtype]
        kind = BITS if code == 0 else UNIFORM
        whole = sim.random(queue, kind, dtype, 400, 11, 3)
        step = 400 // each
        assert sim.device.random_step(kind, DType(*DTYPES[dtype], 1), 399) == step
        assert sim.random(queue, kind, dtype, 400, 11, 3 + step) != whole
        half = len(whole) // 2
        assert sim.random(queue, kind, dtype, 200, 11, 3 + step // 2) == whole[half:]


def test_what_cannot_be_drawn(sim: Simulated) -> None:
    with pytest.raises(Failed, match=r"dtype \(0, 32\): uniform and normal numbers are drawn for floats"):
        sim.random(sim.queue(), UNIFORM, "int32", 4, 1, 0)
    with pytest.raises(Failed, match="bits are drawn for integers and bool"):
        sim.random(sim.queue(), BITS, "float32", 4, 1, 0)
