# SPDX-License-Identifier: Apache-2.0

"""The tables of the page on torch_npu: its calls beside those of sessions, counted by the session `torch-npu-calls`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from docs.markdown import table
from tests.torch_npu import average_differences
from tests.torch_npu.average_pools import all_average_pools
from tests.torch_npu.cases import PROCESSES, count_average_cases, count_cases
from tests.torch_npu.differences import (
    DIFFERENCES,
    EVERY_CALL,
    NO_OTHER,
    ONE_SIDED,
    WITH_WORKSPACE,
    Difference,
    OneSided,
)
from tests.torch_npu.pools import all_pools

_RECORD = json.loads((Path(__file__).parent / "torch_npu_calls.json").read_text(encoding="utf-8"))
_PRODUCTS = ("ascend950", "atlas-a2", "atlas-a3")
_MAX, _AVERAGE = ("forward", "backward"), ("average",)
"""The parts of the record that a table has."""
_HEADER = ("", "torch_npu", "a session", "why", *(f"`{product}`" for product in _PRODUCTS))


def parts() -> dict[str, object]:
    """What the page's template has names for."""
    return {
        "pools": len(all_pools()),
        "cases": f"{count_cases():,}",
        "processes": len(PROCESSES),
        "average_pools": len(all_average_pools()),
        "average_cases": f"{count_average_cases():,}",
        "differences": _differences(DIFFERENCES, _MAX),
        "one_sided": _one_sided(ONE_SIDED, _MAX),
        "average_differences": _differences(average_differences.DIFFERENCES, _AVERAGE),
        "average_one_sided": _one_sided(average_differences.ONE_SIDED, _AVERAGE),
    }


def _differences(rows: Iterable[Difference], parts: Sequence[str]) -> str:
    """The table of differences of two calls, with the number of calls of each part that have them."""
    counted = [(name, "", "", "", *_counts(name, parts)) for name in (EVERY_CALL, NO_OTHER, WITH_WORKSPACE)]
    return table(_HEADER, [*counted, *(_row(row, parts) for row in rows)])


def _one_sided(rows: Iterable[OneSided], parts: Sequence[str]) -> str:
    """The table of pools for which only one of the two makes a call that succeeds."""
    return table(_HEADER, (_row(row, parts) for row in rows))


def _row(row: Difference | OneSided, parts: Sequence[str]) -> tuple[str, ...]:
    return (row.name, row.torch_npu, row.session, row.reason, *_counts(row.name, parts))


def _counts(name: str, parts: Sequence[str]) -> list[str]:
    found = ((_RECORD[product][part].get(name, 0) for part in parts) for product in _PRODUCTS)
    return [" + ".join(map(str, counts)) for counts in found]
