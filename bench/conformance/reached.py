# SPDX-License-Identifier: Apache-2.0
"""Which of ATen's ops a call reaches in eager, those that consist of others and these as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from straightline.capture.torch.decompose import is_composite
from straightline.capture.torch.schemas import base_name
from torch.utils._python_dispatch import TorchDispatchMode


class _Reached(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if isinstance(op, torch._ops.OpOverload) and op.namespace == "aten":
            self.names.add(base_name(op._schema.name.partition("::")[2]))
            if is_composite(op):
                with self:
                    result = op.decompose(*args, **kwargs)
                if result is not NotImplemented:
                    return result
        return op(*args, **kwargs)


def reached(call: Callable[[], Any]) -> list[str]:
    """The ops that a call reaches, sorted; one that cannot be traced reaches what it did until then."""
    mode = _Reached()
    try:
        with torch.no_grad(), torch._C._AutoDispatchBelowAutograd(), mode:
            call()
    except Exception:  # eager has run the same call already: the trace is at fault
        pass
    return sorted(mode.names)
