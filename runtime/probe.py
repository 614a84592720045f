# SPDX-License-Identifier: Apache-2.0

"""A program for operations that can crash their process: loads a library, queries a backend, imports onnxruntime.

    python probe.py ANSWER.json load LIBRARY
    python probe.py ANSWER.json describe LIBRARY REQUEST
    python probe.py ANSWER.json onnxruntime

It is run as a file and imports nothing of this package. It writes its answer to a file, because a library may print.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path


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
