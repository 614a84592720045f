# SPDX-License-Identifier: Apache-2.0

"""Rules that evaluate operators in numpy, as ONNX defines them: index arithmetic, and all that constants go through.

Rules of index arithmetic are elementwise: a result with as many elements as the operand has them in the operand's
order. Some producers divide integers in float32 and round down; numpy's float32 is IEEE's, like the runtimes'. The
other operators may order elements anew, so they have rules for values that are computed from constants alone.
Exporters leave such nodes in a graph where nothing folds them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from functools import partial, reduce

import numpy as np
from onnx import TensorProto, helper

from poolgrad_lowering.compiler.analysis.evaluation import (
    Array,
    Evaluation,
    Rule,
    are_within,
    broadcast_shape,
    is_affordable,
    static_shape,
)
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.known import axis_in, need, require, static_integers
from poolgrad_lowering.model.facts.shape_rules import dims_taken, permutation
from poolgrad_lowering.model.facts.slices import slice_ranges
from poolgrad_lowering.model.facts.type_rules import HALF_TYPES
from poolgrad_lowering.model.ir.attributes import attribute, integer, integers
from poolgrad_lowering.model.ir.dims import is_static
from poolgrad_lowering.model.ir.scopes import Node, Value

_NUMBERS = "if"
"""Kinds of numpy."""

_EXACT = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT32, TensorProto.INT64)
"""The element types to which a Cast must keep every number."""


def constant_value(facts: Facts, value: Value | None) -> Array | None:
    """Return a value that is computed from constants only; None for any other, and for an absent one."""
    return Evaluation(facts, CONSTANT_RULES, {}).value(value)


def _of_two(compute: Callable[[Array, Array], Array], known: Evaluation, node: Node) -> Array:
    """A binary operator on tensors of the same type, with broadcasting."""
    left, right = map(need, (known.value(node.input(0)), known.value(node.input(1))))
    require(left.dtype == right.dtype and left.dtype.kind in _NUMBERS)
    need(broadcast_shape(left.shape, right.shape))
    return compute(left, right)


def _divide(left: Array, right: Array) -> Array:
    """ONNX's Div for positive divisors; integers, which ONNX rounds towards zero, only if not negative."""
    require((right > 0).all() and not (left.dtype.kind == "i" and (left < 0).any()))
    return left // right if left.dtype.kind == "i" else left / right


def _remainder(left: Array, right: Array) -> Array:
    """ONNX's Mod for integers that are not negative, for which fmod=0 and fmod=1 agree."""
    require(left.dtype.kind == "i" and (left >= 0).all() and (right > 0).all())
    return left % right


def _of_floats(compute: Callable[[Array], Array], known: Evaluation, node: Node) -> Array:
    data = need(known.value(node.input(0)))
    require(data.dtype.kind == "f")
    return compute(data)


def _cast(kinds: str, targets: Collection[int], known: Evaluation, node: Node) -> Array:
    """ONNX's Cast or CastLike to one of `targets`: Booleans, numbers that are all kept, or rounded to a half type."""
    like = known.facts.element_type(node.input(1))
    data, to = need(known.value(node.input(0))), need(integer(node, "to") if node.is_a("Cast") else like)
    require(data.dtype.kind in kinds and to in targets)
    cast = data.astype(helper.tensor_dtype_to_np_dtype(to))
    require(to not in _EXACT or (cast == data).all())
    return cast


def _range(known: Evaluation, node: Node) -> Array:
    """ONNX's Range of integers upwards, of constants alone: it is not elementwise."""
    bounds = [*map(need, [constant_value(known.facts, node.input(position)) for position in range(3)])]
    require(all(bound.dtype == np.int64 and bound.size == 1 for bound in bounds))
    start, end, step = map(int, bounds)
    require(step > 0 and is_affordable([len(range(start, end, step))]))
    return np.arange(start, end, step, dtype=np.int64)


def _gather_elements(known: Evaluation, node: Node) -> Array:
    """ONNX's GatherElements from a constant; a gather from a computed tensor could change the order of its elements."""
    data, positions = map(need, (constant_value(known.facts, node.input(0)), known.value(node.input(1))))
    axis = axis_in(node, data.ndim)
    require(positions.ndim == data.ndim and are_within(positions, data.shape[axis]))
    pairs = enumerate(zip(positions.shape, data.shape, strict=True))
    require(all(extent == size or other == axis for other, (extent, size) in pairs))
    return np.take_along_axis(data, positions, axis)


def _expand(known: Evaluation, node: Node) -> Array:
    target, data = static_integers(known.facts, node, 1), need(known.value(node.input(0)))
    return np.broadcast_to(data, need(broadcast_shape(data.shape, tuple(need(target)))))


_index_cast = partial(_cast, _NUMBERS, (TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64))

ARITHMETIC_RULES: dict[str, Rule] = {
    "Add": partial(_of_two, np.add),
    "Cast": _index_cast,
    "CastLike": _index_cast,
    "Div": partial(_of_two, _divide),
    "Expand": _expand,
    "Floor": partial(_of_floats, np.floor),
    "GatherElements": _gather_elements,
    "Mod": partial(_of_two, _remainder),
    "Mul": partial(_of_two, np.multiply),
    "Range": _range,
    "Sub": partial(_of_two, np.subtract),
}


def _operands(known: Evaluation, node: Node, count: int | None = None) -> list[Array]:
    """All operands: one or more, or so many."""
    require(node.inputs and count in (None, len(node.inputs)))
    return [*map(need, [known.value(operand) for operand in node.inputs])]


def _each(compute: Callable[..., Array], known: Evaluation, node: Node) -> Array:
    """An operator on each element of operands of one type, with broadcasting."""
    values = _operands(known, node)
    require(len({value.dtype for value in values}) == 1)
    need(broadcast_shape(*(value.shape for value in values)))
    return np.asarray(compute(*values))


def _constant_of_shape(known: Evaluation, node: Node) -> Array:
    value = need(node.output(0))
    shape = need(static_shape(known.facts, value))
    require(is_affordable(shape))
    fill = need(known.facts.fill(value)) if attribute(node, "value") is not None else np.zeros(1, np.float32)
    return np.full(shape, fill.reshape(()))


def _shape(known: Evaluation, node: Node) -> Array:
    dims = need(dims_taken(known.facts, node))
    require(is_static(dims))
    return np.array([dim.coefficient for dim in dims], np.int64)


def _concat(known: Evaluation, node: Node) -> Array:
    values = _operands(known, node)
    axis = axis_in(node, values[0].ndim)
    shapes = [np.delete(value.shape, axis).tolist() for value in values if value.ndim == values[0].ndim]
    require(shapes == [shapes[0]] * len(values) and len({value.dtype for value in values}) == 1)
    require(is_affordable([sum(value.size for value in values)]))
    return np.concatenate(values, axis)


def gather(known: Evaluation, node: Node) -> Array:
    """ONNX's Gather by constant positions."""
    data, positions = map(need, (known.value(node.input(0)), constant_value(known.facts, node.input(1))))
    axis = axis_in(node, data.ndim)
    require(positions.dtype.kind == "i")
    extent = data.shape[axis]
    counted = np.where(positions < 0, positions + extent, positions)
    require(is_affordable((data.size // max(extent, 1), positions.size)) and are_within(counted, extent))
    return np.take(data, counted, axis)


def _slice(known: Evaluation, node: Node) -> Array:
    data = need(known.value(node.input(0)))
    ranges = need(slice_ranges(known.facts, node, data.ndim))
    require(all(taken.step > 0 for taken in ranges.values()))
    return data[tuple(ranges.get(axis, slice(None)) for axis in range(data.ndim))]


def _tile(known: Evaluation, node: Node) -> Array:
    data, counts = _operands(known, node, 2)
    require(counts.shape == (data.ndim,) and (counts >= 0).all())
    repeats = [int(count) for count in counts]
    require(is_affordable([data.size, math.prod(repeats)]))
    return np.tile(data, repeats)


def transpose(known: Evaluation, node: Node) -> Array:
    """ONNX's Transpose."""
    data = need(known.value(node.input(0)))
    return np.transpose(data, need(permutation(node, data.ndim)))


def _where(known: Evaluation, node: Node) -> Array:
    mask, chosen, other = values = _operands(known, node, 3)
    require(mask.dtype == np.bool_ and chosen.dtype == other.dtype)
    need(broadcast_shape(*(value.shape for value in values)))
    return np.where(mask, chosen, other)


def _reduced(compute: Callable[..., Array], known: Evaluation, node: Node) -> Array:
    """A reduction over all axes of at most a few elements: what sizes are multiplied to."""
    [data] = _operands(known, node, 1)
    require(data.ndim == 1 and integers(node, "axes", [0]) in ([0], [-1]))
    return np.asarray(compute(data, keepdims=integer(node, "keepdims") != 0).astype(data.dtype))


CONSTANT_RULES: dict[str, Rule] = {
    **ARITHMETIC_RULES,
    "Abs": partial(_each, np.abs),
    "And": partial(_each, np.logical_and),
    "Cast": partial(_cast, "bif", (*_EXACT, *HALF_TYPES, TensorProto.BOOL)),
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "Equal": partial(_each, np.equal),
    "Gather": gather,
    "Greater": partial(_each, np.greater),
    "GreaterOrEqual": partial(_each, np.greater_equal),
    "Less": partial(_each, np.less),
    "LessOrEqual": partial(_each, np.less_equal),
    "Max": partial(_each, lambda *values: reduce(np.maximum, values)),
    "Min": partial(_each, lambda *values: reduce(np.minimum, values)),
    "Neg": partial(_each, np.negative),
    "Not": partial(_each, np.logical_not),
    "Or": partial(_each, np.logical_or),
    "Reciprocal": partial(_of_floats, lambda data: np.asarray(data.dtype.type(1) / data)),
    "ReduceProd": partial(_reduced, np.prod),
    "Shape": _shape,
    "Slice": _slice,
    "Sqrt": partial(_of_floats, np.sqrt),
    "Tile": _tile,
    "Transpose": transpose,
    "Where": _where,
}
