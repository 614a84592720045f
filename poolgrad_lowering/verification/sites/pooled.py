# SPDX-License-Identifier: Apache-2.0

"""Finds the pooled tensor of an AveragePoolGrad, which has only the incoming gradient as an operand.

onnxruntime's kernel takes the sizes of the result from its declared shape. Where that has no numbers for them, they are
those of the input of the forward pool: the AveragePool with the same attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from poolgrad_lowering.verification.graph.flat import FlatNode, Unit
from poolgrad_lowering.verification.graph.input_roles import AVERAGE_POOL_GRADIENT
from poolgrad_lowering.verification.graph.protos import attribute_values
from poolgrad_lowering.verification.graph.types import TensorType

_DEFAULTS: dict[str, Any] = {"auto_pad": b"NOTSET", "ceil_mode": 0, "count_include_pad": 0}
_GRADIENT_OF = "{}_Grad/"
"""How onnxruntime-training begins the names of a node's gradient nodes."""


def with_pooled(node: FlatNode, unit: Unit, types: Mapping[str, TensorType]) -> FlatNode:
    """Return the node; an AveragePoolGrad whose result has no declared sizes gets the pooled tensor as an operand.

    It is left as it is if no forward pool is found, or several that pool tensors of different or unknown shapes.
    """
    if node.op != ("", AVERAGE_POOL_GRADIENT) or len(node.inputs) != 1 or not any(node.outputs[:1]):
        return node
    declared = types.get(node.outputs[0])
    if declared is not None and declared.dims is not None and all(isinstance(dim, int) for dim in declared.dims[2:]):
        return node
    pooled = _pooled(node, unit.nodes, types)
    return node if pooled is None else replace(node, inputs=(*node.inputs, pooled))


def _pooled(node: FlatNode, nodes: Iterable[FlatNode], types: Mapping[str, TensorType]) -> str | None:
    own = _windows(node)
    pools = [other for other in nodes if other.op == ("", "AveragePool") and _windows(other) == own]
    names = [pool for pool in pools if pool.proto.name and node.proto.name.startswith(_GRADIENT_OF.format(pool.label))]
    values = {pool.inputs[0] for pool in (names if len(names) == 1 else pools)}
    shapes = {types[value].dims if value in types else None for value in values}
    known = [dims for dims in shapes if dims is not None and None not in dims]
    return min(values) if len(values) == 1 or (values and len(shapes) == len(known) == 1) else None


def _windows(node: FlatNode) -> dict[str, Any]:
    """Return the attributes of a pool or its gradient, with those that are left out."""
    values = attribute_values(node.proto)
    rank = len(values.get("kernel_shape", ()))
    return {**_DEFAULTS, "pads": [0] * 2 * rank, "strides": [1] * rank, "dilations": [1] * rank, **values}
