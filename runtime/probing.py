# SPDX-License-Identifier: Apache-2.0

"""Runs `probe` in other processes, for operations that can crash their process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from poolgrad_lowering.runtime import probe

_TIMEOUT = 120  # seconds; the first answer of a device can take long


class ProbeError(Exception):
    """A probe did not answer; the message says why."""


def ask(*question: str) -> Any:
    """Return the answer of `probe` to a question. Raises `ProbeError` if it does not answer."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        command = [sys.executable, probe.__file__, str(answer), *question]
        try:
            done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT, check=False)
        except subprocess.TimeoutExpired as error:
            raise ProbeError(f"no answer within {_TIMEOUT} s") from error
        try:
            return json.loads(answer.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:  # the process ended before it answered
            raise ProbeError(exit_cause(done.returncode, done.stderr)) from error


def exit_cause(code: int, stderr: bytes) -> str:
    """Return a text on why a process ended: its signal, else the last line that it wrote to standard error."""
    if code < 0:
        return f"its process was ended by signal {-code} ({signal.strsignal(-code)})"
    lines = stderr.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"its process ended with code {code}"
