# SPDX-License-Identifier: Apache-2.0
"""Which entries of a state dict a compiled function reads, and whether a given one fits.

Knows tensors by `shape`, `dtype`, strides and storage only, so that it serves numpy arrays as well as torch's tensors.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from straightline import _call_support, _devices
from straightline._frameworks import imported_torch, is_paddle
from straightline._stored import Stored
from straightline.errors import UnsupportedError, UserError


@dataclass(frozen=True)
class _Entry:
    """One tensor of the module, under the first of its names."""

    names: tuple[str, ...]
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    #: A program reads it and state dicts of the module hold it.
    required: bool
    #: A program writes it.
    written: bool = False

    @property
    def text(self) -> str:
        return _text(self.dtype, self.shape)


@dataclass(frozen=True)
class DeclaredParameter:
    """A parameter or state as a module that was written as text declares it.

    Attributes:
        name: Its name.
        dtype: As numpy and torch name it.
        shape: Sizes.
        strides: In elements; None: row-major.
        written: It is a state.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    written: bool


class ParameterTable:
    """The parameters and buffers of a module at the time it was compiled; holds no tensor.

    Args:
        tensors: Every parameter and buffer by name, tied ones under each of their names.
        persistent: Names that the module's state dict has.
        read: Names that some program reads.
    """

    def __init__(self, tensors: Mapping[str, Any], persistent: Iterable[str], read: Iterable[str]) -> None:
        persistent, read = set(persistent), set(read)
        groups: dict[Any, list[str]] = {}
        for name, tensor in tensors.items():
            groups.setdefault(_place(tensor) or id(tensor), []).append(name)
        self._entries: dict[str, _Entry] = {}
        for names in groups.values():
            tensor = tensors[names[0]]
            required = any(n in read for n in names) and any(n in persistent for n in names)
            entry = _Entry(tuple(names), _dtype(tensor), tuple(tensor.shape), _strides(tensor), required)
            self._entries.update(dict.fromkeys(names, entry))

    @classmethod
    def of_declared(cls, declared: Iterable[DeclaredParameter]) -> ParameterTable:
        """The table of a module that was written as text: every entry is required."""
        table = cls({}, (), ())
        for one in declared:
            strides = _row_major_strides(one.shape) if one.strides is None else one.strides
            table._entries[one.name] = _Entry((one.name,), one.dtype, one.shape, strides, True, one.written)
        return table

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[str, Any]]) -> ParameterTable:
        """The table that `rows` gave.

        Raises:
            KeyError, TypeError, ValueError: These are no such rows.
        """
        table = cls({}, (), ())
        for row in rows:
            entry = _Entry(
                tuple(map(str, row["names"])),
                str(row["dtype"]),
                tuple(map(int, row["shape"])),
                tuple(map(int, row["strides"])),
                bool(row["required"]),
                bool(row["written"]),
            )
            table._entries.update(dict.fromkeys(entry.names, entry))
        return table

    def names_of(self, name: str) -> tuple[str, ...]:
        """All names of a tied parameter; of others the name alone."""
        entry = self._entries.get(name)
        return (name,) if entry is None else entry.names

    def layout(self, name: str) -> tuple[str, tuple[int, ...], tuple[int, ...]] | None:
        """Dtype, shape and strides of an entry; None: there is none of that name."""
        entry = self._entries.get(name)
        return None if entry is None else (entry.dtype, entry.shape, entry.strides)

    def rows(self) -> list[dict[str, Any]]:
        """The table as JSON-like data."""
        return [asdict(entry) for entry in dict.fromkeys(self._entries.values())]

    def tensors_of(self, names: Iterable[str], given: Mapping[str, Any], current: Iterable[Any]) -> list[Any]:
        """The tensors of one program: those of a checked state dict, and for what it leaves out those it has now."""
        result = []
        for name, now in zip(names, current, strict=True):
            entry = self._entries.get(name)
            found = [given[alias] for alias in (entry.names if entry else ()) if alias in given]
            result.append(found[0] if found else now)
        return result

    def check(self, state_dict: Mapping[str, Any], head: str = "") -> None:
        """Compares a state dict with the module.

        Args:
            state_dict: Names and tensors.
            head: How the message begins.

        Raises:
            UserError: Names every entry that is missing, unknown or does not fit.
        """
        if not isinstance(state_dict, Mapping):
            kind = type(state_dict).__name__
            hint = ": give module.state_dict()" if hasattr(state_dict, "state_dict") else ""
            raise UserError(f"expected a mapping of names to tensors but got a {kind}{hint}")
        problems = [f"unknown: {self._unknown(name)}" for name in state_dict if name not in self._entries]
        for entry in dict.fromkeys(self._entries.values()):
            given = {name: state_dict[name] for name in entry.names if name in state_dict}
            if entry.required and not given:
                others = f", tied to {', '.join(map(repr, entry.names[1:]))}" if entry.names[1:] else ""
                problems.append(f"missing: '{entry.names[0]}' ({entry.text}{others})")
            wrong = [f"'{name}' {words}" for name, value in given.items() if (words := _differs(entry, value))]
            problems += wrong
            if not wrong and len(given) > 1:
                problems += _untied(given)
        if problems:
            raise UserError(
                (head or "the state dict does not fit the compiled module, whose parameters stay as they were")
                + ":\n  "
                + "\n  ".join(problems)
            )

    def _unknown(self, name: object) -> str:
        near = difflib.get_close_matches(str(name), self._entries, 1)
        return f"{name!r}" + (f" (the module has '{near[0]}')" if near else "")


def _row_major_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def copied(tensor: Any) -> Any:
    """The same elements with the same strides in memory of its own."""
    strides, shape = _strides(tensor), tuple(tensor.shape)
    span = 0 if 0 in shape else 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if _is_torch(tensor):
        return tensor.detach().as_strided((span,), (1,)).clone().as_strided(shape, strides, 0)
    if is_paddle(tensor):
        return _copied_of_paddle(tensor)
    from numpy.lib.stride_tricks import as_strided

    return as_strided(as_strided(tensor, (span,), (tensor.itemsize,)).copy(), shape, tensor.strides)


def _copied_of_paddle(tensor: Any) -> Any:
    """A copy as a tensor, also in Paddle's static mode, where its ops would build a program."""
    paddle = sys.modules["paddle"]
    if paddle.in_dynamic_mode():
        return tensor.detach().clone()
    with paddle.base.dygraph.guard():
        return tensor.detach().clone()


def _text(dtype: str, shape: Iterable[int]) -> str:
    return f"{dtype}[{', '.join(map(str, shape))}]"


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.").removeprefix("paddle.")


def _strides(tensor: Any) -> tuple[int, ...]:
    """Returns the strides of a tensor in elements."""
    if _is_torch(tensor):
        return tuple(tensor.stride())
    if is_paddle(tensor):
        return tuple(tensor.strides)
    return tuple(stride // tensor.itemsize for stride in tensor.strides)


def _is_torch(value: object) -> bool:
    torch = imported_torch()
    return torch is not None and isinstance(value, torch.Tensor)


def _is_numpy(value: object) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def _place(tensor: Any) -> tuple[Any, ...] | None:
    """Equal for tensors that are the same elements of the same memory; None for those without any."""
    if 0 in tensor.shape or (_is_torch(tensor) and tensor.device.type == "meta"):
        return None
    address = tensor.data_ptr() if _is_torch(tensor) or is_paddle(tensor) else tensor.__array_interface__["data"][0]
    return (address, _dtype(tensor), tuple(tensor.shape), _strides(tensor))


def _differs(entry: _Entry, value: Any) -> str:
    """Words for how a given value differs from what was compiled; "" when it fits."""
    if not _is_torch(value) and not _is_numpy(value) and not is_paddle(value):
        return f"must be a tensor but is a {type(value).__name__}"
    if _is_torch(value) and _needs_words(value):
        return _call_support.refusal(value.detach(), None)
    if (_dtype(value), tuple(value.shape)) != (entry.dtype, entry.shape):
        return f"is {_text(_dtype(value), value.shape)} but {entry.text} was compiled"
    strides = _strides(value)
    relevant = [d for d, size in enumerate(entry.shape) if size != 1 and 0 not in entry.shape]
    if any(strides[d] != entry.strides[d] for d in relevant):
        copy = "a contiguous copy" if is_row_major(entry.shape, entry.strides) else "a copy in that memory format"
        return f"has strides {strides} but {entry.strides} was compiled: give {copy}"
    if entry.written and _is_numpy(value) and not value.flags.writeable:
        return "is read-only but the program updates it"
    return ""


def _needs_words(value: Any) -> bool:
    """Whether a tensor of torch is one that no program can borrow."""
    torch = sys.modules["torch"]
    plain = type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout is torch.strided
    return not plain or not _devices.is_supported(value) or value.is_quantized or value.is_neg() or value.is_conj()


def is_row_major(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether memory of these strides holds the elements in order."""
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def raw_bytes(value: Any) -> Any:
    """The elements in row-major order as a numpy array of bytes."""
    import numpy

    if isinstance(value, Stored):
        return value.bytes()

    if _is_torch(value):
        torch = sys.modules["torch"]
        return value.detach().contiguous().cpu().reshape(-1).view(torch.uint8).numpy()
    if is_paddle(value):
        return numpy.ascontiguousarray(value.detach().numpy()).reshape(-1).view(numpy.uint8)
    return numpy.ascontiguousarray(value).reshape(-1).view(numpy.uint8)


def _untied(given: Mapping[str, Any]) -> list[str]:
    """One tensor of the module may come under several names, but then with one value."""
    names = list(given)
    first = given[names[0]]
    for name in names[1:]:
        other = given[name]
        if _place(other) != _place(first) and not (raw_bytes(other) == raw_bytes(first)).all():
            return [f"'{names[0]}' and '{name}' are one tensor in the module but differ in the state dict"]
    return []


def read_safetensors(path: str | os.PathLike[str], kind: str) -> dict[str, Any]:
    """Every tensor of a safetensors file: as torch tensors where `kind` is "torch", else as numpy arrays.

    Raises:
        UserError: The file cannot be read, or is none.
        UnsupportedError: It holds a dtype that the kind does not have.
    """
    try:
        import safetensors
    except ImportError as error:
        raise UserError(
            "reading a safetensors file needs the package safetensors: pip install 'straightline[safetensors]'"
        ) from error
    try:
        with safetensors.safe_open(path, framework="pt" if kind == "torch" else "numpy") as file:
            return {name: file.get_tensor(name) for name in file.keys()}
    except OSError as error:
        raise UserError(f"cannot read {os.fspath(path)!r}: {error.strerror or error}") from error
    except safetensors.SafetensorError as error:
        raise UserError(f"{os.fspath(path)!r} is no safetensors file: {error}") from error
    except ImportError as error:
        raise UnsupportedError(f"{os.fspath(path)!r} has parameters for torch: {error}") from error
    except (TypeError, AttributeError) as error:
        raise UnsupportedError(f"{os.fspath(path)!r} holds a dtype that numpy does not have: {error}") from error
