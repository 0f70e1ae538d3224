# SPDX-License-Identifier: Apache-2.0
"""Triton kernels in programs for a CUDA device, compiled without one (requirements/triton.txt)."""
