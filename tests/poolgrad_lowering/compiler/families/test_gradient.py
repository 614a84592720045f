# SPDX-License-Identifier: Apache-2.0

"""The record of a gradient: which nodes compute its pooled tensor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from onnx import TensorProto

from poolgrad_lowering.compiler.analysis.provenance import Numbering
from poolgrad_lowering.compiler.families.gradient import Operand
from poolgrad_lowering.compiler.families.max_pool.gradient import Reduction
from poolgrad_lowering.compiler.families.max_pool.matching.forward import Pooled
from poolgrad_lowering.model.ir.dims import static_dims
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.ir.scopes import Scope
from tests.pool_graphs import parse

BODY = {
    "ReduceMax": "y = ReduceMax <axes=[2]> (x)",
    "ArgMax": "i = ArgMax <axis=2> (x)",
    "MaxPool": "p = MaxPool <kernel_shape=[4]> (x)",
}


def scope(*order: str) -> Scope:
    """A graph with these nodes in this order."""
    return ModelIndex(parse(f"g (float[2,3,4] x) => (x) {{ {' '.join(BODY[name] for name in order)} }}")).scopes[0]


@pytest.mark.parametrize("order", [("ReduceMax", "ArgMax"), ("MaxPool", "ArgMax", "ReduceMax")])
def test_the_first_node_of_a_reduction(order: tuple[str, ...]) -> None:
    main = scope(*order)
    reduction = Reduction(main.node(order.index("ReduceMax")), main.node(order.index("ArgMax")), None, None)
    assert reduction.first is main.node(min(reduction.node.position, reduction.recorder.position))


def test_the_node_of_the_pooled_tensor() -> None:
    main = scope("MaxPool", "ReduceMax", "ArgMax")
    pool, maximum, recorder = (main.node(position) for position in range(3))
    x = pool.input(0)
    assert x is not None
    pooled = Pooled(x, TensorProto.FLOAT, static_dims([2, 3, 4]), static_dims([2, 3, 1]))
    gradient = pooled.gradient(Operand(x), Operand(x), Operand(x), Numbering.PLANE)

    def pooling(**nodes: Any) -> object:
        return replace(gradient, **nodes).pooling

    assert pooling() is None
    assert pooling(pool=pool) is pool
    assert pooling(reduction=Reduction(maximum, recorder, None, None)) is maximum
