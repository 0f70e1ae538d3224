# SPDX-License-Identifier: Apache-2.0
"""What a call costs from Paddle: eager, to_static by source and by bytecode, the predictor, ours from Paddle's tensors.

    PYTHONPATH=build/release/python:. .venv-paddle/bin/python -m bench.paddle_cases --only single_add lenet

One thread. A time is the median of blocks of calls, and the least; the first call of each (tracing, compilation) stands beside.
Each answer is compared with Paddle's eager one before it is timed. The predictor's `run` alone is timed: its inputs are there.
`--compile N`: instead, so many times in turn, capture and compilation of ResNet-18 from Paddle and of the same net from torch.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GLOG_minloglevel", "3")

import numpy as np
import paddle
import straightline as sl
from paddle import nn
from paddle.vision import models as zoo

from bench.paddle_models import Bert, Recurrent

#: A block of calls takes about so long, and there are so many.
_BLOCK_SECONDS = 0.05
_BLOCKS = 15


class _Add(nn.Layer):
    def forward(self, x: Any, y: Any) -> Any:
        """The sum."""
        return x + y


class _ReshapeAdd(nn.Layer):
    def forward(self, x: Any, y: Any) -> Any:
        """The sum of x, seen as 4 by 4, and y."""
        return paddle.reshape(x, [4, 4]) + y


def _words(high: int, *shape: int) -> Any:
    return paddle.randint(0, high, list(shape))


#: Name: a layer and its arguments.
CASES: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    "single_add": lambda: (_Add(), (paddle.randn([4, 4]), paddle.randn([4, 4]))),
    "reshape_add": lambda: (_ReshapeAdd(), (paddle.randn([2, 8]), paddle.randn([4, 4]))),
    "lenet": lambda: (zoo.LeNet(), (paddle.randn([1, 1, 28, 28]),)),
    "lstm": lambda: (Recurrent("LSTM"), (_words(100, 1, 20),)),
    "gru": lambda: (Recurrent("GRU"), (_words(100, 1, 20),)),
    "bert_2_layers": lambda: (Bert(), (_words(200, 1, 16),)),
    "resnet18_b1": lambda: (zoo.resnet18(), (paddle.randn([1, 3, 224, 224]),)),
    "resnet18_b10": lambda: (zoo.resnet18(), (paddle.randn([10, 3, 224, 224]),)),
}  # fmt: skip


def _first(value: Any) -> Any:
    while isinstance(value, (list, tuple)):
        value = value[0]
    return value.numpy() if hasattr(value, "numpy") else np.asarray(value)


def _timed(call: Callable[[], Any], want: Any) -> tuple[float, float, float]:
    """Median and least time of a call in microseconds, and the first call's in milliseconds."""
    begin = time.perf_counter()
    found = call()
    first = time.perf_counter() - begin
    np.testing.assert_allclose(_first(found), want, 1e-2, 1e-3)
    del found
    call()
    begin = time.perf_counter()
    call()
    count = max(1, int(_BLOCK_SECONDS / max(time.perf_counter() - begin, 1e-7)))
    blocks = []
    gc.disable()
    for _ in range(_BLOCKS):
        begin = time.perf_counter()
        for _ in range(count):
            call()
        blocks.append((time.perf_counter() - begin) / count * 1e6)
    gc.enable()
    return statistics.median(blocks), min(blocks), first * 1e3


def _predictor(layer: Any, args: Sequence[Any], folder: str) -> Callable[[], Any]:
    """`run` of Paddle's predictor over the saved layer."""
    from paddle import inference

    spec = [
        paddle.static.InputSpec(list(a.shape), str(a.dtype).removeprefix("paddle."), f"x{i}")
        for i, a in enumerate(args)
    ]
    paddle.jit.save(paddle.jit.to_static(layer, input_spec=spec, full_graph=True), f"{folder}/model")
    config = inference.Config(f"{folder}/model.json", f"{folder}/model.pdiparams")
    config.disable_glog_info()
    config.set_cpu_math_library_num_threads(1)
    made = inference.create_predictor(config)
    for name, value in zip(made.get_input_names(), args):
        made.get_input_handle(name).copy_from_cpu(value.numpy())
    handle = made.get_output_handle(made.get_output_names()[0])

    class _Result:
        def numpy(self) -> Any:
            return handle.copy_to_cpu()

    def run() -> Any:
        made.run()
        return _Result()

    return run


def _ways(make: Callable[[], tuple[Any, tuple[Any, ...]]], folder: str) -> dict[str, Callable[[], Callable[[], Any]]]:
    """By name, what makes a call; each has a layer of its own with the same weights."""
    layer, args = make()
    layer.eval()
    state = layer.state_dict()

    def same() -> Any:
        other, _ = make()
        other.eval()
        other.set_state_dict(state)
        return other

    def static(full_graph: bool) -> Callable[[], Any]:
        model = paddle.jit.to_static(same(), full_graph=full_graph)
        return lambda: model(*args)

    def ours(**options: Any) -> Callable[[], Any]:
        fn = sl.compile(same(), args, threads=1, **options)
        return lambda: fn(*args)

    return {
        "eager": lambda: lambda: layer(*args),
        "to_static, AST": lambda: static(True),
        "to_static, SOT": lambda: static(False),
        "predictor.run": lambda: _predictor(same(), args, folder),
        "ours": lambda: ours(),
        "ours, reuse_outputs": lambda: ours(reuse_outputs=True),
        "ours, emitted Python": lambda: ours(emit="python"),
    }


def _compile_times(rounds: int) -> None:
    """Prints seconds of capture and compilation, with kernels that are kept on disk and without, and the median ratio."""
    import torch

    from bench.cases.resnet import resnet18

    makers = {
        "Paddle": lambda: (zoo.resnet18(), (paddle.randn([1, 3, 224, 224]),)),
        "torch": lambda: (resnet18(), (torch.randn(1, 3, 224, 224),)),
    }
    print("| ResNet-18, capture and compilation | Paddle s | torch s | ratio, median of rounds |\n|---|---|---|---|")
    for what, cache in (("kernels kept on disk", True), ("nothing kept", False)):
        times: dict[str, list[float]] = {name: [] for name in makers}
        for number in range(-1, rounds):  # the first one fills caches and imports
            for name, made in makers.items():
                model, args = made()
                model.eval()
                with torch.no_grad(), paddle.no_grad():
                    begin = time.perf_counter()
                    sl.compile(model, args, threads=1, cache=cache)
                    taken = time.perf_counter() - begin
                if number >= 0:
                    times[name].append(taken)
        ratio = statistics.median(a / b for a, b in zip(times["Paddle"], times["torch"], strict=True))
        cells = " | ".join(f"{statistics.median(times[name]):.2f}" for name in makers)
        print(f"| {what} | {cells} | {ratio:.2f} |", flush=True)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--compile", type=int, metavar="N")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    paddle.seed(1)
    if chosen.compile:
        _compile_times(chosen.compile)
        return
    print("| case | by | median us | least us | first call ms |\n|---|---|---|---|---|")
    for case in chosen.only:
        with tempfile.TemporaryDirectory() as folder, paddle.no_grad():
            ways = _ways(CASES[case], folder)
            want = _first(ways["eager"]()())
            for way, made in ways.items():
                begin = time.perf_counter()
                try:
                    call = made()
                    built = (time.perf_counter() - begin) * 1e3
                    median, least, first = _timed(call, want)
                except Exception as error:
                    print(
                        f"| {case} | {way} | {type(error).__name__}: {str(error).strip().splitlines()[-1][:60]} | | |"
                    )
                    continue
                print(f"| {case} | {way} | {median:,.2f} | {least:,.2f} | {first + built:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
