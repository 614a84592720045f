# SPDX-License-Identifier: Apache-2.0

"""Extends a region to a cut, the nodes of a site in both models that can run as models of their own.

The cut extends from the region backwards through nodes that both models have, and through nodes of other regions, to
pooled tensors, incoming gradients, graph inputs and constants. Only the shape of a Shape's operand matters, so the cut
ends there too. Extending a cut is always correct: it excludes combinations of values that cannot occur.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from onnx import TensorProto

from poolgrad_lowering.verification.graph import roles
from poolgrad_lowering.verification.graph.flat import FlatNode, Unit
from poolgrad_lowering.verification.graph.input_roles import AVERAGE_POOL_GRADIENT
from poolgrad_lowering.verification.graph.protos import attribute_values
from poolgrad_lowering.verification.graph.types import TensorTypes
from poolgrad_lowering.verification.result import UnprovenError
from poolgrad_lowering.verification.sites.regions import ChangedRegion


class Role(Enum):
    """The role of an input of a cut."""

    GRADIENT = "incoming gradient"
    POOLED = "pooled tensor"
    OTHER = "other"


class Cut(NamedTuple):
    """Both sides of a site. Nodes are in order; `inputs` are the free values with their roles."""

    region: ChangedRegion
    original: tuple[FlatNode, ...]
    lowered: tuple[FlatNode, ...]
    inputs: Mapping[str, Role]
    constants: Mapping[str, TensorProto]


def cut_out(region: ChangedRegion, units: tuple[Unit, Unit], types: TensorTypes) -> Cut:
    """Return the cut of a region. Raises `UnprovenError` if it needs a node with subgraphs inside a subgraph."""
    constants = ChainMap(units[0].constants, units[1].constants)
    removed = tuple(with_pooled(node, units[0], types) for node in region.removed)
    sides = [_Side(removed, *units), _Side(region.added, *reversed(units))]
    passed: set[str] = set()
    before: tuple[dict[str, Role], int] | None = None
    while (state := (_ends(sides, constants, passed, types), len(passed))) != before:
        before = state
        for side in sides:
            side.walk(state[0], constants, passed)
    ends = state[0]
    first, second = (_ordered(unit, side) for unit, side in zip(units, sides, strict=True))
    given = {node.key: node for node in removed}
    first = tuple(given.get(node.key, node) for node in first)
    inputs = {value: ends.get(value, Role.OTHER) for side in sides for value in side.inputs}
    used = {value: constants[value] for side in sides for value in sorted(side.constants)}
    return Cut(region, first, second, inputs, used)


class _Side:
    """One side of a region while its cut is extended: `reached` are its nodes so far, `inputs` its free values."""

    def __init__(self, nodes: Sequence[FlatNode], unit: Unit, other: Unit) -> None:
        self._own = {value for node in nodes for value in node.outputs if value}
        self._producers, self._theirs = unit.producers, other.defined
        self.nodes = nodes
        self.reached: list[FlatNode] = list(nodes)
        self.keys: set[bytes] = set()
        self.inputs: dict[str, None] = {}
        self.constants: set[str] = set()

    def walk(self, ends: Mapping[str, Role], constants: Mapping[str, TensorProto], passed: set[str]) -> None:
        """Collect nodes and inputs backwards up to `ends`; other values on the way are added to `passed`."""
        self.inputs, self.constants, self.reached = {}, set(), list(self.nodes)
        self.keys = {node.key for node in self.reached}
        for node in self.reached:  # grows during the iteration
            only_shape = node.op in (("", "Shape"), ("", "Size"))
            for value in (*node.inputs, *node.captured):
                if not value or value in self._own:
                    continue
                if value in constants:
                    self.constants.add(value)
                    continue
                producer = self._producers.get(value)
                is_end = only_shape and not any(behind in ends or behind in passed for behind in self.views(value))
                if producer is None or value in ends or is_end:
                    self.inputs[value] = None
                    continue
                passed.add(value)
                if producer.key not in self.keys:
                    self.keys.add(producer.key)
                    self.reached.append(producer)

    def views(self, value: str) -> list[str]:
        """Return the value and the values of which it is a view, nearest first.

        Values of the region, and values that the other side does not define, are left out.
        """
        chain = roles.views(value, self._producers)
        return [value for value in chain if value not in self._own and value in self._theirs]


def _ends(
    sides: Iterable[_Side], constants: Mapping[str, TensorProto], passed: Collection[str], types: TensorTypes
) -> dict[str, Role]:
    """Return the values where the cut ends: pooled tensors and incoming gradients, or what several are views of.

    Of a chain of views the nearest value with a known shape is taken that is not in `passed`. A value that is both
    pooled and a gradient counts as a gradient.
    """
    by_root: dict[str, tuple[list[str], Role]] = {}
    for side in sides:
        operands = [(roles.incoming_gradient(node), Role.GRADIENT) for node in side.nodes]
        operands += [(roles.pooled(node), Role.POOLED) for node in side.reached]
        for operand, role in operands:
            chain = side.views(operand) if operand else []
            if not chain or chain[-1] in constants:
                continue
            if (known := by_root.get(chain[-1])) is None:
                by_root[chain[-1]] = chain, role
            else:
                by_root[chain[-1]] = [v for v in known[0] if v in chain], min(known[1], role, key=list(Role).index)
    return {_nearest(chain, passed, types): role for chain, role in by_root.values()}


def _nearest(chain: Sequence[str], passed: Collection[str], types: TensorTypes) -> str:
    first = max((number + 1 for number, value in enumerate(chain) if value in passed), default=0)
    left = list(chain[first:]) or [chain[-1]]
    known = [value for value in left if value in types and types[value].dims is not None]
    return next((value for value in known if None not in (types[value].dims or ())), left[0])


def _ordered(unit: Unit, side: _Side) -> tuple[FlatNode, ...]:
    nodes = tuple(unit.nodes[position] for position in sorted(unit.order[key] for key in side.keys))
    if nested := [node for node in nodes if node.captured and node.scope != unit.name]:
        raise UnprovenError(f"node '{nested[0].label}' has subgraphs and is itself in a subgraph")
    return nodes


_DEFAULTS: dict[str, Any] = {"auto_pad": b"NOTSET", "ceil_mode": 0, "count_include_pad": 0}
_GRADIENT_OF = "{}_Grad/"
"""How onnxruntime-training begins the names of a node's gradient nodes."""


def with_pooled(node: FlatNode, unit: Unit, types: TensorTypes) -> FlatNode:
    """Return the node; an AveragePoolGrad whose result has no declared sizes gets the pooled tensor as an operand.

    onnxruntime's kernel takes the sizes of the result from its declared shape. Where that has no numbers for them, they
    are those of the input of the forward pool: the AveragePool with the same attributes.

    It is left as it is if no forward pool is found, or several that pool tensors of different or unknown shapes.
    """
    if node.op != ("", AVERAGE_POOL_GRADIENT) or len(node.inputs) != 1 or not any(node.outputs[:1]):
        return node
    declared = types.get(node.outputs[0])
    if declared is not None and declared.dims is not None and all(isinstance(dim, int) for dim in declared.dims[2:]):
        return node
    pooled = _pooled(node, unit.nodes, types)
    return node if pooled is None else node._replace(inputs=(*node.inputs, pooled))


def _pooled(node: FlatNode, nodes: Iterable[FlatNode], types: TensorTypes) -> str | None:
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
