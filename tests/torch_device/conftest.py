# SPDX-License-Identifier: Apache-2.0
"""The tests of suite/ register torch's device, for good, so they run in processes of their own (own_process_test.py)."""

from __future__ import annotations

import os

collect_ignore_glob = [] if os.environ.get("STRAIGHTLINE_TEST_DEVICE") else ["suite", "suite/*"]
