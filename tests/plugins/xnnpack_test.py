# SPDX-License-Identifier: Apache-2.0
"""examples/backend_xnnpack: built by its own CMake against an installed package, tried, and compared with our kernels.

Skipped where libxnnpack-dev is not installed.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from builds import ROOT, command, example

pytestmark = pytest.mark.skipif(
    not (Path("/usr/include/xnnpack.h").exists() and Path("/usr/include/pthreadpool.h").exists()),
    reason="libxnnpack-dev or libpthreadpool-dev is not installed",
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return example("xnnpack", tmp_path_factory.mktemp("xnnpack"))


def test_plugin_check(library: Path) -> None:
    report = json.loads(command(sys.executable, "-m", "straightline", "plugin", "check", library, "--json"))
    assert report["failed"] == 0
    assert len(report["kernels"]) == 11
    for name, checks in report["kernels"].items():
        assert {check["status"] for check in checks} == {"passed"}, (name, checks)
    for name in ("linear", "convolution", "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "softmax"):
        accepted = report["kernels"][f"xnnpack.{name}"][0]["detail"]
        assert not accepted.startswith("0 of"), (name, accepted)


def test_models(library: Path) -> None:
    """xnnpack_models.py in a process of its own."""
    paths = os.pathsep.join([str(ROOT / "tests/run"), *(path for path in sys.path if path)])
    print(
        command(
            sys.executable,
            Path(__file__).with_name("xnnpack_models.py"),
            library,
            env={**os.environ, "PYTHONPATH": paths},
        )
    )  # noqa: T201
