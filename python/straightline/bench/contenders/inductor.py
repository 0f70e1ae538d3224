# SPDX-License-Identifier: Apache-2.0
"""What `torch.compile` and AOTInductor share: Inductor's options, and counting what its wrappers call."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

#: What starts a kernel in a wrapper's text: a generated one, one of a library, or an op of ATen.
_KERNEL_CALL = re.compile(
    r"\bcpp_\w+\(|\bextern_kernels\.\w+\(|\btorch\.ops\.\w+\.\w+(?:\.\w+)?\(|\baoti_torch_cpu_\w+\(|"
    r"\baoti_torch_(?:proxy_executor_call_function|call_dispatcher)\("
)


def options() -> dict[str, Any]:
    """Inductor at its best for inference on a CPU, as its documents advise: weights frozen, C++ GEMMs tuned against oneDNN's."""
    return {
        "freezing": True,
        "max_autotune": True,
        "max_autotune_gemm_backends": "CPP,ATEN",
        "autotune_remote_cache": False,
        "fx_graph_remote_cache": False,
    }


def launches_of_modules() -> int | None:
    """Kernels that the Python wrappers of this process call, once each; None when there is none."""
    from torch._inductor.codecache import PyCodeCache

    bodies = []
    for module in PyCodeCache.modules:
        if hasattr(module, "call") and module.__file__:
            text = Path(module.__file__).read_text(encoding="utf-8")
            found = re.search(r"def call\(.*?\n(.*?)\n\s*return ", text, re.DOTALL)
            if found:
                bodies.append(found[1])
    return sum(len(_KERNEL_CALL.findall(body)) for body in bodies) if bodies else None


def launches_of_package(path: str) -> int | None:
    """Kernels that `run_impl` of a package calls; None when its text is not in there."""
    with zipfile.ZipFile(path) as package:
        names = [name for name in package.namelist() if name.endswith("wrapper.cpp")]
        texts = [package.read(name).decode() for name in names]
    for text in texts:
        found = re.search(r"void AOTInductorModel::run_impl\((.*?)\n\}", text, re.DOTALL)
        if found:
            return len(_KERNEL_CALL.findall(found[1]))
    return None
