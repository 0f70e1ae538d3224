# SPDX-License-Identifier: Apache-2.0
"""Files that take long begin first, so that no worker of pytest-xdist is left alone with one at the end.

Of itself xdist begins with the files that have most tests (test.sh: --no-loadscope-reorder), and some have one that takes minutes.
"""

from __future__ import annotations

from collections import Counter

import pytest

#: Files of few tests that take more than a minute where no kernel has been compiled before.
_LONG = (
    "torch_device/own_process_test.py",
    "property/graphs_test.py",
    "packaging/wheel_test.py",
    "aot/sanitizer_test.py",
    "plugins/device_programs_test.py",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Orders the files; the order within a file stays."""
    tests = Counter(item.path for item in items)

    def place(item: pytest.Item) -> tuple[int, int, str]:
        path = item.path.as_posix()
        long = [path.endswith(name) for name in _LONG]
        return ([*long, True].index(True), -tests[item.path], path)

    items.sort(key=place)
