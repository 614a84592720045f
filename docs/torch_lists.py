# SPDX-License-Identifier: Apache-2.0

"""The list of PyTorch's operators on the page on PyTorch: what the session `record-torch-lists` found in its lists."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

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
    """The reasons of refusals, each with its operators and the entries of the lists whose steps need them."""
    entries: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, found in _RECORD.items():
        for said in dict.fromkeys(found):
            if said.startswith(_REFUSED):
                operator, why = _cause(said.removeprefix(_REFUSED))
                entries[why][operator].append(name)
    return "\n".join(f"* {why}: {_listed(entries[why])}" for why in sorted(entries))


def _listed(entries: Mapping[str, Sequence[str]]) -> str:
    """Operators with their entries; the entries of a reason that names no operator stand last."""
    named = {operator: ", ".join(f"`{name}`" for name in names) for operator, names in entries.items()}
    texts = [f"{operator} ({named[operator]})" for operator in sorted(named) if operator]
    return "; ".join([*texts, named[""]] if "" in named else texts)


def _cause(message: str) -> tuple[str, str]:
    """Return the operator that a message names, and what the page says of it."""
    found = _OPERATOR.search(message)
    [why] = [why for beginning, why in _WHY.items() if message.startswith(beginning)] or [message]
    return ("" if found is None else f"`{found[0]}`"), why
