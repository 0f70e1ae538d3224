# SPDX-License-Identifier: Apache-2.0
"""python -m bench.conformance."""

from bench.conformance.command import main

if __name__ == "__main__":
    raise SystemExit(main())
