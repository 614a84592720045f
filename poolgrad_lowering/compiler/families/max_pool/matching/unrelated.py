# SPDX-License-Identifier: Apache-2.0

"""Scatters that are no gradient of a pool: by labels, by the rows of an embedding.

    positions = integer operators on integer inputs of the main graph and constants
    s = ScatterElements(data, positions, updates)    # or ScatterND

A pool's indices are computed from a float tensor, so no pool of this graph computes these. An input or a constant could
still hold indices, or a mask, that were recorded elsewhere: by a forward graph that is another model, or by a tracer.
So one of these must hold too: the updates are a constant, which is no incoming gradient; the scatter writes slices,
while the gradient of a pool writes single elements; or an Expand or a Tile repeats the indices for several rows, while
each plane of a pool has its own; or the inputs have one axis at most, or two of which a row is picked, while what is
recorded has the axes of the pooled tensor; or a node compares them with a negative number, which stands for no label
and is no position.

Whatever the indices come from, one that names several elements is none of a pool, whose windows differ from one another
in the elements that they select. Some positions no max pool records either:

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

from poolgrad_lowering.compiler.families.max_pool.matching.scatter import Scatter
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import VIEW_OPS, Facts
from poolgrad_lowering.model.facts.known import static_integers
from poolgrad_lowering.model.facts.shape_rules import BROADCAST
from poolgrad_lowering.model.facts.type_rules import HALF_TYPES
from poolgrad_lowering.model.ir.attributes import integer
from poolgrad_lowering.model.ir.dims import size
from poolgrad_lowering.model.ir.scopes import MAX_CHAIN, Node, Value

_OF_FIRST_INPUT = (
    *(*VIEW_OPS, "Cast", "CumSum", "Expand", "NonZero", "Not", "ReduceMax", "ReduceMin", "ReduceSum", "Slice", "Tile"),
    "Transpose",
)
"""Operators whose result depends on the elements of the first input; the others are sizes and positions."""

_OF_ALL_INPUTS = (
    *("Abs", "Add", "And", "Clip", "Concat", "Div", "Equal", "Gather", "GatherElements", "GatherND", "Greater"),
    *("GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "Mod", "Mul", "Neg", "Or", "Pad", "Range", "Sign", "Sub"),
    *("Where", "Xor"),
)
_CONSTANTS = ("Constant", "ConstantOfShape", "Shape", "Size")
"""Operators whose result does not depend on the elements of a tensor."""

INTEGERS = frozenset(
    (
        *(TensorProto.BOOL, TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64),
        *(TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64),
    )
)


def check_can_be_of_a_pool(facts: Facts, scatter: Scatter) -> None:
    """Raise `Refuse` if the scatter is proven to be no gradient of a pool."""
    indices = scatter.node.input(1)
    if indices is None:
        return
    inputs = _integer_sources(facts, indices)
    if inputs is not None and (
        _is_constant(scatter.updates)
        or _writes_slices(facts, scatter)
        or _is_of_all_planes(facts, scatter)
        or _are_labels(facts, indices, inputs)
    ):
        names = ", ".join(f"'{value.name}'" for value in inputs)
        sources = " and ".join(filter(None, (names, "constants")))
        what = "no pool computes the indices '{}': they come from {}"
        raise Refuse(Code.UNRELATED_INDICES, what, indices.name, sources)
    if (source := other_positions(facts, indices, scatter.updates)) is not None:
        what = "no pool computes the indices '{}': {} '{}' finds other positions than those of maxima"
        raise Refuse(Code.UNRELATED_INDICES, what, indices.name, source.proto.op_type, source.label)
    if _writes_slices(facts, scatter, of_several=True):
        raise Refuse(Code.UNRELATED_INDICES, "each of the indices '{}' names several elements", indices.name)


def _integer_sources(facts: Facts, indices: Value) -> list[Value] | None:
    """The inputs from which indices are computed in integers; None if they may be computed from something else."""
    values = _computed_from(indices)
    if values is None or any(facts.element_type(value) not in INTEGERS for value in values):
        return None
    return [value for value in values if value.is_main_input]


def _computed_from(value: Value) -> list[Value] | None:
    """The value and all values whose elements it is computed from, back to inputs and constants.

    None if an operator is none of the known ones, if a value has no known origin, or if there are too many values.
    """
    found = list(islice(value.ancestors(_sources), MAX_CHAIN + 1))
    known = (
        value.name in value.scope.initializers or value.is_main_input
        if value.producer is None
        else bool(_sources(value.producer)) or value.producer.is_a(*_CONSTANTS)
        for value in found
    )
    return found if len(found) <= MAX_CHAIN and all(known) else None


def _sources(node: Node) -> Sequence[Value | None]:
    """The inputs from whose elements a node computes its result; none of an operator that is not known."""
    if node.is_a(*_OF_FIRST_INPUT):
        return node.inputs[:1]
    return node.inputs if node.is_a(*_OF_ALL_INPUTS) else ()


def _is_constant(value: Value) -> bool:
    values = _computed_from(value)
    return values is not None and not any(reached.is_main_input for reached in values)


def _writes_slices(facts: Facts, scatter: Scatter, *, of_several: bool = False) -> bool:
    """Whether each index names several elements of the base, which differ in their last coordinates.

    An index of a ScatterND then has fewer coordinates than the base has axes, of one element or `of_several`; those of
    a ScatterElements are repeated along the axes behind the one along which it scatters.
    """
    node, indices = scatter.node, scatter.node.input(1)
    base, entries = facts.shape(scatter.base), facts.shape(indices)
    if indices is None or base is None or not entries:
        return False
    if node.is_a("ScatterND"):
        depth = entries[-1].static
        if depth is None or depth >= len(base):
            return False
        return not of_several or (size(base[depth:]).static or 0) > 1
    axis = integer(node, "axis")
    behind = range(axis % len(entries) + 1, len(entries)) if axis is not None else ()
    longer = [number for number in behind if (entries[number].static or 0) > 1]
    return bool(longer) and _is_repeated(facts, indices, longer)


def _is_repeated(facts: Facts, value: Value, axes: Sequence[int]) -> bool:
    """Whether a value has equal elements along these axes: an Expand or a Tile repeats them, or it is a constant."""
    node, shape = value.producer, facts.shape(value) or ()
    if node is not None and node.is_a("Expand", "Tile"):
        sizes = facts.shape(node.input(0))
        added = 0 if sizes is None else len(shape) - len(sizes)
        return sizes is not None and all(axis < added or sizes[axis - added].static == 1 for axis in axes)
    table = facts.table(value)
    return table is not None and all(bool(np.all(table == table.take([0], axis))) for axis in axes)


def _is_of_all_planes(facts: Facts, scatter: Scatter) -> bool:
    """Whether indices are repeated along an axis before the one along which a ScatterElements scatters."""
    node, indices = scatter.node, scatter.node.input(1)
    entries, axis = facts.shape(indices), integer(node, "axis")
    maker = None if indices is None else indices.producer
    if indices is None or maker is None or not maker.is_a("Expand", "Tile") or not entries or axis is None:
        return False
    before = range(axis % len(entries))
    return any((entries[number].static or 0) > 1 and _is_repeated(facts, indices, [number]) for number in before)


def _are_labels(facts: Facts, indices: Value, inputs: Sequence[Value]) -> bool:
    """Whether indices come from inputs, each of which holds labels of one axis at most, or negative ones for no label.

    An input of two axes holds labels too, if only rows of it are picked.
    """
    whole = set(indices.ancestors(lambda node: () if _picks_a_row(facts, node) else _sources(node)))
    return bool(inputs) and all(
        _has_axes(facts, value, 1 if value in whole else 2) or has_no_label(facts, value) for value in inputs
    )


def _picks_a_row(facts: Facts, node: Node) -> bool:
    index = node.input(1) if node.is_a("Gather") else None
    return index is not None and facts.shape(index) == () and _has_axes(facts, node.output(0), 1)


def _has_axes(facts: Facts, value: Value | None, most: int) -> bool:
    shape = None if value is None else facts.shape(value)
    return shape is not None and len(shape) <= most


_MOVED = (*VIEW_OPS, "Cast", "Transpose")
_SIZES = ("Shape", "Size", "Range", "ConstantOfShape")
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
    computed = [value for value in ends if value.producer is None or not value.producer.is_a(*_SIZES)]
    sources = [value for value in computed if facts.constant(value) is None]
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
    maker = updates.behind(lambda node: node.is_a(*_MOVED)).producer
    return maker is None or not maker.is_a(*_PADDED)


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
    layers = [value.behind(lambda node: node.is_a(*_MOVED)).producer for value in computed]
    return all(layer is not None and layer.is_a(*(_LAYERS if len(computed) == 1 else _WEIGHTED)) for layer in layers)


def _is_no_mask(facts: Facts, value: Value) -> bool:
    """Whether a value that no node makes is a constant, or an input that another model has not made a mask."""
    if value.scope.path != "main":
        return False
    is_float = facts.element_type(value) in (*HALF_TYPES, TensorProto.FLOAT, TensorProto.DOUBLE)
    return facts.constant(value) is not None or is_float or has_no_label(facts, value)


def has_no_label(facts: Facts, labels: Value) -> bool:
    """Whether a node asks which elements of labels equal a negative number: no label, and the position of nothing."""
    readers = [use.scope.node(use.position) for use in labels.uses if use.position >= 0]
    others = [other for node in readers if node.is_a("Equal") for other in node.inputs if other != labels]
    return any(held is not None and held.size == 1 and held.item() < 0 for held in map(facts.constant, others))
