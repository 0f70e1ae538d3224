# SPDX-License-Identifier: Apache-2.0
"""The process of one contender: JSON lines in, JSON lines out, one answer to each request.

    prepare   contender, case, device, threads, source, folder, shared_folder  ->  compile_s, rows, versions
    check     row, file                                 ->  writes the results of one call as an .npz file
    count     row                                       ->  allocations per call, null where they cannot be counted;
                                                            on a device launches and kernels_us instead
    time      row, samples, sample_s, core              ->  samples_us, calls (in each sample); on a device also
                                                            sync_us and enqueue_us, one for each of `samples` single calls;
                                                            the calling thread runs on `core` meanwhile, unless that is null
    quit

An answer has "ok": true, or false with "kind" ("unavailable", "unsupported" or "failed") and "reason". Between requests the
process waits in `read`: whoever is not asked does not compute. What libraries print to standard output goes to standard error,
which the parent keeps in a file.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any, TextIO

from straightline.bench import cuda_timing, machine

_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
#: Calls before the first sample of a visit: caches are the others' by now, and clocks have dropped.
_WARM_UP_S = 0.004
#: A visit takes no further sample after so long: calls that are slow themselves need fewer.
_VISIT_S = 1.0
_COUNTED_CALLS = 64
_COUNTING_S = 0.5
_REASON_LENGTH = 240


class Worker:
    """Holds what was prepared."""

    def __init__(self) -> None:
        self._prepared: Any = None
        self._calls: dict[tuple[str, float], int] = {}
        self._device = "cpu"

    def prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        """Makes the model and compiles it."""
        from straightline.bench import contenders
        from straightline.bench.case import load_folder, load_model_file
        from straightline.bench.contender import Task

        source = request["source"]
        extra: tuple[type, ...] = ()
        folder = None
        self._device = request["device"]
        if "model" in source:
            case = load_model_file(Path(source["model"]), self._device)
        else:
            collection = load_folder(Path(source["cases"]))
            named = (case for case in collection.cases if case.name == request["case"])
            case = next(case for case in named if case.device == self._device)
            extra, folder = collection.contenders, collection.folder
        contender = contenders.by_name(self._device, extra)[request["contender"]]()
        import torch

        torch.set_num_threads(request["threads"])
        if self._device == "cuda":
            # Its GELU is the approximation by tanh, whatever the model says.
            torch.backends.mha.set_fastpath_enabled(False)
        model, inputs = case.make()
        task = Task(
            case, model, inputs, request["threads"], Path(request["folder"]), Path(request["shared_folder"]), folder
        )
        self._prepared = contender.prepare(task)
        rows = {
            name: {"configuration": call.configuration, "launches": call.launches, "answers": call.answer is not None}
            for name, call in self._prepared.calls.items()
        }
        seconds = {name: getattr(self._prepared, name) for name in ("compile_s", "compile_own_s", "compile_cached_s")}
        return {**seconds, "rows": rows, "versions": self._prepared.versions}

    def check(self, request: dict[str, Any]) -> dict[str, Any]:
        """Writes what one call returns."""
        import numpy

        with _inference():
            results = [_array(value) for value in self._prepared.calls[request["row"]].answer()]
        numpy.savez(request["file"], **{f"r{i}": value for i, value in enumerate(results)})
        return {}

    def count(self, request: dict[str, Any]) -> dict[str, Any]:
        """Counts allocations: those of calls less those of an empty loop. On a device: what runs there."""
        if self._device == "cuda":
            with _inference():
                return cuda_timing.profiled(self._prepared.calls[request["row"]])
        counter = getattr(ctypes.CDLL(None), "sl_bench_allocations", None)
        if counter is None:
            return {"allocations": None}
        counter.restype = ctypes.c_longlong
        loop = self._prepared.calls[request["row"]].loop
        with _inference():
            loop(2)  # what the first calls keep
            start = counter()
            loop(1)
            few = counter()
            taken = loop(1)
            again = counter()
            calls = max(1, min(_COUNTED_CALLS, int(_COUNTING_S / max(taken, 1e-9))))
            loop(1 + calls)
            return {"allocations": (counter() - again - (few - start)) / calls}

    def time(self, request: dict[str, Any]) -> dict[str, Any]:
        """Takes samples of one row."""
        from straightline.bench.contender import calls_for

        row, sample_s = request["row"], request["sample_s"]
        loop = self._prepared.calls[row].loop
        if self._device == "cuda":
            with _inference(), machine.on_core(request["core"]):
                return cuda_timing.timed(self._prepared.calls[row], request["samples"], sample_s)
        with _inference():
            if (row, sample_s) not in self._calls:
                self._calls[row, sample_s] = calls_for(loop, sample_s)
            calls = self._calls[row, sample_s]
            begun = time.perf_counter()
            while time.perf_counter() - begun < _WARM_UP_S:
                loop(max(1, calls // 8))
            samples: list[float] = []
            begun = time.perf_counter()
            while not samples or (len(samples) < request["samples"] and time.perf_counter() - begun < _VISIT_S):
                samples.append(loop(calls) / calls * 1e6)
        return {"samples_us": samples, "calls": calls}


def _array(value: Any) -> Any:
    """A numpy array of a tensor; bfloat16, which numpy lacks, as float32."""
    import numpy
    import torch

    if not isinstance(value, torch.Tensor):
        return numpy.asarray(value)
    if value.dtype == torch.bfloat16:
        value = value.float()
    return value.detach().cpu().numpy()


def _inference() -> contextlib.AbstractContextManager[Any]:
    import torch

    return torch.inference_mode()


def _answer(worker: Worker, request: dict[str, Any]) -> dict[str, Any]:
    from straightline.bench.contender import Unavailable, Unsupported
    from straightline.errors import UnsupportedError, UserError

    try:
        return {"ok": True, **getattr(worker, request["do"])(request)}
    except Exception as error:
        traceback.print_exc()
        kinds: dict[type, str] = {
            Unavailable: "unavailable",
            Unsupported: "unsupported",
            UnsupportedError: "unsupported",
        }
        kind = next((kind for cls, kind in kinds.items() if isinstance(error, cls)), "failed")
        plain = isinstance(error, (Unavailable, Unsupported, UserError, UnsupportedError))
        reason = str(error) if plain else f"{type(error).__name__}: {error}"
        return {"ok": False, "kind": kind, "reason": _short(reason) or type(error).__name__}


def _short(reason: str) -> str:
    """Its first lines as one; the whole text is in the log."""
    words = " ".join(reason.split())
    return words if len(words) <= _REASON_LENGTH else words[: _REASON_LENGTH - 3] + "..."


def _private_output() -> TextIO:
    """The pipe to the parent, out of reach of what prints."""
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return channel


def main() -> int:
    """Answers requests until it is told to quit or the parent has ended."""
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    channel = _private_output()
    worker = Worker()
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "quit":
            return 0
        channel.write(json.dumps(_answer(worker, request)) + "\n")
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # no library's threads and exit handlers are waited for
