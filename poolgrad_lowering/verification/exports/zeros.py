# SPDX-License-Identifier: Apache-2.0

"""Zeros in a size that an input of the graph has, as an export for graph mode makes them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto
from onnx.helper import make_node

from poolgrad_lowering.verification.arrays import AnyArray
from poolgrad_lowering.verification.exports.node_rewrite import OWN, Context, NodeRewrite
from poolgrad_lowering.verification.graph.types import AxisSize

NUMBERS = (
    *(TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE),
    *(TensorProto.INT32, TensorProto.INT64),
)
"""The element types of inputs that zeros are made of."""


def zero_nodes(axis: int, rank: int, source: tuple[str, int, Sequence[AxisSize]], element: int) -> NodeRewrite:
    """The nodes that make zeros, of the size that a value has on an axis, for another axis of other ranks."""
    name, held_axis, dims = source
    nodes, constants, reads = [], dict[str, AnyArray](), (name.removeprefix(OWN),)
    cut = [other for other, size in enumerate(dims) if other != held_axis and size != 1]
    if cut:
        numbers = {"starts": [0] * len(cut), "ends": [1] * len(cut), "axes": cut}
        constants |= {f"{axis} {key}": np.array(values, np.int64) for key, values in numbers.items()}
        nodes.append(make_node("Slice", [name, *(f"{axis} {key}" for key in numbers)], [f"{axis} first"]))
        name = f"{axis} first"
    constants[f"{axis} shape"] = np.array([-1 if at == axis else 1 for at in range(rank)], np.int64)
    nodes.append(make_node("Reshape", [name, f"{axis} shape"], [f"{axis} row"]))
    nodes.append(make_node("Less", [f"{axis} row"] * 2, [f"{axis} false"]))
    if element != TensorProto.BOOL:
        nodes.append(make_node("Cast", [f"{axis} false"], [f"{axis} zeros"], to=element))
    return NodeRewrite(nodes, constants, reads=reads)


def inputs_with_size(name: str, context: Context) -> tuple[str, int, Sequence[AxisSize]] | None:
    """Return the input of the graph with the fewest unknown sizes that has this one, its axis, and all sizes."""
    found = []
    for value in context.inputs:
        known = context.types.get(OWN + value)
        dims = None if known is None or known.element not in NUMBERS else known.dims
        if dims is not None and name in dims and 0 not in dims:
            found.append((OWN + value, dims.index(name), dims))
    return min(found, key=lambda each: sum(not isinstance(size, int) for size in each[2]), default=None)
