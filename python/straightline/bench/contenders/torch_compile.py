# SPDX-License-Identifier: Apache-2.0
"""`torch.compile` with freezing and max-autotune; caches in the run's temporary folder."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from straightline.bench.contender import Call, Contender, Prepared, Task, fastest, python_call
from straightline.bench.contenders import inductor
from straightline.bench.contenders.eager import channels_last


class TorchCompile(Contender):
    """torch.compile in several ways, of which the fastest counts.

    With Inductor's Python wrapper and with its C++ one, and where the model has attention layers of torch also with those taken
    apart, so that Inductor sees what is in them.
    """

    name = "compile"
    rows = {"compile": "torch.compile"}
    slow_to_compile = True

    def prepare(self, task: Task) -> Prepared:
        """Compiles all; the time is that of the one that is chosen."""
        import torch
        from torch._inductor import config
        from torch._inductor.codecache import PyCodeCache

        torch.set_grad_enabled(False)
        torch._dynamo.config.allow_rnn = True  # else recurrent nets stay eager
        candidates: dict[str, Call] = {}
        seconds: dict[str, float] = {}
        launches: int | None = None
        inputs = tuple(channels_last(x) for x in task.inputs)
        for name, extra, fused in _ways(task.model):
            torch._dynamo.reset()
            PyCodeCache.modules.clear()
            torch.backends.mha.set_fastpath_enabled(fused)
            start = time.perf_counter()
            with config.patch({**inductor.options(), **extra}), torch.inference_mode():
                function = torch.compile(task.model)
                function(*inputs)
                seconds[name] = time.perf_counter() - start
                function(*inputs)
                # The C++ wrapper is of the same graph as the Python one before it.
                launches = launches if extra else inductor.launches_of_modules()
                candidates[name] = _with_fast_path(fused, replace(python_call(function, inputs), launches=launches))
        with torch.inference_mode():
            chosen = fastest(candidates)
        compile_s = next(s for name, s in seconds.items() if chosen.configuration.startswith(f"{name} ("))
        return Prepared({"compile": chosen}, compile_s, {"torch": torch.__version__})


def _ways(model: Any) -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Names, options of Inductor, and whether torch's fused attention layers stay whole."""
    import torch

    yield "python wrapper", {}, True
    yield "cpp wrapper", {"cpp_wrapper": True}, True
    if isinstance(model, torch.nn.Module) and any(isinstance(m, torch.nn.MultiheadAttention) for m in model.modules()):
        yield "python wrapper, attention taken apart", {}, False
        yield "cpp wrapper, attention taken apart", {"cpp_wrapper": True}, False


def _with_fast_path(enabled: bool, call: Call) -> Call:
    """The call with that setting, which the compiled function's guards look at."""
    import torch

    def loop(calls: int) -> float:
        torch.backends.mha.set_fastpath_enabled(enabled)
        return call.loop(calls)

    def answer() -> Any:
        torch.backends.mha.set_fastpath_enabled(enabled)
        return call.answer()

    return replace(call, loop=loop, answer=answer)
