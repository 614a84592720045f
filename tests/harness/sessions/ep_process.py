# SPDX-License-Identifier: Apache-2.0

"""Runs lines of Python in a new process, because backends and SoC names are chosen once per process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

_CANN_VARIABLES = (
    "ASCEND_HOME_PATH",
    "ASCEND_OPP_PATH",
    "ASCEND_CUSTOM_OPP_PATH",
    "ACLNN_HOST_SOC",
    "ACLNN_HOST_DEVICES",
    "ACLNN_HOST_STRICT",
    "ACLNN_HOST_FAIL",
    "ACLNN_HOST_TRACE",
    "ACLNN_HOST_VECTORS",
    "ACLNN_HOST_THREADS",
)


def run_python(code: str, **environment: str) -> Any:
    """Return the JSON value that the code passes to `answer`; it can import the helpers of the tests.

    The process sees of CANN's environment variables only those given here.
    """
    inherited = {name: value for name, value in os.environ.items() if name not in _CANN_VARIABLES}
    prelude = "import json, sys\ndef answer(value): print('answer:' + json.dumps(value))\n"
    # From "/": a current folder comes first on the path, and an installed package has to come before its sources.
    done = subprocess.run(
        [sys.executable, "-c", prelude + code],
        env={**inherited, **environment},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    answers = [line.removeprefix("answer:") for line in done.stdout.splitlines() if line.startswith("answer:")]
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr}"
    assert answers, done.stdout
    return json.loads(answers[-1])
