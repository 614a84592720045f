# SPDX-License-Identifier: Apache-2.0

"""The table of the page on PyTorch's operators: what `make torch-lists` recorded of its own lists."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path

from docs.markdown import table

_RECORD: dict[str, list[str]] = json.loads((Path(__file__).parent / "torch_lists.json").read_text(encoding="utf-8"))
_REFUSED = "refused: "
_OPERATOR = re.compile(r"\b(?:aten|prims|higher_order)\.\w+(?:\.\w+)?")


def parts() -> dict[str, object]:
    """What the page's template has names for."""
    tried = {name: found for name, found in _RECORD.items() if found}
    return {
        "entries": len(tried),
        "samples": sum(map(len, tried.values())),
        "right": sum(found.count("right") for found in tried.values()),
        "whole": sum(set(found) == {"right"} for found in tried.values()),
        "refused": _refused(),
    }


def _refused() -> str:
    """The refusals with the entries of the lists that they are said of; an operator in place of its sentence."""
    entries: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, found in _RECORD.items():
        for said in dict.fromkeys(found):
            if said.startswith(_REFUSED):
                entries[_cause(said.removeprefix(_REFUSED))].append(name)
    rows = ((cause, why, ", ".join(f"`{name}`" for name in names)) for (cause, why), names in sorted(entries.items()))
    return table(("operator", "why", "entries"), rows)


def _cause(message: str) -> tuple[str, str]:
    """Return the operator that a message names, and what it says of it."""
    found = _OPERATOR.search(message)
    if found is None:
        return "", message.replace("|", "\\|")
    if message.startswith("torch has no translation"):
        return f"`{found[0]}`", "no translation"
    return f"`{found[0]}`", "complex numbers" if "complex" in message else message.replace("|", "\\|")
