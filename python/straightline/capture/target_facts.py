# SPDX-License-Identifier: Apache-2.0
"""What front ends ask of the target of a program. The answers are the target's own (passes/targets/target.h)."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass

from straightline.errors import InternalError


@dataclass(frozen=True)
class TargetFacts:
    """The facts of one target by name, as docs/design/targets.md lists them."""

    #: As the compiler names it: "" for the default one.
    target: str
    values: Mapping[str, int]

    def supports(self, fact: str) -> bool:
        """Whether a fact that is yes or no holds."""
        return bool(self.limit(fact))

    def limit(self, fact: str) -> int:
        """A fact that is a number."""
        if fact not in self.values:
            raise InternalError(f"asks the target for {fact}, which is none of {', '.join(self.values)}")
        return self.values[fact]

    def nearest_topk(self, count: int, k: int, element_bytes: int) -> str:
        """The nearest form that kernels take of the first `k`, in order, of a row of `count` elements; empty: this one."""
        from straightline import _compiler

        return _compiler.nearest_topk(self.target, 1, count, k, element_bytes)

    def takes_named_rows(self, low: int, high: int, k: int | None, element_bytes: int) -> bool:
        """Whether kernels take the first `k` (None: all) of a row whose number of elements has these bounds."""
        if high > _MOST_OF_ROW or (k is not None and k > low):
            return False
        is_limited = self.nearest_topk(1 << 40, 1 << 40, element_bytes) != ""
        return not is_limited or high <= _MOST_OF_BLOCK


#: Places of a row are 32-bit numbers (codegen/kernels/topk.h); a block of a device sorts so many elements whole.
_MOST_OF_ROW, _MOST_OF_BLOCK = 2**32 - 2, 2048


@functools.cache
def facts_of(target: str) -> TargetFacts:
    """Asks the compiler.

    Args:
        target: "cpu", or a machine of a target ("cuda:sm_90"); "" for the default one.

    Raises:
        UserError: there is no such target.
    """
    from straightline import _compiler

    return TargetFacts(target, json.loads(_compiler.target_facts_json(target)))
