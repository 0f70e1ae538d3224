# SPDX-License-Identifier: Apache-2.0
"""The disk cache of compiled code: where it is, what it holds, how to empty it.

The folder is `$STRAIGHTLINE_CACHE_DIR`, or else `straightline` in `$XDG_CACHE_HOME` or in `~/.cache`; an empty
`STRAIGHTLINE_CACHE_DIR` turns the cache off. It never grows beyond `$STRAIGHTLINE_CACHE_MAX_MB` (512 by default, 0 for
none): what was not used for the longest time goes first.
"""

from __future__ import annotations

from dataclasses import dataclass

from straightline import _compiler


@dataclass(frozen=True)
class CacheInfo:
    """State of the disk cache; the counts are of this process.

    Attributes:
        directory: The folder; "" when the cache is off.
        bytes_used: What the entries take on disk.
        bytes_max: The cap; 0 when the cache is off.
        hits: Units of code that were found.
        misses: Units that were not, and so were compiled.
        damaged: Entries that were not whole: deleted, and compiled anew.
        stored: Entries that were written.
        evicted: Entries that were deleted to stay below the cap.
    """

    directory: str
    bytes_used: int
    bytes_max: int
    hits: int
    misses: int
    damaged: int
    stored: int
    evicted: int

    def __str__(self) -> str:
        """Some lines for people."""
        if not self.bytes_max:
            return "the cache is off"
        return (
            f"{self.directory}\n"
            f"{self.bytes_used / 2**20:.1f} MiB of at most {self.bytes_max / 2**20:.0f} MiB\n"
            f"in this process: {self.hits} hits, {self.misses} misses, {self.damaged} damaged, "
            f"{self.stored} stored, {self.evicted} evicted"
        )


def cache_info() -> CacheInfo:
    """Place, size and counts of the disk cache of compiled code."""
    return CacheInfo(**_compiler.cache_info())


def clear_cache() -> int:
    """Deletes all entries of the disk cache of compiled code; returns how many there were."""
    return _compiler.cache_clear()
