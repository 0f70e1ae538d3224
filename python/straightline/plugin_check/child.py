# SPDX-License-Identifier: Apache-2.0
"""The process that a library is tried in: `python -m straightline.plugin_check.child`; lines of JSON tell what happens.

A line {"doing": ..} comes before everything that may end the process, so that the other side knows what did.
"""

from __future__ import annotations

import ctypes
import json
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy

from straightline.backend_plugins import load_backend
from straightline.errors import StraightlineError
from straightline.plugin_check import abi, device_kernels
from straightline.plugin_check.device_abi import Device
from straightline.plugin_check.device_checks import DeviceChecks
from straightline.plugin_check.device_trial import DeviceTrial, OnDevice
from straightline.plugin_check.problems import Problem, activated, problems_of
from straightline.plugin_check.trial import Broken, Handle, Trial, dtype_for, layouts_of

THREADS, RUNS_AT_ONCE = 8, 20
PLANS = 1000
#: Bytes that 1,000 plans, each destroyed, may leave behind: less than what one leaked object of 64 bytes a plan does.
LEAK_BYTES = 48_000


def say(**what: Any) -> None:
    """Writes a line."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


class _Checks:
    """The checks of one kernel, in order; `on`: the device that it runs on."""

    def __init__(self, kernel: abi.Kernel, library: ctypes.CDLL, seed: int, on: OnDevice | None) -> None:
        self._kernel, self._library, self._on, self._seed = kernel, library, on, seed
        self.name, self._op = kernel.name.decode(), kernel.op.decode()
        self._random = numpy.random.default_rng(seed)
        self._trials: list[Trial] = []

    def run(self) -> None:
        """Says the result of each check; a check that fails does not keep the next ones from being made."""
        dtype = dtype_for(self._kernel)
        problems = problems_of(self._op, self._random)
        if problems is None or dtype is None or self._kernel.any_device:
            why = f"there is no reference for {self._op}" if problems is None else "numpy has none of its element types"
            say(kernel=self.name, check="all", status="not checked", detail=why)
            return
        self._check("accepts", lambda: self._ask(problems, dtype))
        if not self._trials:
            say(kernel=self.name, check="results", status="not checked", detail="it takes none of the problems")
            return
        if self._on is not None:
            for name, check in device_kernels.checks_of(self._trials, self._seed):  # type: ignore[arg-type]
                say(doing=name, kernel=self.name)
                self._check(name, check)
            self._check("plan and destroy", self._plans)
            return
        self._check("results", self._results)
        self._check("inputs unchanged, same bits twice", self._twice)
        self._check("concurrent runs", self._at_once)
        self._check("plan and destroy", self._plans)

    def _check(self, name: str, check: Callable[[], str]) -> None:
        try:
            say(kernel=self.name, check=name, status="passed", detail=check())
        except Broken as broken:
            say(kernel=self.name, check=name, status="failed", detail=str(broken))

    def _doing(self, what: str, trial: Trial) -> None:
        say(doing=what, kernel=self.name, problem=str(trial))

    # --- the checks

    def _ask(self, problems: list[Problem], dtype: str) -> str:
        epilogues = [self._kernel.epilogues[i].name.decode() for i in range(self._kernel.epilogue_count)]
        every = list(problems)
        for name in ("relu", "gelu_tanh"):
            every += [activated(problem, name) for problem in problems] if name in epilogues else []
        refused: list[str] = []
        asked = 0
        for problem in every:
            for layout in layouts_of(self._kernel, problem):
                for named in (False, True) if problem.rows and layout == "row-major" else (False,):
                    how = (self._kernel, problem, dtype, layout)
                    trial = DeviceTrial(self._on, *how, named=named) if self._on else Trial(*how, named=named)
                    self._doing("accepts", trial)
                    asked += 1
                    first, again = self._answer(trial), self._answer(trial)
                    if first != again:
                        raise Broken(f"accepts says {first} and then {again} for {trial}")
                    if first[0] == 1:
                        self._trials.append(trial)
                    else:
                        refused.append(first[1])
        some = f"; refused: {refused[0]}" if refused else ""
        return f"{len(self._trials)} of {asked} problems taken{some}"

    def _answer(self, trial: Trial) -> tuple[int, str, float]:
        try:
            return trial.answer(self._library)
        except Broken as broken:
            raise Broken(f"{broken}, for {trial}") from broken

    def _results(self) -> str:
        for trial in self._trials:
            for where in ("end", "start"):
                trial.where = where
                self._doing("plan and run between pages without access", trial)
                inputs, outputs = trial.inputs(), trial.outputs()
                self._told(trial, lambda t=trial, i=inputs, o=outputs: self._one(t, i, o))  # type: ignore[misc]
        return f"{2 * len(self._trials)} runs within the bound of float64"

    @staticmethod
    def _told(trial: Trial, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Broken as broken:
            raise Broken(f"{broken}, for {trial}") from broken

    @staticmethod
    def _one(trial: Trial, inputs: Any, outputs: Any) -> None:
        handle = trial.plan(inputs)
        try:
            trial.run(handle, inputs, outputs)
            trial.compare(outputs)
            if not all(buffer.slack_is_intact() for buffer in (*inputs, *outputs)):
                raise Broken("run writes beside its buffers")
        finally:
            handle.destroy()

    def _twice(self) -> str:
        for trial in self._trials:
            self._doing("two runs", trial)
            inputs, first, second = trial.inputs(), trial.outputs(), trial.outputs()
            before = [buffer.elements.copy() for buffer in inputs]
            self._told(trial, lambda t=trial, i=inputs, a=first, b=second: self._both(t, i, a, b))  # type: ignore[misc]
            for i, (buffer, old) in enumerate(zip(inputs, before, strict=True)):
                if buffer.elements.tobytes() != old.tobytes():
                    raise Broken(f"input {i} is changed by a run, for {trial}")
            if any(a.elements.tobytes() != b.elements.tobytes() for a, b in zip(first, second, strict=True)):
                raise Broken(f"two runs on the same inputs give different bits, for {trial}")
        return f"{len(self._trials)} problems"

    @staticmethod
    def _both(trial: Trial, inputs: Any, first: Any, second: Any) -> None:
        handle = trial.plan(inputs)
        for outputs in (first, second):
            trial.run(handle, inputs, outputs)
        handle.destroy()

    def _at_once(self) -> str:
        trial = max(self._trials, key=lambda one: sum(operand.data.size for operand in one.problem.inputs))
        self._doing(f"{THREADS} threads run at once", trial)
        inputs, alone = trial.inputs(), trial.outputs()
        shared = trial.plan(inputs)
        trial.run(shared, inputs, alone)
        exclusive = bool(self._kernel.properties & abi.EXCLUSIVE_HANDLE)
        wrong: list[str] = []
        begin = threading.Barrier(THREADS)
        handles = [trial.plan(inputs) if exclusive else shared for _ in range(THREADS)]

        def work(own: Handle) -> None:
            outputs = trial.outputs()
            begin.wait()
            try:
                for _ in range(RUNS_AT_ONCE):
                    trial.run(own, inputs, outputs)
                    if any(a.elements.tobytes() != b.elements.tobytes() for a, b in zip(alone, outputs, strict=True)):
                        raise Broken("a run beside others gives other bits than a run alone")
            except Broken as broken:
                wrong.append(str(broken))

        threads = [threading.Thread(target=work, args=(handle,)) for handle in handles]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for handle in {id(one): one for one in (shared, *handles)}.values():
            handle.destroy()
        if wrong:
            hint = "" if exclusive else "; nearest: SL_KERNEL_EXCLUSIVE_HANDLE, if run writes into its handle"
            raise Broken(f"{wrong[0]}, with {'a handle each' if exclusive else 'one handle'}, for {trial}{hint}")
        return f"{THREADS} threads, {'a handle each' if exclusive else 'one handle'}"

    def _plans(self) -> str:
        if not self._kernel.plan_symbol:
            return "it has no plan"
        trial = min(self._trials, key=lambda one: sum(operand.data.size for operand in one.problem.inputs))
        self._doing(f"{PLANS} plans", trial)
        if isinstance(trial, DeviceTrial):
            return device_kernels.leaks(trial, PLANS, _bytes_in_use, LEAK_BYTES)
        inputs = trial.inputs()
        for _ in range(PLANS // 10):
            trial.plan(inputs).destroy()
        before = _bytes_in_use()
        for _ in range(PLANS):
            trial.plan(inputs).destroy()
        left = _bytes_in_use() - before
        if left > LEAK_BYTES:
            raise Broken(
                f"{PLANS} plans, each destroyed, leave {left} bytes behind, allowed are {LEAK_BYTES}, for {trial}"
            )
        return f"{PLANS} plans leave {max(left, 0)} bytes"


class _Mallinfo(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    ]


def _bytes_in_use() -> int:
    """Of malloc, of all threads."""
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = _Mallinfo
    info = libc.mallinfo2()
    return int(info.uordblks + info.hblkhd)


def unload(path: str) -> int:
    """Opens and closes the library three times, without a runtime that keeps it."""
    libc = ctypes.CDLL(None)
    libc.dlopen.restype, libc.dlopen.argtypes = ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_int]
    libc.dlsym.restype, libc.dlsym.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]
    libc.dlclose.argtypes = [ctypes.c_void_p]
    for _ in range(3):
        library = libc.dlopen(path.encode(), 2)  # RTLD_NOW
        entry = libc.dlsym(library, b"straightline_backend_v1")
        ctypes.CFUNCTYPE(ctypes.c_void_p)(entry)()
        libc.dlclose(library)
    return 0


def _try_device(backend: str, address: int, seed: int, skipped: list[str]) -> None:
    """The checks of a device, under a name that no kernel has."""
    name = f"device {backend}"
    if name in skipped:
        return
    for check, run in DeviceChecks(Device.from_address(address), seed).all():
        say(doing=check, kernel=name)
        try:
            say(kernel=name, check=check, status="passed", detail=run())
        except Broken as broken:
            say(kernel=name, check=check, status="failed", detail=str(broken))
    say(finished=name)


def main(path: str, seed: int, skipped: list[str]) -> int:
    """Tries a library, without the kernels that were tried already."""
    if seed < 0:
        return unload(path)
    say(doing="open the library")
    try:
        loaded = load_backend(path)
    except StraightlineError as error:
        say(library=path, status="failed", detail=str(error))
        return 0
    say(library=loaded.file, status="passed", detail=f"backend {loaded.name!r}, {len(loaded.kernels)} kernels")
    library, device = abi.runtime(), abi.device_of(loaded.name)
    if device is not None:
        _try_device(loaded.name, device, seed, skipped)
    on = OnDevice(loaded.name, Device.from_address(device)) if device is not None else None
    for kernel in abi.kernels_of(loaded.name):
        if kernel.name.decode() not in skipped:
            _Checks(kernel, library, seed, on).run()
            say(finished=kernel.name.decode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
