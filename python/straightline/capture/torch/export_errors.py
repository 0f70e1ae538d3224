# SPDX-License-Identifier: Apache-2.0
"""What torch.export raises, sorted into errors of the user and what is not supported, with the line of the model."""

from __future__ import annotations

import contextlib
import dis
import functools
import logging
import os
from collections.abc import Iterator
from types import TracebackType
from typing import NoReturn

from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.distributions import distribution
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from straightline.capture.torch.importer import TORCH_FOLDER
from straightline.capture.torch.recurrent_layers import is_of_packed_sequences
from straightline.errors import StraightlineError, UnsupportedError, UserError

#: Where code of the traceback is not the user's.
_NOT_THE_USERS = (
    TORCH_FOLDER,
    os.path.dirname(os.path.abspath(__file__)),
    contextlib.__file__,
    functools.__file__,
    "<",
)


_LOGS_OF_FAILURES = ("torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes", "torch.export._trace")


def _below_warning(record: logging.LogRecord) -> bool:
    return record.levelno < logging.WARNING


@contextlib.contextmanager
def without_logs_of_failures() -> Iterator[None]:
    """While tracing: torch does not log each op that fails, of which the exception says the same."""
    logs = [logging.getLogger(name) for name in _LOGS_OF_FAILURES]
    for log in logs:
        log.addFilter(_below_warning)
    try:
        yield
    finally:
        for log in logs:
            log.removeFilter(_below_warning)


def raise_export_error(error: Exception) -> NoReturn:
    """Raises the error for what torch.export raised: data-dependent Python is unsupported, the rest is the user's."""
    known = _known(error)
    if known is not None:
        raise known from None  # which says it all
    text = _text(error)
    if "specialized it to be a constant (1)" in text:
        text += "\n(an example of size 1 in a dynamic dimension is taken as fixed: give an example of another size)"
    place = _place(error)
    where = f", at {place}" if place and place not in text else ""
    raise UserError(f"the model cannot be captured with these inputs{where}: {type(error).__name__}: {text}") from error


def _text(error: BaseException) -> str:
    return str(error).strip().split("\n\nThe error above occurred")[0]


def _known(error: Exception) -> StraightlineError | None:
    """The error for an exception that is Straightline's own, or that has a cause which is known."""
    for cause in _causes(error):
        if isinstance(cause, StraightlineError):
            return cause
        if is_of_packed_sequences(cause):
            what = _text(error).splitlines()[0]
            nearest = "nn.LSTM, nn.GRU and nn.RNN over a padded tensor"
            return UnsupportedError(f"packed sequences: {what}; nearest supported form: {nearest}")
        if isinstance(cause, GuardOnDataDependentSymNode):
            return _of_data(cause)
    if (place := _bare_launch(error)) is not None:
        return UnsupportedError(
            f"a launch of a Triton kernel by itself{place}: torch.export traces none; nearest supported form: the launch in an "
            "op of torch.library.triton_op, or the kernel as an op by sl.triton_kernel"
        )
    if isinstance(error, AttributeError) and "has no attribute 'constant'" in str(error):  # of a dual tensor
        return derivative_error(_at(error))
    if isinstance(error, (NotImplementedError, DataDependentOutputException)):
        return UnsupportedError(f"torch.export: {_text(error)}{_at(error)}")
    return None


def derivative_error(at: str) -> UnsupportedError:
    """The error for torch.func.grad and its like, which export keeps in a form that torch itself cannot take apart."""
    nearest = 'torch.compile(model, backend="straightline")'
    return UnsupportedError(
        f"a derivative by torch.func{at}: torch.export cannot trace it; nearest supported form: {nearest}"
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _of_data(error: GuardOnDataDependentSymNode) -> UnsupportedError:
    """The error for Python code that asks for the data of a tensor."""
    if _is_in_distributions(error):
        return UnsupportedError(
            f"torch.distributions checks the data of a tensor{_at(error)}: what it finds is known only in a call; "
            "nearest supported form: validate_args=False"
        )
    if _is_branch(error):
        return UnsupportedError(
            f"python control flow on the data of a tensor{_at(error)}: which branch it takes is known only in a call; "
            "nearest supported form: torch.cond"
        )
    return UnsupportedError(
        f"a number or size that depends on data{_at(error)}: its value is known only in a call; "
        "nearest supported form: the tensor itself in place of a number, where with a mask in place of a size"
    )


def _at(error: BaseException) -> str:
    place = _place(error)
    return f" at {place}" if place else ""


def _place(error: BaseException) -> str:
    """The line of the user's code at which an exception was raised; "" where all code is torch's or ours."""
    users = _users(error)
    return f"{os.path.basename(users.tb_frame.f_code.co_filename)}:{users.tb_lineno}" if users is not None else ""


def _users(error: BaseException) -> TracebackType | None:
    """The innermost place in the traceback that is the user's."""
    place, users = error.__traceback__, None
    while place is not None:
        name = place.tb_frame.f_code.co_filename
        if not name.startswith(_NOT_THE_USERS):
            users = place
        place = place.tb_next
    return users


def _bare_launch(error: BaseException) -> str | None:
    """Where a Triton kernel is launched, if that is what an exception came of."""
    place, before = error.__traceback__, ""
    while place is not None:
        code = place.tb_frame.f_code
        if code.co_filename.endswith("/triton/runtime/jit.py"):
            return f" at {before}"
        before = f"{os.path.basename(code.co_filename)}:{place.tb_lineno}"
        place = place.tb_next
    return None


def _is_in_distributions(error: BaseException) -> bool:
    """Whether it is a check of torch.distributions that asks for the data, of parameters or of a value."""
    place = error.__traceback__
    while place is not None:
        if place.tb_frame.f_code.co_filename == distribution.__file__:
            return True
        place = place.tb_next
    return False


def _is_branch(error: BaseException) -> bool:
    """Whether the user's code itself asks whether something is true, not an op or a conversion that it calls."""
    users = _users(error)
    if users is None:
        return False
    instructions = dis.get_instructions(users.tb_frame.f_code)
    asked = next((i.opname for i in instructions if i.offset == users.tb_lasti), "")
    return "JUMP" in asked or asked in ("TO_BOOL", "UNARY_NOT")
