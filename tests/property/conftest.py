# SPDX-License-Identifier: Apache-2.0
"""Paths of the property tests."""

from __future__ import annotations

import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
for _folder in (_ROOT / "tests", _ROOT / "tests" / "run", _ROOT / "tests" / "property"):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))
