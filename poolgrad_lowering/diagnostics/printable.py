# SPDX-License-Identifier: Apache-2.0

"""Text of a model, made safe to print: names may contain line breaks and terminal escape sequences."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return the text on one line, with every control character replaced by its escape."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
