# SPDX-License-Identifier: Apache-2.0

"""What may stand in place of a node, and what that depends on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from onnx import NodeProto, TensorProto, helper

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
