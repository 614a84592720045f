# SPDX-License-Identifier: Apache-2.0

"""Rules that compute the elements of an integer tensor from the operator that produces it: shape arithmetic.

All rules handle scalars and vectors only, flattened, because no tensor of higher rank is a shape.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from onnx import TensorProto

from poolgrad_lowering.model.facts.known import Known, static_integers
from poolgrad_lowering.model.facts.shape_rules import dims_taken
from poolgrad_lowering.model.facts.slices import slice_ranges
from poolgrad_lowering.model.ir.attributes import attribute, integer, integers
from poolgrad_lowering.model.ir.dims import Shape, size, static_dims
from poolgrad_lowering.model.ir.scopes import Node, Value

_INTEGER_LIMITS: dict[int, int] = {TensorProto.INT32: 2**31, TensorProto.INT64: 2**63}


def _int_reshape(known: Known, node: Node) -> Shape | None:
    target, data = known.integers(node.input(1)), node.input(0)
    if target is None or len(target) > 1:
        return None
    elements = known.integers(data)
    return _int_columns(known, data) if elements is None else elements


def _int_columns(known: Known, value: Value | None) -> Shape | None:
    """Return the elements of vectors side by side, row by row, as of the gradient of Tile: repeats and sizes."""
    concat = None if value is None else value.producer
    if concat is None or not concat.is_a("Concat") or integer(concat, "axis") not in (1, -1):
        return None
    columns = [None if operand is None else operand.producer for operand in concat.inputs]
    vectors = [
        known.integers(column.input(0))
        for column in columns
        if column is not None and column.is_a("Unsqueeze") and _axes(known, column) in ([1], [-1])
    ]
    found = [vector for vector in vectors if vector is not None]
    if len(found) < len(columns) or len({len(vector) for vector in found}) != 1:
        return None
    return tuple(dim for row in zip(*found, strict=True) for dim in row)


def _axes(known: Known, node: Node) -> list[int]:
    return list(integers(node, "axes") or static_integers(known, node, 1) or ())


def _int_unsqueeze(known: Known, node: Node) -> Shape | None:
    is_vector = known.shape(node.input(0)) == () and len(_axes(known, node)) == 1
    return known.integers(node.input(0)) if is_vector else None


def _int_cast(known: Known, node: Node) -> Shape | None:
    data = known.integers(node.input(0))
    return None if data is None else _kept(data, integer(node, "to"))


def _kept(elements: Shape, element_type: int | None) -> Shape | None:
    """Return the elements if the type holds each of them; of others it keeps the lowest bits."""
    limit = _INTEGER_LIMITS.get(element_type or TensorProto.UNDEFINED)
    return None if limit is None or any(not -limit <= dim.coefficient < limit for dim in elements) else elements


def _kept_by_input(known: Known, node: Node, elements: Shape) -> Shape | None:
    """Return the elements if the type of the node's first input holds each of them."""
    return _kept(elements, known.element_type(node.input(0)))


def _int_gather(known: Known, node: Node) -> Shape | None:
    data, positions = known.integers(node.input(0)), static_integers(known, node, 1)
    if integer(node, "axis") != 0 or data is None or positions is None:
        return None
    inside = all(-len(data) <= position < len(data) for position in positions)
    return tuple(data[position] for position in positions) if inside else None


def _int_slice(known: Known, node: Node) -> Shape | None:
    data, ranges = known.integers(node.input(0)), slice_ranges(known, node, 1)
    return None if data is None or ranges is None or len(ranges) != 1 else data[ranges[0]]


def _int_split(value: Value, known: Known, node: Node) -> Shape | None:
    """Return the part of a vector that is one output of a Split, by the given sizes or in equal parts."""
    data, outputs = known.integers(node.input(0)), list(node.proto.output)
    if data is None or integer(node, "axis") != 0:
        return None
    given = node.input(1) is not None or attribute(node, "split") is not None
    equal = [len(data) // len(outputs)] * len(outputs)
    parts = (integers(node, "split") or static_integers(known, node, 1)) if given else equal
    if parts is None or len(parts) != len(outputs) or sum(parts) != len(data):
        return None
    position = outputs.index(value.name)
    start = sum(parts[:position])
    return data[start : start + parts[position]]


def _int_concat(known: Known, node: Node) -> Shape | None:
    if integer(node, "axis") != 0:
        return None
    parts = [known.integers(operand) for operand in node.inputs]
    if any(part is None for part in parts):
        return None
    return tuple(dim for part in parts if part is not None for dim in part)


def _int_multiply(known: Known, node: Node) -> Shape | None:
    left, right = known.integers(node.input(0)), known.integers(node.input(1))
    if left is None or right is None:
        return None
    if len(left) == 1:
        left *= len(right)
    elif len(right) == 1:
        right *= len(left)
    if len(left) != len(right):
        return None
    return _kept_by_input(known, node, tuple(map(size, zip(left, right, strict=True))))


def _int_divide(known: Known, node: Node) -> Shape | None:
    """Return the quotient of two numbers, neither of which is negative, if it is exact."""
    left, right = known.integers(node.input(0)), known.integers(node.input(1))
    if left is None or right is None or not len(left) == len(right) == 1 or min(left + right)[0] < 0:
        return None
    quotient = left[0].divided_by(right[0])
    return None if quotient is None else (quotient,)


def _int_maximum(known: Known, node: Node) -> Shape | None:
    """Return the larger of two numbers for each position; a symbolic one only if it is that of both operands."""
    parts = [known.integers(operand) for operand in node.inputs]
    found = [part for part in parts if part is not None]
    if len(found) < len(parts) or len({len(part) for part in found}) != 1:
        return None
    pairs = [set(dims) for dims in zip(*found, strict=True)]
    if any(len(dims) > 1 and any(dim.static is None for dim in dims) for dims in pairs):
        return None
    return tuple(max(dims, key=lambda dim: dim.coefficient) for dims in pairs)


def _int_product(known: Known, node: Node) -> Shape | None:
    data = known.integers(node.input(0))
    kept = integer(node, "noop_with_empty_axes") and attribute(node, "axes") is None
    whole = len(node.inputs) == 1 and attribute(node, "axes") in (None, [0]) and not kept
    return _kept_by_input(known, node, (size(data),)) if data is not None and whole else None


def _int_size(known: Known, node: Node) -> Shape | None:
    shape = known.shape(node.input(0))
    return None if shape is None else (size(shape),)


def _int_lengths(known: Known, node: Node) -> Shape | None:
    """Return the lengths of the operands of a ConcatTraining on its axis."""
    shapes = [known.shape(operand) for operand in node.inputs]
    axis = integer(node, "axis")
    if axis is None or any(shape is None or not -len(shape) <= axis < len(shape) for shape in shapes):
        return None
    return tuple(shape[axis] for shape in shapes if shape is not None)


def _int_broadcast_axes(position: int, known: Known, node: Node) -> Shape | None:
    """Return the axes on which the operand at a position is broadcast, last axis first; None if a size may be 1."""
    shapes = [known.integers(node.input(at)) for at in (position, 1 - position)]
    found = [sizes for sizes in shapes if sizes is not None]
    if len(found) < len(shapes):
        return None
    rank = max(map(len, found))
    own, other = ((None,) * (rank - len(sizes)) + sizes for sizes in found)
    axes = []
    for axis, (one, another) in reversed([*enumerate(zip(own, other, strict=True))]):
        if one is None:
            axes.append(axis)
        elif another is not None and one != another and another.static != 1:
            if one.static is None or (one.static == 1 and another.static is None):
                return None
            axes += [axis] if one.static == 1 else []
    return static_dims(axes)


INTEGER_RULES: dict[str, Callable[[Known, Node], Shape | None]] = {
    **dict.fromkeys(("Identity", "Squeeze"), lambda known, node: known.integers(node.input(0))),
    "Cast": _int_cast,
    "Concat": _int_concat,
    "Div": _int_divide,
    "Gather": _int_gather,
    "Max": _int_maximum,
    "Mul": _int_multiply,
    "ReduceProd": _int_product,
    "Reshape": _int_reshape,
    "Shape": dims_taken,
    "Size": _int_size,
    "Slice": _int_slice,
    "Unsqueeze": _int_unsqueeze,
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
