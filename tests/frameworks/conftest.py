# SPDX-License-Identifier: Apache-2.0
"""Tests of a framework's programs are collected in that framework's environment (`make frameworks`) and nowhere else."""

from __future__ import annotations

import importlib.util

collect_ignore = [name for name in ("jax", "paddle", "triton") if importlib.util.find_spec(name) is None]
