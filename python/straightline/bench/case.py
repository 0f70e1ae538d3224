# SPDX-License-Identifier: Apache-2.0
"""What is measured: cases, declared in the files of a folder, or made from a user's own file."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from straightline.errors import UserError

_PACKAGE = "straightline_bench_cases"
_USER_MODULE = "straightline_bench_model"
#: A model's answer may differ from float64 by this much of its largest value, unless the case says otherwise.
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Input:
    """A random tensor: normal where the dtype is a float, else uniform from 0 below `high`.

    Attributes:
        shape: Its sizes.
        dtype: A name of torch.
        high: For integers: what all values are below.
        values: Instead of random values: these, in row-major order.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    high: int = 2
    values: tuple[float, ...] | None = None

    def make(self) -> Any:
        """Returns the tensor, from torch's seed."""
        import torch

        dtype = getattr(torch, self.dtype)
        if self.values is not None:
            return torch.tensor(self.values, dtype=dtype).reshape(self.shape)
        if dtype.is_floating_point:
            return torch.randn(self.shape, dtype=torch.float32).to(dtype)
        return torch.randint(0, self.high, self.shape, dtype=dtype)


@dataclass(frozen=True)
class Floor:
    """Hand-written C++ for a case: what the hardware gives when everything is known.

    Attributes:
        source: A file in the folder `floor` beside the folder of the cases.
        defines: Preprocessor definitions: the sizes.
        parameters: What the C++ gets as parameters where it is not the model's `state_dict()` in its order: a function from the
            module to tensors (folded batch norms, say).
    """

    source: str
    defines: Mapping[str, int] = field(default_factory=dict)
    parameters: Callable[[Any], list[Any]] | None = None


@dataclass(frozen=True)
class Bar:
    """A time to reach: `row` takes at most `ratio` times `against`, and so much more.

    Attributes:
        row: The name of a row of the table.
        against: That of another one, "peers": the fastest row of somebody else's, or "": nobody, only what is added counts.
        ratio: Times the other's time.
        metric: Which figure of both rows is meant: a field of their records; "" is the one that rows are compared by.
        plus_us: And so much more, in the unit of that figure: microseconds but for those in seconds.
        plus_us_per_launch: And so many microseconds for each kernel that `row` launches.
        threads: Numbers of threads that the bar is for; empty: all.
        by_interval: It is missed only when the whole 95 % interval of the ratios round by round is above it.
    """

    row: str
    against: str
    ratio: float = 1.0
    plus_us: float = 0.0
    plus_us_per_launch: float = 0.0
    threads: tuple[int, ...] = ()
    by_interval: bool = False
    metric: str = ""


#: What holds wherever a case does not say otherwise.
DEFAULT_BARS = (Bar("straightline", "peers", 0.8),)
#: What holds in every case.
COMMON_BARS = (
    Bar("straightline_python", "straightline", 1.0, plus_us=3.0, plus_us_per_launch=0.4, by_interval=True),
)  # by interval: beside milliseconds three microseconds are noise
#: On a CUDA device nothing is ever slower than torch's own graphs.
CUDA_BARS = (Bar("straightline", "compile_reduce_overhead", 1.0),)


@dataclass(frozen=True)
class Case:
    """One model at one size.

    Attributes:
        name: A word, as in the table and for `--only`.
        question: What its figures answer.
        model: Makes the module; it is put into eval mode. Its parameters come from torch's seed.
        inputs: What it is called with.
        threads: Numbers of threads that it is measured with.
        group: Only the group "default" runs unless another is asked for.
        tolerance: Largest difference from float64, as a part of the largest value.
        links: How many equal parts follow one another, for the plot of overhead against size.
        series: Cases of one series make one plot.
        bars: Times to reach.
        floor: Hand-written C++ of it.
        bytes_read: Bytes of parameters that one call reads, where it is not all of them.
        make_pair: Instead of `model` and `inputs`: makes both.
        device: Where it is measured: "cpu" or "cuda". Two cases of one name may be for different devices.
        dtype: What floats of the module are made, by torch's name; "" leaves them as they are.
    """

    name: str
    question: str
    model: Callable[[], Any] | None = None
    inputs: tuple[Input, ...] = ()
    threads: tuple[int, ...] = (1, 2)
    group: str = "default"
    tolerance: float = TOLERANCE
    links: int | None = None
    series: str = ""
    bars: tuple[Bar, ...] = DEFAULT_BARS
    floor: Floor | None = None
    bytes_read: int | None = None
    make_pair: Callable[[], tuple[Any, tuple[Any, ...]]] | None = None
    device: str = "cpu"
    dtype: str = ""

    def make(self) -> tuple[Any, tuple[Any, ...]]:
        """Makes the module and its inputs: the same in every process."""
        import contextlib
        import random

        import numpy

        random.seed(0)
        numpy.random.seed(0)
        if self.make_pair is not None:
            model, inputs = self.make_pair()
            return (model, inputs) if self.device == "cpu" else _moved(model, inputs, self.device)
        import torch

        torch.manual_seed(0)
        assert self.model is not None, f"case {self.name} has neither model nor make_pair"
        # Random numbers of the device itself: those of a CPU take seconds where a model has a billion.
        with torch.device(self.device) if self.device != "cpu" else contextlib.nullcontext():
            model = self.model().eval()
            if self.dtype:
                model = model.to(getattr(torch, self.dtype))
            return model, tuple(spec.make() for spec in self.inputs)


@dataclass(frozen=True)
class Collection:
    """The cases and contenders that the files of a folder declare.

    Attributes:
        folder: Where the files are.
        cases: All of `CASES` of its files, in the order of the files' names.
        contenders: Classes in `CONTENDERS` of its files: further ones, beside those that every run has.
    """

    folder: Path
    cases: tuple[Case, ...]
    contenders: tuple[type, ...] = ()


def load_folder(folder: Path) -> Collection:
    """Imports the files of a folder that declare `CASES` (tuples of Case) or `CONTENDERS`.

    They are modules of one package, so `from .models import Mlp` works among them.

    Raises:
        UserError: No such folder, a file that fails, or one that declares something else.
    """
    folder = folder.resolve()
    if not folder.is_dir():
        raise UserError(f"no folder of cases at {folder}: --cases takes one, --model a file of yours")
    package = types.ModuleType(_PACKAGE)
    package.__path__ = [str(folder)]
    sys.modules[_PACKAGE] = package
    cases: list[Case] = []
    contenders: list[type] = []
    for path in sorted(folder.glob("*.py")):
        if path.stem.startswith("_"):
            continue
        module = _imported(path, f"{_PACKAGE}.{path.stem}")
        for case in getattr(module, "CASES", ()):
            if not isinstance(case, Case):
                raise UserError(
                    f"{path}: CASES holds a {type(case).__name__} but must hold straightline.bench.case.Case"
                )
            if any((case.name, case.device) == (other.name, other.device) for other in cases):
                raise UserError(f"{path}: there are two cases named {case.name!r}")
            cases.append(case)
        contenders.extend(getattr(module, "CONTENDERS", ()))
    if not cases:
        raise UserError(f"no file of {folder} declares CASES")
    return Collection(folder, tuple(cases), tuple(contenders))


def load_model_file(path: Path, device: str = "cpu") -> Case:
    """A case on `device` from a user's file, which defines `model` and `inputs`, or functions `make_model()` and `make_inputs()`.

    `tolerance` and `question` may be defined too.

    Raises:
        UserError: Says what the file lacks.
    """
    path = path.resolve()
    if not path.is_file():
        raise UserError(f"no file {path}: --model takes a Python file that defines model and inputs")

    def pair() -> tuple[Any, tuple[Any, ...]]:
        return _pair(path)

    return Case(
        path.stem, f"what does a call of {path.name} cost?", group="model", bars=(), make_pair=pair, device=device
    )


def _pair(path: Path) -> tuple[Any, tuple[Any, ...]]:
    try:
        import torch
    except ImportError as error:
        raise UserError(
            f"a model needs torch, which cannot be imported ({error}): pip install 'straightline[bench]'"
        ) from error
    torch.manual_seed(0)
    sys.path.insert(0, str(path.parent))
    module = _imported(path, _USER_MODULE)  # its own name might be that of another module
    found = []
    for name in ("model", "inputs"):
        if hasattr(module, name):
            found.append(getattr(module, name))
        elif callable(getattr(module, f"make_{name}", None)):
            found.append(getattr(module, f"make_{name}")())
        else:
            raise UserError(f"{path} defines neither `{name}` nor a function `make_{name}()`")
    model, inputs = found
    if not callable(model):
        raise UserError(f"`model` of {path} is a {type(model).__name__} but must be a module or a function")
    if getattr(model, "training", False):
        raise UserError(f"`model` of {path} is in training mode: call model.eval()")
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    if not isinstance(inputs, (tuple, list)) or not all(isinstance(x, torch.Tensor) for x in inputs):
        raise UserError(f"`inputs` of {path} is a {_words(inputs)} but must be a tensor or a tuple of tensors")
    return model, tuple(inputs)


def _moved(model: Any, inputs: tuple[Any, ...], device: str) -> tuple[Any, tuple[Any, ...]]:
    moved = model.to(device) if hasattr(model, "to") else model
    return moved, tuple(x.to(device) for x in inputs)


def _words(value: object) -> str:
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__} of " + ", ".join(sorted({type(x).__name__ for x in value}))
    return type(value).__name__


def _imported(path: Path, name: str) -> types.ModuleType:
    if name in sys.modules and getattr(sys.modules[name], "__file__", None) == str(path):
        return sys.modules[name]  # another file of the folder has imported it
    sys.modules.pop(name, None)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UserError(f"{path} fails: {type(error).__name__}: {error}") from error
    return module
