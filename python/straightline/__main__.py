# SPDX-License-Identifier: Apache-2.0
"""Command line: `python -m straightline cache [info|clear]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from straightline.cache import cache_info, clear_cache


def _cache(action: str) -> None:
    info = cache_info()
    if action == "clear":
        count = clear_cache()
        place = f" from {info.directory}" if info.directory else ""
        print(f"deleted {count} entries ({info.bytes_used / 2**20:.1f} MiB){place}")
        return
    if not info.bytes_max:
        print(info)
        return
    print(info.directory)
    print(f"{info.bytes_used / 2**20:.1f} MiB of at most {info.bytes_max / 2**20:.0f} MiB")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m straightline", description="Straightline's command line.")
    commands = parser.add_subparsers(dest="command", required=True)
    cache = commands.add_parser("cache", help="the disk cache of compiled code")
    cache.add_argument(
        "action", nargs="?", choices=("info", "clear"), default="info", help="show it (the default) or empty it"
    )
    parsed = parser.parse_args(arguments)
    _cache(parsed.action)
    return 0


if __name__ == "__main__":
    sys.exit(main())
