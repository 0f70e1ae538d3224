# SPDX-License-Identifier: Apache-2.0
"""Options of the golden tests."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the flag that rewrites golden files, and the place of the build."""
    parser.addoption("--update-golden", action="store_true", help="rewrite the files of tests/codegen/golden")
    parser.addoption("--build", default="", help="build tree with tools/straightline-emit")
