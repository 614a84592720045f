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
_OPERATOR = re.compile(r"\b(?:aten|prims|torch_nn|higher_order)\.\w+(?:\.\w+)?")
_WHY = {
    "torch has no translation": "torch has no translation to ONNX",
    "torch's translation": "torch's translation to ONNX fails",
    "torch cannot trace": "torch cannot trace it",
    "the step computes complex": "computes complex numbers",
    "the way that the computation takes": "the way, or a size, depends on the numbers in a tensor",
}
"""What the page says of a refusal, by the beginning of its message."""


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
    rows = (
        (cause, why, ", ".join(f"`{name}`" for name in names))
        for (cause, why), names in sorted(entries.items(), key=_last_without_operator)
    )
    return table(("operator", "why", "entries"), rows)


def _last_without_operator(row: tuple[tuple[str, str], list[str]]) -> tuple[bool, tuple[str, str]]:
    """Return the key of a row's place: those that name no operator are the last."""
    return not row[0][0], row[0]


def _cause(message: str) -> tuple[str, str]:
    """Return the operator that a message names, and what the page says of it."""
    found = _OPERATOR.search(message)
    [why] = [why for beginning, why in _WHY.items() if message.startswith(beginning)] or [message]
    return ("" if found is None else f"`{found[0]}`"), why
