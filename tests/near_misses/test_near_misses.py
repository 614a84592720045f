# SPDX-License-Identifier: Apache-2.0

"""The compiler says of every near miss what was recorded, and raises nothing else than it documents.

A recorded verdict is no proof; that what is lowered is right is proven by `test_no_near_miss_is_lowered_wrongly`.
"""

from __future__ import annotations

import onnx
import pytest

from poolgrad_lowering import InvalidModelError, lower, verify
from tests.near_misses.edits import edited, edits
from tests.near_misses.verdicts import differences, graphs, record, said
from tests.texts import HOW_TO_ACCEPT

GRAPHS = graphs()


@pytest.mark.parametrize("graph", GRAPHS)
def test_verdicts(graph: str, accept: bool) -> None:
    found = said(GRAPHS[graph])
    if accept:
        record(graph, found)
    assert differences(graph, found) == [], HOW_TO_ACCEPT


@pytest.mark.long
@pytest.mark.parametrize("graph", GRAPHS)
def test_no_near_miss_is_lowered_wrongly(graph: str) -> None:
    """What still runs computes the same; models that contradict themselves do not run, and are unproven."""
    model = onnx.load(GRAPHS[graph])
    for name, edit in edits(model):
        changed = edited(model, edit)
        try:
            result = lower(changed)
        except InvalidModelError:
            continue
        sites = verify(changed, result.model, whole_model=False).sites if result.report.lowered else ()
        assert not [site for site in sites if site.status == "differs"], name
