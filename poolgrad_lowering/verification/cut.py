"""A region as two small models that run on their own: the site as the original has it, and as the lowered model has it.

The cut goes back from the region through nodes that both models have, to the pooled tensors and incoming gradients, to
graph inputs and constants. What is behind a Shape counts only by its shape, so the cut ends there too. Going back
further is always right: it leaves out combinations of values that cannot occur.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from onnx import ModelProto, TensorProto

from poolgrad_lowering.verification import roles
from poolgrad_lowering.verification.flat import FlatNode, Unit
from poolgrad_lowering.verification.regions import Region
from poolgrad_lowering.verification.result import Unproven


class Role(Enum):
    """What an input of a cut is."""

    POOLED = "pooled tensor"
    GRADIENT = "incoming gradient"
    OTHER = "other"


@dataclass(frozen=True)
class Cut:
    """Both sides of a site. Nodes are in order; `inputs` are the free values, with what they are."""

    region: Region
    original: tuple[FlatNode, ...]
    lowered: tuple[FlatNode, ...]
    inputs: Mapping[str, Role]
    constants: Mapping[str, TensorProto]


def cut_out(region: Region, kept: Sequence[FlatNode], original: Unit, lowered: Unit) -> Cut:
    """Cut a region out of both units; `kept` are the nodes that both have, in order.

    Raises `Unproven` where a site would need a node with subgraphs inside a subgraph.
    """
    constants = {**original.constants, **lowered.constants}
    common = {value: node for node in kept for value in node.makes if value}
    sides = [_Side(nodes, common) for nodes in (region.removed, region.added)]
    ends: dict[str, Role] = {}
    while True:
        for side in sides:
            side.walk(ends, constants)
        found = _ends(sides, constants)
        if found.keys() <= ends.keys():
            break
        ends.update({value: role for value, role in found.items() if value not in ends})
    first, second = (_ordered(unit, side) for unit, side in zip((original, lowered), sides, strict=True))
    inputs = {value: ends.get(value, Role.OTHER) for side in sides for value in side.inputs}
    used = {value: constants[value] for side in sides for value in sorted(side.constants)}
    return Cut(region, first, second, inputs, used)


class _Side:
    """One side of a region while the cut grows back from it."""

    def __init__(self, nodes: Sequence[FlatNode], common: Mapping[str, FlatNode]) -> None:
        self._own = {value: node for node in nodes for value in node.makes if value}
        self._common = common
        self.nodes = nodes
        self.keys: set[bytes] = set()
        self.inputs: dict[str, None] = {}
        self.constants: set[str] = set()
        self.reached: list[FlatNode] = []

    def walk(self, ends: Mapping[str, Role], constants: Mapping[str, TensorProto]) -> None:
        """Collect nodes and inputs, going back to `ends`."""
        self.inputs, self.constants, self.reached = {}, set(), list(self.nodes)
        self.keys = {node.key for node in self.reached}
        for node in self.reached:  # grows while it is gone through
            only_shape = node.op in (("", "Shape"), ("", "Size"))
            for value in (*node.reads, *node.captured):
                if not value or value in self._own:
                    continue
                if value in constants:
                    self.constants.add(value)
                    continue
                maker = self._common.get(value)
                if maker is None or value in ends or (only_shape and self.base(value) not in ends):
                    self.inputs[value] = None
                elif maker.key not in self.keys:
                    self.keys.add(maker.key)
                    self.reached.append(maker)

    def base(self, value: str) -> str:
        """What a value is a view of: the first that is made by the other kind of node, or outside of this region."""
        while (maker := self._own.get(value) or self._common.get(value)) is not None and roles.is_view(maker):
            value = maker.reads[0]
        return value

    def is_own(self, value: str) -> bool:
        """Whether a node of the region makes it."""
        return value in self._own


def _ends(sides: Iterable[_Side], constants: Mapping[str, TensorProto]) -> dict[str, Role]:
    """Pooled tensors and incoming gradients of all nodes reached so far."""
    found: dict[str, Role] = {}
    for side in sides:
        operands = [(roles.pooled(node), Role.POOLED) for node in side.reached]
        operands += [(roles.incoming_gradient(node), Role.GRADIENT) for node in side.nodes]
        for operand, role in operands:
            value = side.base(operand) if operand else None
            if value and not side.is_own(value) and value not in constants:
                found.setdefault(value, role)
    return found


def _ordered(unit: Unit, side: _Side) -> tuple[FlatNode, ...]:
    nodes = tuple(node for node in unit.nodes if node.key in side.keys)
    nested = [node for node in nodes if node.captured and node.scope != unit.name]
    if nested:
        raise Unproven(f"node '{nested[0].label}' holds subgraphs and is in one itself")
    return nodes
