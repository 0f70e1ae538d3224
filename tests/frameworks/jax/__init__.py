# SPDX-License-Identifier: Apache-2.0
"""Programs of JAX against JAX."""
