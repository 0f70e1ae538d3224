# SPDX-License-Identifier: Apache-2.0
"""`load`: a saved model becomes the function that it was saved from. Needs neither a compiler nor a framework.

The format and all checks of it are the runtime's (runtime/artifact): nothing here opens the file.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from straightline import _artifact_tree, _call, _emitted, _paths, _targets, backend_plugins, kernels, own_kernels
from straightline._frameworks import imported_torch
from straightline._slots import Sharing, choices, joined
from straightline._stored import SAFETENSORS, Stored
from straightline.compiled_function import Binding, CompiledFunction, grouped, of_the_compiler
from straightline.errors import UnsupportedError, UserError
from straightline.parameters import ParameterTable, is_row_major

_DTYPES = {name: dtype for dtype, name in SAFETENSORS.items()}
_CPU, _CUDA = 1, 2  # DLDeviceType


def load(
    path: str | os.PathLike[str],
    *,
    device: str | None = None,
    threads: int | None = None,
    verify: bool = False,
    types: Iterable[type] = (),
) -> CompiledFunction:
    """Opens what `CompiledFunction.save` wrote. A saved model is machine code: load what you would run.

    Nothing is compiled, and nothing is unpacked: weights are read where they lie in the file, which must stay as it is for
    as long as the function lives.

    Args:
        path: The file, or a folder with the same files.
        device: "cpu", "cuda" or "cuda:1"; by default what the model was saved for.
        threads: Threads of a call at most; by default as many as the program was planned for.
        verify: Compare the digests of all files, also of the weights. That of code is always compared.
        types: Classes of arguments and results. Nothing is imported because a file names it: a class counts if its module
            is loaded, or if it is given here.

    Returns:
        The function, as `compile` gave it: `code`, `ir`, `explain()`, `load_parameters`, `with_parameters`, `save`. What
        compiles again (`specialize`) needs the compiler.

    Raises:
        UserError: The file is missing, damaged, of another version, or names classes that are not here.
        UnsupportedError: It has no code for this processor or device; the message names what it has code for.
    """
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
        raise UserError(f"threads is {threads!r} but must be at least 1")
    kind, number = _device(device)
    artifact = _Artifact(os.fspath(path), verify)
    reader = _artifact_tree.Reader(types)
    try:
        table = ParameterTable.from_rows(artifact.manifest["table"])
        slots, sharing = _slots_of(artifact.manifest)
        count = len(artifact.manifest["programs"]) // len(choices(slots))
        parts = []
        for i, facts in enumerate(artifact.manifest["programs"]):
            chosen = _call.artifact_choose(artifact.capsule, i, kind, number)
            share = sharing[i % count] if sharing else None
            parts.append(_part(artifact, i, chosen, facts, table, reader, number, threads or 0, share))
        states: dict[str, Any] = {}
        copies: dict[int, Any] = {}
        functions = [_function(artifact, part, table, number, states, copies) for part in parts]
        heads = [grouped(functions[i : i + count]) for i in range(0, len(functions), count)]
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{artifact.path} is no artifact: its manifest is malformed ({error!r})") from error
    return joined(heads, slots, named=True)


def _slots_of(manifest: Mapping[str, Any]) -> tuple[dict[str, tuple[str, ...]], list[Sharing]]:
    """The targets of each slot, and what shares prepared data, one an example; both empty where there are none."""
    found = manifest.get("slots")
    if found is None:
        return {}, []
    slots = {str(row["op"]): tuple(map(str, row["targets"])) for row in found["ops"]}
    count = len(manifest["programs"]) // len(choices(slots))
    return slots, [Sharing() for _ in range(count)] if found["shared"] else []


def manifest_of(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    """The manifest of a saved model (docs/design/artifacts.md).

    Raises:
        UserError: The file is missing, damaged or of another version.
    """
    return _Artifact(os.fspath(path), False).manifest


def _device(device: object) -> tuple[int, int]:
    """DLPack's type, 0 for any, and the number."""
    if device is None:
        return 0, 0
    found = re.fullmatch(r"cpu|cuda(?::(\d+))?", device) if isinstance(device, str) else None
    if found is None:
        raise UserError(f"device is {device!r} but must be 'cpu', 'cuda' or 'cuda:N'")
    return (_CPU, 0) if device == "cpu" else (_CUDA, int(found[1] or 0))


class _Artifact:
    """An open file."""

    def __init__(self, path: str, verify: bool) -> None:
        self.path = path
        self.capsule = _call.artifact_open(path, verify)
        manifest = json.loads(self.text("manifest.json"))
        self.manifest: Mapping[str, Any] = manifest

    def bytes(self, name: str) -> bytes:
        """A file of it, copied."""
        address, count = _call.artifact_entry(self.capsule, name)
        return ctypes.string_at(address, count)

    def text(self, name: str) -> str:
        data = self.bytes(name)
        try:
            return (zlib.decompress(data, wbits=31) if name.endswith(".gz") else data).decode()
        except (zlib.error, UnicodeDecodeError) as error:
            raise UserError(f"{self.path} is damaged: {name} is no text ({error})") from error

    def checked_text(self, name: str) -> str:
        """A file that is executed: its digest is compared."""
        address, count = _call.artifact_entry(self.capsule, name)
        if _call.digest(address, count) != self.manifest["files"][name]["xxh128"]:
            raise UserError(f"{self.path} is damaged: {name} is not what was saved (its digest differs)")
        return self.text(name)

    def tensor(self, name: str, declared: str | None) -> Stored:
        """A tensor of the weights; `declared`: its dtype, where the format may lack that."""
        dtype, shape, address, count = _call.artifact_tensor(self.capsule, name)
        own = _DTYPES.get(dtype, "uint8")
        if dtype == "U8" and declared is not None:
            own = declared
        return Stored(self.capsule, own, shape, address, count)


class _SavedModule:
    """The op level of a saved program, parsed when something compiles it."""

    def __init__(self, artifact: _Artifact, name: str) -> None:
        self._artifact, self._name = artifact, name

    def parsed(self) -> Any:
        return of_the_compiler("_compiler").Module.parse(self._artifact.text(self._name), self._name)

    def with_sizes(self, sizes: Mapping[str, int]) -> Any:
        return self.parsed().with_sizes(sizes)

    @property
    def parameters_json(self) -> str:
        return self.parsed().parameters_json


class _SavedCode:
    """A variant of a saved program: what `_compiler.Compilation` says of one that was compiled here."""

    def __init__(self, artifact: _Artifact, facts: Mapping[str, Any], variant: Mapping[str, Any], program: Any) -> None:
        self._artifact, self._facts, self._variant = artifact, facts, variant
        self.program = program

    @property
    def code(self) -> str:
        return self._artifact.text(self._variant["source"])

    @property
    def linked(self) -> bytes:
        """The shared object."""
        return self._artifact.bytes(self._variant["code"])

    @property
    def python(self) -> str:
        return self._artifact.checked_text(self._variant["python"]) if "python" in self._variant else ""

    @property
    def explain_json(self) -> str:
        return self._artifact.text(self._variant["explain"])

    @property
    def images(self) -> Sequence[bytes]:
        return [
            self._artifact.bytes(name) for name in self._variant.get("images", {}).values() if name.endswith(".cubin")
        ]

    @property
    def python_replaced(self) -> bool:
        """Whether `python` is not what was emitted."""
        return bool(self._variant.get("python_replaced", False))

    def ir(self, level: str, *, locations: bool = False) -> str:
        name = self._facts["op"] if level == "op" else self._variant["kernel"]
        text = self._artifact.text(name)
        if locations:
            return text
        try:
            from straightline import _compiler
        except ImportError:
            return text  # the compiler alone prints without them
        return _compiler.Module.parse(text, name).print() if level == "op" else text


class _Part(NamedTuple):
    """A program that was loaded, before it has weights."""

    number: int
    chosen: int
    facts: Mapping[str, Any]
    code: _SavedCode
    binding: Binding


def _part(
    artifact: _Artifact,
    number: int,
    chosen: int,
    facts: Mapping[str, Any],
    table: ParameterTable,
    reader: _artifact_tree.Reader,
    device: int,
    threads: int,
    sharing: Sharing | None,
) -> _Part:
    variant = facts["variants"][chosen]
    _open_backends(artifact.path, variant.get("backends", ()))
    where = device if str(variant["target"]).startswith("cuda") else None
    if where is not None:
        _check_device(artifact.path, str(variant["target"]), where)
    own_kernels.bring_tvm_ffi(variant.get("own_kernels", ()))
    program = _call.artifact_program(artifact.capsule, number, chosen, device)
    own_kernels.add_saved(variant.get("own_kernels", ()), artifact.bytes)
    if sharing is not None:
        sharing.programs.append(program)
    code = _SavedCode(artifact, facts, variant, program)
    path = _paths.chosen(None)
    chosen_launch = variant.get("launch", facts["launch"])
    launch = (chosen_launch[0], str(chosen_launch[1]))
    binding = Binding(
        example=str(facts["example"]),
        names=list(variant["parameters"]),
        named_sizes=list(variant["named_sizes"]),
        module=_SavedModule(artifact, facts["op"]),
        request={**facts["request"], "cpu": variant["cpu"], "target": _target(str(variant["target"]), device)},
        most=0,
        table=table,
        live=False,
        kept=frozenset(),
        complex=frozenset(facts["complex"]),
        inputs=tuple(_parameter(row, reader) for row in facts["inputs"]),
        outputs=reader.node(facts["outputs"]),
        options={
            "kind": facts["kind"],
            "estimated_us": float(variant["estimated_us"]),
            "fast_path": path[0],
            "reuse_outputs": bool(facts["reuse_outputs"]),
            "launch": launch[0],
            "threads": threads,
        },
        name=str(facts["name"]),
        path=path,
        launch=launch,
        sharing=sharing,
        features=tuple(variant["features"]),
    )
    return _Part(number, chosen, facts, code, binding)


def _function(
    artifact: _Artifact,
    part: _Part,
    table: ParameterTable,
    device: int,
    states: dict[str, Any],
    copies: dict[int, Any],
) -> CompiledFunction:
    """`states` and `copies`: of the functions before it, which it shares."""
    number, chosen, facts, code, binding = part
    variant, program = facts["variants"][chosen], code.program
    where = device if str(variant["target"]).startswith("cuda") else None
    viewed = {binding.names[i] for i in _call.viewed_parameters(program)}
    tensors = [_tensor(artifact, name, facts, table, where, states, name in viewed) for name in binding.names]
    own = kernels.Kernels(program, code) if "python" in variant else None
    emitted = _emitted.load(code.python, binding.name, own) if own is not None else None
    prepared = (artifact.capsule, number, chosen) if "prepared" in variant and emitted is None else None
    weights = binding.set_of(program, tensors, emitted, copies, prepared)
    return binding.function(code, weights, own, emitted)


def _target(target: str, device: int) -> str:
    """What the program is compiled for where something compiles it again: with PTX, the device that it runs on."""
    if not target.startswith("cuda:compute_"):
        return target
    torch = imported_torch()
    major, minor = torch.cuda.get_device_capability(device) if torch is not None else (0, 0)
    return f"cuda:sm_{major}{minor}"


def _open_backends(path: str, names: Iterable[str]) -> None:
    """Opens the plug-ins that are found, where the code calls a backend that is not here."""
    if not set(names) - set(_call.backend_names() if names else ()):
        return
    backend_plugins.open_all()
    missing = ", ".join(repr(name) for name in sorted(set(names) - set(_call.backend_names())))
    if missing:
        raise UnsupportedError(
            f"{path} calls kernels of the backend {missing}, which is not here: install its plug-in, name its file in "
            "STRAIGHTLINE_BACKEND_PATH, or open it by straightline.load_backend(path) before the model is loaded"
        )


def _check_device(path: str, target: str, number: int) -> None:
    """Refuses a model for a CUDA device that is not here, or not of its kind."""
    if not _call.cuda_missing() and imported_torch() is None:
        raise UserError(
            f"{path} is for {target}, whose parameters are tensors of torch: import torch before it is loaded"
        )
    why = _targets.why_no_device(target, number)
    if why:
        raise UnsupportedError(f"{path} has machine code for {target} alone and cannot run here: {why}")


def _parameter(row: Mapping[str, Any], reader: _artifact_tree.Reader) -> tuple[Any, ...]:
    default = (reader.node(row["default"])[2],) if "default" in row else ()
    return (str(row["name"]), int(row["kind"]), reader.node(row["node"]), *default)


def _tensor(
    artifact: _Artifact,
    name: str,
    facts: Mapping[str, Any],
    table: ParameterTable,
    device: int | None,
    states: dict[str, Any],
    viewed: bool,
) -> Any:
    """A parameter where it is stored, or a copy: on a device, of a state, in another order, or where results are views of it."""
    if name in states:
        return states[name]
    is_complex = name in facts["complex"]
    declared = table.layout(name)
    stored = artifact.tensor(name, None if is_complex or declared is None else declared[0])
    strides = declared[2] if declared is not None else None
    if is_complex and strides is not None:
        strides = (*(2 * step for step in strides), 1)
    ordered = strides is None or is_row_major(stored.shape, strides)
    is_state = name in facts["states"]
    if device is None and ordered and not is_state and not viewed:
        return stored
    wants_torch = device is not None or facts["kind"] == "torch"
    torch = imported_torch() if wants_torch else None
    tensor = stored.torch() if torch is not None else stored.numpy().copy()
    if torch is not None and device is not None:
        tensor = tensor.to(f"cuda:{device}")
    if not ordered:
        tensor = _in_order(tensor, strides)
    if is_state:
        states[name] = tensor
    return tensor


def _in_order(tensor: Any, strides: Sequence[int]) -> Any:
    """The same elements in memory of these strides."""
    # Where a stride is 0 all elements of that dim are one.
    once = tuple(slice(0, 1) if step == 0 else slice(None) for step in strides)
    shape = tuple(1 if step == 0 else size for size, step in zip(tensor.shape, strides, strict=True))
    span = 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    if hasattr(tensor, "as_strided"):
        memory = tensor.new_empty(span)
        memory.as_strided(shape, tuple(strides)).copy_(tensor[once])
        return memory.as_strided(tuple(tensor.shape), tuple(strides))
    import numpy
    from numpy.lib.stride_tricks import as_strided

    memory = numpy.empty(span, tensor.dtype)
    steps = [step * tensor.itemsize for step in strides]
    as_strided(memory, shape, steps)[...] = tensor[once]
    return as_strided(memory, tensor.shape, steps)
