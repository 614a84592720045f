# SPDX-License-Identifier: Apache-2.0

"""torch_npu and sessions call aclnn alike for the same pools; every difference is a row of docs/torch-npu.md."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.torch_npu.client import ASCEND_950, SOCS, STRICT, run_client, start
from tests.torch_npu import average_differences
from tests.torch_npu.average_pools import AveragePool, all_average_pools
from tests.torch_npu.calls import TARGETS, session_average_calls, session_calls, torch_average_calls, torch_calls
from tests.torch_npu.differences import (
    BACKWARD,
    DIFFERENCES,
    EVERY_CALL,
    NO_OTHER,
    ONE_SIDED,
    WITH_WORKSPACE,
    Call,
    Context,
    Difference,
)
from tests.torch_npu.pools import Pool, all_pools

pytestmark = pytest.mark.torch_npu

DTYPES = ("float32", "float16")
RECORD = Path(__file__).parents[2] / "docs" / "torch_npu_calls.json"


def check_calls(soc: str) -> dict[str, dict[str, int]]:
    """Compare the calls for all pools; return how often each row applies, to pools, to gradients, and to gradients of
    average pools.
    """
    torch = start()
    counts = {part: Counter[str]() for part in ("forward", "backward")}
    for pool in all_pools():
        for dtype in DTYPES:
            for part, rows in compare(torch, soc, pool, dtype).items():
                counts[part].update(rows)
    averages = Counter[str]()
    for average in all_average_pools():
        for dtype in (dtype for dtype in DTYPES if not average.fails(dtype)):
            averages.update(compare_average(torch, soc, average, dtype))
    return {part: dict(counted) for part, counted in (counts | {"average": averages}).items()}


def compare_average(torch: Any, soc: str, pool: AveragePool, dtype: str) -> list[str]:
    """The rows that apply to the gradient of an average pool."""
    theirs, ours = torch_average_calls(torch, pool, dtype), session_average_calls(soc, pool, dtype)
    one_sided = [row for row in average_differences.ONE_SIDED if row.applies(pool)]
    calls = [(one_sided[0].torch_npu_calls, one_sided[0].session_calls)] if one_sided else [(True, True)]
    assert [(len(theirs), len(ours))] == calls, (pool, theirs, ours)
    assert all(call["code"] == 0 for call in (*theirs, *ours)), (pool, theirs, ours)
    if one_sided:
        [row] = one_sided
        return [row.name]
    return rows_between(theirs[0], ours[0], pool, average_differences.DIFFERENCES)


def compare(torch: Any, soc: str, pool: Pool, dtype: str) -> dict[str, list[str]]:
    """The rows that apply to the pool and to its gradient. Fails at a difference without a row."""
    context = Context(pool, is_950=soc == ASCEND_950)
    theirs, ours = (by_part(calls) for calls in (torch_calls(torch, pool, dtype), session_calls(soc, pool, dtype)))
    one_sided = [row for row in ONE_SIDED if row.applies(context)]
    if one_sided:
        [row] = one_sided
        assert ("forward" in theirs) == row.torch_npu_calls, (pool, theirs)
        assert ("backward" in ours) == row.session_calls, (pool, ours)
        return {"forward": [row.name], "backward": [row.name]}
    assert theirs.keys() == ours.keys() == {"forward", "backward"}, (pool, theirs, ours)
    return {part: rows_between(theirs[part], ours[part], context, DIFFERENCES) for part in theirs}


def by_part(calls: list[Call]) -> dict[str, Call]:
    """The calls that succeeded, one of the pool and one of its gradient."""
    found = {}
    for call in calls:
        part = "backward" if call["function"].endswith(BACKWARD) else "forward"
        assert part not in found, calls
        if call["code"] == 0:
            found[part] = call
    return found


def rows_between(theirs: Call, ours: Call, context: object, differences: Iterable[Difference]) -> list[str]:
    """The rows that make torch_npu's call ours, and what else is counted."""
    rows = []
    for row in differences:
        rewritten = row.rewrite(theirs, context)
        if rewritten != theirs:
            rows.append(row.name)
        theirs = rewritten
    unexplained = {key: (theirs.get(key), ours.get(key)) for key in theirs | ours if theirs.get(key) != ours.get(key)}
    assert not unexplained, (context, unexplained)
    facts = {EVERY_CALL: True, NO_OTHER: rows == ["storage"], WITH_WORKSPACE: ours["workspaceSize"] > 0}
    return [*rows, *(name for name, holds in facts.items() if holds)]


def measure() -> dict[str, dict[str, dict[str, int]]]:
    """The counts of each target. The library needs workspaces in strict mode alone."""
    return {TARGETS[soc]: run_client(check_calls, soc, soc=soc, queue="0", **STRICT) for soc in SOCS}


@pytest.fixture(scope="module")
def measured() -> dict[str, dict[str, dict[str, int]]]:
    return measure()


def test_the_page_has_what_is_measured(measured: dict[str, Any]) -> None:
    """The session `torch-npu-calls` writes it."""
    assert measured == json.loads(RECORD.read_text(encoding="utf-8"))


ROWS = {
    "max": (*DIFFERENCES, *ONE_SIDED),
    "average": (*average_differences.DIFFERENCES, *average_differences.ONE_SIDED),
}


@pytest.mark.parametrize(("kind", "parts"), [("max", ("forward", "backward")), ("average", ("average",))])
def test_every_row_occurs(kind: str, parts: tuple[str, ...], measured: dict[str, Any]) -> None:
    found = {name for counts in measured.values() for part in parts for name in counts[part]}
    assert found == {EVERY_CALL, NO_OTHER, WITH_WORKSPACE, *(row.name for row in ROWS[kind])}
