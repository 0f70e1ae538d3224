# SPDX-License-Identifier: Apache-2.0
"""What a model does while it is traced besides computing: seeds, numbers drawn in Python, attributes that it changes.

It happens once, while tracing, and in no call. What sets a generator of torch is refused; of the rest the user is warned.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any

import torch
from torch.export import _trace

from straightline.capture.torch.importer import TORCH_FOLDER
from straightline.errors import CaptureWarning, UnsupportedError

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
#: Files between the functions that set a generator and who calls them.
_BETWEEN = (__file__, torch.random.__file__, torch.cuda.random.__file__, contextlib.__file__)

_SEEDS = "the model calls {}, which would act once, while it is captured; nearest supported form: seed before each call"

_STATES = ("set_rng_state", "set_rng_state_all")
_OF_CUDA = ("manual_seed", "manual_seed_all", "seed", "seed_all", *_STATES)
_SEEDING = (
    (torch, ("manual_seed", "seed", "set_rng_state")), (torch.random, ("manual_seed", "seed", "set_rng_state")),
    (torch.cuda, _OF_CUDA), (torch.cuda.random, _OF_CUDA),
)  # fmt: skip


# Generators of torch --------------------------------------------------------------------------------------------------


def _caller() -> tuple[FrameType, bool]:
    """The frame that sets a generator, and whether it does so by `fork_rng`."""
    frame, forks = sys._getframe(1), False
    while frame.f_back is not None and frame.f_code.co_filename in _BETWEEN:
        forks = forks or frame.f_code.co_name == "fork_rng"
        frame = frame.f_back
    return frame, forks


def _refuse(name: str, restore: Callable[[], Any] | None = None) -> None:
    """Raises for a model that sets a generator; torch itself may set the state, which it restores around its own draws."""
    frame, forks = _caller()
    if forks and restore is not None:
        restore()
    if name.endswith(_STATES) and frame.f_code.co_filename.startswith(TORCH_FOLDER):
        return
    place = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
    raise UnsupportedError(_SEEDS.format(f"{'torch.random.fork_rng' if forks else name} at {place}"))


def _refused(name: str, own: Callable[..., Any], thread: int) -> Callable[..., Any]:
    """`own`, refused in the thread that traces."""

    def refusing(*args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != thread or isinstance(sys.exc_info()[1], UnsupportedError):
            return own(*args, **kwargs)  # where a refusal leaves a fork, the fork restores what it found
        _refuse(name, lambda: own(*args, **kwargs))
        return own(*args, **kwargs)

    return refusing


class _DefaultGenerator(torch.Generator):
    """What a model that is traced finds as torch's default generator: it may be asked, not set."""

    def get_state(self) -> torch.Tensor:
        return torch.random.get_rng_state()

    def initial_seed(self) -> int:
        return torch.random.initial_seed()

    def manual_seed(self, seed: int) -> Any:
        _refuse("torch.default_generator.manual_seed")

    def seed(self) -> Any:
        _refuse("torch.default_generator.seed")

    def set_state(self, state: torch.Tensor) -> Any:
        _refuse("torch.default_generator.set_state")


def _watched(thread: int) -> type[ModuleType]:
    """A class for modules that hold the default generator: in one thread they give another in its place."""

    class Watched(ModuleType):
        @property
        def default_generator(self) -> torch.Generator:
            return _DefaultGenerator() if threading.get_ident() == thread else vars(self)["default_generator"]

    return Watched


@contextmanager
def without_seeds() -> Iterator[None]:
    """While a model is traced: refuses what seeds random numbers or sets their state."""
    thread = threading.get_ident()
    before = [(module, name, getattr(module, name)) for module, names in _SEEDING for name in names]
    for module, name, own in before:
        setattr(module, name, _refused(f"{module.__name__}.{name}", own, thread))
    classes = [(module, module.__class__) for module in (torch, torch.random)]
    for module, _ in classes:
        module.__class__ = _watched(thread)
    seed = torch.random.initial_seed()
    try:
        yield
    finally:
        for module, own_class in classes:
            module.__class__ = own_class
        for module, name, own in before:
            setattr(module, name, own)
    if torch.initial_seed() != seed:  # by a reference that the model took before
        raise UnsupportedError(_SEEDS.format("torch.manual_seed"))


# What is baked in -----------------------------------------------------------------------------------------------------


def _python_numbers() -> dict[str, Any]:
    """The states of the generators of Python and numpy."""
    states: dict[str, Any] = {"random": random.getstate()}
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        _, keys, *rest = numpy.get_state()
        states["numpy.random"] = (keys.tobytes(), *rest)
    return states


#: So many attributes are named in a warning.
_MOST_NAMED = 3

#: Entries of a module that are torch's own.
_OF_TORCH = frozenset(vars(torch.nn.Module()))


def _attributes(module: torch.nn.Module) -> dict[str, Any]:
    """Attributes of a module and those in it that are numbers, text, or containers (of which the length counts)."""
    found: dict[str, Any] = {}
    for path, child in module.named_modules():
        for key, value in vars(child).items():
            name = f"{path}.{key}" if path else key
            if key in _OF_TORCH:
                continue
            if isinstance(value, (bool, int, float, str)):
                found[name] = value
            elif type(value) in (list, dict, set):
                found[name] = f"a {type(value).__name__} of {len(value)}"
    return found


def _warn(text: str) -> None:
    """Warns at the line that called this package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_PACKAGE, contextlib.__file__)):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, CaptureWarning, stacklevel=level)


@contextmanager
def _changes_of_attributes() -> Iterator[dict[str, tuple[Any, Any]]]:
    """Yields what will hold the attributes that the traced model has changed: torch.export restores them behind the trace."""
    changes: dict[str, tuple[Any, Any]] = {}
    restoring = getattr(_trace, "_detect_attribute_assignment", None)
    if restoring is None:
        yield changes
        return

    @contextmanager
    def watching(module: torch.nn.Module) -> Iterator[None]:
        with restoring(module):
            before = _attributes(module)
            yield
            after = _attributes(module)
            changes.update((n, (v, after[n])) for n, v in before.items() if after.get(n, v) != v)

    _trace._detect_attribute_assignment = watching  # type: ignore[assignment]
    try:
        yield changes
    finally:
        _trace._detect_attribute_assignment = restoring  # type: ignore[assignment]


@contextmanager
def warned_of_constants() -> Iterator[None]:
    """Warns, behind the tracing of a model, of what became constants: Python's random numbers, changed attributes."""
    numbers = _python_numbers()
    with _changes_of_attributes() as changes:
        yield
    after = _python_numbers()
    drawn = [name for name, state in numbers.items() if after[name] != state]
    if drawn:
        _warn(
            f"numbers of {' and '.join(drawn)} were drawn while the model was captured: they are constants of the program, "
            "the same in every call; torch's random numbers are drawn anew in each"
        )
    if changes:
        texts = [f"{name} ({old} -> {new})" for name, (old, new) in changes.items()]
        more = f" and {len(texts) - _MOST_NAMED} more" if len(texts) > _MOST_NAMED else ""
        _warn(
            f"the model changed attributes while it was captured: {', '.join(texts[:_MOST_NAMED])}{more}; they are constants "
            "of the program, which no call changes: what calls change must be a buffer (register_buffer)"
        )
