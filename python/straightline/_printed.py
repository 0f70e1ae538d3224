# SPDX-License-Identifier: Apache-2.0
"""Objects that print as tables of rich."""

from __future__ import annotations

from typing import Any


class Printed:
    """What has a `__rich__` prints as that, 200 columns wide and without colours."""

    def __rich__(self) -> Any:
        """What rich prints."""
        raise NotImplementedError

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=200, color_system=None, force_terminal=False)
        with console.capture() as captured:
            console.print(self)
        return captured.get()

    __repr__ = __str__
