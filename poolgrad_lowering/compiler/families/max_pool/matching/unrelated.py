# SPDX-License-Identifier: Apache-2.0

"""Scatters that are no gradient of a pool: by labels, by the rows of an embedding.

    positions = integer operators on integer inputs of the main graph and constants
    s = ScatterElements(data, positions, updates)    # or ScatterND

A pool's indices are computed from a float tensor, so no pool of this graph computes these. An input or a constant could
still hold indices that were recorded elsewhere: by a forward graph that is another model, or by a tracer. So one of
these must hold too: the updates are a constant, which is no incoming gradient; the scatter writes slices, while the
gradient of a pool writes single elements; or the inputs have one axis at most, while recorded indices have those of the
pooled tensor; or a node compares them with a negative number, which stands for no label and is no position.

Whatever the indices come from, one that names several elements is none of a pool, whose windows differ from one another
in the elements that they select.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np
from onnx import TensorProto

from poolgrad_lowering.compiler.families.max_pool.matching.other_positions import has_no_label, other_positions
from poolgrad_lowering.compiler.families.max_pool.matching.scatter import Scatter
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import VIEW_OPS, Facts
from poolgrad_lowering.model.ir.attributes import integer
from poolgrad_lowering.model.ir.dims import size
from poolgrad_lowering.model.ir.scopes import MAX_CHAIN, Node, Value

_OF_FIRST_INPUT = (
    *(*VIEW_OPS, "Cast", "CumSum", "Expand", "Not", "ReduceMax", "ReduceMin", "ReduceSum", "Slice", "Tile"),
    "Transpose",
)
"""Operators whose result has elements of the first input; the others are sizes and positions."""

_OF_ALL_INPUTS = (
    *("Add", "And", "Clip", "Concat", "Div", "Equal", "Gather", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
    *("Mod", "Mul", "Or", "Range", "Sub", "Where", "Xor"),
)
_CONSTANTS = ("Constant", "ConstantOfShape", "Shape", "Size")
"""Operators whose result does not depend on the elements of a tensor."""

_INTEGERS = frozenset(
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
        _is_constant(scatter.updates) or _writes_slices(facts, scatter) or _are_labels(facts, inputs)
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
    if values is None or any(facts.element_type(value) not in _INTEGERS for value in values):
        return None
    return [value for value in values if _is_input(value)]


def _computed_from(value: Value) -> list[Value] | None:
    """The value and all values whose elements it is computed from, back to inputs and constants.

    None if an operator is none of the known ones, if a value has no known origin, or if there are too many values.
    """
    found = list(islice(value.ancestors(_sources), MAX_CHAIN + 1))
    ends = (reached for reached in found if reached.producer is None or not _sources(reached.producer))
    return found if len(found) <= MAX_CHAIN and all(map(_is_known_end, ends)) else None


def _sources(node: Node) -> Sequence[Value | None]:
    """The inputs from whose elements a node computes its result; none of an operator that is not known."""
    if node.is_a(*_OF_FIRST_INPUT):
        return node.inputs[:1]
    return node.inputs if node.is_a(*_OF_ALL_INPUTS) else ()


def _is_known_end(value: Value) -> bool:
    if value.producer is not None:
        return value.producer.is_a(*_CONSTANTS)
    return value.name in value.scope.initializers or _is_input(value)


def _is_input(value: Value) -> bool:
    """Whether the value is an input of the main graph."""
    return value.scope.path == "main" and value.name in value.scope.inputs


def _is_constant(value: Value) -> bool:
    values = _computed_from(value)
    return values is not None and not any(map(_is_input, values))


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
    """Whether a value has equal elements along these axes: an Expand repeats them, or it is a constant."""
    node, shape = value.producer, facts.shape(value) or ()
    if node is not None and node.is_a("Expand"):
        sizes = facts.shape(node.input(0))
        return sizes is not None and len(sizes) == len(shape) and all(sizes[axis].static == 1 for axis in axes)
    table = facts.table(value)
    return table is not None and all(bool(np.all(table == table.take([0], axis))) for axis in axes)


def _are_labels(facts: Facts, inputs: Sequence[Value]) -> bool:
    """Whether there are inputs, and each of them has one axis at most, or holds negative numbers for no label."""
    return bool(inputs) and all(_has_one_axis(facts, value) or has_no_label(facts, value) for value in inputs)


def _has_one_axis(facts: Facts, value: Value) -> bool:
    shape = facts.shape(value)
    return shape is not None and len(shape) <= 1
