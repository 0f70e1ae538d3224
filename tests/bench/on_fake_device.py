# SPDX-License-Identifier: Apache-2.0
"""Streams and results of calls on a CUDA device that is not there (bench/cuda_call_path.py): run as a process of its own.

Prints "right" at the end.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from functools import partial
from typing import Any

import torch

from bench.cuda_call_path import HERE, compiled, fake_tensors, made, run_there

_OPTIONS: tuple[dict[str, Any], ...] = ({}, {"fast_path": False}, {"emit": "python"})
_LAUNCHES = ("stream", "graph")


def _model() -> tuple[Any, tuple[Any, ...]]:
    """Two kernels, for which there is an arena."""
    return torch.nn.Sequential(torch.nn.Softmax(-1), torch.nn.Linear(64, 64), torch.nn.Softmax(0)).eval(), (
        torch.randn(8, 64),
    )


def _calls_go_to_the_current_stream(tensors: Any, driver: Any) -> None:
    for launch in _LAUNCHES:
        for options in _OPTIONS:
            function, arguments, _ = made(tensors, _model, launch, **options)
            for stream in (0x1000, 0, 0x2000, 0x2000, 0x1000):
                tensors.stream(stream)
                function(*arguments)
                assert (driver.fake_last_stream() or 0) == stream, (launch, options, stream)
    tensors.stream(0)


def _graphs_are_launched_as_such(tensors: Any) -> None:
    from straightline import _call

    for options in _OPTIONS:
        function, arguments, _ = made(tensors, _model, "graph", **options)
        function(*arguments)
        before = _call.cuda_calls()
        function(*arguments)
        after = _call.cuda_calls()
        assert after["graph_launches"] == before["graph_launches"] + 1 and after["launches"] == before["launches"], (
            options
        )


def _large_product() -> tuple[Any, tuple[Any, ...]]:
    """Three kernels, the second of large tiles, which do not come early."""
    return torch.nn.Sequential(torch.nn.Softmax(-1), torch.nn.Linear(64, 64), torch.nn.Softmax(0)).eval(), (
        torch.randn(512, 64),
    )


def _kernels_come_early(tensors: Any, driver: Any) -> None:
    """In a run, behind one that waits as well; not in prepare, and not the first one, behind which the caller's own work may stand."""
    from straightline import _call

    for options in _OPTIONS:
        for model, captured, launches, expected in (
            (_model, 0, 2, 1), (_model, 1, 2, 1), (_large_product, 0, 3, 0), (_many_weights, 0, 1, 0),
        ):  # fmt: skip
            before = driver.fake_early()
            function, arguments, _ = made(tensors, model, "stream", **options)
            function(*arguments)
            assert driver.fake_early() - before == expected, ("with prepare", options, model)
            driver.fake_capture(captured)
            before, launched = driver.fake_early(), _call.cuda_calls()["launches"]
            function(*arguments)
            driver.fake_capture(0)
            assert driver.fake_early() - before == expected, (options, model)
            assert _call.cuda_calls()["launches"] - launched == launches, (options, model)


def _many_weights() -> tuple[Any, tuple[Any, ...]]:
    """Ten kernels that only prepare starts."""
    weights = torch.nn.ParameterList([torch.nn.Parameter(torch.randn(3 + n)) for n in range(10)])

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = weights

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * torch.stack([weight.exp().sum() for weight in self.weights])

    return Model().eval(), (torch.randn(4, 10),)


def _kernels_of_one_image_share_it(tensors: Any) -> None:
    from straightline import _call

    looked_at = compiled(*_many_weights(), "stream")
    kernels = {row["kernel"] for row in looked_at.explain().statements}
    images = sum(looked_at._compilation.counts) - 1  # and the program
    before = _call.cuda_calls()["loads"]
    function, arguments, _ = made(tensors, _many_weights, "stream")
    function(*arguments)
    assert images < len(kernels) - 6
    assert _call.cuda_calls()["loads"] - before == len(kernels) + images, "each image is given to the driver once"
    del function
    gc.collect()
    assert _call.cuda_calls()["loads"] - before == len(kernels) + 2 * images, "and taken back once"


def _place(tensors: Any, function: Any, arguments: list[Any]) -> int:
    return tensors.place(function(*arguments))


def _results_are_used_again(tensors: Any, driver: Any) -> None:
    tensors.keeps(True)  # a fresh result is at an address of its own
    for launch in _LAUNCHES:
        for options in _OPTIONS:
            function, arguments, out = made(tensors, _model, launch, reuse_outputs=True, **options)
            place = partial(_place, tensors, function, arguments)
            first = [place() for _ in range(6)]
            assert len(set(first)) == 1, "no reference to the last one remains"
            held = function(*arguments)
            assert tensors.place(held) == first[0] and place() != first[0], "but this one is held"
            del held
            assert len({place() for _ in range(6)}) <= 2
            taken = {place() for _ in range(4)}
            tensors.stream(0x1000)
            there = [place() for _ in range(4)]
            assert not taken & {there[0]} and len(set(there)) == 1, "another stream may still read what this one wrote"
            tensors.stream(0)
            driver.fake_capture(1)
            tensors.stream(0x1000)
            captured = [place() for _ in range(4)]
            driver.fake_capture(0)
            assert len(set(captured)) == 4 and not set(captured) & {*taken, *there}, (
                "a graph of the caller's owns what it writes"
            )
            assert place() not in captured
            tensors.stream(0)
            assert function(*arguments, out=out) is out and place() != tensors.place(out)
    tensors.keeps(False)


def _a_look_launches_what_was_gathered(tensors: Any, driver: Any) -> None:
    """What comes behind it follows one by one, and the next call without one is a whole graph again."""
    import straightline as sl
    from straightline import _call

    def asked(kind: str) -> int:
        before = _call.cuda_calls()[kind]
        function(*arguments)
        return _call.cuda_calls()[kind] - before

    imports = "from straightline.kernels import cuda\n"
    text = compiled(*_model(), "graph", emit="python").code.replace(imports, "")
    for place, kernels_behind in ((text.index("    t_view = "), 1), (len(text), 0)):
        for kind, looks, first, second in (
            ("graph_launches", 1, 1, 1), ("launches", kernels_behind, 0, 0), ("copies", 1, 0, 0), ("instantiations", kernels_behind, 1, 0),
        ):  # fmt: skip
            function, arguments, _ = made(tensors, _model, "graph", emit="python")
            plain = function._python
            scope = {"cuda": plain.__globals__["cuda"], "held": []}
            exec(text[:place] + "    held.append(t.numpy())\n" + text[place:], scope)
            looking = scope["run"]
            for run, expected in ((plain, None), (looking, looks), (plain, first), (plain, second), (looking, looks)):
                function._python = run
                count = asked(kind)
                assert expected is None or count == expected, (place, kind, count, expected)
    tensors.stream(0x1000)
    driver.fake_capture(1)
    try:
        function(*arguments)
        raise AssertionError("a look while the caller captures")
    except sl.UnsupportedError as error:
        assert "'t'" in str(error) and "while a graph is captured" in str(error), error
    finally:
        driver.fake_capture(0)
        tensors.stream(0)


def _ways_are_measured() -> None:
    """On the device, launched as the program will be, and each of them is taken where it is chosen."""
    from straightline import _call, _compiler
    from straightline._progress import CompileProgress
    from straightline._tuning import Tuning

    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Softmax(-1)).eval()
    module = _compiler.Module.parse(compiled(model, (torch.randn(8, 64),), "stream").ir("op"))
    options = {"target": "cuda:sm_90", "threads": 1, "cache": False, "device": 0}
    for launch in _LAUNCHES:
        before = _call.cuda_calls()
        with CompileProgress() as progress:
            tuning = Tuning(progress, lambda: None, False, "a device", launch == "stream")
            tuning.options(module, options)
        after = _call.cuda_calls()
        launched = [name for name in ("launches", "graph_launches") if after[name] > before[name]]
        assert launched == ["graph_launches" if launch == "graph" else "launches"], (launch, launched)
    ((key, measured),) = tuning.by_key.items()
    assert key.endswith("@sm_90") and tuning.timed == len(measured.times) >= 2, (key, measured)
    assert all(us > 0 for us in measured.times.values()), measured
    for candidate in measured.times:
        made = _compiler.compile(module, **{**options, "choices": {key: candidate}})
        assert f"measured: {candidate};" in made.explain_json, candidate


def main() -> None:
    """The checks, in a process whose driver is the one made for it."""
    if HERE not in os.environ:
        for launch in _LAUNCHES:
            for options in _OPTIONS:
                compiled(*_model(), launch, **options)
        for options in _OPTIONS:
            for model in (_many_weights, _large_product):
                compiled(*model(), "stream", **options)
        sys.exit(run_there([__file__]))
    tensors = fake_tensors()
    driver = ctypes.CDLL("libcuda.so.1")
    driver.fake_last_stream.restype = ctypes.c_void_p
    _calls_go_to_the_current_stream(tensors, driver)
    _graphs_are_launched_as_such(tensors)
    _kernels_come_early(tensors, driver)
    _results_are_used_again(tensors, driver)
    _kernels_of_one_image_share_it(tensors)
    _a_look_launches_what_was_gathered(tensors, driver)
    _ways_are_measured()
    print("right")


if __name__ == "__main__":
    main()
