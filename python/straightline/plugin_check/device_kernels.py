# SPDX-License-Identifier: Apache-2.0
"""What `straightline plugin check` tries of a kernel that runs on the plug-in's device, beside what it says (child.py)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import numpy

from straightline.plugin_check.device_trial import DeviceMemory, DeviceTrial
from straightline.plugin_check.trial import Broken, Handle

QUEUES, RUNS = 4, 10
ROUNDS = 24
#: Bytes of a copy that keeps a queue busy while the next work is enqueued.
LONG = 1 << 23


def checks_of(trials: Sequence[DeviceTrial], seed: int) -> Iterator[tuple[str, Callable[[], str]]]:
    """The checks by name; each says what it found or raises `Broken`."""
    checks = _Checks(trials, seed)
    yield "results", checks.results
    yield "inputs unchanged, same bits twice", checks.twice
    yield "order with copies and events", checks.order
    yield "runs on several queues", checks.at_once


def planned(trial: DeviceTrial, queue: int) -> tuple[Handle, list[DeviceMemory]]:
    """A plan over operands that are on the device."""
    inputs = trial.uploaded(queue)
    trial.on.wait(queue)
    return trial.plan(inputs), inputs


class _Checks:
    def __init__(self, trials: Sequence[DeviceTrial], seed: int) -> None:
        self._trials = trials
        self._random = numpy.random.default_rng(seed)
        self._largest = max(trials, key=lambda one: sum(operand.data.size for operand in one.problem.inputs))

    def _each(self, work: Callable[[DeviceTrial, int], None]) -> None:
        for trial in self._trials:
            with trial.on.queue() as queue:
                try:
                    work(trial, queue)
                except Broken as broken:
                    raise Broken(f"{broken}, for {trial}") from broken

    def results(self) -> str:
        """Each problem against float64, with guards around all buffers."""

        def work(trial: DeviceTrial, queue: int) -> None:
            handle, inputs = planned(trial, queue)
            outputs = trial.cleared(queue)
            try:
                trial.run_on(queue, handle, inputs, outputs)
                trial.compare(outputs)
                if not all(memory.slack_is_intact() for memory in (*inputs, *outputs)):
                    raise Broken("run writes beside its buffers")
            finally:
                handle.destroy()

        self._each(work)
        return f"{len(self._trials)} runs within the bound of float64"

    def twice(self) -> str:
        """Two runs of one plan."""

        def work(trial: DeviceTrial, queue: int) -> None:
            handle, inputs = planned(trial, queue)
            before = [memory.elements.tobytes() for memory in inputs]
            found = []
            for _ in range(2):
                outputs = trial.cleared(queue)
                trial.run_on(queue, handle, inputs, outputs)
                found.append([memory.elements.tobytes() for memory in outputs])
            handle.destroy()
            for i, (memory, old) in enumerate(zip(inputs, before, strict=True)):
                if memory.elements.tobytes() != old:
                    raise Broken(f"input {i} is changed by a run")
            if found[0] != found[1]:
                raise Broken("two runs on the same inputs give different bits")

        self._each(work)
        return f"{len(self._trials)} problems"

    def order(self) -> str:
        """A run is behind the copies before it on its queue, and before what waits for it on another.

        Each round writes other bytes over the operands, then the right ones, runs, has a second queue read the results behind
        an event, and writes other bytes over the results behind that: with long copies and sleeps between, without a wait of
        the host.
        """
        trial = self._largest
        on = trial.on
        with ExitStack() as stack:
            first, second = (stack.enter_context(on.queue()) for _ in range(2))
            handle, inputs = planned(trial, first)
            stack.callback(handle.destroy)
            outputs = trial.cleared(first)
            trial.run_on(first, handle, inputs, outputs)
            alone = [memory.elements.copy() for memory in outputs]
            moving = [memory for memory, place in zip(inputs, trial.moving(), strict=True) if place]
            garbage = numpy.full(max([1, *(memory.bytes for memory in (*inputs, *outputs))]), 0x33, numpy.uint8)
            for memory in moving:  # a run that reads before its turn finds these
                memory.spoil(first, garbage)
            on.wait(first)
            long = [DeviceMemory(on, "uint8", LONG) for _ in range(2)]
            found: list[list[numpy.ndarray]] = []
            kept: list[Any] = []
            for _ in range(ROUNDS):
                for memory in moving:
                    memory.spoil(first, garbage)
                if self._random.random() < 0.3:
                    on.call("copy", first, long[1].address, on.device.space, long[0].address, on.device.space, LONG)
                for memory in moving:
                    memory.upload(first)
                self._sleep()
                kept.append(trial.start(first, handle, inputs, outputs))
                self._order(on.device, first, second)
                self._sleep()
                read = [numpy.zeros_like(one) for one in alone]
                for memory, to in zip(outputs, read, strict=True):
                    if to.nbytes:
                        on.call("copy", second, to.ctypes.data, b"host", memory.address, on.device.space, to.nbytes)
                found.append(read)
                self._order(on.device, second, first)
                for memory in outputs:
                    memory.spoil(first, garbage)
            on.wait(first)
            on.wait(second)
            wrong = [
                i for i, read in enumerate(found)
                if any(a.tobytes() != b.tobytes() for a, b in zip(alone, read, strict=True))
            ]  # fmt: skip
            if wrong:
                raise Broken(
                    f"round {wrong[0]} of {ROUNDS} gives other bits than a run alone: a run is not where the order of the "
                    f"calls puts it ({len(wrong)} rounds are wrong), for {trial}"
                )
        return f"{ROUNDS} rounds on two queues"

    def _sleep(self) -> None:
        if self._random.random() < 0.3:
            time.sleep(self._random.random() * 1e-3)

    @staticmethod
    def _order(device: Any, earlier: int, later: int) -> None:
        event = device.record(earlier)
        device.wait(later, event)
        device.event_destroy(event)

    def at_once(self) -> str:
        """Threads with a queue each run one handle."""
        trial = self._largest
        on = trial.on
        with on.queue() as queue:
            handle, inputs = planned(trial, queue)
            outputs = trial.cleared(queue)
            trial.run_on(queue, handle, inputs, outputs)
        alone = [memory.elements.tobytes() for memory in outputs]
        wrong: list[str] = []
        begin = threading.Barrier(QUEUES)

        def work() -> None:
            try:
                with on.queue() as own:
                    several = [trial.cleared(own) for _ in range(RUNS)]
                    begin.wait()
                    kept = [trial.start(own, handle, inputs, one) for one in several]
                    for one in several:
                        for memory in one:
                            memory.download(own)
                    on.wait(own)
                    del kept
                    if any([memory.elements.tobytes() for memory in one] != alone for one in several):
                        raise Broken("a run beside others gives other bits than a run alone")
            except Broken as broken:
                wrong.append(str(broken))
                begin.abort()
            except threading.BrokenBarrierError:
                pass

        threads = [threading.Thread(target=work) for _ in range(QUEUES)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        handle.destroy()
        if wrong:
            raise Broken(f"{wrong[0]}, with one handle on {QUEUES} queues, for {trial}")
        return f"{QUEUES} queues, {RUNS} runs each, one handle"


def leaks(trial: DeviceTrial, count: int, bytes_in_use: Callable[[], int], allowed: int) -> str:
    """Plans that are destroyed leave nothing of malloc's memory behind."""
    with trial.on.queue() as queue:
        inputs = trial.uploaded(queue)
        trial.on.wait(queue)
        for _ in range(count // 10):
            trial.plan(inputs).destroy()
        before = bytes_in_use()
        for _ in range(count):
            trial.plan(inputs).destroy()
        left = bytes_in_use() - before
    if left > allowed:
        raise Broken(f"{count} plans, each destroyed, leave {left} bytes behind, allowed are {allowed}, for {trial}")
    return f"{count} plans leave {max(left, 0)} bytes"
