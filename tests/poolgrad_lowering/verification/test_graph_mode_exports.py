# SPDX-License-Identifier: Apache-2.0

"""Models exported for graph mode are proven against their originals, and what is wrong in one is found."""

from __future__ import annotations

import pytest

from poolgrad_lowering import export_cann, verify
from tests.pool_graphs import parse
from tests.poolgrad_lowering.verification.test_exports import proven


@pytest.mark.parametrize(
    ("op_type", "part", "wrong"),
    [
        ("ReduceL1", "Abs", "Neg"),
        ("ReduceL1", "ReduceSum", "ReduceMean"),
        ("ReduceL2", "Sqrt", "Log"),
        ("ReduceLogSum", "Log", "Sqrt"),
        ("ReduceLogSum", "ReduceSum", "ReduceMean"),
    ],
)
def test_a_norm_of_rank_0_in_parts_is_compared(op_type: str, part: str, wrong: str) -> None:
    original = parse(f"g (float[2,3] X) => (float Y) {{ Y = {op_type}<keepdims = 0>(X) }}", opset=18)
    export = export_cann(original).model
    proven(original, export)
    [node] = [node for node in export.graph.node if node.op_type == part]
    node.op_type = wrong
    assert verify(original, export, whole_model=False).differences


def test_functions_that_an_export_inlines() -> None:
    twice = """<domain: "local", opset_import: ["": 16]> twice (x) => (y) { z = Neg(x) y = Sub(x, z) }"""
    original = parse(
        "g (float[2] X) => (Y) { a = local.twice(X) Y = local.twice(a) }", imports='"local": 1', functions=twice
    )
    export = export_cann(original).model
    assert not export.functions
    proven(original, export, whole=True)
    export.graph.node[-1].op_type = "Add"
    assert verify(original, export, whole_model=False).differences
