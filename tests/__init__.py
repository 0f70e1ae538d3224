# SPDX-License-Identifier: Apache-2.0
"""The tests; `python -m tests.device` runs those that need an NVIDIA device."""
