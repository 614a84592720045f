"""Text out of a model, for people: names may hold line breaks, and commands to a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text on one line and without control characters, which become their escapes."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
