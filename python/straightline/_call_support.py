# SPDX-License-Identifier: Apache-2.0
"""The rare parts of the call path: texts of refusals, views, numpy dtypes. Called from C only."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, NamedTuple

from straightline._frameworks import imported_torch, not_pytorch, records_gradient
from straightline.errors import GuardError, GuardTypeError, UnsupportedError, UserError

_DTYPES = {
    (0, 8): "int8",
    (0, 16): "int16",
    (0, 32): "int32",
    (0, 64): "int64",
    (1, 8): "uint8",
    (1, 16): "uint16",
    (1, 32): "uint32",
    (1, 64): "uint64",
    (2, 16): "float16",
    (2, 32): "float32",
    (2, 64): "float64",
    (4, 16): "bfloat16",
    (5, 64): "complex64",
    (5, 128): "complex128",
    (6, 8): "bool",
    (7, 8): "float8_e3m4",
    (8, 8): "float8_e4m3",
    (9, 8): "float8_e4m3b11fnuz",
    (10, 8): "float8_e4m3fn",
    (11, 8): "float8_e4m3fnuz",
    (12, 8): "float8_e5m2",
    (13, 8): "float8_e5m2fnuz",
    (14, 8): "float8_e8m0fnu",
}


#: The same by name.
_CODES = {name: pair for pair, name in _DTYPES.items()}

#: Of those the ones that numpy itself does not have, by name.
_EXTENSIONS = {name: pair for pair, name in _DTYPES.items() if name.startswith(("bfloat16", "float8"))}


def dtype_code(name: str) -> tuple[int, int] | None:
    """DLPack's code and bits of a dtype by its name; None: it has none."""
    return _CODES.get(name)


def dtype_name(code: int, bits: int) -> str:
    """Name of a DLPack dtype."""
    return _DTYPES.get((code, bits), f"dlpack dtype {code} of {bits} bits")


def dtype_pair(code: int, bits: int, want_code: int, want_bits: int) -> str:
    """Words for "<given> but <wanted>"."""
    return f"{dtype_name(code, bits)} but {dtype_name(want_code, want_bits)}"


def refusal(value: object, error: object) -> str:
    """Says why a value cannot be an argument of a compiled program.

    Args:
        value: What was given where a tensor is expected.
        error: What the framework said when asked for the tensor's storage, or None.

    Returns:
        The end of a sentence that begins with the argument's name.
    """
    torch = imported_torch()
    if torch is not None and isinstance(value, torch.Tensor):
        return _torch_refusal(torch, value, error)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return _numpy_refusal(numpy, value)
    if hasattr(value, "stop_gradient") and records_gradient(value):
        return (
            "has stop_gradient=False while grad mode is on, but a compiled program records no gradient: "
            "give x.detach() or call under no_grad()"
        )
    if type(value).__name__.endswith("Tracer") and type(value).__module__.startswith("jax"):
        return "is a tracer of JAX: a compiled program is called with arrays, not within jax.jit, grad or vmap"
    if type(value).__name__ == "ArrayImpl" and len(getattr(value.sharding, "device_set", ())) > 1:
        return f"is sharded over {len(value.sharding.device_set)} devices: give an array on one device"
    if hasattr(type(value), "__dlpack__") or hasattr(type(value), "__dlpack_c_exchange_api__"):
        why = error or "it is on another device"
        return f"is a {type(value).__name__} whose data cannot be borrowed on the cpu: {why}"
    if numpy is not None and isinstance(value, numpy.generic):
        return f"must be a tensor but is a {type(value).__name__}: give numpy.asarray(x)"
    return f"must be a tensor but is a {type(value).__name__}"


#: DLPack's numbers of kinds of devices, by JAX's names of platforms.
_JAX_PLATFORMS = {"cpu": 1, "gpu": 2}


def jax_place(sharding: Any) -> tuple[int, int]:
    """DLPack's kind and number of the one device of a sharding of JAX; (0, 0) for several devices, and for other platforms."""
    devices = list(sharding.device_set)
    kind = _JAX_PLATFORMS.get(devices[0].platform, 0) if len(devices) == 1 else 0
    return kind, int(devices[0].local_hardware_id or 0) if kind == 2 else 0


def jax_maker(kind: int, number: int) -> tuple[Any, Any, bool]:
    """What makes an array of JAX of a capsule, the device that it is given, and whether it takes the platform's number, too.

    Raises:
        UserError: JAX has no such device.
    """
    import jax

    try:
        found = jax.local_devices(backend="cpu" if kind == 1 else "cuda")
    except RuntimeError as error:
        raise UserError(f"results are to be arrays of JAX on a CUDA device, but JAX has none: {error}") from error
    device = found[0] if kind == 1 else next((d for d in found if int(d.local_hardware_id or 0) == number), None)
    if device is None:
        raise UserError(f"results are to be arrays of JAX on cuda:{number}, which JAX does not show: it has {found}")
    library = sys.modules.get("jaxlib._jax") or sys.modules["jaxlib.xla_extension"]
    make = library.dlpack_managed_tensor_to_buffer
    return make, device, "dl_device_type" in (make.__doc__ or "")


def dlpack_dtype(dtype: Any) -> tuple[int, int]:
    """DLPack's code and bits of a numpy dtype; (-1, 0) for one that it does not have."""
    codes = {"i": 0, "u": 1, "f": 2, "b": 6, "c": 5}
    if dtype.name in _EXTENSIONS or dtype.kind not in codes:
        return _EXTENSIONS.get(dtype.name, (-1, 0))
    return codes[dtype.kind], dtype.itemsize * 8


def no_torch(module: object) -> str:
    """Why results cannot be tensors of torch; called where the module of that name is not PyTorch."""
    return f"a result is to be a tensor of torch, but the module 'torch' of this process is {not_pytorch(module)}"


def _torch_refusal(torch: ModuleType, value: Any, error: object) -> str:
    kind = type(value)
    fake = sys.modules.get("torch._subclasses.fake_tensor")
    if fake is not None and isinstance(value, fake.FakeTensor):
        return "is a fake tensor, which has no data"
    if kind is not torch.Tensor and kind is not torch.nn.Parameter:
        return (
            f"is a {kind.__name__}, a subclass of torch.Tensor: "
            "give a plain tensor, such as x.as_subclass(torch.Tensor)"
        )
    if value.is_quantized:
        return f"is a quantized tensor ({value.dtype}): dequantize it first"
    if value.is_nested:
        return "is a nested tensor: give a padded one"
    if value.layout is not torch.strided:
        kind = "sparse layout" if "sparse" in str(value.layout) else "layout"
        return f"has the {kind} {value.layout}: give a dense tensor, such as x.to_dense()"
    if value.device.type not in ("cpu", "cuda"):
        return f"is on device '{value.device}' but the program runs on 'cpu'"
    if value.is_complex() and value.is_conj():
        return "is a conjugated view (conj bit set): give x.resolve_conj()"
    if value.is_neg():
        return "is a negated view (neg bit set): give x.resolve_neg()"
    if value.requires_grad and torch.is_grad_enabled():
        return (
            "requires grad while grad mode is on, but a compiled program records no gradient: "
            "give x.detach() or call under torch.no_grad()"
        )
    if error is not None:
        return f"cannot be borrowed: {str(error).splitlines()[0]}"
    return "is a tensor without storage (a wrapper of another tensor, or a zero tensor)"


def _numpy_refusal(numpy: ModuleType, value: Any) -> str:
    if type(value) is not numpy.ndarray:
        return f"is a {type(value).__name__}, a subclass of numpy.ndarray: give numpy.asarray(x)"
    if value.dtype.kind not in "iufcb" and value.dtype.name not in _EXTENSIONS:
        return f"is a numpy array of dtype {value.dtype}, which no program takes"
    if not value.dtype.isnative:
        return (
            f"is a numpy array of dtype {value.dtype.str} in foreign byte order: "
            "give x.astype(x.dtype.newbyteorder('='))"
        )
    if not value.flags.aligned or any(s % value.itemsize for s in value.strides):
        return f"is a numpy array that is not aligned to its {value.itemsize}-byte elements: give x.copy()"
    return f"is a numpy array of rank {value.ndim} and dtype {value.dtype}, which no program takes"


def no_example_fits(function: Any, reasons: list[Exception]) -> Exception:
    """The exception for a call that fits none of several programs.

    Args:
        function: The callable; what its programs were compiled for is in their bindings.
        reasons: What each program says, in that order.
    """
    programs = (function, *function._others)
    heads = [f"({i}) {program._binding.example}" for i, program in enumerate(programs, 1)]
    if len({str(reason) for reason in reasons}) == 1:
        return type(reasons[0])(f"{reasons[0]}\nthe compiled examples: {'; '.join(heads)}")
    lines = [f"{head}: {reason}" for head, reason in zip(heads, reasons, strict=True)]
    kind = GuardTypeError if all(isinstance(r, GuardTypeError) for r in reasons) else GuardError
    return kind(
        "none of the compiled examples fits this call:\n  "
        + "\n  ".join(lines)
        + "\nto add it, compile again with a tuple of these arguments appended to the list of examples"
    )


def storage_owner(value: object) -> object:
    """An object that owns the same storage and never requires grad.

    A detached tensor keeps the storage even when `parameter.data` is assigned later, which the
    parameter itself does not. The storage cannot be resized from then on (torch says so to whoever
    tries): it would free what the program reads.
    """
    torch = imported_torch()
    if torch is None or not isinstance(value, torch.Tensor):
        return value
    owner = value.detach()
    _fix_storage(torch, owner)
    return owner


def _fix_storage(torch: ModuleType, tensor: Any) -> None:
    if tensor.device.type != "cpu" or not tensor.untyped_storage().resizable():
        return
    integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    # torch offers no other way: an array over a storage is what makes it fixed.
    tensor.view(integers.get(tensor.element_size(), tensor.dtype)).numpy()


def numpy_dtype(code: int, bits: int) -> Any:
    """The numpy dtype of a DLPack dtype.

    Raises:
        UnsupportedError: numpy has none.
    """
    import numpy

    name = dtype_name(code, bits)
    if name in _EXTENSIONS:
        try:
            import ml_dtypes
        except ImportError as error:
            raise UnsupportedError(
                f"a result has dtype {name}, which numpy does not have: give tensors of torch or Paddle, or install ml_dtypes"
            ) from error
        return numpy.dtype(getattr(ml_dtypes, name))
    if hasattr(numpy, name if name != "bool" else "bool_"):
        return numpy.dtype(name)
    raise UnsupportedError(f"a result has dtype {name}, which numpy does not have: give tensors of torch or Paddle")


def extension_dtype(dtype: Any) -> tuple[int, int]:
    """DLPack's code and bits of a dtype of ml_dtypes; (-1, 0) for any other one."""
    return _EXTENSIONS.get(dtype.name, (-1, 0))


def numpy_empty_strided(shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any, size_bytes: int) -> Any:
    """A new array with the given strides (in elements)."""
    import numpy

    memory = numpy.empty(size_bytes, numpy.uint8)
    return numpy.ndarray(shape, dtype, memory, 0, tuple(s * dtype.itemsize for s in strides))


def extension_device_name(number: int) -> str:
    """A device of a plug-in by torch's name, "sl:0"."""
    from straightline import _devices

    return _devices.torch_name(number)


def torch_empty_strided(shape: tuple[int, ...], strides: tuple[int, ...], code: int, bits: int, device: str) -> Any:
    """A new tensor of torch's, uninitialized."""
    import torch

    return torch.empty_strided(shape, strides, dtype=getattr(torch, dtype_name(code, bits)), device=device)


def op_failure(message: str) -> BaseException:
    """The exception for an op of a framework that failed.

    Args:
        message: What the runtime says: the op's own words, its name and its source.

    Returns:
        An `OpError`; what Python code of the op raised is its cause, or comes back itself where it asks the process to stop.
    """
    from straightline.errors import OpError

    calls = sys.modules.get("straightline._aten_calls")
    cause = calls.take_error() if calls is not None else None
    if cause is not None and not isinstance(cause, Exception):
        return cause
    error = OpError(message)
    error.__cause__ = cause
    return error


class _Region:
    """A region of another array's memory, by the array interface; keeps that array alive."""

    def __init__(self, interface: dict[str, object], base: object) -> None:
        self.__array_interface__ = interface
        self.base = base


def buffer_array(
    buffer: Any,
    address: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    code: int,
    bits: int,
    read_only: bool,
    copy: bool,
) -> Any:
    """The memory of a buffer as a numpy array that keeps the buffer alive.

    Args:
        buffer: What owns the memory.
        address: Of element 0.
        shape: Sizes.
        strides: Strides in bytes.
        code: DLPack's type code.
        bits: Bits of an element; bfloat16 comes as float32, copied.
        read_only: Whether the array may not be written.
        copy: Whether the memory may go before the array does.
    """
    import numpy

    is_bfloat16 = dtype_name(code, bits) == "bfloat16"
    dtype = numpy.dtype(numpy.uint16) if is_bfloat16 else numpy_dtype(code, bits)
    if 0 in shape:
        return numpy.empty(shape, numpy.float32 if is_bfloat16 else dtype)
    interface = {
        "data": (address, read_only),
        "shape": shape,
        "strides": strides,
        "typestr": dtype.str,
        "version": 3,
    }
    array = numpy.asarray(_Region(interface, buffer))
    if is_bfloat16:
        return (array.astype(numpy.uint32) << 16).view(numpy.float32)
    return array.copy() if copy else array


class Argument(NamedTuple):
    """One argument of a kernel.

    Attributes:
        name: Its name in the emitted C++ (a0, o0, w0, handle).
        role: "input", "output", "readwrite" (an output that is read as well), "workspace", "handle" or "value".
        dtype: Name of the element type.
        shape: Sizes: ints, or text over named extents. None: the program calls it with buffers of several sizes.
        strides: Strides in elements, as the sizes.
        space: Memory space.
    """

    name: str
    role: str
    dtype: str
    shape: tuple[int | str, ...] | None
    strides: tuple[int | str, ...] | None
    space: str


def entry_arguments(rows: list[tuple[Any, ...]], extents: tuple[str, ...]) -> tuple[Argument, ...]:
    """Arguments of an entry, from what its description says.

    Args:
        rows: Name, role, DLPack code and bits, space, sizes, strides; a size is an int or its postfix steps. Sizes and
            strides are None where they are not fixed.
        extents: Names of the program's extents.
    """

    def spelled(values: tuple[Any, ...] | None) -> tuple[int | str, ...] | None:
        return (
            None
            if values is None
            else tuple(value if isinstance(value, int) else _infix(value, extents) for value in values)
        )

    return tuple(
        Argument(
            name,
            role,
            "handle" if role == "handle" else dtype_name(code, bits),
            spelled(shape),
            spelled(strides),
            space,
        )
        for name, role, code, bits, space, shape, strides in rows
    )


def _infix(steps: tuple[tuple[str, int], ...], extents: tuple[str, ...]) -> str:
    """Text of a size that was written in postfix: "b * 64"."""
    words = {"+": "+", "*": "*", "/": "//", "%": "%"}
    stack: list[tuple[str, bool]] = []  # text, and whether it is a sum
    for op, value in steps:
        if op == "c" or op == "s":
            stack.append((str(value) if op == "c" else extents[value], False))
            continue
        right, right_sum = stack.pop()
        left, left_sum = stack.pop()
        if op == "M":
            stack.append((f"max({left}, {right})", False))
            continue
        if op != "+":
            left = f"({left})" if left_sum else left
            right = f"({right})" if right_sum or " " in right else right
        stack.append((f"{left} {words[op]} {right}", op == "+"))
    return stack[0][0]


def view(kind: str, root: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset_bytes: int) -> Any:
    """A view of `root`'s storage that keeps it alive.

    Args:
        kind: "torch", "numpy" or "jax": what the view shall be.
        root: A torch tensor or numpy array.
        shape: Sizes of the view.
        strides: Strides of the view, in elements.
        offset_bytes: From the first element of `root` to that of the view.
    """
    if kind == "jax":  # whose arrays are no views of others: a copy
        import jax.numpy
        import numpy

        return jax.numpy.array(view("numpy", numpy.asarray(root), shape, strides, offset_bytes))
    torch = imported_torch()
    is_torch = torch is not None and isinstance(root, torch.Tensor)
    if kind == "torch":
        import torch as framework

        tensor = root if is_torch else framework.from_numpy(root)
        start = tensor.storage_offset() + offset_bytes // tensor.element_size()
        return tensor.as_strided(shape, strides, start)
    import numpy

    array = root.detach().numpy() if is_torch else root
    if not isinstance(array, numpy.ndarray):
        raise UnsupportedError(f"a result is a view of a {type(root).__name__}, of which no view can be made")
    address, read_only = array.__array_interface__["data"]
    interface = {
        "data": (address + offset_bytes, read_only),
        "shape": shape,
        "strides": tuple(s * array.itemsize for s in strides),
        "typestr": array.dtype.str,
        "version": 3,
    }
    found = numpy.asarray(_Region(interface, array))
    return (
        found if found.dtype == array.dtype else found.view(array.dtype)
    )  # dtypes of ml_dtypes have no text of their own
