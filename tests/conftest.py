# SPDX-License-Identifier: Apache-2.0
"""Which tests run in `make test`, and in which order.

Files that take long begin first, so that no worker of pytest-xdist is left alone with one at the end: of itself xdist begins with
the files that have most tests (test.sh: --no-loadscope-reorder), and some have one that takes minutes.

With STRAIGHTLINE_TEST_SLICE=TEXT (test.sh: the commit) only a part runs in the folders of _SLICED and the files of _SLICED_FILES: of
each parametrised function of four cases or more a tenth of them, of a file's other tests a fifth. Another part with another text, the
same with the same. What is marked `whole` is left out. Without it, as in `pytest tests/run/ops_test.py` and `make test-whole`,
everything runs.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter, defaultdict
from pathlib import Path

import pytest

_TESTS = Path(__file__).parent

#: Folders of many cases of one kind, and files of which a test takes many seconds. Elsewhere (errors, documents, the package) each
#: case is a rule of its own, and quick.
_SLICED = (
    "aot",
    "artifacts",
    "conformance",
    "ffi",
    "frameworks",
    "onnx_models",
    "own_kernels",
    "plugins",
    "property",
    "run",
    "torch_compile",
    "torch_device",
)
_SLICED_FILES = (
    "bench/command_test.py",
    "bench/cuda_call_path_test.py",
    "bench/worker_test.py",
    "docs/examples_test.py",
    "error/circumstances_test.py",
    "error/cuda_driver_test.py",
    "error/interrupt_test.py",
    "packaging/cpp_example_test.py",
    "packaging/wheel_test.py",
    "python/call_path_lifetime_test.py",
    "python/frameworks_test.py",
)
_FEWEST, _PARTS = 4, 10

#: Files of few tests that take more than a minute where no kernel has been compiled before.
_LONG = (
    "torch_device/own_process_test.py",
    "property/graphs_test.py",
    "packaging/wheel_test.py",
    "aot/sanitizer_test.py",
    "plugins/device_programs_test.py",
)


def pytest_report_header() -> str:
    """Says what is left out."""
    text = os.environ.get("STRAIGHTLINE_TEST_SLICE")
    return f"slice {text}: a part of many cases of one kind; make test-whole runs all" if text else ""


def _is_sliced(path: Path) -> bool:
    relative = path.relative_to(_TESTS)
    return relative.parts[0] in _SLICED or relative.as_posix() in _SLICED_FILES


def kept(items: list[pytest.Item], text: str) -> set[pytest.Item]:
    """The tests of a slice."""
    functions = defaultdict(list)
    for item in items:
        functions[item.path, item.nodeid.partition("[")[0]].append(item)
    found: set[pytest.Item] = set()
    groups = defaultdict(list)  # by file and parts, of which one is kept
    for (path, name), cases in functions.items():
        if not _is_sliced(path):
            found.update(cases)
        elif len(cases) >= _FEWEST:
            groups[path, name, _PARTS] = cases
        else:
            groups[path, "", _PARTS // 2] += cases
    for (_, _, parts), group in groups.items():
        group.sort(key=lambda item: hashlib.sha256(f"{text} {item.nodeid}".encode()).digest())
        found.update(group[: -(-len(group) // parts)])
    return {item for item in found if not item.get_closest_marker("whole")}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what is not of the slice and orders the files; the order within a file stays."""
    if text := os.environ.get("STRAIGHTLINE_TEST_SLICE"):
        slice_ = kept(items, text)
        config.hook.pytest_deselected(items=[item for item in items if item not in slice_])
        items[:] = [item for item in items if item in slice_]
    tests = Counter(item.path for item in items)

    def place(item: pytest.Item) -> tuple[int, int, str]:
        path = item.path.as_posix()
        long = [path.endswith(name) for name in _LONG]
        return ([*long, True].index(True), -tests[item.path], path)

    items.sort(key=place)
