# SPDX-License-Identifier: Apache-2.0
"""What the kernels in a folder of the disk cache take of a processor."""

from __future__ import annotations

from pathlib import Path

from straightline._cubin import Resources, is_cubin, resources_of


def resources_in(cache: Path) -> list[Resources]:
    """Returns the resources of every kernel for a device in a folder of the disk cache."""
    found: list[Resources] = []
    for path in sorted(path for path in cache.rglob("*") if path.is_file()):
        data = path.read_bytes()
        at = data.find(b"\x7fELF")
        if at >= 0 and is_cubin(data[at:]):
            found.extend(resources_of(data[at:]))
    return found
