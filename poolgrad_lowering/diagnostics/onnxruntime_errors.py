# SPDX-License-Identifier: Apache-2.0

"""The messages of onnxruntime's exceptions, as this package quotes them."""

from __future__ import annotations

import re

_STATUS = re.compile(r"\[ONNXRuntimeError\] : \d+ : \w+ : ")
_SOURCE = re.compile(
    r"(?:/\S*/)?[\w-]+\.(?:cc|cpp|cu|h):\d+ "  # the file and the line
    r"(?:[\w:<>,&*~ ]*::[\w:<>~]+\((?:[^()]|\([^()]*\))*\)(?: const)?(?: \[with [^\]]*\])? )?"  # the function
)


def quoted(error: BaseException) -> str:
    """Return the message of an exception without onnxruntime's status codes, source files, lines and functions."""
    return _SOURCE.sub("", _STATUS.sub("", str(error))).strip()
