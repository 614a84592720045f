# SPDX-License-Identifier: Apache-2.0

"""Which inputs of a pool or gradient have which role, also of nodes that lack them."""

from __future__ import annotations

import pytest

from poolgrad_lowering.verification.graph.flat import main_unit
from poolgrad_lowering.verification.graph.roles import incoming_gradient, pooled, same_shape
from tests.pool_graphs import parse

IMPORTS = '"org.pytorch.aten": 1, "npu": 1'


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("org.pytorch.aten.max_pool2d_with_indices_backward(G, X, I)", ("G", None, "I")),
        ("org.pytorch.aten.avg_pool2d_backward(G, X)", ("G", "X", None)),
        ("npu.MaxPool3DGradWithArgmax(X, G, I)", ("G", "X", "I")),
        ("org.pytorch.aten.max_pool2d_with_indices_backward()", (None, None, None)),
        ("npu.MaxPoolBackward()", (None, None, None)),
        ("npu.MaxPool3DGradWithArgmax()", (None, None, None)),
    ],
)
def test_roles(node: str, expected: tuple[str | None, ...]) -> None:
    model = parse(f"g (float[1,1,4] X, float[1,1,2] G, int64[1,1,2] I) => (Y) {{ Y = {node} }}", imports=IMPORTS)
    [found] = main_unit(model).nodes
    assert (incoming_gradient(found), pooled(found), same_shape(found)) == expected
