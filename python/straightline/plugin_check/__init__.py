# SPDX-License-Identifier: Apache-2.0
"""`straightline plugin check`: what a plug-in's kernels say and do, tried in a process of their own (docs/guides/plugin.md)."""
