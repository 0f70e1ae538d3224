# SPDX-License-Identifier: Apache-2.0
"""Programs of other frameworks, each tested in an environment of its own."""
