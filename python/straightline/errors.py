# SPDX-License-Identifier: Apache-2.0
"""The three kinds of error, never mixed: the user's mistake, what is not supported, and a bug of ours."""

from __future__ import annotations


class StraightlineError(Exception):
    """Base of every error that Straightline raises on purpose."""


class UserError(StraightlineError, ValueError):
    """The caller's model or arguments are wrong; the message says what to change."""


class UnsupportedError(StraightlineError, NotImplementedError):
    """The request is legal, and Straightline cannot do it; the message names the nearest form."""


class InternalError(StraightlineError, RuntimeError):
    """A broken invariant inside Straightline."""
