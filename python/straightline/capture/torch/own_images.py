# SPDX-License-Identifier: Apache-2.0
"""A call of a kernel that is machine code (`sl.triton_kernel`, a cubin): attributes of `op.own_kernel`."""

from __future__ import annotations

import base64
from typing import Any

from straightline.capture.builder import Attr, Extent
from straightline.own_images import MachineCode


def image_attributes(code: MachineCode, encoder: Any, values: dict[str, Any], updated: int) -> dict[str, Attr]:
    """The attributes of one launch; `encoder` collects its tensors and sizes, results come behind `updated` others."""

    def size(value: Any) -> str:
        if not isinstance(value, Extent):
            return f"i:{int(value)}"
        if value not in encoder.sizes:
            encoder.sizes.append(value)
        return f"${encoder.sizes.index(value)}"

    arguments = []
    for parameter in code.parameters:
        if parameter.kind == "tensor":
            arguments.append(encoder.tensor(parameter.value, values[parameter.value]))
        elif parameter.kind == "result":
            arguments.append(f"@{updated + parameter.value}")
        else:
            arguments.append(size(parameter.value))
    return {
        "symbol": code.symbol,
        "arguments": arguments,
        "source": code.text,
        "image": base64.b64encode(code.image).decode(),
        "machine": code.machine,
        "alignments": [parameter.alignment for parameter in code.parameters],
        "blocks": size(code.grid[0]),
        "more_blocks": [size(blocks) for blocks in code.grid[1:]],
        "threads": code.threads,
        "shared_bytes": code.shared_bytes,
        "waits": code.waits,
        "cooperative": code.cooperative,
        "note": code.note,
    }
