#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of the explorer in docs/images, with Chromium and the built package.

    PYTHONPATH=build/release/python .venv/bin/python tools/docs/explorer_images.py

`explorer.png`: an op that is picked at every level, with its time. `explorer_passes.png`: what one pass wrote and took away.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import straightline as sl
import torch
from PIL import Image
from torch import nn

_FOLDER = Path(__file__).resolve().parents[2] / "docs" / "images"
_SIZE = "1400,760"


class Digits(nn.Module):
    """A net for images of 3 x 16 x 16, as users write them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.hidden = nn.Linear(16 * 8 * 8, 64)
        self.out = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of ten classes."""
        x = torch.relu(self.norm(self.conv(x)))
        x = nn.functional.max_pool2d(x, 2).flatten(1)
        return self.out(torch.relu(self.hidden(x)))


def _facts(page: str) -> dict[str, Any]:
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def _picture(browser: str, page: Path, fragment: str, name: str) -> None:
    subprocess.run(
        [browser, "--headless", "--no-sandbox", "--hide-scrollbars", "--force-device-scale-factor=1", f"--window-size={_SIZE}",
         "--virtual-time-budget=5000", f"--screenshot={_FOLDER / name}", f"{page.as_uri()}#{fragment}"],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    Image.open(_FOLDER / name).convert("RGB").quantize(64).save(_FOLDER / name, optimize=True)
    print(_FOLDER / name)


def main() -> int:
    """Writes both; 1 where there is no Chromium."""
    browser = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)
    if browser is None:
        print("no Chromium: apt-get install chromium-headless-shell", file=sys.stderr)
        return 1
    torch.manual_seed(0)
    x = torch.randn(1, 3, 16, 16)
    function = sl.compile(Digits().eval(), (x,))
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "model.html"
        function.explorer(page, passes=True, profile=function.profile(x, runs=20))
        facts = _facts(page.read_text())
        linear = next(line["keys"][0] for line in facts["op"] if "op.linear" in re.sub("<[^>]*>", "", line["html"]))
        _picture(browser, page, linear, "explorer.png")
        fusion = next(n for n, step in enumerate(facts["passes"]["steps"], 1) if step["name"] == "fuse-contractions")
        _picture(browser, page, f"pass{fusion}+{linear}", "explorer_passes.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
