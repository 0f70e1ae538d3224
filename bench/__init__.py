# SPDX-License-Identifier: Apache-2.0
"""Benchmarks. `python -m bench` compares Straightline with eager PyTorch."""
