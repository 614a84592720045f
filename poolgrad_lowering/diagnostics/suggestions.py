# SPDX-License-Identifier: Apache-2.0

"""Suggestions for mistyped words."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ` (did you mean …?)` with the closest known word, ignoring case, or the empty text if none is close."""
    import difflib  # noqa: PLC0415 - needed only for an error message

    by_folded = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_folded, n=1)
    return asked(by_folded[close[0]]) if close else ""


def asked(name: str) -> str:
    """Return ` (did you mean …?)` with a name."""
    return f" (did you mean {name}?)"
