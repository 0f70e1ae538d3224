# SPDX-License-Identifier: Apache-2.0
"""Kernels of users: C functions that programs call directly (docs/design/own_kernels.md, docs/guides/own_kernels.md)."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import importlib
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from straightline import _call, _frameworks, _own_op, _torch_ops, own_schemas
from straightline.errors import UnsupportedError, UserError
from straightline.own_images import Maker, asked, cubin_kernel, read_cubin
from straightline.own_schemas import Parameter

#: What a function takes at most (runtime/abi/own_calls.h).
_MAX_INTEGERS, _MAX_NUMBERS = 32, 8
_MAX_RANK = 8
_NAME = re.compile(r"[A-Za-z_]\w*\Z")
_TENSOR = "const sl_kernel_tensor*"
#: Bytes of shared memory that a kernel may declare.
_MOST_SHARED = 48 << 10
_EXTERN_SHARED = re.compile(
    r"\bextern\s+__shared__\s+((?:alignas|__align__)\s*\([^)]*\)\s*)?([^;\[\]()=]*?[\s*&])\s*(\w+)\s*\[\s*\]\s*;"
)

#: By the op's name, "mylib::scale". Names that are here are taken.
_registered: dict[str, OwnKernel] = {}
#: Ops that are programs (program_ops.py), by name: what makes the kernel that calls one.
_programs: dict[str, Callable[[], OwnKernel]] = {}
#: Digest of each library that is open, by its real path: what is opened again must be the same file.
_digests: dict[str, str] = {}
_lock = threading.RLock()


@dataclass(frozen=True)
class OwnKernel:
    """A C function that is an op: `torch.ops.mylib.scale` in eager, a direct call in compiled programs.

    Programs of JAX call it by `jax.ffi.ffi_call("mylib::scale", ..)`, programs of Paddle as the custom op of its name.
    """

    #: "mylib::scale".
    name: str
    #: The C function, and the shared library that has it.
    function: str
    library: str
    #: XXH3-128 of the library.
    digest: str
    #: What emitted text calls it.
    symbol: str
    #: The schema as torch has it.
    schema: str
    status: bool
    stream: bool
    effectful: bool
    workspace: int | Callable[..., int]
    parameters: tuple[Parameter, ...] = field(repr=False)
    results: int
    #: CUDA C++ text that has the function, and its grid: (blocks, threads), or a function of the arguments. "": it is C.
    source: str = field(default="", repr=False)
    grid: Any = field(default=None, repr=False)
    #: For programs of a device alone, and called in each run between two graphs (op.own_kernel says what its traits are).
    device: bool = False
    outside: bool = False
    #: Arguments that are numbers on the host, tensors of int64 of rank 1, and whether the result is such a tensor.
    numbers: tuple[str, ...] = ()
    gives_numbers: bool = False
    #: Of a source: the bytes of its dynamic shared memory, or a function of the arguments.
    shared: int | Callable[..., int] = 0
    #: Refuses arguments of a call in a graph.
    check: Callable[[Mapping[str, Any]], None] | None = field(default=None, repr=False)
    #: Gives the machine code and the launch of each call, by its arguments, results and the target. None: there is none.
    machine: Maker | None = field(default=None, repr=False)
    _made: list[Any] = field(default_factory=list, repr=False, compare=False)

    @property
    def op(self) -> Any:
        """Torch's op.

        Raises:
            UserError: PyTorch is not there; the kernel is for programs of JAX and Paddle then.
        """
        torch = _frameworks.installed_torch()
        if torch is None:
            raise UserError(
                f"{self.name} is called by itself as an op of torch, which is not there: call it in a program, by "
                f"jax.ffi.ffi_call({self.name!r}, ..) or as a custom op of Paddle"
            )
        if not self._made and _registered.get(self.name) is not self:
            raise UserError(f"{self.name} was unregistered: register it again")
        if not self._made:
            raise UserError(f"{self.name} was registered before torch was there: register it after `import torch`")
        return self._made[0].op

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the op in eager."""
        return self.op(*args, **kwargs)

    @property
    def traits(self) -> str:
        """What `op.own_kernel` says of the function beside its arguments."""
        return " ".join(name for name in ("status", "stream", "device", "outside") if getattr(self, name))

    def workspace_bytes(self, values: Mapping[str, Any]) -> int:
        """The bytes of workspace for arguments by name (fake tensors while a model is captured).

        Raises:
            UserError: `workspace` gave no number from 0 on.
        """
        count = self.workspace
        if callable(count):
            count = asked("workspace", self.name, count, *values.values())
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise UserError(f"workspace of {self.name} is {count!r}, expected a number of bytes from 0 on")
        return count

    def grid_of(self, values: Mapping[str, Any]) -> tuple[Any, int]:
        """Blocks (a number, or a size that only a call knows), and threads of a block, for arguments by name.

        Raises:
            UserError: `grid` gave something else.
        """
        given = asked("grid", self.name, self.grid, *values.values()) if callable(self.grid) else self.grid
        pair = tuple(given) if isinstance(given, (tuple, list)) else ()
        if (
            len(pair) != 2
            or not _is_count(pair[1], 1024)
            or (isinstance(pair[0], int) and not _is_count(pair[0], 2**31 - 1))
        ):
            raise UserError(
                f"grid of {self.name} is {given!r}, expected (blocks, threads): 1 to {2**31 - 1} blocks of 1 to 1024 threads"
            )
        return pair[0], pair[1]

    def shared_bytes(self, values: Mapping[str, Any]) -> int:
        """The bytes of a block's dynamic shared memory for arguments by name.

        Raises:
            UserError: `shared` gave no number of bytes from 1 on.
        """
        count = asked("shared", self.name, self.shared, *values.values()) if callable(self.shared) else self.shared
        if count == 0 and not callable(self.shared):
            return 0
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise UserError(f"shared of {self.name} is {count!r}, expected a number of bytes from 1 on")
        return count

    def text(self, values: Mapping[str, Any]) -> str:
        """The source, in which dynamic shared memory has the size that it has for arguments by name.

        Raises:
            UserError: `shared` gave no number of bytes from 1 on.
            UnsupportedError: They are more than a kernel declares.
        """
        count = self.shared_bytes(values)
        if count == 0 or not self.source:
            return self.source
        if count > _MOST_SHARED:
            raise UnsupportedError(
                f"{self.name} asks for {count} bytes of shared memory, which is more than a block declares here; the nearest "
                f"supported form has {_MOST_SHARED}"
            )
        return _EXTERN_SHARED.sub(lambda found: _declared(found, count), self.source)

    def unregister(self) -> None:
        """Ends the op, so that its name is free again: later calls fail and say so, those that are running finish.

        Programs that call the function keep it. Any thread, also while the op is called.
        """
        with _lock:
            if _registered.get(self.name) is self:
                del _registered[self.name]
            for op in self._made:
                op.close()
                if self.effectful:
                    import torch

                    torch.fx.node._side_effectful_functions.discard(op.op.default)
            self._made.clear()


def find(name: str) -> OwnKernel | None:
    """The kernel of an op, "mylib::scale"; also of an op that is a program of ours."""
    make = _programs.get(name)
    return make() if make is not None else _registered.get(name)


def add_program(name: str, make: Callable[[], OwnKernel]) -> None:
    """Has graphs that call an op call the program that it is."""
    _programs[name] = make


def forget_program(name: str) -> None:
    """The op is one of torch alone again."""
    _programs.pop(name, None)


@dataclass(frozen=True)
class SavedFunction:
    """A function of a library as an artifact has it."""

    #: `symbol`, `function`, `library` and `xxh128` of the manifest; `needs`, the symbol of a function that it calls, or nothing.
    facts: dict[str, str]
    #: Reads the library.
    contents: Callable[[], bytes]
    #: It was emitted by this process, and has no path of its own: it is always written.
    emitted: bool = False


#: By symbol, also those that were unregistered: programs may call them.
_saved: dict[str, SavedFunction] = {}


def saved(symbols: Sequence[str]) -> list[SavedFunction]:
    """The functions that code calls by these symbols, each behind what it calls itself."""
    found: dict[str, SavedFunction] = {}
    for symbol in symbols:
        needed = _saved[symbol].facts.get("needs")
        found |= {each: _saved[each] for each in ((needed, symbol) if needed else (symbol,))}
    return list(found.values())


def add_saved(rows: Sequence[Mapping[str, str]], read: Callable[[str], bytes]) -> None:
    """Notes what a model calls that was loaded; `read` gives a file of it."""
    for row in rows:
        facts = {name: row[name] for name in ("symbol", "function", "library", "xxh128", "needs") if name in row}
        name = row.get("file", "")
        contents = functools.partial(read, name) if name else functools.partial(_read_library, facts)
        _saved.setdefault(facts["symbol"], SavedFunction(facts, contents, emitted=bool(name)))


def bring_tvm_ffi(rows: Sequence[Mapping[str, str]]) -> None:
    """Has libtvm_ffi in the process where a model that is loaded calls a function of it, and the package is there."""
    if any(row.get("function", "").startswith("__tvm_ffi_") for row in rows):
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module("tvm_ffi")


def _read_library(facts: Mapping[str, str]) -> bytes:
    """The library by its path, which must be as it was.

    Raises:
        UserError: It is not there, or another one.
    """
    path, function = facts["library"], facts["function"]
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise UserError(f"own kernel {function} of {path}: {error.strerror}") from error
    if (digest := _digest(data)) != facts["xxh128"]:
        raise UserError(
            f"own kernel {function} of {path}: the file has digest {digest}, the code calls the one of {facts['xxh128']}"
        )
    return data


def _digest(data: bytes) -> str:
    return _call.digest(ctypes.cast(data, ctypes.c_void_p).value or 0, len(data))


def c_kernel(
    library: str | os.PathLike[str],
    name: str,
    schema: str,
    *,
    fake: Callable[..., Any] | None = None,
    workspace: int | Callable[..., int] = 0,
    status: bool = False,
    stream: bool = False,
    effectful: bool = False,
) -> OwnKernel:
    """Registers a C function as an op that compiled programs call directly.

    `straightline/abi/own_kernel.h` says what arguments the function takes. The library stays open until the process ends; it
    runs in this process, so register what you would run.

    Args:
        library: The shared library.
        name: The function that it exports.
        schema: The op, as torch writes schemas: "mylib::scale(Tensor x, float a) -> Tensor". Arguments are `Tensor`,
            `Tensor(a!)` (updated in place), `Tensor?`, lists of these, int, SymInt, float, bool, str, dtype, and lists of int and
            float. Results are tensors.
        fake: Gets the op's arguments with fake tensors and returns a tensor for each result, whose shape and dtype count; by
            default each result is like the first tensor argument.
        workspace: Bytes of scratch memory, or a function of the arguments that gives them.
        status: Whether the function returns an int32_t (0: done) and takes a place for a message.
        stream: Whether it takes the stream of a device, and device memory in programs that run there.
        effectful: Whether it does more than fill its results (logging, random numbers): then no call of it is left out, merged
            with another one or computed ahead.

    Returns:
        The kernel; `torch.ops.mylib.scale` is its op.

    Raises:
        UserError: Something does not fit; the message names library, function and both values.
        UnsupportedError: The schema has a type that a C function is not given.
    """
    return registered(
        library, name, schema, fake=fake, workspace=workspace, status=status, stream=stream, effectful=effectful
    )


def registered(
    library: str | os.PathLike[str], name: str, schema: str, *, fake: Callable[..., Any] | None, **facts: Any
) -> OwnKernel:
    """`c_kernel` with what else `made` takes."""
    with _lock:
        _check_free(own_schemas.parse(schema, bool(facts.get("effectful"))).name)
        kernel = made(library, name, schema, **facts)
        _register(kernel, fake)
        _registered[kernel.name] = kernel
    return kernel


def made(
    library: str | os.PathLike[str],
    name: str,
    schema: str,
    *,
    workspace: int | Callable[..., int] = 0,
    status: bool = False,
    stream: bool = False,
    effectful: bool = False,
    device: bool = False,
    outside: bool = False,
    numbers: tuple[str, ...] = (),
    gives_numbers: bool = False,
    needs: str = "",
    check: Callable[[Mapping[str, Any]], None] | None = None,
) -> OwnKernel:
    """The kernel of a C function, which torch does not know yet.

    What `c_kernel` does not take: OwnKernel's `device`, `outside`, `numbers`, `gives_numbers` and `check`, and the symbol of a
    function that it calls.
    """
    if not isinstance(library, (str, os.PathLike)):
        raise UserError(f"the library is a {type(library).__name__}, expected the path of a shared library")
    path = os.path.realpath(library)
    if not isinstance(name, str) or not _NAME.match(name):
        raise UserError(f"name is {name!r}, expected that of a C function")
    parsed = own_schemas.parse(schema, effectful)
    symbol = opened(path, name, needs)
    kernel = OwnKernel(
        parsed.name, name, path, _digests[path], symbol, parsed.text, bool(status), bool(stream), bool(effectful), workspace,
        parsed.parameters, parsed.results, device=device, outside=outside, numbers=numbers, gives_numbers=gives_numbers,
        check=check,
    )  # fmt: skip
    _check_signature(kernel)
    if not callable(workspace):
        kernel.workspace_bytes({})
    return kernel


def not_saved(kernel: OwnKernel, why: str) -> None:
    """A program that calls it cannot be written."""

    def refuse() -> bytes:
        raise UnsupportedError(why)

    saved_with(kernel, refuse)


def saved_with(kernel: OwnKernel, contents: Callable[[], bytes] | None = None) -> None:
    """Its library was emitted: it is written into each model that calls it, or these `contents` are."""
    known = _saved[kernel.symbol]
    _saved[kernel.symbol] = SavedFunction(known.facts, contents or known.contents, emitted=True)


def opened(path: str, name: str, needs: str = "") -> str:
    """Opens a function of the library at a real path, for as long as the process; returns its symbol.

    `needs` is the symbol of a function that it calls (runtime/abi/own_kernel.h).

    Raises:
        UserError: The library cannot be opened or lacks it, or is another file than the one that is open.
    """
    with _lock:
        digest = _digest_of(path, name)
        symbol = f"sl_own_{digest[:16]}_{name}"
        _call.own_kernel_open(path, name, symbol)
        _digests[path] = digest
        facts = {"symbol": symbol, "function": name, "library": path, "xxh128": digest}
        facts |= {"needs": needs} if needs else {}
        _saved[symbol] = SavedFunction(facts, functools.partial(_read_library, facts))
    return symbol


def cuda_kernel(
    source: str | bytes | os.PathLike[str],
    name: str,
    schema: str,
    *,
    grid: tuple[int, int] | Callable[..., tuple[Any, int]],
    fake: Callable[..., Any] | None = None,
    workspace: int | Callable[..., int] = 0,
    shared: int | Callable[..., int] = 0,
    effectful: bool = False,
) -> OwnKernel:
    """Registers a CUDA kernel as an op of programs for a CUDA device: a node of the call's graph, as our own kernels are.

    The kernel gets, in this order: for each argument of the schema a pointer to the elements of a tensor (`const float*`, or
    `float*` for `Tensor(a!)`; NULL for an absent `Tensor?`), an int64_t for an int, SymInt or bool, a double for a float, a
    `const char*` for a str, a uint32_t for a dtype (the bytes of DLPack's: code, bits, and two of lanes), an array and its
    int64_t count for a list (`const float* const*`, `float* const*`, `const int64_t*`, `const double*`); then a pointer for each
    result; then `void*` and int64_t bytes of the workspace, where there is one. Tensors are row-major; give the sizes that it
    needs as arguments. It may be a template's instance, use blockIdx, shared memory and device functions of its text. It is
    compiled by NVRTC for each program's device, which need not be there, with the constants of the call.

    A cubin is taken as it is: its parameters are those above, in that order, where an int may have 1, 2, 4 or 8 bytes and a
    float 4 or 8. A size that only a call knows needs 8. Its architecture must be one that the program's target runs.

    Args:
        source: CUDA C++ text, the path of a .cu file, or a cubin: its bytes, or the path of a .cubin file.
        name: The `__global__` function.
        schema: The op, as for `c_kernel`.
        grid: (blocks, threads of a block), or a function of the op's arguments that gives them; blocks may be an expression over
            named sizes.
        fake: As for `c_kernel`.
        workspace: As for `c_kernel`, in the device's memory.
        shared: The bytes of a block's dynamic shared memory, `extern __shared__ float tile[];` of the text, or a function of the
            arguments that gives them; at most 48 KiB with what else the kernel declares.
        effectful: As for `c_kernel`.

    Returns:
        The kernel; `torch.ops.mylib.scale` is its op, on tensors of a CUDA device.

    Raises:
        UserError: Something does not fit. What NVRTC says of the text, and another architecture, are raised when a program is
            compiled.
        UnsupportedError: The schema has a type that a kernel is not given, or the source is PTX or a fatbin.
    """
    if not isinstance(name, str) or not _NAME.match(name):
        raise UserError(f"name is {name!r}, expected that of a kernel")
    cubin = read_cubin(source)
    text = "" if cubin else _source_of(source)
    if not cubin and (not re.search(rf"\b{name}\s*\(", text) or "__global__" not in text):
        raise UserError(f"the source has no __global__ function {name}")
    parsed = own_schemas.parse(schema, effectful)
    if cubin:
        _check_for_cubin(parsed, workspace)
    else:
        _check_shared(text, shared)
    if not any(parameter.kind == "tensor" for parameter in parsed.parameters):
        raise UnsupportedError(
            f"{parsed.name} has no tensor argument, which says the device; nearest supported form: Tensor"
        )
    with _lock:
        _check_free(parsed.name)
        kernel = OwnKernel(
            parsed.name, name, "", "", name, parsed.text, False, True, bool(effectful), workspace, parsed.parameters,
            parsed.results, text, grid,
            shared=shared,
        )  # fmt: skip
        if cubin:
            machine = cubin_kernel(
                *cubin, name, parsed.parameters, parsed.results, parsed.name, kernel.grid_of, kernel.shared_bytes
            )
            kernel = dataclasses.replace(kernel, machine=machine)
        if not callable(workspace):
            kernel.workspace_bytes({})
        if not callable(shared):
            kernel.text({})
        if not callable(grid):
            kernel.grid_of({})
        _register(kernel, fake)
        _registered[parsed.name] = kernel
    return kernel


def _source_of(source: str | os.PathLike[str]) -> str:
    """CUDA C++ text, given as such or as a file."""
    is_path = isinstance(source, os.PathLike) or (
        isinstance(source, str) and re.fullmatch(r"[^\n{}]+\.\w+", source) is not None
    )
    if not is_path:
        if not isinstance(source, str):
            raise UserError(f"source is a {type(source).__name__}, expected CUDA C++ text or the path of a .cu file")
        return source
    path = os.fspath(source)
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise UserError(f"source {path}: {error.strerror}") from error
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UserError(f"source {path} is no text: {error}") from error


def _check_for_cubin(parsed: own_schemas.Schema, workspace: int | Callable[..., int]) -> None:
    """The parameters of machine code are addresses and numbers."""
    for parameter in parsed.parameters:
        if parameter.is_list or parameter.kind in ("text", "dtype"):
            raise UnsupportedError(
                f"{parsed.name} has the argument '{parameter.name}', a list, str or dtype, which a cubin is not given; nearest "
                "supported form: an argument each, or the kernel's source"
            )
    if callable(workspace) or workspace:
        raise UnsupportedError(
            f"{parsed.name} has a workspace, which a cubin is not given; nearest supported form: the kernel's source"
        )


def _check_shared(source: str, shared: int | Callable[..., int]) -> None:
    """Dynamic shared memory is one array in the text, whose size `shared` says."""
    written = len(re.findall(r"\bextern\s+__shared__\b", source))
    if not callable(shared) and shared == 0 and written:
        raise UserError("the source declares dynamic shared memory, extern __shared__: give its bytes, shared=")
    if (callable(shared) or shared != 0) and (written != 1 or not _EXTERN_SHARED.search(source)):
        raise UserError(
            f"with shared= the source declares {written} arrays of dynamic shared memory, expected one as extern __shared__ "
            "float tile[];"
        )


def _declared(found: re.Match[str], count: int) -> str:
    """An array of `count` bytes in place of one of a size that a launch says."""
    alignment, element, name = ((part or "").strip() for part in found.groups())
    return f"__shared__ {alignment or 'alignas(16)'} {element} {name}[({count} + sizeof({element}) - 1) / sizeof({element})];"


def _is_count(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most


# Signatures -----------------------------------------------------------------------------------------------------------


def _signature(kernel: OwnKernel) -> tuple[str, list[tuple[str, str]]]:
    """What the C function returns, and type and role of each of its arguments."""
    scalars = {"integer": "int64_t", "number": "double", "text": "const char*", "dtype": "sl_dtype", "tensor": _TENSOR}
    arguments: list[tuple[str, str]] = []
    for parameter in kernel.parameters:
        one = scalars[parameter.kind]
        pointer = one if parameter.kind == "tensor" else f"const {one}*"
        arguments.append((pointer if parameter.is_list else one, f"'{parameter.name}'"))
        if parameter.is_list:
            arguments.append(("int64_t", f"the count of '{parameter.name}'"))
    arguments += [(_TENSOR, f"result {i}") for i in range(kernel.results)]
    if callable(kernel.workspace) or kernel.workspace:
        arguments += [("void*", "the workspace"), ("int64_t", "the workspace's bytes")]
    if kernel.stream:
        arguments.append(("void*", "the stream"))
    if kernel.status:
        arguments.append(("char*", "the message"))
    return ("int32_t" if kernel.status else "void"), arguments


def _check_signature(kernel: OwnKernel) -> None:
    """Compares the schema with what SL_KERNEL_FUNCTION exported, and with what a function may take."""
    returned, arguments = _signature(kernel)
    numbers = sum(kind == "double" for kind, _ in arguments)
    if numbers > _MAX_NUMBERS or len(arguments) - numbers > _MAX_INTEGERS:
        raise UnsupportedError(
            f"{kernel.name} takes {len(arguments) - numbers} integers and addresses and {numbers} doubles, at most "
            f"{_MAX_INTEGERS} and {_MAX_NUMBERS}; nearest supported form: lists, Tensor[], int[] and float[]"
        )
    try:
        text = ctypes.c_char_p(
            ctypes.addressof(ctypes.c_char.in_dll(ctypes.CDLL(kernel.library), f"{kernel.function}_signature"))
        )
    except ValueError:
        return  # the library says nothing of its types
    declared = (text.value or b"").decode(errors="replace")
    given, _, rest = declared.partition("(")
    found = [_type_of(part) for part in rest.rpartition(")")[0].split(",") if part.strip() not in ("", "void")]
    where = f"{kernel.function} of {kernel.library} is {declared}, the schema is {kernel.schema}"
    if given.strip() != returned:
        raise UserError(f"{where}: it returns {given.strip()}, expected {returned} (status={kernel.status})")
    for number, ((wanted, role), has) in enumerate(zip(arguments, found)):
        if wanted != has:
            raise UserError(f"{where}: argument {number} of the function is {has}, but {role} is {wanted}")
    if len(found) != len(arguments):
        following = arguments[len(found)][1] if len(found) < len(arguments) else ""
        raise UserError(
            f"{where}: the function takes {len(found)} arguments, the schema gives {len(arguments)}"
            + (f"; the first that it lacks is {following}" if following else "")
        )


def _type_of(declaration: str) -> str:
    """The type alone: `const sl_kernel_tensor*` of `const sl_kernel_tensor *x`."""
    words = declaration.replace("*", " * ").split()
    if len(words) > 1 and words[-1] != "*" and words[-1] not in ("int64_t", "double", "sl_dtype"):
        words.pop()  # the parameter's name
    return " ".join(words).replace(" *", "*")


def _given(kernel: OwnKernel) -> str:
    """What the user gave: a function that was emitted to call another one is nobody's to know."""
    known = _saved.get(kernel.symbol)
    if known is not None and "needs" in known.facts:
        called = _saved[known.facts["needs"]].facts
        return f"{called['function']} of {called['library']}"
    if known is not None and known.emitted:
        return f"a function of this process, with the schema {kernel.schema}"
    return f"{kernel.function} of {kernel.library or 'a source'}"


def _check_free(name: str) -> None:
    if name in _registered:
        raise UserError(
            f"{name} is registered already, as {_given(_registered[name])}: give it another name, or unregister() that one"
        )
    namespace, _, base = name.partition("::")
    torch = _frameworks.installed_torch()
    with _torch_ops.lock:
        op = _torch_ops.known(name)
    if torch is None or (op is not None and not op.is_open):
        return
    if hasattr(getattr(torch.ops, namespace), base):
        raise UserError(f"torch has an op {name} already: give it another name")


def _digest_of(path: str, function: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise UserError(f"own kernel {function} of {path}: {error.strerror}") from error
    digest = _digest(data)
    if _digests.get(path, digest) != digest:
        raise UserError(
            f"own kernel {function} of {path}: the file has changed since this process opened it, and the process keeps the code "
            "of before; give the new file another name"
        )
    return digest


# Eager ----------------------------------------------------------------------------------------------------------------


class _CTensor(ctypes.Structure):
    """sl_kernel_tensor."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("extents", ctypes.c_void_p), ("rank", ctypes.c_int32), ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
    ]  # fmt: skip


class _Call:
    """The arguments of one call in eager, and what they point to."""

    def __init__(self) -> None:
        self.integers: list[int] = []
        self.numbers: list[float] = []
        self._kept: list[Any] = []

    def keep(self, array: Any) -> int:
        """The address of memory that lives as long as this."""
        self._kept.append(array)
        return ctypes.addressof(array)

    def tensors(self, tensors: Sequence[Any]) -> int:
        """The address of descriptions; of tensors that are contiguous."""
        rows = (_CTensor * len(tensors))()
        for row, tensor in zip(rows, tensors):
            if tensor.dim() > _MAX_RANK:
                raise UnsupportedError(
                    f"a tensor of rank {tensor.dim()}; the nearest supported form has rank {_MAX_RANK}"
                )
            code, bits = dtype_of(tensor.dtype)
            row.data, row.rank, row.code, row.bits, row.lanes = tensor.data_ptr(), tensor.dim(), code, bits, 1
            row.extents = self.keep((ctypes.c_int64 * max(1, tensor.dim()))(*tensor.shape or (1,)))
            self._kept.append(tensor)
        return self.keep(rows) if len(tensors) else 0


def dtype_of(dtype: Any) -> tuple[int, int]:
    """DLPack's code and bits.

    Raises:
        UnsupportedError: It has none.
    """
    from straightline._call_support import dtype_code

    found = dtype_code(str(dtype).removeprefix("torch."))
    if found is None:
        raise UnsupportedError(f"an own kernel is given {dtype}; supported are bool, integers and floats")
    return found


def _eager(kernel: OwnKernel, fake: Callable[..., Any]) -> Callable[..., Any]:
    """The op's implementation: outside of a program."""
    import torch

    def run(*args: Any, **kwargs: Any) -> Any:
        values = dict(zip((p.name for p in kernel.parameters), args)) | kwargs
        _check_numbers(kernel, values)
        call, back = _Call(), []

        def dense(tensor: Any, is_updated: bool) -> Any:
            given = tensor.detach()
            made = given.contiguous()
            if is_updated and made.data_ptr() != given.data_ptr():
                back.append((given, made))
            return made

        for parameter in kernel.parameters:
            _add(call, parameter, values[parameter.name], dense)
        with torch.no_grad():
            shaped = fake(*values.values()) if kernel.results else ()
            results = [torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in _as_list(shaped)]
        for result in results:
            call.integers.append(call.tensors([result]))
        on = (
            next((t.device for t in _torch_ops.tensors_of(values.values()) if t.is_cuda), None)
            if kernel.stream
            else None
        )
        if count := kernel.workspace_bytes(values):
            scratch = torch.empty(
                count + 63, dtype=torch.uint8, device=on or "cpu"
            )  # freed behind the work on the stream
            call.integers += [scratch.data_ptr() + -scratch.data_ptr() % 64, count]
        if kernel.stream:
            call.integers.append(torch.cuda.current_stream(on).cuda_stream if on is not None else 0)
        with torch.cuda.device(on) if on is not None else contextlib.nullcontext():
            _call.own_kernel_call(kernel.symbol, kernel.name, tuple(call.integers), tuple(call.numbers), kernel.status)
        for given, made in back:
            given.copy_(made)
        torch.autograd.graph.increment_version(
            _torch_ops.tensors_of(values[parameter.name] for parameter in kernel.parameters if parameter.is_updated)
        )
        return None if not results else results[0] if kernel.results == 1 else tuple(results)

    return run


def _add(call: _Call, parameter: Parameter, value: Any, dense: Callable[[Any, bool], Any]) -> None:
    """Appends what the function is given for one argument."""
    items = list(value) if parameter.is_list else [value]
    if parameter.kind == "tensor":
        if any(item is None for item in items):
            if parameter.is_list:
                raise UnsupportedError(
                    f"'{parameter.name}' has an absent tensor in a list; nearest supported form: Tensor?"
                )
            call.integers.append(0)
            return
        call.integers.append(call.tensors([dense(item, parameter.is_updated) for item in items]))
    elif parameter.is_list:
        kind = ctypes.c_int64 if parameter.kind == "integer" else ctypes.c_double
        call.integers.append(call.keep((kind * len(items))(*items)) if items else 0)
    elif parameter.kind == "integer":
        call.integers.append(_int64(int(value), parameter.name))
    elif parameter.kind == "number":
        call.numbers.append(float(value))
    elif parameter.kind == "text":
        call.integers.append(call.keep(ctypes.create_string_buffer(str(value).encode())))
    else:
        code, bits = dtype_of(value)
        call.integers.append(code | bits << 8 | 1 << 16)
    if parameter.is_list:
        call.integers.append(len(items))


def _int64(value: int, name: str) -> int:
    if not -(2**63) <= value < 2**63:
        raise UserError(f"'{name}' is {value}, which does not fit an int64_t")
    return value


def _as_list(shaped: Any) -> list[Any]:
    return list(shaped) if isinstance(shaped, (list, tuple)) else [shaped]


def alone(kernel: OwnKernel, constants: Mapping[str, Any], counts: Mapping[str, int] | None = None) -> Any:
    """A module that is this op alone, of all arguments but the constants, by name.

    `counts` says how many tensors of a call are a list's elements, by its name.
    """
    import torch

    class Alone(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            given = iter(tensors)
            values = dict(constants)
            for name in (p.name for p in kernel.parameters if p.name not in constants):
                count = (counts or {}).get(name, -1)  # -1: a tensor, no list
                values[name] = next(given) if count < 0 else [next(given) for _ in range(count)]
            return kernel.op(**values)

    return Alone()


def _on_device(kernel: OwnKernel) -> Callable[..., Any]:
    """The implementation of a CUDA kernel: a program that is this op alone, compiled for the sizes that come."""
    import torch

    import straightline

    programs: dict[Any, Any] = {}

    def run(*args: Any, **kwargs: Any) -> Any:
        values = dict(zip((p.name for p in kernel.parameters), args)) | kwargs
        of = {p.name: values[p.name] for p in kernel.parameters if p.kind == "tensor" and values[p.name] is not None}
        tensors = [tensor.detach() for tensor in _torch_ops.tensors_of(of.values())]
        counts = {name: -1 if isinstance(value, torch.Tensor) else len(value) for name, value in of.items()}
        constants = {name: value for name, value in values.items() if name not in of}
        known = tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in constants.items())
        key = (known, tuple(counts.items()), tuple((t.dtype, t.shape, t.stride(), t.device) for t in tensors))
        if key not in programs:
            programs[key] = straightline.compile(alone(kernel, constants, counts), tuple(tensors))
        return programs[key](*tensors)

    return run


def _checked_fake(kernel: OwnKernel, fake: Callable[..., Any] | None) -> Callable[..., Any]:
    """The shapes of results: what `fake` gives is what the schema says."""
    import torch

    def shapes(*args: Any, **kwargs: Any) -> Any:
        _check_numbers(kernel, dict(zip((p.name for p in kernel.parameters), args)) | kwargs)
        if not kernel.results:
            return None
        if fake is None:
            first = next(_torch_ops.tensors_of((*args, *kwargs.values())), None)
            if first is None:
                raise UserError(f"{kernel.name} has no tensor argument that its results could be like: give fake=")
            made = [torch.empty(first.shape, dtype=first.dtype, device=first.device) for _ in range(kernel.results)]
        else:
            given = fake(*args, **kwargs)
            made = _as_list(given)
            if not all(isinstance(item, torch.Tensor) for item in made) or len(made) != kernel.results:
                raise UserError(
                    f"fake of {kernel.name} gave {_words(given)}, the schema has {kernel.results} results: {kernel.schema}"
                )
        return made[0] if kernel.results == 1 else tuple(made)

    return shapes


def _check_numbers(kernel: OwnKernel, values: Mapping[str, Any]) -> None:
    """What a function gets as numbers is read on the host.

    Raises:
        UserError: An argument is another tensor.
    """
    for name in kernel.numbers:
        given = values[name]
        if str(given.dtype) != "torch.int64" or given.dim() != 1 or given.device.type not in ("cpu", "meta"):
            found = f"{str(given.dtype).removeprefix('torch.')} of rank {given.dim()} on {given.device}"
            raise UserError(
                f"'{name}' of {kernel.name} is {found}, but it is numbers: int64 of rank 1 on cpu, as a function gives them that "
                "has a count in numbers="
            )


def _words(given: Any) -> str:
    items = _as_list(given)
    return f"{len(items)} values ({', '.join(type(item).__name__ for item in items)})"


def _register(kernel: OwnKernel, fake: Callable[..., Any] | None) -> None:
    """Makes the op of torch, where torch is installed; programs of other frameworks need none."""
    torch = _frameworks.installed_torch()
    if torch is None:
        return
    shapes = _checked_fake(kernel, fake)
    keys = ["CPU", *(["CUDA"] if kernel.stream else [])]
    if kernel.source or kernel.machine or kernel.device:
        keys = ["CUDA"]
    elif not any(parameter.kind == "tensor" for parameter in kernel.parameters):
        keys = ["CompositeExplicitAutograd"]
    run = _on_device(kernel) if kernel.source or kernel.machine else _eager(kernel, shapes)
    kernel._made.append(_own_op.opened(kernel.name, kernel.schema, tuple(keys), run, shapes))
    if kernel.effectful:
        torch.fx.node.has_side_effect(kernel.op.default)  # else graphs lose a call whose results nobody reads
