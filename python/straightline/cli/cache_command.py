# SPDX-License-Identifier: Apache-2.0
"""`straightline cache`: the disk cache of compiled code."""

from __future__ import annotations

import argparse

from straightline.cache import cache_info, clear_cache
from straightline.cli import OK

HELP = "the disk cache of compiled code"


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument(
        "action", nargs="?", choices=("info", "clear"), default="info", help="show it (the default) or empty it"
    )


def run(parsed: argparse.Namespace) -> int:
    """Shows or empties it; returns the exit status."""
    info = cache_info()
    if parsed.action == "clear":
        count = clear_cache()
        place = f" from {info.directory}" if info.directory else ""
        print(f"deleted {count} entries ({info.bytes_used / 2**20:.1f} MiB){place}")
    elif not info.bytes_max:
        print(info)
    else:
        print(info.directory)
        print(f"{info.bytes_used / 2**20:.1f} MiB of at most {info.bytes_max / 2**20:.0f} MiB")
    return OK
