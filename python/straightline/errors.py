# SPDX-License-Identifier: Apache-2.0
"""Exceptions of Straightline: user errors, unsupported input and internal errors (our bugs)."""

from __future__ import annotations


class StraightlineError(Exception):
    """Base class of every exception that Straightline raises itself."""


class UserError(StraightlineError, ValueError):
    """The input or the way it was used is wrong."""


class GuardError(UserError):
    """An argument of a call differs from what the program was compiled for."""


class GuardTypeError(GuardError, TypeError):
    """An argument of a call is of a kind that no program takes, or is missing or unexpected."""


class CopyError(UserError, TypeError):
    """A compiled function was to be copied or pickled."""


class IndexRangeError(UserError, IndexError):
    """An index in the data is out of range."""


class DivisionError(UserError, ZeroDivisionError):
    """An integer was divided by zero."""


class CheckError(UserError, RuntimeError):
    """A condition that the program checks while running does not hold."""


class OpError(UserError, RuntimeError):
    """An op that the program calls in a framework or a library failed; `__cause__` is what its Python code raised, if any."""


class CancelledError(StraightlineError, RuntimeError):
    """The call was asked to stop and did."""


class OutOfMemoryError(StraightlineError, MemoryError):
    """Memory for an output or an arena could not be allocated."""


class DeviceError(StraightlineError, RuntimeError):
    """A device, or its driver, refused what it was asked; the message has its own words or code."""


class UnsupportedError(StraightlineError, NotImplementedError):
    """Straightline cannot do this; the message names the nearest supported form, if any."""


class PlaceError(UnsupportedError):
    """A result is not where the program runs; `device` is where it is."""

    def __init__(self, message: str, device: object) -> None:
        super().__init__(message)
        self.device = device


class InternalError(StraightlineError, RuntimeError):
    """A bug in Straightline."""


class CacheWarning(UserWarning):
    """The disk cache of compiled code had trouble; the program is right, but it took longer to compile."""


class RouteWarning(UserWarning):
    """A rule of `routes` names no op of the model."""


class SpecializeWarning(UserWarning):
    """Frequent sizes got no program of their own: calls of these go on with the one for all sizes."""


class CaptureWarning(UserWarning):
    """Something that a model does in Python happened once, while it was captured, and happens in no call."""
