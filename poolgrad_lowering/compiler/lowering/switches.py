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

from poolgrad_lowering.compiler.families.verdicts import Lowered
from poolgrad_lowering.compiler.rewriting.rewrite import Replacement
from poolgrad_lowering.model.diagnostics.codes import Code, Refusal

ONLY = "POOLGRAD_ONLY"
DUMP = "POOLGRAD_DUMP"


def not_selected(site: Lowered[Any]) -> Refusal | None:
    """Why a site is not lowered whose identifier and form match no glob in POOLGRAD_ONLY; None if that is not set."""
    given = os.environ.get(ONLY, "")
    globs = [glob.strip() for glob in given.split(",") if glob.strip()]
    if not globs or any(fnmatchcase(text, glob) for glob in globs for text in (site.site, site.pattern)):
        return None
    return Refusal(Code.NOT_SELECTED, "{}={} does not name '{}'", (ONLY, given, site.site))


def dump(replaced: Sequence[Replacement]) -> None:
    """Write each rewrite as text to the folder in POOLGRAD_DUMP, if it is set. Raises `FileError`."""
    if replaced and (folder := os.environ.get(DUMP)):
        from poolgrad_lowering.compiler.lowering.dump import write_replacements  # noqa: PLC0415 - only for debugging

        write_replacements(Path(folder), replaced)
