# SPDX-License-Identifier: Apache-2.0

"""What may stand in place of a node, and what that depends on.

Zeros in a size that an input of the graph has are made as an export for graph mode makes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper
from onnx.helper import make_node

from poolgrad_lowering.verification.arrays import AnyArray
from poolgrad_lowering.verification.graph.protos import integers, replace_entries
from poolgrad_lowering.verification.graph.types import AxisSize, TensorType, rank_of


@dataclass(frozen=True)
class Planes:
    """The input of a max pool with its sizes: of the pool whose positions in planes a value has, or of the planes."""

    pool: NodeProto
    dims: tuple[AxisSize, ...]


@dataclass
class NodeRewrite:
    """Nodes in place of a node, and the constants that they read, by name.

    `rounded`: runtimes compute the node with sums in another order, so results may differ by their rounding. `reads`
    are the inputs of the graph among the values.
    """

    nodes: list[NodeProto]
    constants: dict[str, AnyArray] = field(default_factory=dict)
    rounded: bool = False
    reads: tuple[str, ...] = ()


@dataclass(frozen=True)
class Context:
    """What a rewrite depends on: the opset, types, constants that no caller can override, and inputs of the graph.

    `measured` are the types of the values whose shape a value is, and `planes` what values tell of positions in planes.
    """

    opset: int
    types: Mapping[str, TensorType]
    constants: Mapping[str, TensorProto]
    inputs: Sequence[str] = ()
    measured: Mapping[str, TensorType] = field(default_factory=dict)
    planes: Mapping[str, Planes] = field(default_factory=dict)

    def rank(self, value: str) -> int | None:
        """Return the rank of a value, None if it is not known."""
        return rank_of(value, self.types)

    def sizes(self, value: str, first: int = 0) -> list[int] | None:
        """Return the sizes of a value from an axis on if they are known numbers."""
        dims = self.types[value].dims if value in self.types else None
        return None if dims is None else TensorType(0, dims[first:]).sizes

    def integers(self, value: str) -> list[int] | None:
        """Return the elements of a constant of integers."""
        return integers(self.constants.get(value))


OWN = "\0"
"""What the names of a node's own values begin with in its rewrites; other names are of values inside a rewrite."""


def same_but(node: NodeProto, inputs: Sequence[str] | None = None, /, **attributes: Any) -> NodeProto:
    """Return a copy of a node with other attributes, of which None leaves one out, and inputs."""
    changed = deepcopy(node)
    kept = [found for found in node.attribute if found.name not in attributes]
    added = [helper.make_attribute(name, value) for name, value in attributes.items() if value is not None]
    replace_entries(changed, "attribute", [*kept, *added])
    if inputs is not None:
        changed.input[:] = inputs
    return changed


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
