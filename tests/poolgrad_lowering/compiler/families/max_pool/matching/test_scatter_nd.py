# SPDX-License-Identifier: Apache-2.0

"""Which entries of a ScatterND are proven to stay in their rows, by the tables in front of their positions."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper

from poolgrad_lowering.compiler.analysis.provenance import Numbering
from poolgrad_lowering.compiler.families.max_pool.matching.forward import Pooled
from poolgrad_lowering.compiler.families.max_pool.matching.scatter import Scatter, check_positions
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.ir.dims import static_dims
from tests.pool_graphs import main_value, parse

ROWS = np.indices((2, 3, 4))[:2].transpose(1, 2, 3, 0)
"""Entry [n, c, i] is (n, c)."""
TABLES = {
    "batch": ROWS[..., :1],
    "channel": ROWS[..., 1:],
    "rows": ROWS,
    "swapped": ROWS[..., ::-1],
    "shifted": (ROWS + 1) % [2, 3],
    "one_off": np.where(np.arange(24).reshape(2, 3, 4, 1) == 23, 0, ROWS),
    "short": ROWS[:, :, :3],
    "narrow": ROWS[:, :1],
    "flat": ROWS.reshape(6, 4, 2),
    "number": np.zeros((), np.int64),
}


def check(indices: str) -> None:
    """Of x [2, 3, 2, 5] pooled to [2, 3, 2, 2]: the entries of v onto [2, 3, 10]."""
    model = parse(
        f"""g (int64[2,3,4,1] w, float[2,3,10] z, float[2,3,4] u) => (float[2,3,10] s)
        <int64[2,3,4,3] v> {{
            v = {indices}
            s = ScatterND (z, v, u)
        }}""",
        opset=18,
        imports='"com.microsoft": 1',
    )
    model.graph.initializer.extend(numpy_helper.from_array(np.int64(held), name) for name, held in TABLES.items())
    facts, s = main_value(model, "s")
    assert s.producer is not None
    pooled = Pooled(s, TensorProto.FLOAT, static_dims((2, 3, 2, 5)), static_dims((2, 3, 2, 2)))
    check_positions(facts, Scatter.read(s.producer), pooled, Numbering.PLANE)


@pytest.mark.parametrize("indices", ["Concat <axis=3> (batch, channel, w)", "Concat <axis=-1> (rows, w)"])
def test_entries_of_their_rows(indices: str) -> None:
    check(indices)


NOT_PROVEN = {
    "another_operator": ("com.microsoft.Concat <axis=-1> (rows, w)", Code.ROWS_NOT_PLANES),
    "no_positions": ("Concat <axis=-1> (rows)", Code.ROWS_NOT_PLANES),
    "channel_before_batch": ("Concat <axis=-1> (channel, batch, w)", Code.ROWS_NOT_PLANES),
    "coordinates_swapped": ("Concat <axis=-1> (swapped, w)", Code.ROWS_NOT_PLANES),
    "other_rows": ("Concat <axis=-1> (shifted, w)", Code.ROWS_NOT_PLANES),
    "one_other_row": ("Concat <axis=-1> (one_off, w)", Code.ROWS_NOT_PLANES),
    "batch_alone": ("Concat <axis=-1> (batch, w, w)", Code.ROWS_NOT_PLANES),
    "batch_twice": ("Concat <axis=-1> (batch, batch, w)", Code.ROWS_NOT_PLANES),
    "one_coordinate_too_many": ("Concat <axis=-1> (batch, channel, channel, w)", Code.ROWS_NOT_PLANES),
    "fewer_entries": ("Concat <axis=-1> (short, w)", Code.ROWS_NOT_PLANES),
    "fewer_channels": ("Concat <axis=-1> (narrow, w)", Code.ROWS_NOT_PLANES),
    "of_another_rank": ("Concat <axis=-1> (flat, w)", Code.UNKNOWN_SHAPE),
    "a_number": ("Concat <axis=-1> (number, w)", Code.UNKNOWN_SHAPE),
    "an_input": ("Concat <axis=-1> (w, w, w)", Code.ROWS_NOT_PLANES),
    "nothing": ("Concat <axis=-1> (, w)", Code.UNKNOWN_SHAPE),
    "along_another_axis": ("Concat <axis=0> (rows, w)", Code.ROWS_NOT_PLANES),
}


@pytest.mark.parametrize(("indices", "code"), NOT_PROVEN.values(), ids=NOT_PROVEN)
def test_not_proven(indices: str, code: Code) -> None:
    with pytest.raises(Refuse) as raised:
        check(indices)
    assert raised.value.refusal.code is code
