"""The process in which the checks run, since a device's library may take it down.

    python worker.py BACKEND FIRST DESCRIPTOR

Performs the checks from number FIRST on, and writes a line of JSON about each, with the fields of `Outcome`, to the
file descriptor.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from poolgrad_lowering.runtime.self_test.checks import all_checks, perform


def main(arguments: Sequence[str]) -> None:
    """Perform the checks that the command line asks for."""
    backend, first, descriptor = arguments
    with os.fdopen(int(descriptor), "w", encoding="utf-8") as answers:
        for check in all_checks()[int(first) :]:
            answers.write(json.dumps(perform(check, backend)._asdict()) + "\n")
            answers.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
