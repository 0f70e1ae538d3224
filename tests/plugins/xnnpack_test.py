# SPDX-License-Identifier: Apache-2.0
"""examples/backend_xnnpack: built by its own CMake against an installed package, tried, and compared with our kernels.

Skipped where libxnnpack-dev is not installed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from builds import PACKAGE, ROOT

pytestmark = pytest.mark.skipif(
    not (Path("/usr/include/xnnpack.h").exists() and Path("/usr/include/pthreadpool.h").exists()),
    reason="libxnnpack-dev or libpthreadpool-dev is not installed",
)


def _command(*command: str | Path, **options: object) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{command}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return str(done.stdout)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plug-in, against the package as `cmake --install` writes it."""
    folder = tmp_path_factory.mktemp("xnnpack")
    _command("cmake", "--install", PACKAGE.parents[1], "--component", "package", "--prefix", folder / "installed")
    package = next(folder.glob("installed/**/cmake/straightline-config.cmake")).parent
    build = folder / "build"
    _command(
        "cmake",
        "-S",
        ROOT / "examples/backend_xnnpack",
        "-B",
        build,
        f"-Dstraightline_DIR={package}",
        "-DCMAKE_C_FLAGS=-Werror",
    )
    _command("cmake", "--build", build)
    made = build / "libstraightline_backend_xnnpack.so"
    needed = _command("readelf", "-d", made)
    assert "straightline" not in "".join(line for line in needed.splitlines() if "(NEEDED)" in line)
    return made


def test_plugin_check(library: Path) -> None:
    report = json.loads(_command(sys.executable, "-m", "straightline", "plugin", "check", library, "--json"))
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
        _command(
            sys.executable,
            Path(__file__).with_name("xnnpack_models.py"),
            library,
            env={**os.environ, "PYTHONPATH": paths},
        )
    )  # noqa: T201
