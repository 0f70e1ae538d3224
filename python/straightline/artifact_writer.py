# SPDX-License-Identifier: Apache-2.0
"""Writes compiled functions into files. docs/design/artifacts.md has the format."""

from __future__ import annotations

import contextlib
import ctypes
import gzip
import json
import mmap
import os
import struct
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from straightline import _artifact_tree, _call, _compiler, _complex, _launch, _targets, own_kernels
from straightline._stored import SAFETENSORS, Stored
from straightline.errors import InternalError, UnsupportedError, UserError
from straightline.parameters import raw_bytes

#: Versions of the format; the runtime has them too (runtime/artifact/manifest.h). A file says the least that its readers need:
#: 2 where a program has code for several architectures of a device, 3 where calls choose among targets of an op.
FORMAT, SEVERAL_DEVICES, SLOTS = 1, 2, 3
_PAGE = 4096
#: What every file entry says of its time, so that two saves give the same bytes.
_TIME = (1980, 1, 1, 0, 0, 0)
#: Back-ends that are part of a program's own code, or of the runtime.
_OWN = frozenset({"native", "own", "own_outside", "scalar", "cuda", "cublaslt", "cudnn", "runtime", ""})


class _Zip:
    """An uncompressed zip whose entries begin at pages."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)
        #: Offset and bytes by name.
        self.places: dict[str, tuple[int, int]] = {}

    def add(self, name: str, chunks: Iterator[Any] | Sequence[Any], count: int | None = None) -> None:
        """Adds an entry of `count` bytes (by default that of the chunks, of which there are few)."""
        if count is None:
            chunks = list(chunks)
            count = sum(len(chunk) for chunk in chunks)
        info = zipfile.ZipInfo(name, _TIME)
        info.external_attr, info.create_system, info.file_size = 0o644 << 16, 3, count
        large = count * 1.05 > zipfile.ZIP64_LIMIT  # as ZipFile.open decides
        # A local header is 30 bytes, the name, and 20 bytes more for large files (APPNOTE.TXT 4.3.7 and 4.5.3).
        header = self._file.tell() + 30 + len(name) + (20 if large else 0) + 4
        # An extra field of its own ("SL") fills up to the page.
        pad = -header % _PAGE
        info.extra = struct.pack("<HH", 0x4C53, pad) + bytes(pad)
        with self._zip.open(info, "w") as entry:
            begin = self._file.tell()
            for chunk in chunks:
                entry.write(chunk)
        self.places[name] = (begin, count)

    def close(self) -> None:
        self._zip.close()


@dataclass
class _Program:
    """One program of a function, as the file has it."""

    function: Any
    facts: dict[str, Any]
    files: dict[str, bytes] = field(default_factory=dict)
    #: Of each variant.
    compilations: list[Any] = field(default_factory=list)
    #: What the names of its files begin with, of each variant.
    bases: list[str] = field(default_factory=list)


def write(
    function: Any,
    path: str | os.PathLike[str],
    cpus: Sequence[str],
    prepared: bool,
    libraries: Sequence[str],
    devices: Sequence[str],
    own_libraries: str,
) -> None:
    """What `CompiledFunction.save` does."""
    if own_libraries not in ("embed", "name"):
        raise UserError(f"own_libraries is {own_libraries!r}, expected 'embed' or 'name'")
    programs = programs_of(function, cpus, prepared, libraries, devices, linked=False, embeds=own_libraries == "embed")
    with replaced(os.fspath(path)) as file:
        write_archive(file, function, programs)


def programs_of(
    function: Any,
    cpus: Sequence[str],
    prepared: bool,
    libraries: Sequence[str],
    devices: Sequence[str] = (),
    *,
    linked: bool,
    embeds: bool = True,
) -> list[_Program]:
    """The programs of a function as a file has them; `linked`: without code and texts, for a library that has the code.

    `embeds`: the libraries of own kernels are files, too; else they are named.

    Raises:
        UserError: An argument is not what it should be.
        UnsupportedError: Something has no form in a file.
    """
    if isinstance(cpus, str) or not cpus or not all(isinstance(cpu, str) for cpu in cpus):
        raise UserError(f"cpus is {cpus!r} but must be a sequence of names, such as ('x86-64-v3', 'x86-64-v4')")
    if isinstance(libraries, str):
        raise UserError(f"libraries is {libraries!r} but must be a sequence of names")
    targets = _targets_of(function, devices, prepared)
    # "host" stays: a virtual machine may give its processor a name whose features are not those that it has.
    named: dict[str, str] = {}
    for cpu in cpus:
        named.setdefault(_compiler.cpu_features(cpu)[0], cpu)
    programs: list[_Program] = []
    heads = (function, *function._slotted)
    count = 1 + len(function._others)
    for i, one in enumerate(one for head in heads for one in (head, *head._others)):
        _check_libraries(one, libraries)
        before = programs[i % count :: count]
        programs.append(_program(one, f"programs/{i}", list(named.values()), targets, prepared, linked, before))
        _add_own_libraries(programs[-1], embeds)
    if prepared:
        for example in range(count):
            _add_prepared(programs[example::count])
    return programs


def _add_own_libraries(program: _Program, embeds: bool) -> None:
    """The functions of users' libraries that the code of each variant calls, and with `embeds` those libraries."""
    for variant, compilation in zip(program.facts["variants"], program.compilations):
        rows = json.loads(compilation.explain_json)["statements"]
        symbols = list(dict.fromkeys(row["symbol"] for row in rows if "symbol" in row))
        own = own_kernels.saved(symbols)
        if not own:
            continue
        variant["own_kernels"] = [dict(each.facts) for each in own]
        for row, each in zip(variant["own_kernels"], own):
            if embeds or each.emitted:
                row["file"] = f"libraries/{each.facts['xxh128']}.so"
                program.files[row["file"]] = each.contents()


def _targets_of(function: Any, devices: Sequence[str], prepared: bool) -> list[str]:
    """What there is to be code for: "cpu", or architectures of a device ("cuda:sm_90")."""
    own = function._binding.request.get("target", "cpu")
    if isinstance(devices, str) or not all(isinstance(device, str) for device in devices):
        raise UserError(f"devices is {devices!r} but must be a sequence of architectures, such as ('sm_80', 'sm_90')")
    if not devices:
        return [own]
    if own == "cpu":
        raise UserError(
            f"devices is {tuple(devices)!r} but the program is for the cpu: compile it for inputs on a device, or with "
            f"target='cuda:{devices[0].removeprefix('cuda:')}'"
        )
    targets = []
    for device in devices:
        try:
            targets.append(_targets.chosen(f"cuda:{device.removeprefix('cuda:')}", (), 0))
        except UserError as error:
            raise UserError(f"devices has {device!r}: {error}") from error
    targets = list(dict.fromkeys(targets))
    if prepared:
        _check_prepared_here(function, targets)
    return targets


def _check_prepared_here(function: Any, targets: Sequence[str]) -> None:
    """Weights are prepared by the code itself, so a device that runs it is needed for each architecture."""
    for target in targets:
        why = function._why if not function._callable else ""
        why = why or _targets.why_no_device(target, function._binding.request.get("device", 0))
        if why:
            raise UnsupportedError(
                f"prepared=True with devices=: the weights for {target} are prepared on a device that runs its code, and here "
                f"none does ({why}); nearest supported form: prepared=False, or devices= of the device that is here"
            )


def _check_libraries(function: Any, libraries: Sequence[str]) -> None:
    rows = json.loads(function._compilation.explain_json)["statements"]
    outside = [row for row in rows if row["backend"] not in _OWN and row["backend"] not in libraries]
    if outside:
        calls = ", ".join(dict.fromkeys(f"{row['op']} at {row['source']} ({row['backend']})" for row in outside))
        names = ", ".join(sorted({repr(row["backend"]) for row in outside}))
        raise UnsupportedError(
            f"the program calls what a file cannot hold: {calls}; nearest supported form: allow=('native',), or "
            f"save(.., libraries=[{names}]), and the file needs them where it is loaded"
        )


def _program(
    function: Any,
    folder: str,
    cpus: Sequence[str],
    targets: Sequence[str],
    prepared: bool,
    linked: bool,
    before: Sequence[_Program],
) -> _Program:
    """`before`: programs for the same example with other targets for its slots."""
    binding = function._binding
    request = dict(binding.request)
    onDevice = request.get("target", "cpu") != "cpu"
    result = _Program(function, {})
    variants = [
        _variant(result, folder, target, cpu, prepared, linked, before)
        for target in targets
        for cpu in (cpus[:1] if onDevice else cpus)
    ]
    if len(targets) > 1 and (later := _for_later_devices(result, variants)) is not None:
        variants.append(later)
    if not linked:
        result.files[f"{folder}/op.mlir.gz"] = _text(function._compilation.ir("op", locations=True))
    result.facts = {
        "example": binding.example,
        "name": binding.name,
        "op": f"{folder}/op.mlir.gz",
        "request": {name: value for name, value in request.items() if name not in ("cpu", "device")},
        "complex": sorted(binding.complex),
        "states": [row["name"] for row in json.loads(binding.module.parameters_json) if row["kind"] == "state"],
        "kind": binding.options["kind"],
        "reuse_outputs": bool(binding.options.get("reuse_outputs", False)),
        "launch": list(binding.launch),
        "inputs": [
            {
                "name": name,
                "kind": kind,
                "node": _artifact_tree.to_json(node),
                **({"default": _artifact_tree.to_json(("const", name, default[0]))} if default else {}),
            }
            for name, kind, node, *default in binding.inputs
        ],
        "outputs": _artifact_tree.to_json(binding.outputs),
        "variants": variants,
    }
    return result


def _variant(
    result: _Program, folder: str, target: str, cpu: str, prepared: bool, linked: bool, before: Sequence[_Program]
) -> dict[str, Any]:
    """What the manifest says of the code for one CPU, or for one device and the host beside it; `result` receives its files."""
    function = result.function
    binding, compilation = function._binding, function._compilation
    own, onDevice = binding.request.get("target", "cpu"), target != "cpu"
    name, features = _compiler.cpu_features(cpu)
    isOwn = target == own and (name, features) == _compiler.cpu_features(binding.cpu(_compiler))
    if not isOwn or not hasattr(compilation, "link"):
        shared = _shared([one.compilations[len(result.compilations)] for one in before]) if binding.sharing else {}
        compilation = binding.compiled_with(target=target, cpu=cpu, emit_only=not prepared and not onDevice, **shared)
    explained = json.loads(compilation.explain_json)
    if unknown := [name for name in explained["parameters"] if name not in binding.names]:
        raise InternalError(f"for {target} the program reads {', '.join(unknown)}, for {own} it does not")
    base = f"{folder}/{target.replace(':', '-')}-{name}" if onDevice else f"{folder}/{name}"
    result.compilations.append(compilation)
    result.bases.append(base)
    code, images, compiler = (b"", {}, 0) if linked and not onDevice else compilation.link()
    variant = {
        "target": target,
        "cpu": name,
        "features": features,
        "code": "",
        "parameters": explained["parameters"],
        "kept": sorted(explained["kept_parameters"]),
        "named_sizes": explained["named_sizes"],
        "estimated_us": explained.get("estimated_us", 0.0),
    }
    if called := sorted({row["backend"] for row in explained["statements"]} - _OWN):
        variant["backends"] = called
    if target != own:
        variant["launch"] = list(_launch.chosen(binding.request.get("launch"), target, compilation.program))
    if not linked:
        texts = {
            "source": ("source.cpp.gz", compilation.code),
            "kernel": ("kernel.mlir.gz", compilation.ir("kernel", locations=True)),
            "explain": ("explain.json.gz", _compact({**explained, "compile_seconds": {}})),
        }
        result.files[f"{base}/code.so"] = code
        result.files.update({f"{base}/{name}": _text(text) for name, text in texts.values()})
        variant.update(code=f"{base}/code.so", **{key: f"{base}/{name}" for key, (name, _) in texts.items()})
    if function._emitted is not None:
        text = _python(function, compilation, isOwn)
        isReplaced = text != compilation.python
        if linked and isReplaced:
            raise UnsupportedError(
                "code was replaced, and a library has the C++ alone; nearest supported form: save(.., cpus=('host',))"
            )
        if not linked:
            result.files[f"{base}/source.py.gz"] = _text(text)
            variant["python"] = f"{base}/source.py.gz"
            variant.update({"python_replaced": True} if isReplaced else {})
    if images:
        variant["images"] = {name: f"{base}/{name}.cubin" for name in images}
        variant["image_compiler"] = compiler
        result.files.update({f"{base}/{name}.cubin": image for name, image in images.items()})
    return variant


def _shared(before: Sequence[Any]) -> dict[str, Any]:
    """Options of a compilation over the prepared data of those before it."""
    rows = [row for one in before for row in json.loads(one.explain_json).get("prepared", ())]
    return {"shares_prepared": True, "prepared": tuple(dict.fromkeys(rows))}


def _python(function: Any, compilation: Any, isOwn: bool) -> str:
    """The Python text of a variant: kernels and the order of weights are others for another CPU."""
    if isOwn:
        return function._emitted.text
    code = function._compilation  # that of a loaded function has the text that was saved
    if function._emitted.text != code.python or getattr(code, "python_replaced", False):
        raise UnsupportedError(
            "code was replaced, and that text calls the kernels of the CPU that it was compiled for; nearest supported form: "
            "cpus=('host',)"
        )
    return compilation.python


def _for_later_devices(result: _Program, variants: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The program for the lowest architecture with PTX in place of machine code, which every later device's driver compiles.

    None: each architecture has a suffix, and is itself alone, or the program has no kernel.
    """
    plain = {int(v["target"][8:]): i for i, v in enumerate(variants) if v["target"][8:].isdigit() and v.get("images")}
    if not plain:
        return None
    lowest = min(plain)
    variant, compilation = variants[plain[lowest]], result.compilations[plain[lowest]]
    texts, compiler = compilation.device_text()
    result.compilations.append(compilation)
    result.bases.append(result.bases[plain[lowest]])
    files = {name: f"{file.removesuffix('.cubin')}.ptx" for name, file in variant["images"].items()}
    result.files.update({file: texts[name] for name, file in files.items()})
    return {**variant, "target": f"cuda:compute_{lowest}", "images": files, "image_compiler": compiler}


def _add_prepared(programs: Sequence[_Program]) -> None:
    """Files of the prepared data of each variant. `programs`: one, or those of one example that share it."""
    for number in range(len(programs[0].facts["variants"])):
        made = _prepared([(one.function, one.compilations[number]) for one in programs])
        spaces = {sum(1 for data in each if data) for each in made}
        if len(programs) > 1 and programs[0].function._binding.sharing and spaces <= {0, 1}:
            # Each program's data is the beginning of the longest.
            longest = max(made, key=lambda each: sum(map(len, each)))
            made = [longest if any(each) else each for each in made]
        names: dict[bytes, str] = {}
        for one, each in zip(programs, made, strict=True):
            if not (data := b"".join(space + bytes(-len(space) % 64) for space in each)):
                continue
            name = names.setdefault(data, f"{one.bases[number]}/prepared.bin")
            one.files.setdefault(name, data)
            one.facts["variants"][number]["prepared"] = name
            if len(programs) > 1:
                one.facts["variants"][number]["prepared_shared"] = True


def _prepared(programs: Sequence[tuple[Any, Any]]) -> list[list[bytes]]:
    """The prepared data of sets over a function's present tensors, a memory space each, for functions with their compilations."""
    before, sets = None, []
    for function, compilation in programs:
        explained, tensors = json.loads(compilation.explain_json), _tensors(function)
        own = [
            tensors[name].place if isinstance(tensors[name], Stored) else tensors[name]
            for name in explained["parameters"]
        ]
        isShared = len(programs) > 1 and function._binding.sharing is not None
        shared = (before, [compilation.program for _, compilation in programs]) if isShared else None
        before = _call.weights(compilation.program, own, False, None, shared)
        try:
            sets.append(_call.prepared(before))
        except UnsupportedError as error:
            names = ", ".join(
                sorted({row["backend"] for row in explained["statements"]} - {"native", "cuda", "runtime"})
            )
            raise UnsupportedError(
                f"prepared=True: {error} ({names}), which a file cannot hold; nearest supported form: prepared=False"
            ) from error
    return sets


def _tensors(function: Any) -> dict[str, Any]:
    """The present tensors by name, complex ones as real ones."""
    present = function._binding.present(function)
    names = function._binding.names
    return {
        name: tensor if isinstance(tensor, Stored) else _complex.real(tensor)
        for name, tensor in zip(names, present, strict=True)
    }


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def _text(text: str) -> bytes:
    """What people read, and no runtime maps: with gzip it takes an eighth."""
    return gzip.compress(text.encode(), mtime=0)


def _weights(programs: Sequence[_Program]) -> tuple[list[Any], int]:
    """A safetensors file as chunks, and its bytes."""
    tensors: dict[str, Any] = {}
    for program in programs:
        tensors.update(_tensors(program.function))
    rows = {name: raw_bytes(tensor) for name, tensor in tensors.items()}

    # Those of whole cache lines first, so that they begin at cache lines; the rest at multiples of their elements.
    def rank(name: str) -> tuple[Any, ...]:
        return (rows[name].nbytes % 64 != 0, -_item_bytes(tensors[name]), name)

    header, at = {}, 0
    order = sorted(rows, key=rank)
    for name in order:
        dtype = str(tensors[name].dtype).removeprefix("torch.").removeprefix("paddle.")
        header[name] = {
            "dtype": SAFETENSORS.get(dtype, "U8"),
            "shape": list(tensors[name].shape),
            "data_offsets": [at, at + rows[name].nbytes],
        }
        at += rows[name].nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    return [struct.pack("<Q", len(text)), text, *(rows[name] for name in order)], 8 + len(text) + at


def _item_bytes(tensor: Any) -> int:
    count = 1
    for size in tensor.shape:
        count *= size
    return raw_bytes(tensor).nbytes // count if count else 0


@contextlib.contextmanager
def replaced(path: str) -> Iterator[Any]:
    """A file beside `path` that takes its place at the end, or is gone."""
    folder, name = os.path.split(os.path.abspath(path))
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
    except OSError as error:
        raise UserError(f"cannot write {path!r}: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fchmod(file.fileno(), 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise UserError(f"cannot write {path!r}: {error.strerror}") from error
        raise


def _umask() -> int:
    """The process's. os.umask sets what it reads, which another thread would see."""
    with (
        contextlib.suppress(OSError, ValueError),
        open("/proc/self/status", encoding="ascii", errors="replace") as status,
    ):
        for line in status:
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return 0o022


def write_archive(file: Any, function: Any, programs: Sequence[_Program]) -> None:
    """Writes the zip into an open file."""
    several = SEVERAL_DEVICES if any(_has_several_devices(program) for program in programs) else FORMAT
    manifest: dict[str, Any] = {
        "format": SLOTS if function.slots else several,
        "abi": _call.ABI_VERSION,
        "straightline": _compiler.version,
        "name": function._binding.name,
        "table": function._binding.table.rows(),
        "programs": [program.facts for program in programs],
    }
    if function.slots:
        ops = [{"op": op, "targets": list(targets)} for op, targets in function.slots.items()]
        manifest["slots"] = {"ops": ops, "shared": function._binding.sharing is not None}
    archive = _Zip(file)
    chunks, count = _weights(programs)
    if len(chunks) > 2:
        manifest["weights"] = "weights.safetensors"
        archive.add("weights.safetensors", chunks, count)
    for name, data in {name: data for program in programs for name, data in program.files.items()}.items():
        archive.add(name, [data])
    file.flush()
    manifest["files"] = _digests(file, archive.places)
    text = json.dumps(manifest, separators=(",", ":")).encode()
    archive.add("manifest.json", [text])
    archive.add("checksum", [_digest(text).encode()])
    archive.close()


def _has_several_devices(program: _Program) -> bool:
    return sum(variant["target"] != "cpu" for variant in program.facts["variants"]) > 1


def _digest(data: bytes) -> str:
    return _call.digest(ctypes.cast(data, ctypes.c_void_p).value or 0, len(data))


def _digests(file: Any, places: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
    """Bytes and digest of each entry, as the file has them."""
    if not places:
        return {}
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as memory:
        anchor = ctypes.c_char.from_buffer(memory)
        try:
            base = ctypes.addressof(anchor)
            return {
                name: {"bytes": count, "xxh128": _call.digest(base + begin, count)}
                for name, (begin, count) in places.items()
            }
        finally:
            del anchor
