# SPDX-License-Identifier: Apache-2.0
"""Which torch, Python and sources a binary of torch's device is for.

The build runs this file as a script and keeps the answer beside the binary; `_build.load` takes the binary where its own is the
same. Imports nothing of the package, and not torch.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path

NAME = "_straightline_torch_device"
SOURCES = Path(__file__).parent / "native"


def description(torch: Path, abi: Path) -> dict[str, str]:
    """What a binary goes by.

    Args:
        torch: Torch's folder.
        abi: The folder of the headers straightline/abi.
    """
    text = (torch / "version.py").read_text()
    version, commit = (
        re.search(rf"^{name}\b[^=]*= '([^']+)'", text, re.MULTILINE) for name in ("__version__", "git_version")
    )
    return {
        # Without what stands behind "+": builds for the CPU and for CUDA devices have one C++ API.
        "torch": version[1].partition("+")[0] if version else "",
        "torch_commit": commit[1] if commit else "",
        "python": str(sys.implementation.cache_tag),
        "sources": _digest([*SOURCES.glob("*.h"), *SOURCES.glob("*.cpp")]),
        "abi": _digest(abi.glob("*.h")),
    }


def _digest(paths: Iterable[Path]) -> str:
    found = hashlib.sha256()
    for path in sorted(paths, key=lambda one: one.name):
        text = path.read_bytes()
        found.update(f"{path.name} {len(text)}\n".encode() + text)
    return found.hexdigest()[:24]


if __name__ == "__main__":
    Path(sys.argv[3]).write_text(json.dumps(description(Path(sys.argv[1]), Path(sys.argv[2])), indent=1) + "\n")
