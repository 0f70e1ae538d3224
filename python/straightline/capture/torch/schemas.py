# SPDX-License-Identifier: Apache-2.0
"""What becomes of each of ATen's ops: read from the schemas of the torch that is installed.

torch's wheels carry `native_functions.yaml`, from which torch itself is generated. An op here is all overloads of one name, with
those that write in place (`add_`) or into `out`. Nothing is kept of any version of torch: an op that a later one adds is taken
apart if torch says how, and torch's or refused if not.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from straightline.capture.torch import graph_import  # noqa: F401  (which registers all converters)
from straightline.capture.torch.aten_tail import reads_storage
from straightline.capture.torch.complex_decompositions import COMPLEX
from straightline.capture.torch.decompose import parts_of
from straightline.capture.torch.importer import CONVERTERS
from straightline.capture.torch.memory_views import reads_memory
from straightline.errors import UserError

Op = torch._ops.OpOverload

#: What an op is to the importer. native: a converter takes some form of it; parts: it is taken apart into others; torch: it is
#: called in torch (`op.aten`); refused: it has a reason.
KINDS = ("native", "parts", "torch", "refused")

_LINE = re.compile(r"- func: ([\w.]+)\(")
#: Words of a name -> what kind of tensors the op works on, none of which are taken.
_OTHER_TENSORS = {
    **dict.fromkeys(("sparse", "csr", "csc", "coalesce", "cslt"), "sparse tensors"),
    **dict.fromkeys(("quantize", "quantized", "fbgemm"), "quantised tensors"),
    **dict.fromkeys(("mkldnn", "vulkan"), "tensors of a library's own layout"),
    "nested": "nested tensors",
}
_OTHER_DEVICES = {"mps": "Apple's", "miopen": "AMD's", "hpu": "other"}
_OTHER_TYPES = {
    "Dimname": "names of dims",
    "Storage": "a storage",
    "Stream": "a stream",
    "QScheme": "a quantisation scheme",
}
#: Keys of torch's dispatcher under which an op runs on the devices that programs have.
_KEYS = (
    "CPU",
    "CUDA",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
    "CompositeImplicitAutograd",
)


@dataclass(frozen=True)
class BaseOp:
    """An op of ATen's.

    Attributes:
        name: "add".
        overloads: "add.Tensor", "add_.Tensor", ...; those into `out` are left out.
        kind: One of `KINDS`.
        reason: Why it is refused; "" for the others.
    """

    name: str
    overloads: tuple[str, ...]
    kind: str
    reason: str = ""


def schema_file() -> Path:
    """Torch's own list of its ops.

    Raises:
        UserError: The torch that is installed has none.
    """
    path = Path(torch.__file__).parents[1] / "torchgen/packaged/ATen/native/native_functions.yaml"
    if not path.is_file():
        raise UserError(f"torch {torch.__version__} has no list of its ops: expected {path}")
    return path


def names_in(text: str) -> Iterator[str]:
    """The ops of such a list, as "add.Tensor"."""
    return (match.group(1) for match in map(_LINE.match, text.splitlines()) if match)


def base_name(name: str) -> str:
    """The op that an overload belongs to: "add" for "add_.Tensor"."""
    name = name.partition(".")[0]
    return name if name.startswith("__") or not name.endswith("_") else name.rstrip("_")


def overload(name: str) -> Op | None:
    """The op of torch that is called so; None where this torch was built without it."""
    packet, _, which = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet, None), which or "default", None)


@functools.cache
def base_ops() -> tuple[BaseOp, ...]:
    """All ops of the torch that is installed, sorted by name."""
    found: dict[str, list[str]] = {}
    for name in names_in(schema_file().read_text()):
        found.setdefault(base_name(name), []).append(name)
    return tuple(_classified(name, overloads) for name, overloads in sorted(found.items()))


def _classified(name: str, overloads: list[str]) -> BaseOp:
    ops = {text: overload(text) for text in overloads}
    known = {text: op for text, op in ops.items() if op is not None and not _is_out(op)}
    kept = tuple(known)
    forms = list(known.values())
    if any(str(op) in CONVERTERS or reads_memory(op) for op in forms):
        return BaseOp(name, kept, "native")
    reason = _other_kind(name)
    if reason:
        return BaseOp(name, kept, "refused", reason)
    if any(parts_of(op) is not None or op in COMPLEX for op in forms):
        return BaseOp(name, kept, "parts")
    reasons = [_refusal(op) for op in forms] or ["this build of torch has no such op"]
    return BaseOp(name, kept, "refused", reasons[0]) if all(reasons) else BaseOp(name, kept, "torch")


def _is_out(op: Op) -> bool:
    return any(argument.is_out for argument in op._schema.arguments)


def _other_kind(name: str) -> str:
    """What other tensors or devices an op is for, by its name; "" for most."""
    words = name.split("_")
    for table, text in ((_OTHER_TENSORS, "works on {}"), (_OTHER_DEVICES, "works on {} devices")):
        found = next((table[word] for word in words if word in table), "")
        if found and "fake" not in words:
            return text.format(found)
    return ""


def _refusal(op: Op) -> str:
    """Why no form of a call of the op is taken; "" where that depends on the call."""
    schema = op._schema
    types = " ".join(str(argument.type) for argument in (*schema.arguments, *schema.returns))
    reason = next((f"takes or gives {what}" for word, what in _OTHER_TYPES.items() if word in types), "")
    if reason:
        return reason
    if reads_storage(op):
        return "its result depends on how memory is laid out"
    if {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output} & set(op.tags):
        return "a size or a number depends on data"
    if schema.returns and not any("Tensor" in str(value.type) for value in schema.returns):
        return "gives no tensor"
    if not any(torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key) for key in _KEYS):
        return "this build of torch has no kernel of it for a CPU or an NVIDIA device"
    return ""


def markdown() -> str:
    """How many ops are of each kind, and a row for each that is refused."""
    ops = base_ops()
    lines = [f"torch {torch.__version__}: {len(ops)} ops", "", "| kind | ops |", "|---|---|"]
    lines += [f"| {kind} | {sum(op.kind == kind for op in ops)} |" for kind in KINDS]
    for kind in KINDS[:-1]:
        lines += ["", f"{kind}: " + ", ".join(f"`{op.name}`" for op in ops if op.kind == kind)]
    lines += ["", "| refused | reason |", "|---|---|"]
    lines += [f"| `{op.name}` | {op.reason} |" for op in ops if op.kind == "refused"]
    return "\n".join(lines) + "\n"
