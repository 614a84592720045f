# SPDX-License-Identifier: Apache-2.0

"""Environment variables that restrict or dump a lowering, for debugging.

They take effect however the compiler is called. `docs/command-line.md` describes them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from poolgrad_lowering.diagnostics.codes import Code, Refusal
from poolgrad_lowering.families.verdicts import Lowered, Refused, Verdict
from poolgrad_lowering.rewriting.rewrite import Replacement

ONLY = "POOLGRAD_ONLY"
DUMP = "POOLGRAD_DUMP"


def refuse_unselected(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts, with every site refused whose identifier and form match no glob in POOLGRAD_ONLY, if it is set."""
    globs = [glob.strip() for glob in os.environ.get(ONLY, "").split(",") if glob.strip()]
    return [
        verdict
        if isinstance(verdict, Refused) or _named(globs, verdict.site, verdict.pattern)
        else _not_selected(verdict)
        for verdict in verdicts
    ]


def dump(replaced: Sequence[Replacement]) -> None:
    """Write each rewrite as text to the folder in POOLGRAD_DUMP, if it is set. Raises `FileError`."""
    if replaced and (folder := os.environ.get(DUMP)):
        from poolgrad_lowering.lowering.dump import write_replacements  # noqa: PLC0415 - only for debugging

        write_replacements(Path(folder), replaced)


def _named(globs: Sequence[str], name: str, pattern: str) -> bool:
    return not globs or any(fnmatchcase(text, glob) for glob in globs for text in (name, pattern))


def _not_selected(site: Lowered[Any]) -> Refused:
    refusal = Refusal(Code.NOT_SELECTED, "{}={} does not name '{}'", (ONLY, os.environ.get(ONLY), site.site))
    return Refused(site.site, site.anchor, site.pattern, refusal)
