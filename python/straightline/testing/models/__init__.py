# SPDX-License-Identifier: Apache-2.0
"""Models that the tests compile."""
