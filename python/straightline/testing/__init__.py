# SPDX-License-Identifier: Apache-2.0
"""How a compiled model is compared with eager: shared by tests, the benchmark and the tour."""
