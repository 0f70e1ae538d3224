# SPDX-License-Identifier: Apache-2.0
"""The torch front end: a module, a function, an ExportedProgram or an FX graph of ATen ops becomes builder calls."""
