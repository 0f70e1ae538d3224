# SPDX-License-Identifier: Apache-2.0
"""`straightline bench`: what a call costs here, beside peers."""

from __future__ import annotations

import argparse

from straightline.bench import command

HELP = "what a call costs here, with PyTorch, ONNX Runtime and OpenVINO"

add = command.add_arguments


def run(parsed: argparse.Namespace) -> int:
    """Measures; returns the exit status."""
    return command.run(parsed)
