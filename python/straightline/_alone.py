# SPDX-License-Identifier: Apache-2.0
"""A compiled kernel by itself: `k = fn.kernels["gemm_4x64x64_bias_relu"]`, `k(x, w, b, out=y)`."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from straightline.errors import UnsupportedError, UserError

_WRITTEN = ("output", "readwrite")


class Kernel:
    """What statements of a program call, with what it takes and what it costs."""

    def __init__(self, entry: Any, compilation: Any) -> None:
        self._entry, self._compilation = entry, compilation
        self.__name__: str = entry.name

    @property
    def name(self) -> str:
        """Its symbol in the emitted text."""
        return str(self._entry.name)

    @property
    def backend(self) -> str:
        """Who provides it: "native", "own", "onednn", ..."""
        return str(self._entry.backend)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Names, roles, dtypes, sizes and strides, in order."""
        return tuple(self._entry.arguments)

    @property
    def cost_us(self) -> float:
        """Estimated microseconds of its slowest call in the program, 0 when unknown."""
        return float(self._entry.cost_us)

    @property
    def grid(self) -> tuple[int | str | tuple[int | str, ...], int] | None:
        """Blocks, and threads of a block, of a kernel of a device; None: it runs on the host.

        A user's grid of several dimensions has blocks in x, y and z.
        """
        row = self._row()
        if "blocks" not in row:
            return None
        return ((row["blocks"], *row["more_blocks"]) if "more_blocks" in row else row["blocks"]), row["block_threads"]

    @property
    def source(self) -> str:
        """Its emitted text: the function of that name, or for a library's kernel the text that calls it.

        Of machine code that a user gave, what it was made from where that is known (a Triton kernel's source).
        """
        text = self._compilation.code
        users = re.search(
            rf"^// The machine code of a user: \w+\n((?://.*\n)*)constexpr char {re.escape(self.name)}_base64",
            text,
            re.MULTILINE,
        )
        if users:
            return re.sub(r"^// ?", "", users[1], flags=re.MULTILINE)
        pattern = rf"^[^\n]*\b{re.escape(self.name)}\([^;]*?\{{\n.*?^\}}\n"
        found = re.search(pattern, text, re.MULTILINE | re.DOTALL) or re.search(
            rf"^static void thunk_{re.escape(self.name)}\(.*?^\}}\n", text, re.MULTILINE | re.DOTALL
        )
        called = re.search(rf"^static int32_t call_{re.escape(self.name)}\(.*?^\}}\n", text, re.MULTILINE | re.DOTALL)
        return called[0] if called else found[0] if found else ""

    def _row(self) -> dict[str, Any]:
        rows = json.loads(self._compilation.explain_json)["statements"]
        return next((row for row in rows if row["kernel"] == self.name), {})

    def __repr__(self) -> str:
        words = (
            f"{a.name}: {a.role} {a.dtype}{list(a.shape) if a.shape is not None else ' of any sizes'}"
            for a in self.arguments
        )
        return f"<kernel {self.backend}.{self.name}({', '.join(words)})>"

    def __call__(self, *operands: Any, out: Any = None, **sizes: int) -> Any:
        """Runs the kernel on tensors, on this thread; one of a CUDA device on torch's current stream there, without waiting.

        Args:
            operands: A tensor (of torch, or an array of numpy for a kernel of the host) for each argument that is an input, in
                order. Their dtypes, sizes and strides are the kernel's: memory that a program packs has the packed shape.
            out: A tensor for each argument that is written, one or a tuple; by default new ones (zeros for one that is also
                read).
            sizes: Values of named sizes that do not follow from the operands.

        Returns:
            What it wrote, one tensor or a tuple.

        Raises:
            UserError: An operand is not what the kernel takes; both are named.
            UnsupportedError: The kernel runs on a device that is not here or a plug-in's, or needs an object that the program
                makes for it.
        """
        given, written = self._operands(operands, out)
        values = self._sizes({**given, **written}, sizes)
        made = {**given}
        like = next(iter((*given.values(), *written.values())), None)
        results, addresses, kept = [], [], []
        for argument in self.arguments:
            tensor = made.get(argument.name, written.get(argument.name))
            if tensor is None:
                tensor = _new(argument, values, like, self._device)
            self._compare(argument, tensor, values)
            kept.append(tensor)
            addresses.append(_address(tensor))
            if argument.role in _WRITTEN:
                results.append(tensor)
        numbers = tuple(values[name] for name in self._entry.scalars)
        if self._device == "cpu":
            self._entry.run(tuple(addresses), numbers)
        else:
            import torch

            extents = tuple(values.get(name, 0) for name in self._entry.extents)
            stream = torch.cuda.current_stream(self._entry.device).cuda_stream
            self._entry.start(tuple(addresses), numbers, extents, stream)
        return results[0] if len(results) == 1 else tuple(results)

    @property
    def _device(self) -> str:
        """Where it runs: "cpu", "cuda:0", or the name of a plug-in's device."""
        spaces = {argument.space for argument in self.arguments} - {"host"}
        if not spaces and "blocks" not in self._row():
            return "cpu"
        space = min(spaces, default="cuda")
        return f"cuda:{self._entry.device}" if space == "cuda" else space

    def _operands(self, operands: Sequence[Any], out: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        roles = [argument.role for argument in self.arguments]
        if self._device != "cpu" and not self._device.startswith("cuda:"):
            raise UnsupportedError(
                f"{self.name} runs on {self._device}, a plug-in's device; nearest supported form: emit='python', whose text "
                "calls it there"
            )
        if self._device != "cpu" and (why := _missing(self._entry.device)):
            raise UnsupportedError(
                f"{self.name} runs on {self._device}, which is not here: {why}; nearest supported form: a call where it is"
            )
        if "handle" in roles:
            raise UnsupportedError(
                f"{self.name} of {self.backend} needs an object that the program makes when its weights are prepared; nearest "
                "supported form: a program of this op alone"
            )
        inputs = [argument.name for argument in self.arguments if argument.role == "input"]
        outputs = [argument.name for argument in self.arguments if argument.role in _WRITTEN]
        if len(operands) != len(inputs):
            raise UserError(f"{self.name} takes {len(inputs)} operands ({', '.join(inputs)}) but got {len(operands)}")
        places = [] if out is None else list(out) if isinstance(out, (tuple, list)) else [out]
        if places and len(places) != len(outputs):
            raise UserError(
                f"{self.name} writes {len(outputs)} tensors ({', '.join(outputs)}) but out= has {len(places)}"
            )
        return dict(zip(inputs, operands)), dict(zip(outputs, places))

    def _sizes(self, given: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, int]:
        """Values of named sizes: those that are given, and those that are a dim of an operand."""
        values = dict(sizes)
        for argument in self.arguments:
            tensor = given.get(argument.name)
            if tensor is None or argument.shape is None or len(argument.shape) != len(tensor.shape):
                continue
            for extent, size in zip(argument.shape, tensor.shape):
                if isinstance(extent, str) and extent.isidentifier():
                    values.setdefault(extent, int(size))
        needed = dict.fromkeys((*self._entry.scalars, *self._entry.grid_sizes))
        missing = [name for name in needed if name not in values]
        if missing:
            raise UserError(
                f"{self.name} needs the sizes {', '.join(missing)}, which no operand says: give {missing[0]}="
            )
        return values

    def _compare(self, argument: Any, tensor: Any, values: Mapping[str, int]) -> None:
        """As the interpreter compares what a statement gives an entry with what that takes."""
        where = f"{self.name}: {argument.name} ({argument.role})"
        dtype, device = str(tensor.dtype).removeprefix("torch."), str(getattr(tensor, "device", "cpu"))
        wanted = self._device if argument.space != "host" or self._device == "cpu" else "cpu"
        if device != wanted:
            raise UserError(f"{where} is on {_spelled(device)} but the kernel runs on {_spelled(wanted)}")
        if dtype != argument.dtype:
            raise UserError(f"{where} is {dtype} but the kernel takes {argument.dtype}")
        if argument.shape is None:
            raise UnsupportedError(f"{where} has several sizes in its program, which says those only in its statements")
        shape = tuple(_value(extent, values) for extent in argument.shape)
        if tuple(tensor.shape) != shape:
            raise UserError(f"{where} is {list(tensor.shape)} but the kernel takes {list(shape)}")
        strides = tuple(_value(stride, values) for stride in argument.strides or ())
        has = _strides(tensor)
        if any(a != b and size > 1 for a, b, size in zip(has, strides, shape)):
            raise UserError(f"{where} has strides {list(has)} but the kernel takes {list(strides)}")


def _value(extent: int | str, values: Mapping[str, int]) -> int:
    """A size: a number, or an expression over named sizes as `arguments` spells it."""
    if isinstance(extent, int):
        return extent

    def of(node: ast.expr) -> int:
        if isinstance(node, ast.Constant):
            return int(node.value)
        if isinstance(node, ast.Name):
            if node.id not in values:
                raise UserError(f"the size {node.id} follows from no operand: give {node.id}=")
            return values[node.id]
        if isinstance(node, ast.Call):
            return max(map(of, node.args))
        if not isinstance(node, ast.BinOp):
            raise UserError(f"the size {extent} cannot be read")
        left, right = of(node.left), of(node.right)
        return {
            ast.Add: left + right, ast.Sub: left - right, ast.Mult: left * right,
            ast.Div: left // max(right, 1), ast.FloorDiv: left // max(right, 1), ast.Mod: left % max(right, 1),
        }[type(node.op)]  # fmt: skip

    return of(ast.parse(extent, mode="eval").body)


def _spelled(device: str) -> str:
    return "the host" if device == "cpu" else device


def _missing(number: int) -> str:
    """Why a CUDA device is not here; "": it is."""
    from straightline import _frameworks

    torch = _frameworks.installed_torch()
    if torch is None:
        return "its tensors are torch's, which is not installed"
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return "" if number < count else f"torch has {count} devices"


def _new(argument: Any, values: Mapping[str, int], like: Any, device: str) -> Any:
    """Memory for an argument that is not given, on the device where the kernel runs."""
    if argument.shape is None:
        raise UnsupportedError(f"{argument.name} has several sizes in its program: give out=")
    shape = [_value(extent, values) for extent in argument.shape]
    strides = [_value(stride, values) for stride in argument.strides or ()]
    if type(like).__module__.startswith("torch") or device != "cpu":
        import torch

        where = device if argument.space != "host" else "cpu"
        return torch.empty_strided(shape, strides, dtype=getattr(torch, argument.dtype), device=where).zero_()
    import numpy

    last = sum((size - 1) * stride for size, stride in zip(shape, strides)) + 1 if 0 not in shape else 0
    flat = numpy.zeros(last, argument.dtype)
    return numpy.lib.stride_tricks.as_strided(flat, shape, [stride * flat.itemsize for stride in strides])


def _address(tensor: Any) -> int:
    return int(tensor.data_ptr() if hasattr(tensor, "data_ptr") else tensor.__array_interface__["data"][0])


def _strides(tensor: Any) -> tuple[int, ...]:
    """In elements."""
    if hasattr(tensor, "stride"):
        return tuple(tensor.stride())
    return tuple(step // tensor.itemsize for step in tensor.strides)
