# SPDX-License-Identifier: Apache-2.0
"""Chromium without a window."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def browser() -> str | None:
    """Its program; None: there is none here."""
    return shutil.which("chromium") or shutil.which("google-chrome")


def options(profile: Path | str) -> list[str]:
    """Of a start whose profile is a folder of its own."""
    return ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]


def document(page: Path, fragment: str = "") -> str:
    """The page's document after its scripts have run, for an address with this fragment."""
    program = browser()
    assert program is not None
    done = subprocess.run(
        [
            *[program, *options(page.parent / "profile")],
            *["--virtual-time-budget=4000", "--dump-dom", f"file://{page}{fragment}"],
        ],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert 'data-ready="1"' in done.stdout, done.stderr[-2000:]
    return done.stdout
