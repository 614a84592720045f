# SPDX-License-Identifier: Apache-2.0

"""The fenced blocks of a Markdown page, with what a comment before a block says about it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

_BLOCK = re.compile(
    r"^(?:<!-- (?P<word>not run|output): ?(?P<said>.*?) -->\n)?```(?P<kind>.*)\n(?P<text>(?s:.*?))^```", re.M
)


@dataclass(frozen=True)
class Block:
    """A block: its language, its text, and either why it is not run, or that it is output of the block before it."""

    line: int
    kind: str
    text: str
    not_run: str | None
    is_output: bool

    @property
    def commands(self) -> list[str]:
        """The lines of a shell block; one that ends with a backslash goes on with the next."""
        return [line for line in self.text.replace("\\\n", " ").splitlines() if line.strip()]


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            text.count("\n", 0, found.start("kind")) + 1,
            found["kind"],
            found["text"],
            found["said"] if found["word"] == "not run" else None,
            found["word"] == "output",
        )
        for found in _BLOCK.finditer(text)
    ]
