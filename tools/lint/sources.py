# SPDX-License-Identifier: Apache-2.0
"""The files that the checks of this folder read."""

from __future__ import annotations

import subprocess
from pathlib import Path


def listed(*patterns: str) -> list[Path]:
    """Tracked and new files of the repository of the working directory, as git matches the patterns; all without one."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard", *patterns]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [path for path in map(Path, names) if path.is_file()]
