# SPDX-License-Identifier: Apache-2.0

"""Rules that compute the shape of a value from the node that produces it, one rule per operator.

Rules get facts from `Known` only, which stores them and decides the order of computation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from poolgrad_lowering.model.facts.known import Known, axis_in, need, opaque, require, sizes_in, static_integers
from poolgrad_lowering.model.facts.slices import sliced
from poolgrad_lowering.model.ir.attributes import attribute, boolean, integer, integers
from poolgrad_lowering.model.ir.dims import Dim, Shape, is_static, size, static_dims
from poolgrad_lowering.model.ir.scopes import Node, Value
from poolgrad_lowering.model.windows import PoolAttributes, pooled_sizes

_IMAGES = 4
"""The number of axes of images: batch, channels, height, width."""


def _axes(known: Known, node: Node, rank: int) -> list[int]:
    """Return the `axes` of a Squeeze or Unsqueeze, from the attribute or the input, as numbers from 0 on.

    `rank` is that of the input.
    """
    axes = need(integers(node, "axes") or static_integers(known, node, 1))
    rank += len(axes) if node.is_a("Unsqueeze") else 0
    require(all(-rank <= axis < rank for axis in axes))
    return [axis % rank for axis in axes]


def _reshape(known: Known, node: Node, value: Value) -> Shape:
    dims = list(need(known.integers(node.input(1))))
    source = known.shape(node.input(0)) if min((dim.static or 0 for dim in dims), default=1) <= 0 else None
    if not integer(node, "allowzero"):
        for axis, dim in enumerate(dims):
            if dim.static == 0:
                dims[axis] = source[axis] if source is not None and axis < len(source) else opaque(value, axis)
    free = [axis for axis, dim in enumerate(dims) if dim.static is not None and dim.static < 0]
    require(len(free) <= 1 and all(dims[axis] == Dim(-1) for axis in free))
    for axis in free:
        others = size(dim for other, dim in enumerate(dims) if other != axis)
        quotient = size(source).divided_by(others) if source is not None else None
        dims[axis] = quotient if quotient is not None else opaque(value, axis)
    return tuple(dims)


def _flatten(known: Known, node: Node, _: Value) -> Shape:
    source, axis = need(known.shape(node.input(0))), need(integer(node, "axis"))
    require(-len(source) <= axis <= len(source))
    return (size(source[:axis]), size(source[axis:]))


def _squeeze(known: Known, node: Node, _: Value) -> Shape:
    source = need(known.shape(node.input(0)))
    if len(node.inputs) < 2 and not integers(node, "axes"):
        require(is_static(source))
        return tuple(dim for dim in source if dim.static != 1)
    axes = _axes(known, node, len(source))
    return tuple(dim for axis, dim in enumerate(source) if axis not in axes)


def _unsqueeze(known: Known, node: Node, _: Value) -> Shape:
    source = need(known.shape(node.input(0)))
    axes = _axes(known, node, len(source))
    require(len(set(axes)) == len(axes))
    dims = iter(source)
    return tuple(Dim(1) if axis in axes else next(dims) for axis in range(len(source) + len(axes)))


def _max_pool(known: Known, node: Node, value: Value) -> Shape | None:
    pooled = node.output(0)
    if pooled is not None and value != pooled:
        return known.shape(pooled)
    source, pool = need(known.shape(node.input(0))), need(known.pool(node))
    require(len(source) == len(pool.kernel) + 2)
    return source[:2] + pooled_shape(value, pool, source)


def pooled_shape(value: Value, window: PoolAttributes, source: Shape) -> Shape:
    """Return the spatial sizes of a value that windows over a tensor of shape `source` (N, C, ...) give."""
    sizes = enumerate(pooled_sizes(window, source[2:]), start=2)
    return tuple(opaque(value, axis) if dim is None else dim for axis, dim in sizes)


def broadcast(known: Known, node: Node, value: Value) -> Shape | None:
    """Return the shape to which all inputs broadcast."""
    shapes = [known.shape(operand) for operand in node.inputs]
    if not shapes or "broadcast" in node.attributes:  # below opset 7 the first input's shape, or it does not run
        return shapes[0] if shapes else None
    return functools.reduce(functools.partial(common_shape, value), shapes)


def common_shape(value: Value | None, left: Shape | None, right: Shape | None) -> Shape | None:
    """Return the shape of a value to which two shapes broadcast; None if it is not known, or if they do not.

    If no value is given, no size may be unknown.
    """
    if left is None or right is None:
        return None
    rank = max(len(left), len(right))
    ones = (Dim(1),)
    pairs = zip(ones * (rank - len(left)) + left, ones * (rank - len(right)) + right, strict=True)
    dims: list[Dim] = []
    for axis, (a, b) in enumerate(pairs):
        if b == Dim(1) or a.covers(b):
            dims.append(a)
        elif a == Dim(1) or b.covers(a):
            dims.append(b)
        elif value is None or (a.static is not None and b.static is not None):
            return None
        else:  # each is the common size or 1, and a number here is not 1
            dims.append(next((dim for dim in (a, b) if dim.static is not None), opaque(value, axis)))
    return tuple(dims)


def _expand(known: Known, node: Node, value: Value) -> Shape | None:
    return common_shape(value, known.shape(node.input(0)), sizes_in(known, node.input(1), value))


def _convolved(known: Known, node: Node, value: Value) -> Shape:
    source, weights = need(known.shape(node.input(0))), need(known.shape(node.input(1)))
    window = need(known.pool(node))  # onnx infers the shape of one without kernel_shape
    require(window.auto_pad == "NOTSET" and len(source) == len(weights) == len(window.kernel) + 2)
    return (source[0], weights[0], *pooled_shape(value, window, source))


def _transposed_convolution(known: Known, node: Node, value: Value) -> Shape:
    """Of a ConvTranspose whose pads are attributes; a symbolic size is known if the stride times it is what it gives.

    Formula: total_padding of ONNX's ConvTranspose, for (size − 1) · stride + output_padding + extent − pads.
    """
    source, weights = need(known.shape(node.input(0))), need(known.shape(node.input(1)))
    window, group = need(known.pool(node)), need(integer(node, "group", 1))
    more = need(integers(node, "output_padding", [0] * len(window.kernel)))
    require(window.auto_pad == "NOTSET" and "output_shape" not in node.attributes)
    require(len(source) == len(weights) == len(window.kernel) + 2 == len(more) + 2)
    dims = [source[0], size((Dim(group), weights[1]))]
    for number, (dim, axis, padding) in enumerate(zip(source[2:], window.windows, more, strict=True), start=2):
        added = padding + axis.extent - axis.begin - axis.end - axis.stride
        if dim.static is not None:
            dims.append(Dim(max(dim.static * axis.stride + added, 0)))
        else:
            dims.append(size((Dim(axis.stride), dim)) if added == 0 else opaque(value, number))
    return tuple(dims)


def dims_taken(known: Known, node: Node) -> Shape | None:
    """Return the sizes that a Shape node outputs: all sizes of its input, or those from `start` to `end`."""
    shape = known.shape(node.input(0))
    if shape is None:
        return None
    return shape[integer(node, "start") : integer(node, "end")]


def _arg_max(known: Known, node: Node, _: Value) -> Shape:
    source, kept = need(known.shape(node.input(0))), need(boolean(node, "keepdims"))
    axis = axis_in(node, len(source))
    return (*source[:axis], *((Dim(1),) if kept else ()), *source[axis + 1 :])


def _top_k(known: Known, node: Node, value: Value) -> Shape:
    source, count = need(known.shape(node.input(0))), known.integers(node.input(1))
    axis = axis_in(node, len(source))
    taken = opaque(value, axis) if count is None or len(count) != 1 else count[0]
    return (*source[:axis], taken, *source[axis + 1 :])


def gathered(known: Known, node: Node, _: Value) -> Shape:
    """Return the shape of the rows of the first input, along the attribute `axis`, at the second one's indices."""
    data, positions = need(known.shape(node.input(0))), need(known.shape(node.input(1)))
    axis = axis_in(node, len(data), 0)
    return data[:axis] + positions + data[axis + 1 :]


def permutation(node: Node, rank: int) -> list[int] | None:
    """Return how a Transpose orders the axes of an input of this rank; None if it is malformed."""
    axes = list(range(rank))
    found = integers(node, "perm", axes[::-1])
    return found if found is not None and sorted(found) == axes else None


def _transpose(known: Known, node: Node, _: Value) -> Shape:
    source = need(known.shape(node.input(0)))
    return tuple(source[axis] for axis in need(permutation(node, len(source))))


def _resize(known: Known, node: Node, value: Value) -> Shape:
    """Of a Resize or Upsample of all axes: to sizes, or by constant scales, a symbolic size by a whole one."""
    source = need(known.shape(node.input(0)))
    if node.input(3) is not None:
        sizes, policy = need(known.integers(node.input(3))), attribute(node, "keep_aspect_ratio_policy") or "stretch"
        require(len(sizes) == len(source) and all(dim.coefficient >= 1 for dim in sizes))
        require(attribute(node, "axes") is None and policy == "stretch")
        return sizes
    is_old = node.is_a("Upsample") or node.scope.opset < 11
    scales = need(known.constant(node.input(1 if is_old else 2)))
    require(scales.shape == (len(source),) and len(node.inputs) <= 3 and bool(np.isfinite(scales).all()))

    def scaled(axis: int, dim: Dim, scale: np.floating[Any]) -> Dim:
        if dim.static is not None:
            return Dim(int(np.floor(dim.static * scale)))
        return size((Dim(int(scale)), dim)) if scale >= 1 and scale.is_integer() else opaque(value, axis)

    return tuple(map(scaled, range(len(source)), source, scales))


def split(known: Known, node: Node, value: Value) -> Shape:
    """Return the shape of a part of a Split: of a given size, or one of equal ones; the last may be smaller."""
    source, outputs = need(known.shape(node.input(0))), list(node.proto.output)
    number, axis = outputs.index(value.name), axis_in(node, len(source), 0)
    given = integers(node, "split")
    lengths, extent = static_dims(given) if given else known.integers(node.input(1)), source[axis]
    if lengths is not None and number < len(lengths):
        length: Dim | None = lengths[number]
    elif node.input(1) is not None:
        length = None
    elif extent.static is not None:
        most = -(-extent.static // len(outputs))
        length = Dim(max(min(most, extent.static - number * most), 0))
    else:
        length = extent.divided_by(Dim(len(outputs)))
    return (*source[:axis], opaque(value, axis) if length is None else length, *source[axis + 1 :])


def _tile(known: Known, node: Node, _: Value) -> Shape:
    source, repeats = need(known.shape(node.input(0))), need(known.integers(node.input(1)))
    require(len(source) == len(repeats))
    return tuple(size(pair) for pair in zip(source, repeats, strict=True))


def _blocks(known: Known, node: Node, value: Value) -> Shape:
    """Of a DepthToSpace or SpaceToDepth, which moves square blocks of each plane to channels or back."""
    source, factor = need(known.shape(node.input(0))), need(integer(node, "blocksize", 0))
    require(len(source) == _IMAGES and factor >= 1)
    sides = (Dim(factor * factor), Dim(factor), Dim(factor))
    to_space = node.is_a("DepthToSpace")
    sizes = [source[0]]
    for axis, (dim, side) in enumerate(zip(source[1:], sides, strict=True), start=1):
        is_divided = to_space == (axis == 1)
        found = dim.divided_by(side) if is_divided else size((dim, side))
        sizes.append(opaque(value, axis) if found is None else found)
    return tuple(sizes)


def concatenated(known: Known, node: Node, value: Value) -> Shape:
    """Return the shape of the inputs one after the other along the attribute `axis`."""
    parts = [need(known.shape(operand)) for operand in node.inputs]
    require(len(set(map(len, parts))) == 1)
    first, axis = parts[0], axis_in(node, len(parts[0]))
    extents = [part[axis] for part in parts if part[axis].static != 0]
    factors = {extent.symbols for extent in extents}  # sizes of one name add up, as N and 2·N to 3·N
    total = Dim(sum(extent.coefficient for extent in extents), next(iter(factors), ()))
    joined = opaque(value, axis) if len(factors) > 1 else total
    return (*first[:axis], joined, *first[axis + 1 :])


KEEP_SHAPE = (
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BatchNormalization", "Cast", "CastLike", "Ceil"),
    *("Celu", "Clip", "Cos", "Cosh", "Dropout", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish"),
    *("Identity", "InstanceNormalization", "IsInf", "IsNaN", "LRN", "LayerNormalization", "LeakyRelu", "Log"),
    *("LogSoftmax", "Mish", "Neg", "Not", "PRelu", "Reciprocal", "Relu", "Round", "ScatterElements", "ScatterND"),
    *("Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softmax", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh"),
    "ThresholdedRelu",
)
"""Operators whose first output has the shape of the first input."""

BROADCAST = (
    *("Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod"),
    *("Mul", "Or", "Pow", "Sub", "Sum", "Where", "Xor"),
)
"""Operators whose output has the shape to which the inputs broadcast."""

NEW_SIZES = ("AveragePool", "Concat", "Conv", "ConvTranspose", "LpPool", "MaxPool")
"""Operators that compute sizes by a formula of the sizes of their inputs."""


def _range(known: Known, node: Node, _: Value) -> Shape:
    """Return the end of a range of all integers from 0 on, if it is a size."""
    start, end, step = (need(known.integers(node.input(position))) for position in range(3))
    require([dim.static for dim in (*start, *step)] == [0, 1] and len(end) == 1 and (end[0].static or 0) >= 0)
    return end


SHAPE_RULES: dict[str, Callable[[Known, Node, Value], Shape | None]] = {
    **dict.fromkeys(KEEP_SHAPE, lambda known, node, _: known.shape(node.input(0))),
    **dict.fromkeys(BROADCAST, broadcast),
    "ArgMax": _arg_max,
    "AveragePool": _max_pool,
    "Concat": concatenated,
    "ConstantOfShape": lambda known, node, _: known.integers(node.input(0)),
    "Conv": _convolved,
    "ConvTranspose": _transposed_convolution,
    "DepthToSpace": _blocks,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": gathered,
    "GatherElements": lambda known, node, _: known.shape(node.input(1)),
    "MaxPool": _max_pool,
    "Range": _range,
    "Reshape": _reshape,
    "Resize": _resize,
    "Shape": lambda known, node, _: (Dim(len(need(dims_taken(known, node)))),),
    "Slice": sliced,
    "SpaceToDepth": _blocks,
    "Split": split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "TopK": _top_k,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Upsample": _resize,
}


def shape_rule(node: Node, value: Value) -> Callable[[Known, Node, Value], Shape | None] | None:
    """Return the rule for the shape of a node's output, or None."""
    op_type = node.op[1]
    has_rule = node.is_a(op_type) and (op_type not in KEEP_SHAPE or value == node.output(0))
    return SHAPE_RULES.get(op_type) if has_rule else None
