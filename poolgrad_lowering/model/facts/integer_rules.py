# SPDX-License-Identifier: Apache-2.0

"""Rules that compute the elements of an integer tensor from the operator that produces it: shape arithmetic.

All rules handle scalars and vectors only, flattened, because no tensor of higher rank is a shape.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from itertools import starmap

from onnx import TensorProto, numpy_helper

from poolgrad_lowering.model.facts.known import MOST_AXES, Known, axis_in, need, require, static_integers
from poolgrad_lowering.model.facts.shape_rules import dims_taken
from poolgrad_lowering.model.facts.slices import slice_ranges
from poolgrad_lowering.model.ir.attributes import attribute, integer, integers
from poolgrad_lowering.model.ir.dims import Dim, Shape, size, static_dims
from poolgrad_lowering.model.ir.scopes import Node, Value

_INTEGER_LIMITS: dict[int, int] = {TensorProto.INT32: 2**31, TensorProto.INT64: 2**63}


def _int_reshape(known: Known, node: Node) -> Shape | None:
    require(len(need(known.integers(node.input(1)))) <= 1)
    elements = known.integers(node.input(0))
    return _int_columns(known, node.input(0)) if elements is None else elements


def _int_columns(known: Known, value: Value | None) -> Shape:
    """Return the elements of vectors side by side, row by row, as of the gradient of Tile: repeats and sizes."""
    concat = need(need(value).producer)
    require(concat.is_a("Concat") and integer(concat, "axis") in (1, -1))
    columns = [need(need(operand).producer) for operand in concat.inputs]
    require(all(column.is_a("Unsqueeze") and _axes(known, column) in ([1], [-1]) for column in columns))
    vectors = [need(known.integers(column.input(0))) for column in columns]
    require(len(set(map(len, vectors))) == 1)
    return tuple(dim for row in zip(*vectors, strict=True) for dim in row)


def _axes(known: Known, node: Node) -> list[int]:
    return list(integers(node, "axes") or static_integers(known, node, 1) or ())


def _int_unsqueeze(known: Known, node: Node) -> Shape | None:
    is_vector = known.shape(node.input(0)) == () and len(_axes(known, node)) == 1
    return known.integers(node.input(0)) if is_vector else None


def _kept(elements: Shape, element_type: int | None) -> Shape:
    """Return the elements if the type holds each of them; of others it keeps the lowest bits."""
    limit = need(_INTEGER_LIMITS.get(element_type or TensorProto.UNDEFINED))
    require(all(-limit <= dim.coefficient < limit for dim in elements))
    return elements


def _int_gather(known: Known, node: Node) -> Shape:
    data, positions = need(known.integers(node.input(0))), need(static_integers(known, node, 1))
    require(integer(node, "axis") == 0 and all(-len(data) <= position < len(data) for position in positions))
    return tuple(data[position] for position in positions)


def _int_slice(known: Known, node: Node) -> Shape:
    data, ranges = need(known.integers(node.input(0))), need(slice_ranges(known, node, 1))
    require(len(ranges) == 1)
    return data[ranges[0]]


def _int_split(value: Value, known: Known, node: Node) -> Shape:
    """Return the part of a vector that is one output of a Split, by the given sizes or in equal parts."""
    data, outputs = need(known.integers(node.input(0))), list(node.proto.output)
    require(integer(node, "axis") == 0)
    given = node.input(1) is not None or attribute(node, "split") is not None
    equal = [len(data) // len(outputs)] * len(outputs)
    parts = need(integers(node, "split") or static_integers(known, node, 1)) if given else equal
    require(len(parts) == len(outputs) and sum(parts) == len(data))
    position = outputs.index(value.name)
    start = sum(parts[:position])
    return data[start : start + parts[position]]


def _int_concat(known: Known, node: Node) -> Shape:
    require(integer(node, "axis") == 0)
    return tuple(dim for operand in node.inputs for dim in need(known.integers(operand)))


def _pairs(known: Known, node: Node) -> list[tuple[Dim, Dim]]:
    """Return the elements of both operands side by side; one may stand for all of the other's."""
    left, right = need(known.integers(node.input(0))), need(known.integers(node.input(1)))
    if len(left) == 1:
        left *= len(right)
    elif len(right) == 1:
        right *= len(left)
    require(len(left) == len(right))
    return [*zip(left, right, strict=True)]


def _int_multiply(known: Known, node: Node) -> Shape:
    return _kept(tuple(map(size, _pairs(known, node))), known.element_type(node.input(0)))


def _of_numbers(compute: Callable[[int, int], int], known: Known, node: Node) -> Shape:
    """Return what is computed of each pair of numbers."""
    pairs = [(need(left.static), need(right.static)) for left, right in _pairs(known, node)]
    return _kept(static_dims(starmap(compute, pairs)), known.element_type(node.input(0)))


def _int_divide(known: Known, node: Node) -> Shape:
    """Return the quotient of two numbers, neither of which is negative: of symbolic ones, if it is exact."""
    left, right = need(known.integers(node.input(0))), need(known.integers(node.input(1)))
    require(len(left) == len(right) == 1 and min(left + right)[0] >= 0)
    if left[0].static is not None and right[0].static:
        return static_dims([left[0].static // right[0].static])
    return (need(left[0].divided_by(right[0])),)


def _int_remainder(known: Known, node: Node) -> Shape:
    divisors = need(known.integers(node.input(1)))
    require(not integer(node, "fmod") and all((dim.static or 0) > 0 for dim in divisors))
    return _of_numbers(operator.mod, known, node)


def _int_maximum(known: Known, node: Node) -> Shape:
    """Return the larger of two numbers for each position; a symbolic one only if it is that of both operands."""
    parts = [need(known.integers(operand)) for operand in node.inputs]
    require(len(set(map(len, parts))) == 1)
    pairs = [set(dims) for dims in zip(*parts, strict=True)]
    require(all(len(dims) == 1 or all(dim.static is not None for dim in dims) for dims in pairs))
    return tuple(max(dims, key=lambda dim: dim.coefficient) for dims in pairs)


def _int_filled(known: Known, node: Node) -> Shape:
    """Return the elements of a vector of one number, which is no shape if it has more than a tensor has axes."""
    counts, value = need(static_integers(known, node, 0)), attribute(node, "value")
    require(len(counts) == 1 and 0 <= counts[0] <= MOST_AXES and isinstance(value, TensorProto))
    require(value.data_type in _INTEGER_LIMITS and value.data_location != TensorProto.EXTERNAL)
    numbers = [int(number) for number in numpy_helper.to_array(value).flat]
    require(len(numbers) == 1)
    return static_dims(numbers * counts[0])


def _int_where(known: Known, node: Node) -> Shape:
    """Return the elements that a comparison of vectors selects; where it is not decided, both must be the same.

    Exporters write sizes of an Expand so, in which -1 stands for 1.
    """
    compared = need(need(node.input(0)).producer)
    require(compared.is_a("Equal"))
    vectors = [need(known.integers(operand)) for operand in (*compared.inputs, *node.inputs[1:])]
    count = max(map(len, vectors))
    require(all(len(vector) in (1, count) for vector in vectors))
    rows = zip(*(vector if len(vector) == count else vector * count for vector in vectors), strict=True)
    return tuple(_selected(*row) for row in rows)


def _selected(left: Dim, right: Dim, where_equal: Dim, where_not: Dim) -> Dim:
    """Return one of two elements, the first if left = right. A symbol is a size, which is not negative."""
    if left == right or where_equal == where_not:
        return where_equal
    (low, high), numbers = sorted((left, right)), {left.static, right.static} - {None}
    require(len(numbers) == 2 or (numbers and low.coefficient < 0 < high.coefficient))
    return where_not


def _int_product(known: Known, node: Node) -> Shape:
    kept = integer(node, "noop_with_empty_axes") and attribute(node, "axes") is None
    require(len(node.inputs) == 1 and attribute(node, "axes") in (None, [0]) and not kept)
    return _kept((size(need(known.integers(node.input(0)))),), known.element_type(node.input(0)))


def _int_lengths(known: Known, node: Node) -> Shape:
    """Return the lengths of the operands of a ConcatTraining on its axis."""
    shapes = [need(known.shape(operand)) for operand in node.inputs]
    return tuple(shape[axis_in(node, len(shape))] for shape in shapes)


def _int_broadcast_axes(position: int, known: Known, node: Node) -> Shape:
    """Return the axes on which the operand at a position is broadcast, last axis first, if no other size may be 1."""
    found = [need(known.integers(node.input(at))) for at in (position, 1 - position)]
    rank = max(map(len, found))
    own, other = ((None,) * (rank - len(sizes)) + sizes for sizes in found)
    axes = []
    for axis, (one, another) in reversed([*enumerate(zip(own, other, strict=True))]):
        if one is None:
            axes.append(axis)
        elif another is not None and another.static != 1 and not (one.covers(another) or another.covers(one)):
            require(one.static is not None and (one.static != 1 or another.static is not None))
            axes += [axis] if one.static == 1 else []
    return static_dims(axes)


INTEGER_RULES: dict[str, Callable[[Known, Node], Shape | None]] = {
    **dict.fromkeys(("Identity", "Squeeze"), lambda known, node: known.integers(node.input(0))),
    "Add": partial(_of_numbers, operator.add),
    "Cast": lambda known, node: _kept(need(known.integers(node.input(0))), integer(node, "to")),
    "Concat": _int_concat,
    "ConstantOfShape": _int_filled,
    "Div": _int_divide,
    "Gather": _int_gather,
    "Max": _int_maximum,
    "Mod": _int_remainder,
    "Mul": _int_multiply,
    "ReduceProd": _int_product,
    "Reshape": _int_reshape,
    "Shape": dims_taken,
    "Size": lambda known, node: (size(need(known.shape(node.input(0)))),),
    "Slice": _int_slice,
    "Sub": partial(_of_numbers, operator.sub),
    "Unsqueeze": _int_unsqueeze,
    "Where": _int_where,
}

_CONCAT_TRAINING = ("com.microsoft", "ConcatTraining")
"""onnxruntime training's Concat, which also outputs the length of each input."""
_BROADCAST_GRADIENT_ARGS = ("com.microsoft", "BroadcastGradientArgs")
"""onnxruntime training's axes on which each of two operands of these shapes is broadcast."""


def integer_rule(value: Value) -> Callable[[Known, Node], Shape | None] | None:
    """Return the rule for the node that produces a value, or None if there is none."""
    node = value.producer
    if node is None:
        return None
    if node.op == _CONCAT_TRAINING:
        return _int_concat if value == node.output(0) else _int_lengths
    if node.op == _BROADCAST_GRADIENT_ARGS:
        return partial(_int_broadcast_axes, 0 if value == node.output(0) else 1)
    if node.is_a("Split"):
        return partial(_int_split, value)
    _, op_type = node.op
    return INTEGER_RULES.get(op_type) if node.is_a(op_type) else None
