# SPDX-License-Identifier: Apache-2.0
"""FlagGems' ops by name: the library, imported when a rule first names it, and its launches (docs/design/own_kernels.md).

The library wants a CUDA device when it is imported and when an op of it runs. Neither needs one here: what it asks
`torch.cuda` for is answered for the program's target meanwhile, and its launches are noted, not run.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import importlib
import importlib.util
import os
import re
import threading
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from straightline import own_images
from straightline.errors import UnsupportedError, UserError

#: The target of rules.
NAME = "flaggems"
_MAJOR = 5
#: Multiprocessors by architecture, for grids that depend on them where the device is not here (any number is right).
_MULTIPROCESSORS = {75: 40, 80: 108, 86: 84, 87: 16, 89: 142, 90: 132, 100: 148, 103: 148, 110: 20, 120: 188, 121: 48}
_L2_BYTES = 40 << 20
#: What wrappers were found to do wrong on a device, by name; (versions, words).
_FAULTS = {
    "argmin": (
        r"5\.0\.",
        "its kernel for the last dim reads and writes behind its tensors where no block divides their sizes",
    ),
}
_lock = threading.RLock()


@dataclass(frozen=True)
class Library:
    """What FlagGems registers for ops of torch."""

    version: str
    #: By overload, "add.Tensor"; a default one is "rms_norm.default".
    functions: Mapping[str, Callable[..., Any]]

    def function(self, op: Any) -> Callable[..., Any] | None:
        """The wrapper of an op's overload; None: it has none."""
        if op.namespace != "aten":
            return None
        return self.functions.get(f"{op._schema.name.partition('::')[2]}.{op._schema.overload_name or 'default'}")

    def fault(self, name: str) -> str | None:
        """What a wrapper of this version is known to do wrong, in words; None: nothing."""
        versions, words = _FAULTS.get(name, ("", None))
        return words if re.match(versions, self.version) else None

    def nearest(self, name: str) -> str:
        """The ops whose names are most like a name, for messages."""
        known = {key.removesuffix(".default") for key in self.functions}
        near = difflib.get_close_matches(name, known, 3, 0.5)
        same = sorted(key for key in known if key.partition(".")[0].strip("_") == name.partition(".")[0].strip("_"))
        return ", ".join(dict.fromkeys((*same, *near))) or ", ".join(sorted(known)[:5])


class DrawsRandomNumbers(Exception):
    """A wrapper asks for the state of the device's random numbers."""


@functools.cache
def library() -> Library:
    """FlagGems, imported now if it has not been.

    Raises:
        UnsupportedError: it is not installed, cannot be imported, or is of another version.
    """
    from straightline._triton import triton

    triton()
    with _lock:
        if importlib.util.find_spec("flag_gems") is None:
            raise UnsupportedError(
                f"a route to {NAME} needs the package flag_gems, {_MAJOR}.x, while compiling, which is not installed: "
                "pip install --no-deps flag_gems, and sqlalchemy and pyyaml, which it needs (it pins numpy 1.26, which "
                "it does not need)"
            )
        try:
            with _answering("sm_90", is_importing=True):
                module = importlib.import_module("flag_gems")
        except ImportError as error:
            raise UnsupportedError(
                f"a route to {NAME} needs the package flag_gems, which cannot be imported: {error}; it needs triton, sqlalchemy, "
                "pyyaml and packaging"
            ) from error
    version = getattr(module, "__version__", "unknown")
    if not re.match(rf"{_MAJOR}\.\d", version) or not hasattr(module, "_FULL_CONFIG"):
        raise UnsupportedError(f"flag_gems is {version}, a route to {NAME} needs {_MAJOR}.x")
    found = {}
    for name, function, *when in module._FULL_CONFIG:
        if all(condition() for condition in when):
            found[name if "." in name else f"{name}.default"] = function
    return Library(version, found)


# Answers in place of a device -----------------------------------------------------------------------------------------


class _Device:
    """In place of `torch.cuda.device`, a block on a device."""

    def __init__(self, *_: Any) -> None:
        """Any device."""

    def __enter__(self) -> None:
        """Nothing is to be done."""

    def __exit__(self, *_: object) -> None:
        """Nothing is to be undone."""


class _Generators:
    """In place of `torch.cuda.default_generators`."""

    def __getitem__(self, number: int) -> Any:
        raise DrawsRandomNumbers


def _answers(arch: str, is_importing: bool) -> dict[str, Any]:
    """What `torch.cuda` says of a device that need not be here, by name; while importing also of one that is here.

    No device is available to the import, and torch's own functions do not take that.
    """
    import torch

    number = own_images.number_of(arch)
    is_here = not is_importing and torch.cuda.is_available()
    if is_here and torch.cuda.get_device_capability(own_images.place().number) == divmod(number, 10):
        return {"default_generators": _Generators()}  # it is here
    facts = types.SimpleNamespace(
        name=arch, major=number // 10, minor=number % 10, L2_cache_size=_L2_BYTES, total_memory=16 << 30,
        multi_processor_count=_MULTIPROCESSORS.get(number, 108), warp_size=32,
        shared_memory_per_block_optin=own_images._SHARED_BYTES.get(number, 49152), max_threads_per_multi_processor=2048,
    )  # fmt: skip
    return {
        "current_device": lambda: own_images.place().number,
        "get_device_name": lambda *_: arch,
        "get_device_properties": lambda *_: facts,
        "get_device_capability": lambda *_: (facts.major, facts.minor),
        "device": _Device,
        "default_generators": _Generators(),
    }


@contextlib.contextmanager
def _answering(arch: str, is_importing: bool = False) -> Iterator[None]:
    """A block in which `torch.cuda` answers this thread as if a device of an architecture were here.

    While the library is imported no device is available: it would replace some of its ops by ones for that device alone.
    """
    import torch

    answers = _answers(arch, is_importing)  # not of is_available: fake tensors would ask for a context then
    if is_importing:
        answers["is_available"] = lambda: False
        del answers["default_generators"]
    mine = threading.get_ident()
    before = {name: getattr(torch.cuda, name) for name in answers}
    vendor = os.environ.get("GEMS_VENDOR")

    def answer(name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            return (answers if threading.get_ident() == mine else before)[name](*args, **kwargs)

        return call

    with _lock, warnings.catch_warnings() if is_importing else contextlib.nullcontext():
        if is_importing:
            warnings.simplefilter("ignore")
            os.environ["GEMS_VENDOR"] = "nvidia"
        for name, value in answers.items():
            setattr(torch.cuda, name, answer(name) if name != "default_generators" else value)
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(torch.cuda, name, value)
            if is_importing and vendor is None:
                del os.environ["GEMS_VENDOR"]
            elif is_importing:
                os.environ["GEMS_VENDOR"] = str(vendor)


# Launches -------------------------------------------------------------------------------------------------------------

#: Gets a kernel as the library holds it (autotuners and heuristics around it), the grid, and the arguments of a launch.
Launcher = Callable[[Any, Any, tuple[Any, ...], dict[str, Any]], None]


@contextlib.contextmanager
def launching(launch: Launcher, arch: str) -> Iterator[None]:
    """A block in which launches of this thread are calls of a function, and nothing is run on a device."""
    from triton.runtime.autotuner import Autotuner, Heuristics
    from triton.runtime.jit import JITFunction

    # By name: packages of the library have functions with the names of their modules.
    libentry, device_info, tensor_wrapper = (
        importlib.import_module(f"flag_gems.utils.{name}") for name in ("libentry", "device_info", "tensor_wrapper")
    )
    mine = threading.get_ident()
    classes = [libentry.LibEntry, libentry.LibTuner, Autotuner, Heuristics, JITFunction]
    before = {each: each.__dict__["run"] for each in classes}
    buffer = tensor_wrapper.StridedBuffer
    make = buffer.__init__

    def run(kernel: Any, *args: Any, grid: Any = None, **kwargs: Any) -> Any:
        if threading.get_ident() != mine:
            return next(before[each] for each in classes if isinstance(kernel, each))(
                kernel, *args, grid=grid, **kwargs
            )
        launch(kernel, grid, args, kwargs)
        return kernel, {}

    def make_buffer(
        self: Any, base: Any, shape: Any = None, strides: Any = None, dtype: Any = None, offset: int = 0
    ) -> None:
        if threading.get_ident() != mine:
            make(self, base, shape, strides, dtype, offset)
            return
        self._base, self.dtype, self.offset, self._data_ptr = base, dtype or base.dtype, offset, None
        self.shape = tuple(shape if shape is not None else base.shape)
        self._strides = tuple(strides if strides is not None else base.stride())
        self.device, self.ndim = base.device, len(self.shape)

    with _lock, _answering(arch):
        for name in ("get_device_id", "get_device_properties", "get_device_capability", "get_device_info"):
            getattr(device_info, name).cache_clear()
        for each in classes:
            each.run = run
        buffer.__init__ = make_buffer
        try:
            yield
        finally:
            buffer.__init__ = make
            for each, function in before.items():
                each.run = function


def kernel_of(kernel: Any) -> Any:
    """The kernel with its autotuners and heuristics, without the library's cache around it."""
    from flag_gems.utils.libentry import LibEntry

    while isinstance(kernel, LibEntry):
        kernel = kernel.fn
    return kernel


def tensor_of(value: Any) -> Any:
    """The tensor behind a `StridedBuffer` of the library, whose shape and strides are arguments of their own; else the value.

    Raises:
        UnsupportedError: it begins elsewhere than its tensor.
    """
    if type(value).__name__ == "TypedPtr":
        raise UnsupportedError("it makes a pointer of an address, by TypedPtr")
    if type(value).__name__ != "StridedBuffer":
        return value
    if value.offset != 0:
        raise UnsupportedError(f"it gives a kernel a tensor from element {value.offset} on, by StridedBuffer")
    return value._base if value.dtype == value._base.dtype else value._base.view(value.dtype)


# Rules ----------------------------------------------------------------------------------------------------------------

#: Says which rule (of `route_report.Rule`) gives an op to the library, by its possible names and place.
Asked = Callable[[tuple[str, ...], Any], Any]
_asked: ContextVar[Asked | None] = ContextVar("straightline_flaggems_rules", default=None)


@contextlib.contextmanager
def routing(asked: Asked | None) -> Iterator[None]:
    """A block in which graphs are captured under rules; None: no rule names the library."""
    token = _asked.set(asked)
    try:
        yield
    finally:
        _asked.reset(token)


def rules() -> Asked | None:
    """The rules of this context."""
    return _asked.get()


def names_of(base: str) -> tuple[str, ...]:
    """The names that rules may have for an op of torch ("_softmax": also softmax), without its overload."""
    plain = base.strip("_").removeprefix("native_")
    other = {"conv1d": "convolution", "conv2d": "convolution", "conv3d": "convolution"}.get(plain)
    return tuple(dict.fromkeys((base, plain, *([other] if other else []))))


def device() -> str:
    """The program's device as torch names it."""
    return f"cuda:{own_images.place().number}"


def machine() -> str:
    """The architecture of the program that is captured.

    Raises:
        UserError: it does not run on a CUDA device.
    """
    place = own_images.place().target
    if not place.startswith("cuda:sm_"):
        raise UserError(
            f"{NAME} has kernels for CUDA devices but the program runs on {place or 'the host'}; give target='cuda:sm_90', or "
            f"take the rule away"
        )
    return place.partition(":")[2]
