# SPDX-License-Identifier: Apache-2.0

"""Positions that no max pool records: those of several largest elements, of minima, of the elements that a mask keeps.

    k > 1 positions = TopK(x, k)         # topk, sort
    position of the minimum = ArgMin(x)  # or TopK of the smallest
    positions = NonZero(mask)            # boolean masks

One position of several is that of the maximum, so all of them must be scattered by, each with an update of its own. The
minimum is the maximum of negated values, so what is searched must not come from a negation. A mask can mark maxima, so
each of its elements must depend on one element of a tensor, and on constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np
from onnx import TensorProto

from poolgrad_lowering.model.facts.facts import VIEW_OPS, Facts
from poolgrad_lowering.model.facts.shape_rules import BROADCAST, static_integers
from poolgrad_lowering.model.facts.type_rules import HALF_TYPES
from poolgrad_lowering.model.ir.attributes import integer
from poolgrad_lowering.model.ir.scopes import MAX_CHAIN, Node, Value

_MOVED = (*VIEW_OPS, "Cast", "Transpose")
_PICKING = ("Gather", "Slice")
"""Operators that leave out elements of their first input."""
_UNARY = (
    *("Abs", "Cast", "Ceil", "Clip", "Exp", "Floor", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Log", "Neg", "Not"),
    *("Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sqrt", "Tanh"),
)
_ELEMENTWISE = (*_UNARY, *BROADCAST)
_WEIGHTED = (
    *("BatchNormalization", "Conv", "ConvTranspose", "Gemm", "GroupNormalization", "InstanceNormalization"),
    *("LayerNormalization", "MatMul"),
)
"""Layers with weights: what several of them give is not compared element by element to find a maximum."""
_LAYERS = (*_WEIGHTED, "AveragePool", "Gather", "GatherElements", "LogSoftmax", "MaxPool", "ReduceMean", "ReduceSum")
_PADDED = ("Concat", "OneHot", "Pad", "ScatterElements", "ScatterND", "Where")
"""Operators that may make zeros beside a gradient."""


def other_positions(facts: Facts, indices: Value, updates: Value) -> Node | None:
    """Return the node whose positions, which no max pool records, a scatter takes as they are; None if it is not seen.

    Between the node and the indices, positions are cast, joined with constants, or counted otherwise, each of them.
    """
    found = list(islice(indices.ancestors(_counted_from), MAX_CHAIN + 1))
    ends = [value for value in found if value.producer is None or not _counted_from(value.producer)]
    sources = [value for value in ends if facts.constant(value) is None and not _is_size(value)]
    node = sources[0].producer if len(sources) == 1 and len(found) <= MAX_CHAIN else None
    if node is None or facts.is_function(node) or not _are_other_positions(facts, node, sources[0], updates):
        return None
    picks = not node.is_a("NonZero") and any(value.producer and value.producer.is_a(*_PICKING) for value in found)
    return None if picks else node


def _counted_from(node: Node) -> Sequence[Value | None]:
    """The inputs from which a node between positions and indices computes its result."""
    if node.is_a(*_MOVED, *_PICKING, "Expand"):
        return node.inputs[:1]
    return node.inputs if node.is_a("Add", "Concat", "Less", "Mod", "Mul", "Sub", "Where") else ()


def _is_size(value: Value) -> bool:
    return value.producer is not None and value.producer.is_a("Shape", "Size", "Range", "ConstantOfShape")


def _are_other_positions(facts: Facts, node: Node, value: Value, updates: Value) -> bool:
    """Whether a result of a node are positions that no max pool records, if updates are scattered by all of them."""
    data = node.input(0)
    if data is None:
        return False
    if node.is_a("NonZero"):
        return _is_of_single_elements(facts, data)
    shape, axis = facts.shape(data), integer(node, "axis")
    if shape is None or axis is None or not -len(shape) <= axis < len(shape) or shape[axis].static == 1:
        return False
    if node.is_a("ArgMin"):
        return not _may_be_reversed(facts, data)
    if not node.is_a("TopK") or value != node.output(1):
        return False
    count = static_integers(facts, node, 1)
    if count is None or len(count) != 1:
        return False
    is_of_smallest = integer(node, "largest") == 0
    return _is_full(updates) if count[0] > 1 else is_of_smallest and not _may_be_reversed(facts, data)


def _is_full(updates: Value) -> bool:
    """Whether no operator is seen that makes some of the updates zeros."""
    *_, source = updates.sources(lambda node: node.is_a(*_MOVED))
    return source.producer is None or not source.producer.is_a(*_PADDED)


def _may_be_reversed(facts: Facts, data: Value) -> bool:
    """Whether values may be those of another tensor in reversed order: their minimum is then its maximum."""

    def reverses(node: Node) -> bool:
        if node.is_a("Neg", "Reciprocal"):
            return True
        constants = [facts.constant(operand) for operand in node.inputs]
        if node.is_a("Sub", "Div") and constants[0] is not None:
            return True
        return node.is_a("Mul", "Div") and any(held is not None and bool(np.any(held < 0)) for held in constants)

    ancestors = data.ancestors(lambda node: node.inputs if node.is_a(*_ELEMENTWISE, *_MOVED, "Slice", "Gather") else ())
    found = list(islice(ancestors, MAX_CHAIN + 1))
    if len(found) > MAX_CHAIN or any(value.producer is None and value.scope.path != "main" for value in found):
        return True
    return any(value.producer is not None and reverses(value.producer) for value in found)


def _is_of_single_elements(facts: Facts, mask: Value) -> bool:
    """Whether each element of a mask depends on one element of a tensor, and on weights and constants."""
    found = list(islice(mask.ancestors(lambda node: node.inputs if node.is_a(*_ELEMENTWISE) else ()), MAX_CHAIN + 1))
    if len(found) > MAX_CHAIN:
        return False
    ends = [value for value in found if value.producer is None or not value.producer.is_a(*_ELEMENTWISE)]
    computed = [value for value in ends if value.producer is not None and facts.constant(value) is None]
    if not all(value.producer is not None or _is_no_mask(facts, value) for value in ends):
        return False
    layers = [_layer(value) for value in computed]
    return all(layer is not None and layer.is_a(*(_LAYERS if len(computed) == 1 else _WEIGHTED)) for layer in layers)


def _is_no_mask(facts: Facts, value: Value) -> bool:
    """Whether a value that no node makes is a constant, or an input that another model has not made a mask."""
    if value.scope.path != "main":
        return False
    is_float = facts.element_type(value) in (*HALF_TYPES, TensorProto.FLOAT, TensorProto.DOUBLE)
    return facts.constant(value) is not None or is_float or has_no_label(facts, value)


def _layer(value: Value) -> Node | None:
    *_, source = value.sources(lambda node: node.is_a(*_MOVED))
    return source.producer


def has_no_label(facts: Facts, labels: Value) -> bool:
    """Whether a node asks which elements of labels equal a negative number: no label, and the position of nothing."""
    readers = [use.scope.node(use.position) for use in labels.uses if use.position >= 0]
    others = [other for node in readers if node.is_a("Equal") for other in node.inputs if other != labels]
    return any(held is not None and held.size == 1 and held.item() < 0 for held in map(facts.constant, others))
