# SPDX-License-Identifier: Apache-2.0

"""Windows that a producer gathered, against the table of their positions; and what is too large to be computed."""

from __future__ import annotations

import numpy as np
import pytest

from poolgrad_lowering.compiler.analysis import evaluation
from poolgrad_lowering.compiler.families.max_pool.matching.axis_maximum import FirstMaximum
from poolgrad_lowering.compiler.families.max_pool.matching.window_tables import written_windows
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from tests.pool_graphs import main_value, parse

TABLE = [[0, 1], [1, 3]]
FEW = "float[2,4]", "int64[2,2] taken = {0, 1, 1, 3}"
MANY = "float[2,2]", "int64[3,2] taken = {0, 1, 0, 1, 0, 1}"
TOO_LARGE = "are not known to be .* elements at most"


def table(x_type: str, taken: str) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Of windows gathered from two rows, the answers of ArgMax being looked up in the table that gathered them."""
    model = parse(
        f"""g ({x_type} x) => (r) <{taken}> {{
            m = Gather <axis = 1> (x, taken)
            a = ArgMax <axis = 2, keepdims = 1> (m)
            sizes = Shape (m)
            positions = Expand (taken, sizes)
            r = GatherElements <axis = 2> (positions, a)
        }}"""
    )
    facts, recorded = main_value(model, "r")
    x, a = recorded.scope.resolve("x"), recorded.scope.resolve("a")
    assert x is not None
    assert a is not None
    assert a.producer is not None
    return written_windows(facts, FirstMaximum.read(facts, a.producer), recorded, x, 2)


@pytest.mark.parametrize("most", [evaluation.MAX_ELEMENTS, 8])
def test_the_positions_that_each_window_reads(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(evaluation, "MAX_ELEMENTS", most)
    assert table(*FEW).tolist() == TABLE


@pytest.mark.refusal("window-tables")
@pytest.mark.parametrize(
    ("model", "most"),
    [pytest.param(("float[2,9]", FEW[1]), 17, id="x"), pytest.param(MANY, 11, id="windows")],
)
def test_more_elements_than_are_computed(monkeypatch: pytest.MonkeyPatch, model: tuple[str, str], most: int) -> None:
    monkeypatch.setattr(evaluation, "MAX_ELEMENTS", most + 1)
    table(*model)
    monkeypatch.setattr(evaluation, "MAX_ELEMENTS", most)
    with pytest.raises(Refuse, match=TOO_LARGE) as refused:
        table(*model)
    assert refused.value.refusal.code is Code.WINDOW_TABLES
