"""The forward pool that a gradient belongs to, with everything a proof needs of it."""

from __future__ import annotations

from dataclasses import dataclass

from poolgrad_lowering.codes import Code, Refusal, refuse
from poolgrad_lowering.dims import Shape
from poolgrad_lowering.facts import Facts
from poolgrad_lowering.index import Node, Value
from poolgrad_lowering.pool import PoolAttributes
from poolgrad_lowering.shape_rules import opaque


@dataclass(frozen=True)
class ForwardPool:
    """A MaxPool: its input `x` of shape (N, C, spatial…) and element type, and the pooled shape.

    Sizes that nothing tells are symbols equal only to themselves.
    """

    node: Node
    attributes: PoolAttributes
    x: Value
    element_type: int
    x_shape: Shape
    pooled_shape: Shape


def forward_pool(facts: Facts, node: Node) -> ForwardPool | Refusal:
    """What is known of a MaxPool node, or why no gradient of it can be lowered."""
    attributes, x, pooled = PoolAttributes.read(node), node.input(0), node.output(1)
    if attributes is None or x is None or pooled is None:
        return refuse(Code.POOL_ATTRIBUTES, "MaxPool '{}' has missing or malformed attributes", node.label)
    if attributes.storage_order:
        return refuse(Code.STORAGE_ORDER, "MaxPool '{}' has storage_order=1", node.label)
    if attributes.has_ambiguous_pads:
        return refuse(
            Code.POOL_ATTRIBUTES,
            "MaxPool '{}' has auto_pad={} with dilations or gaps, which runtimes pad differently",
            node.label,
            attributes.auto_pad,
        )
    element_type = facts.element_type(x)
    if not element_type:
        return refuse(Code.UNKNOWN_DTYPE, "the element type of '{}' is not known", x.name)
    rank = len(attributes.kernel) + 2
    x_shape, pooled_shape = (
        shape if shape is not None else tuple(opaque(value, axis) for axis in range(rank))
        for value, shape in ((x, facts.shape(x)), (pooled, facts.shape(pooled)))
    )
    if len(x_shape) != rank or len(pooled_shape) != rank:
        return refuse(
            Code.POOL_ATTRIBUTES, "MaxPool '{}' has {} spatial axes, '{}' has others", node.label, rank - 2, x.name
        )
    return ForwardPool(node, attributes, x, element_type, x_shape, pooled_shape)
