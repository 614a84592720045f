# SPDX-License-Identifier: Apache-2.0

"""Writes C++ headers with tables."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

WRITTEN = """// SPDX-License-Identifier: Apache-2.0

// Written by tools/operator_tables from the rows of the dialect.
"""


def header(path: Path, include: str, namespace: str, text: str) -> str:
    """Return the header at this path with a text in a namespace, after a line that includes another header."""
    text = f"// clang-format off\n{text.strip()}\n// clang-format on"
    return guarded(path, f"{include}\nnamespace {namespace} {{\n\n{text}\n\n}}  // namespace {namespace}")


def guarded(path: Path, text: str) -> str:
    """Return the header at this path with a text."""
    guard = f"POOLGRAD_{path.parent.name}_{path.stem}_H_".upper()
    return f"{WRITTEN}#ifndef {guard}\n#define {guard}\n\n{text.strip()}\n\n#endif  // {guard}\n"


def lines(rows: Iterable[str]) -> str:
    """Return rows as lines."""
    return "\n".join(rows)


def text_literal(text: str | None) -> str:
    """Return a text as a literal of C++."""
    return "nullptr" if text is None else f'"{text}"'
