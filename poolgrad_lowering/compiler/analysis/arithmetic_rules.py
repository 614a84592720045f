# SPDX-License-Identifier: Apache-2.0

"""Rules that evaluate index arithmetic in numpy, as ONNX defines it.

All rules are elementwise: a result with as many elements as the operand has them in the operand's order. Some producers
divide integers in float32 and round down; numpy's float32 is IEEE's, like the runtimes'.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from onnx import TensorProto

from poolgrad_lowering.compiler.analysis.evaluation import (
    Array,
    Evaluation,
    Rule,
    are_within,
    broadcast_shape,
    is_affordable,
)
from poolgrad_lowering.model.facts.shape_rules import static_integers
from poolgrad_lowering.model.ir.attributes import integer
from poolgrad_lowering.model.ir.scopes import Node

_CASTS: dict[int | None, type[np.generic]] = {
    TensorProto.FLOAT: np.float32,
    TensorProto.INT32: np.int32,
    TensorProto.INT64: np.int64,
}
_NUMBERS = ("i", "f")  # kinds of numpy


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


def _floor(known: Evaluation, node: Node) -> Array | None:
    data = known.value(node.input(0))
    return np.floor(data) if data is not None and data.dtype.kind == "f" else None


def _cast(known: Evaluation, node: Node) -> Array | None:
    """ONNX's Cast between float32, int32 and int64, if every value is kept exactly."""
    return _as_type(known.value(node.input(0)), integer(node, "to"))


def _cast_like(known: Evaluation, node: Node) -> Array | None:
    """ONNX's CastLike, of which the same holds."""
    return _as_type(known.value(node.input(0)), known.facts.element_type(node.input(1)))


def _as_type(data: Array | None, element_type: int | None) -> Array | None:
    target = _CASTS.get(element_type)
    if data is None or target is None or data.dtype.kind not in _NUMBERS:
        return None
    cast = data.astype(target)
    return cast if (cast == data).all() else None


def _range(known: Evaluation, node: Node) -> Array | None:
    """ONNX's Range of integers upwards, of constants alone: it is not elementwise."""
    bounds = [known.constant(node.input(position)) for position in range(3)]
    numbers = [int(bound) for bound in bounds if bound is not None and bound.dtype == np.int64 and bound.size == 1]
    if len(numbers) < 3 or numbers[2] < 1 or not is_affordable([len(range(*numbers))]):
        return None
    return np.arange(*numbers, dtype=np.int64)


def _gather_elements(known: Evaluation, node: Node) -> Array | None:
    """ONNX's GatherElements from a constant; a gather from a computed tensor could change the order of its elements."""
    data, positions, axis = (
        known.constant(node.input(0)),
        known.value(node.input(1)),
        integer(node, "axis"),
    )
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


ARITHMETIC_RULES: dict[str, Rule] = {
    "Add": partial(_of_two, np.add),
    "Cast": _cast,
    "CastLike": _cast_like,
    "Div": partial(_of_two, _divide),
    "Expand": _expand,
    "Floor": _floor,
    "GatherElements": _gather_elements,
    "Mod": partial(_of_two, _remainder),
    "Mul": partial(_of_two, np.multiply),
    "Range": _range,
    "Sub": partial(_of_two, np.subtract),
}
