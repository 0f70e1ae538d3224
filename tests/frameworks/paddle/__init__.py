# SPDX-License-Identifier: Apache-2.0
"""Programs of Paddle against Paddle."""
