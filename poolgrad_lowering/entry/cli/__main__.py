# SPDX-License-Identifier: Apache-2.0

"""`python -m poolgrad_lowering.entry.cli`, the same as `poolgrad`."""

import sys

from poolgrad_lowering.entry.cli import main

if __name__ == "__main__":
    sys.exit(main())
