# SPDX-License-Identifier: Apache-2.0
"""The check for names of targets (tools/lint/layers.py) on lines that should not come back."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

_FILE = Path(__file__).resolve().parents[2] / "tools/lint/layers.py"
sys.path.insert(0, str(_FILE.parent))  # layers.py imports what lies beside it, as a script does
_SPEC = importlib.util.spec_from_file_location("layers", _FILE)
assert _SPEC and _SPEC.loader
lint = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(lint)

_TARGETS = ("cpu", "cuda")


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("tools/compile_options.cpp", 'if (options.launch == "graph" && options.target == "cpu") {'),
        ("codegen/entry_points.cpp", 'return kernel::runsOnDevice(entry) ? "cuda" : "native";'),
        ("dialect/kernel/kernel_storage.cpp", 'if (queue.getBackend() != "cpu") {'),
        ("passes/lowering/program.h", 'inline constexpr llvm::StringLiteral kTeam = "cpu";'),
        ("passes/targets/cpu/target.cpp", 'return other == "cuda";'),
        ("passes/targets/target.cpp", 'findTarget("cuda")'),
        ("python/straightline/capture/torch/aten_pools.py", 'if ctx.device == "cpu" and count > 1:'),
        ("python/straightline/capture/onnx/nodes.py", "if name in ('cuda',):"),
        ("python/straightline/capture/torch/graph_import.py", '    device: str = "cpu",'),
    ],
)
def test_a_name_of_a_target_is_refused(path: str, line: str) -> None:
    (message,) = lint.named_targets(path, "\n" + line, _TARGETS)
    assert message.startswith(f"{path}:2: names the target ")


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("passes/targets/cuda/place_branches.cpp", 'return found && found.getBackend() == "cuda";'),
        ("dialect/kernel/kernel_dialect.h", 'kHostBackend = "cpu";'),
        ("passes/kernel_choice.h", '/// Where the program runs: "cpu", or the backend of a device.'),
        ("codegen/jit/nvrtc.cpp", "\"; its devices run what target='cuda:sm_90' gives\""),
        ("tools/compilation_test.cpp", '.target = "cpu"'),
        ("runtime/backends/aten/dispatcher_call.cpp", 'value.text == "cpu"'),
        ("python/straightline/capture/torch/resampling.py", 'torch.arange(size, device="cpu")  # not on "cuda"'),
        ("python/straightline/capture/torch/literals.py", 'with torch.device("cpu"):'),
        ("python/straightline/capture/torch/aten_tail.py", 'if tensor.device.type not in ("cpu", "cuda"):'),
        ("python/straightline/_targets.py", 'return "cpu"'),
    ],
)
def test_what_may_name_a_target(path: str, line: str) -> None:
    assert lint.named_targets(path, line, _TARGETS) == []


def test_targets_are_the_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(_FILE.parents[2])
    assert lint.target_names() == (*_TARGETS, "plugin"), (
        "plugin: devices of plug-ins, under the names of their backends"
    )


def test_exceptions_exist_and_are_needed() -> None:
    for path in lint.NAMES_TARGETS:
        text = (_FILE.parents[2] / path).read_text()
        assert any(f'"{name}"' in text for name in _TARGETS), path
