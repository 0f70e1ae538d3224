# SPDX-License-Identifier: Apache-2.0
"""Tests that need an NVIDIA device: `python -m tests.device --out FOLDER` there, or `pytest tests/device`."""
