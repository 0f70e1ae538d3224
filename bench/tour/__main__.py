# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.tour`."""

import sys

from bench.tour.command import main

if __name__ == "__main__":
    sys.exit(main())
