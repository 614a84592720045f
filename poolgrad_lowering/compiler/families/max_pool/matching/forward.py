# SPDX-License-Identifier: Apache-2.0

"""The forward pool that a gradient belongs to, with everything a proof needs of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from poolgrad_lowering.compiler.analysis.provenance import Numbering
from poolgrad_lowering.compiler.families.gradient import Operand
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.shared.checks import check_windows, known_element_type
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.known import opaque
from poolgrad_lowering.model.ir.dims import Shape
from poolgrad_lowering.model.ir.scopes import Node, Value
from poolgrad_lowering.model.windows import AdaptiveWindows, PoolAttributes


@dataclass(frozen=True)
class Pooled:
    """What is pooled and to what: `x` of shape (N, C, spatial…), its type, the pooled shape, and by which windows.

    `node` is the one that does it; None if no single node does. Sizes that nothing tells are symbols equal only to
    themselves.
    """

    x: Value
    element_type: int
    x_shape: Shape
    pooled_shape: Shape
    attributes: PoolAttributes | AdaptiveWindows = field(default_factory=AdaptiveWindows)
    node: Node | None = None

    def gradient(self, grad: Operand, argmax: Operand | None, dx: Operand, numbering: Numbering) -> MaxPoolGradient:
        """Return the gradient with these operands and this result."""
        return MaxPoolGradient(
            x=Operand(self.x),
            grad=grad,
            argmax=argmax,
            dx=dx,
            numbering=numbering,
            element_type=self.element_type,
            windows=self.attributes,
            x_shape=self.x_shape,
            pooled_shape=self.pooled_shape,
            pool=self.node,
        )


@dataclass(frozen=True)
class ForwardPool(Pooled):
    """A pooling by a MaxPool node."""

    attributes: PoolAttributes
    node: Node

    def check_no_overlap(self, overwriting: Node) -> None:
        """Raise `Refuse` for a node that overwrites if two windows may share an element."""
        axes = zip(self.attributes.windows, self.pooled_shape[2:], strict=True)
        for number, (window, count) in enumerate(axes):
            if window.extent > window.stride and count.static != 1:
                what = "{} '{}' overwrites, and windows of MaxPool '{}' overlap on spatial axis {}"
                named = overwriting.proto.op_type, overwriting.label, self.node.label, number
                raise Refuse(Code.OVERLAPPING_OVERWRITE, what, *named)


def forward_pool(facts: Facts, node: Node) -> ForwardPool:
    """What is known of a MaxPool node; raises `Refuse` where no gradient of it can be lowered."""
    attributes, x, pooled = facts.pool(node), node.input(0), node.output(1) or node.output(0)
    if attributes is None or x is None or pooled is None:
        raise Refuse(Code.POOL_ATTRIBUTES, "MaxPool '{}' has missing or malformed attributes", node.label)
    check_windows(attributes, node)
    element_type = known_element_type(facts, x)
    rank = len(attributes.kernel) + 2
    x_shape, pooled_shape = (
        shape if shape is not None else tuple(opaque(value, axis) for axis in range(rank))
        for value, shape in ((x, facts.shape(x)), (pooled, facts.shape(pooled)))
    )
    if len(x_shape) != rank:
        what = "MaxPool '{}' has {} spatial axes, '{}' has others"
        raise Refuse(Code.POOL_ATTRIBUTES, what, node.label, rank - 2, x.name)
    return ForwardPool(x, element_type, x_shape, pooled_shape, attributes, node)
