"""The known word that a mistyped one was meant to be."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean …?)` with the known word that is nearest, letter case apart; nothing where none is near."""
    import difflib  # noqa: PLC0415 - only after a mistake

    by_folded = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_folded, n=1)
    return f" (did you mean {by_folded[close[0]]}?)" if close else ""
