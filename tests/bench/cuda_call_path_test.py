# SPDX-License-Identifier: Apache-2.0
"""What a call on a CUDA device asks of the driver, counted without a device (bench/cuda_call_path.py)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]


def _run(folder: Path, *arguments: str) -> str:
    search = os.pathsep.join([str(_ROOT), *(p for p in sys.path if p)])
    environment = {**os.environ, "PYTHONPATH": search}
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_streams_and_results_of_calls(tmp_path: Path) -> None:
    """Each path launches on the current stream; `reuse_outputs` takes a result again where nothing can still be reading it."""
    assert _run(tmp_path, str(Path(__file__).with_name("on_fake_device.py"))).splitlines()[-1] == "right"


def test_a_call_asks_for_its_launch_and_nothing_else(tmp_path: Path) -> None:
    """On the default stream, by stream and as a graph; an address that is new costs one update of a node."""
    path = tmp_path / "calls.json"
    _run(tmp_path, "-m", "bench.cuda_call_path", "--only", "mlp_256", "--calls", "5", "--json", str(path))
    asked = {(r["case"], r["way"]): r["asked"] for r in json.loads(path.read_text())["records"]}
    for way in ("out=", "result let go", "the last result kept"):
        assert asked["mlp_256", way] == {"launches": 8, "others": 8}, way  # the context, once for each
        assert asked["mlp_256 graph", way] == {"graph_launches": 1, "others": 1}, way
    never = asked["mlp_256 graph", "addresses never come back"]
    assert never == {"graph_launches": 1, "node_updates": 1, "others": 2}
