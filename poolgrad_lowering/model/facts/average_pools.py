# SPDX-License-Identifier: Apache-2.0

"""The AveragePool that an AveragePoolGrad of onnxruntime training belongs to, which does not read it."""

from __future__ import annotations

from poolgrad_lowering.model.facts.shape_rules import Known
from poolgrad_lowering.model.ir.attributes import integer
from poolgrad_lowering.model.ir.dims import differ
from poolgrad_lowering.model.ir.scopes import Node
from poolgrad_lowering.model.windows import PoolAttributes


def forward_pools(known: Known, node: Node) -> list[Node]:
    """Return the pools that a gradient can be that of, all over inputs of one shape; empty if it is not known.

    They are the one that the gradient is named after, or those before it in its graph with its attributes whose output
    has not another shape than its dY.
    """
    own, shape = _windows_of(node), known.shape(node.input(0))
    pools = []
    for position in node.scope.by_op.get(("", "AveragePool"), ()):
        pool = node.scope.node(position)
        made = known.shape(pool.output(0))
        is_other = shape is not None and made is not None and differ(shape, made)
        if position < node.position and pool.input(0) is not None and _windows_of(pool) == own and not is_other:
            pools.append(pool)
    named = [pool for pool in pools if pool.proto.name and node.proto.name.startswith(f"{pool.proto.name}_Grad/")]
    chosen = named if len(named) == 1 else pools
    inputs = {x for pool in chosen if (x := pool.input(0)) is not None}
    shapes = {known.shape(x) for x in inputs}
    return chosen if len(inputs) == 1 or (len(shapes) == 1 and None not in shapes) else []


def _windows_of(node: Node) -> tuple[object, ...]:
    return PoolAttributes.read(node), integer(node, "count_include_pad", 0)
