# SPDX-License-Identifier: Apache-2.0
"""Tours by several ways, or on several machines, in one table: what `python -m bench.tour --json` wrote.

    python -m bench.tour.ways export.json compiled.json export_cuda.json compiled_cuda.json --markdown ways.md

A cell is the time of a call over eager's, or the outcome where the model was not timed.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from bench.tour.report import ways


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tours", nargs="+", type=Path)
    parser.add_argument("--markdown", type=Path, help="where the table goes; printed if this is left out")
    options = parser.parse_args()
    table = ways([json.loads(path.read_text()) for path in options.tours])
    if options.markdown:
        options.markdown.write_text(table)
    else:
        print(table, end="")


if __name__ == "__main__":
    main()
