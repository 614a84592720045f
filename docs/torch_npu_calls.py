# SPDX-License-Identifier: Apache-2.0

"""The tables of the page on torch_npu: its calls beside those of sessions, as `make torch-npu-calls` counted them."""

from __future__ import annotations

import json
from pathlib import Path

from docs.markdown import table
from tests.torch_npu.cases import PROCESSES, count_cases
from tests.torch_npu.differences import DIFFERENCES, EVERY_CALL, NO_OTHER, ONE_SIDED, WITH_WORKSPACE
from tests.torch_npu.pools import all_pools

_RECORD = json.loads((Path(__file__).parent / "torch_npu_calls.json").read_text(encoding="utf-8"))
_PRODUCTS = ("ascend950", "atlas-a2", "atlas-a3")
_HEADER = ("", "torch_npu", "a session", "why", *(f"`{product}`" for product in _PRODUCTS))


def parts() -> dict[str, object]:
    """What the page's template has names for."""
    return {
        "pools": len(all_pools()),
        "cases": f"{count_cases():,}",
        "processes": len(PROCESSES),
        "differences": differences(),
        "one_sided": one_sided(),
    }


def differences() -> str:
    """The table of differences of two calls, with the numbers of pools and of gradients that have them."""
    counted = [(name, "", "", "", *_counts(name)) for name in (EVERY_CALL, NO_OTHER, WITH_WORKSPACE)]
    rows = ((row.name, row.torch_npu, row.session, row.reason, *_counts(row.name)) for row in DIFFERENCES)
    return table(_HEADER, [*counted, *rows])


def one_sided() -> str:
    """The table of pools for which only one of the two makes a call that succeeds."""
    return table(_HEADER, ((row.name, row.torch_npu, row.session, row.reason, *_counts(row.name)) for row in ONE_SIDED))


def _counts(name: str) -> list[str]:
    found = ((_RECORD[product][part].get(name, 0) for part in ("forward", "backward")) for product in _PRODUCTS)
    return [" + ".join(map(str, parts)) for parts in found]
