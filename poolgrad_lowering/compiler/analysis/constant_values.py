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
from poolgrad_lowering.model.facts.known import static_integers
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


def _of_two(compute: Callable[[Array, Array], Array | None], known: Evaluation, node: Node) -> Array | None:
    """A binary operator on tensors of the same type, with broadcasting."""
    left, right = known.value(node.input(0)), known.value(node.input(1))
    if left is None or right is None or left.dtype != right.dtype or left.dtype.kind not in _NUMBERS:
        return None
    return None if broadcast_shape(left.shape, right.shape) is None else compute(left, right)


def _divide(left: Array, right: Array) -> Array | None:
    """ONNX's Div for positive divisors; integers, which ONNX rounds towards zero, only if not negative."""
    if not (right > 0).all() or (left.dtype.kind == "i" and (left < 0).any()):
        return None
    return left // right if left.dtype.kind == "i" else left / right


def _remainder(left: Array, right: Array) -> Array | None:
    """ONNX's Mod for integers that are not negative, for which fmod=0 and fmod=1 agree."""
    if left.dtype.kind != "i" or (left < 0).any() or not (right > 0).all():
        return None
    return left % right


def _of_floats(compute: Callable[[Array], Array], known: Evaluation, node: Node) -> Array | None:
    data = known.value(node.input(0))
    return compute(data) if data is not None and data.dtype.kind == "f" else None


def _cast(kinds: str, targets: Collection[int], known: Evaluation, node: Node) -> Array | None:
    """ONNX's Cast or CastLike to one of `targets`: Booleans, numbers that are all kept, or rounded to a half type."""
    like = known.facts.element_type(node.input(1))
    data, to = known.value(node.input(0)), integer(node, "to") if node.is_a("Cast") else like
    if data is None or to is None or data.dtype.kind not in kinds or to not in targets:
        return None
    cast = data.astype(helper.tensor_dtype_to_np_dtype(to))
    return cast if to not in _EXACT or bool((cast == data).all()) else None


def _range(known: Evaluation, node: Node) -> Array | None:
    """ONNX's Range of integers upwards, of constants alone: it is not elementwise."""
    bounds = [constant_value(known.facts, node.input(position)) for position in range(3)]
    numbers = [int(bound) for bound in bounds if bound is not None and bound.dtype == np.int64 and bound.size == 1]
    if len(numbers) < 3 or numbers[2] < 1 or not is_affordable([len(range(*numbers))]):
        return None
    return np.arange(*numbers, dtype=np.int64)


def _gather_elements(known: Evaluation, node: Node) -> Array | None:
    """ONNX's GatherElements from a constant; a gather from a computed tensor could change the order of its elements."""
    data, positions = constant_value(known.facts, node.input(0)), known.value(node.input(1))
    axis = integer(node, "axis")
    if data is None or positions is None or axis is None or not -data.ndim <= axis < data.ndim:
        return None
    if positions.ndim != data.ndim or not are_within(positions, data.shape[axis]):
        return None
    aligned = all(
        extent == size or other == axis % data.ndim
        for other, (extent, size) in enumerate(zip(positions.shape, data.shape, strict=True))
    )
    return np.take_along_axis(data, positions, axis) if aligned else None


def _expand(known: Evaluation, node: Node) -> Array | None:
    data, target = known.value(node.input(0)), static_integers(known.facts, node, 1)
    if data is None or target is None:
        return None
    shape = broadcast_shape(data.shape, tuple(target))
    return None if shape is None else np.broadcast_to(data, shape)


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


def _operands(known: Evaluation, node: Node) -> list[Array] | None:
    """All operands, if they are known."""
    values = [known.value(operand) for operand in node.inputs]
    found = [value for value in values if value is not None]
    return found if found and len(found) == len(values) else None


def _each(compute: Callable[..., Array], known: Evaluation, node: Node) -> Array | None:
    """An operator on each element of operands of one type, with broadcasting."""
    values = _operands(known, node)
    if values is None or len({value.dtype for value in values}) > 1:
        return None
    return None if broadcast_shape(*(value.shape for value in values)) is None else np.asarray(compute(*values))


def _constant_of_shape(known: Evaluation, node: Node) -> Array | None:
    value = node.output(0)
    shape = None if value is None else static_shape(known.facts, value)
    if value is None or shape is None or not is_affordable(shape):
        return None
    fill = known.facts.fill(value) if attribute(node, "value") is not None else np.zeros(1, np.float32)
    return None if fill is None else np.full(shape, fill.reshape(()))


def _shape(known: Evaluation, node: Node) -> Array | None:
    dims = dims_taken(known.facts, node)
    return np.array([dim.coefficient for dim in dims], np.int64) if dims is not None and is_static(dims) else None


def _concat(known: Evaluation, node: Node) -> Array | None:
    values, axis = _operands(known, node), integer(node, "axis")
    if values is None or axis is None or len({(value.dtype, value.ndim) for value in values}) > 1:
        return None
    shapes = [np.delete(value.shape, axis) for value in values if -value.ndim <= axis < value.ndim]
    fits = len(shapes) == len(values) and all(np.array_equal(shape, shapes[0]) for shape in shapes)
    return np.concatenate(values, axis) if fits and is_affordable([sum(value.size for value in values)]) else None


def gather(known: Evaluation, node: Node) -> Array | None:
    """ONNX's Gather by constant positions."""
    data, positions = known.value(node.input(0)), constant_value(known.facts, node.input(1))
    axis = integer(node, "axis")
    if data is None or positions is None or axis is None or not -data.ndim <= axis < data.ndim:
        return None
    if positions.dtype.kind != "i":
        return None
    extent = data.shape[axis]
    counted = np.where(positions < 0, positions + extent, positions)
    is_small = is_affordable((data.size // max(extent, 1), positions.size))
    return np.take(data, counted, axis) if is_small and are_within(counted, extent) else None


def _slice(known: Evaluation, node: Node) -> Array | None:
    data = known.value(node.input(0))
    ranges = None if data is None else slice_ranges(known.facts, node, data.ndim)
    if data is None or ranges is None or any(taken.step < 0 for taken in ranges.values()):
        return None
    return data[tuple(ranges.get(axis, slice(None)) for axis in range(data.ndim))]


def _tile(known: Evaluation, node: Node) -> Array | None:
    values = _operands(known, node)
    if values is None or len(values) != 2 or values[1].shape != (values[0].ndim,) or (values[1] < 0).any():
        return None
    repeats = [int(count) for count in values[1]]
    return np.tile(values[0], repeats) if is_affordable([values[0].size, math.prod(repeats)]) else None


def transpose(known: Evaluation, node: Node) -> Array | None:
    """ONNX's Transpose."""
    data = known.value(node.input(0))
    order = None if data is None else permutation(node, data.ndim)
    return None if data is None or order is None else np.transpose(data, order)


def _where(known: Evaluation, node: Node) -> Array | None:
    values = _operands(known, node)
    if values is None or len(values) != 3 or values[0].dtype != np.bool_ or values[1].dtype != values[2].dtype:
        return None
    return None if broadcast_shape(*(value.shape for value in values)) is None else np.where(*values)


def _reduced(compute: Callable[..., Array], known: Evaluation, node: Node) -> Array | None:
    """A reduction over all axes of at most a few elements: what sizes are multiplied to."""
    data = known.value(node.input(0))
    if data is None or data.ndim != 1 or len(node.inputs) > 1 or integers(node, "axes", [0]) not in ([0], [-1]):
        return None
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
