# SPDX-License-Identifier: Apache-2.0
"""Writes the .mlir files beside this one: what capture gives for small models, with a target.

Run: PYTHONPATH=build/dev/python python tests/codegen/models/capture.py. The goldens are printed from the files, not from
capture: run this when capture changes on purpose.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from straightline.capture.torch.torch_export import capture
from straightline.module_builder import ModuleBuilder
from torch import Tensor, nn

_HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(_HERE.parents[1]))

from straightline.demo_models import DigitsCnn  # noqa: E402
from straightline.testing.models.lstm import LstmTagger  # noqa: E402
from straightline.testing.models.small import Mlp, ReshapeAdd  # noqa: E402


class NormSoftmax(nn.Module):
    """Layer norm, then softmax of a scaled sum; x [n, 24]."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(24)

    def forward(self, x: Tensor) -> Tensor:
        """Rows of probabilities."""
        return torch.softmax(self.norm(x) * 0.5 + x, dim=-1)


def _write(name: str, threads: int, model: nn.Module, inputs: Sequence[Tensor]) -> None:
    module = capture(model.eval(), tuple(inputs), {}, None, ModuleBuilder()).builder.finish()
    text = module.print(locations=True)
    # Only the file's name: folders belong to a machine.
    text = re.sub(r'"[^"\n]*/([^"/\n]+\.py)"', r'"\1"', text)
    target = f'#kernel.target<"cpu", "x86-64-v3", threads = {threads}>'
    text, count = re.subn(
        r"^module( attributes \{)?", f"module attributes {{op.target = {target}", text, count=1, flags=re.M
    )
    assert count == 1, text[:200]
    head, rest = text.split(f"op.target = {target}", 1)
    rest = rest if rest.startswith(",") else "}" + rest if rest.startswith(" {") else ", " + rest
    (_HERE / f"{name}.mlir").write_text(f"{head}op.target = {target}{rest}")


def main() -> None:
    """Writes every file."""
    _write("mlp", 1, Mlp(), [torch.randn(1, 64)])
    _write("mlp_batch", 2, Mlp((64, 256, 256, 10)), [torch.randn(32, 64)])
    _write("reshape_add", 2, ReshapeAdd(), [torch.randn(8, 16, 8, 8), torch.randn(1024)])
    _write("norm_softmax", 1, NormSoftmax(), [torch.randn(16, 24)])
    _write("lstm", 1, LstmTagger(), [torch.randn(2, 50, 8)])
    _write("digits_cnn", 2, DigitsCnn(), [torch.randn(4, 1, 8, 8)])


if __name__ == "__main__":
    main()
