# SPDX-License-Identifier: Apache-2.0

"""The process in which the checks run, because a device's library may crash it.

    python worker.py BACKEND FIRST DESCRIPTOR

Performs the checks from number FIRST on, and writes a line of JSON for each, with the fields of `Outcome`, to the file
descriptor. Ends after a check after which this process can no longer use the device.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence

from poolgrad_lowering.runtime.self_test.checks import all_checks, perform

# acl's error codes after a failure of a kernel or the driver (ACL_ERROR_RT_AICORE_EXCEPTION and others).
_DEVICE_FAILED = re.compile(r"failed with 507\d{3} ")


def main(arguments: Sequence[str]) -> None:
    """Perform the checks that the command line asks for."""
    backend, first, descriptor = arguments
    with os.fdopen(int(descriptor), "w", encoding="utf-8") as answers:
        for check in all_checks()[int(first) :]:
            outcome = perform(check, backend)
            answers.write(json.dumps(outcome._asdict()) + "\n")
            answers.flush()
            if _DEVICE_FAILED.search(outcome.detail or ""):
                return


if __name__ == "__main__":
    main(sys.argv[1:])
