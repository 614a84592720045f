# SPDX-License-Identifier: Apache-2.0

"""Runs operations in other processes that can crash their process: loads a library, queries a backend, and the like.

    python probing.py ANSWER.json load LIBRARY
    python probing.py ANSWER.json describe LIBRARY REQUEST
    python probing.py ANSWER.json onnxruntime

This file is also the program of these processes, and imports nothing of this package. The program writes its answer to
a file, because a library may print.
"""

from __future__ import annotations

import ctypes
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

_TIMEOUT = 120  # seconds; the first answer of a device can take long


class ProbeError(Exception):
    """A probe did not answer; the message says why."""


def ask(*question: str) -> Any:
    """Return the answer of another process to a question. Raises `ProbeError` if it does not answer."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        command = [sys.executable, __file__, str(answer), *question]
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


def load(library: str) -> str:
    """Load a library and return JSON's null."""
    ctypes.CDLL(library)
    return "null"


def describe(library: str, request: str) -> str:
    """Return the JSON text from the provider's function PoolgradDescribeRuntime."""
    function = ctypes.CDLL(library).PoolgradDescribeRuntime
    function.argtypes, function.restype = [ctypes.c_char_p], ctypes.c_char_p
    answer: bytes = function(request.encode())
    return answer.decode(errors="replace")  # paths may not be UTF-8


def onnxruntime() -> str:
    """Return the version of the onnxruntime that can be imported, as JSON."""
    import onnxruntime  # noqa: PLC0415 - only this question needs it

    return json.dumps(onnxruntime.__version__)


def main(arguments: Sequence[str]) -> None:
    """Answer the question of the command line."""
    path, question, *rest = arguments
    questions: dict[str, Callable[..., str]] = {"load": load, "describe": describe, "onnxruntime": onnxruntime}
    Path(path).write_text(questions[question](*rest), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
