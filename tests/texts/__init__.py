# SPDX-License-Identifier: Apache-2.0

"""The sentences by which refusals, faults, obstacles and notes are explained, as recorded beside this module.

A file for each kind, named as its mark: by code the sentences, and for each sentence the tests whose models provoke it.
The fixture `says` compares a test's sentence with the recorded one, or records it if pytest has the option `--accept`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

Says = Callable[[str | None], None]
"""Compares a sentence with the one that is recorded for the test."""

KINDS = ("refusal", "undefined", "fault", "obstacle", "note")
HOW_TO_ACCEPT = "If the difference is meant, record it by `pytest --accept` with the same tests, and read `git diff`."


def recorded(kind: str) -> dict[str, tuple[str, str]]:
    """Return by test the code and the sentence."""
    held = json.loads(_file(kind).read_text(encoding="utf-8")) if _file(kind).exists() else {}
    return {test: (code, text) for code, texts in held.items() for text, tests in texts.items() for test in tests}


def record(kind: str, texts: dict[str, tuple[str, str]]) -> None:
    """Write the code and sentence of each test, in the order of codes, sentences and tests."""
    held: dict[str, dict[str, list[str]]] = {}
    for test, (code, text) in sorted(texts.items(), key=lambda item: (item[1], item[0])):
        held.setdefault(code, {}).setdefault(text, []).append(test)
    _file(kind).write_text(json.dumps(held, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _file(kind: str) -> Path:
    return Path(__file__).with_name(f"{kind}.json")
