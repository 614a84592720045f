# SPDX-License-Identifier: Apache-2.0

"""What an export for CANN's graph engine may write in place of a standard node: nodes that compute the same.

Each rewrite is a list of nodes in ONNX's operators: inputs and outputs are those of the node, other names stand for any
name, and constants are given as arrays. The rewrites are derived here from ONNX's definitions, not from the export.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from poolgrad_lowering.model.ir.tensors import constant_tensor
from poolgrad_lowering.verification.exports.gathered_pools import pool_rewrites, position_rewrites, start_rewrites
from poolgrad_lowering.verification.exports.node_rewrite import (
    FAR,
    MOST_NUMBERS,
    NUMBERS,
    Context,
    GivenOperand,
    NodeRewrite,
)
from poolgrad_lowering.verification.exports.shape_rewrites import shape_rewrites
from poolgrad_lowering.verification.graph.protos import attribute_values
from poolgrad_lowering.verification.graph.types import known_sizes
from poolgrad_lowering.verification.operators.pool import same_pads

_FARTHEST = 2**62
"""A diagonal that no matrix reaches."""
_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)

_WIDE_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE)


def rewrites_of(node: NodeProto, context: Context) -> Iterator[NodeRewrite]:
    """Yield what may stand in place of a node of ONNX's operators."""
    if node.domain in ("", "ai.onnx") and node.op_type in _REWRITES:
        yield from _REWRITES[node.op_type](node, attribute_values(node), context)


def _constant(node: NodeProto, held: Mapping[str, Any], _: Context) -> Iterator[NodeRewrite]:
    if "value" not in held and (tensor := constant_tensor(node)) is not None:
        yield NodeRewrite().same(node, **dict.fromkeys(held), value=tensor)


def _windows(node: NodeProto, held: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    """kernel_shape is that of the weight; SAME_LOWER has the odd element of padding before the input."""
    written: dict[str, Any] = {}
    if "kernel_shape" not in held and node.op_type.startswith("Conv"):
        if (weight := context.sizes(node.input[1], 2)) is None:
            return
        written["kernel_shape"] = weight
        yield NodeRewrite().same(node, **written)
    if node.op_type == "Conv" and {"strides", "dilations", "pads"}.isdisjoint(held):
        yield NodeRewrite().same(node, **written, strides=[1] * len({**held, **written}["kernel_shape"]))
    is_padded = held.get("auto_pad", b"NOTSET") == b"NOTSET" and "output_shape" not in held and "pads" in held
    if is_padded and any(held.get("output_padding", ())):
        axes = len(held["output_padding"])  # a row more at the end is a row less of padding there
        fewer = [pad - more for pad, more in zip(held["pads"][axes:], held["output_padding"], strict=True)]
        moved = {"pads": [*held["pads"][:axes], *fewer], "output_padding": [0] * axes}
        yield NodeRewrite().same(node, **written, **moved)
    sizes = context.sizes(node.input[0], 2)
    if held.get("auto_pad") != b"SAME_LOWER" or sizes is None:
        return
    kernel = list({**held, **written}["kernel_shape"])
    strides, dilations = (list(held.get(name, [1] * len(kernel))) for name in ("strides", "dilations"))
    begins, ends = same_pads(sizes, kernel, strides, dilations, upper=False)
    yield NodeRewrite().same(node, **written, auto_pad="NOTSET", pads=[*begins, *ends])


def _average_pool(node: NodeProto, held: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    """One window without padding is the mean of a plane."""
    yield from _windows(node, held, context)
    is_padded = any(held.get("pads", ())) or held.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID")
    if not is_padded and context.sizes(node.input[0], 2) == list(held["kernel_shape"]):
        yield from _of_planes("ReduceMean", node, context)


def _of_planes(op_type: str, node: NodeProto, context: Context) -> Iterator[NodeRewrite]:
    """A reduction of all axes from 2 on; onnxruntime adds up means in another order."""
    rank, rewrite = context.rank(node.input[0]), NodeRewrite(rounded=op_type == "ReduceMean")
    if rank is not None:
        rewrite.reduction(op_type, node.input[0], list(range(2, rank)), as_attribute=context.opset < 18)
        rewrite.nodes[-1].output[:] = node.output
        yield rewrite


def _shape(node: NodeProto, held: Mapping[str, Any], _: Context) -> Iterator[NodeRewrite]:
    rewrite = NodeRewrite()
    whole = rewrite.inner(0, node, start=None, end=None)
    yield rewrite.into(node.output[0], "Slice", whole, [held.get("start", 0)], [held.get("end", FAR)], [0])


def _gemm(node: NodeProto, _: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    """A C of −0.0 leaves every sum as it is, zeros of both signs too."""
    element = context.element(node.input[0])
    if element in _FLOATS and not any(node.input[2:]):
        zero = np.array([-0.0], helper.tensor_dtype_to_np_dtype(element))
        yield NodeRewrite().same(node, *node.input[:2], zero, beta=1.0)


def _softmax(node: NodeProto, held: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    """Below opset 13 an operand is a matrix with the axes from `axis` on, 1 by default, as its columns."""
    if context.opset >= 13:
        return
    axis = held.get("axis", 1)
    yield NodeRewrite().same(node, axis=axis)
    for with_numbers in (False, True):
        rewrite, sizes = NodeRewrite(), context.sizes(node.input[0]) if with_numbers else None
        done = rewrite.inner(0, node, rewrite.add("Flatten", *node.input, axis=axis), axis=1)
        yield rewrite.into(node.output[0], "Reshape", done, sizes or rewrite.add("Shape", *node.input))


def _is_nan(node: NodeProto, _: Mapping[str, Any], __: Context) -> Iterator[NodeRewrite]:
    """NaN alone is not equal to itself."""
    rewrite = NodeRewrite()
    yield rewrite.into(node.output[0], "Not", rewrite.add("Equal", *[node.input[0]] * 2))


def _is_inf(node: NodeProto, held: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    element, rewrite = context.element(node.input[0]), NodeRewrite()
    if element in _FLOATS and not held:
        infinity = np.array(math.inf, helper.tensor_dtype_to_np_dtype(element))
        yield rewrite.into(node.output[0], "Equal", rewrite.add("Abs", *node.input), infinity)


def _trilu(node: NodeProto, held: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    """Elements at row r and column c with c − r ≥ k, or c − r ≤ k, stay; others are 0.

    onnxruntime's Where makes 0.0 of −0.0, so it is `rounded`.
    """
    value, element, dims = node.input[0], context.element(node.input[0]), context.dims(node.input[0]) or ()
    k = context.integers(node.input[1]) if any(node.input[1:]) else [0]
    if element is None or not k or len(dims) < 2:
        return
    rewrite = NodeRewrite(rounded=element != TensorProto.BOOL)
    kept = _triangle(rewrite, value, k[0], context, upper=bool(held.get("upper", 1)))
    if kept is None:
        return
    if element == TensorProto.BOOL:
        yield rewrite.into(node.output[0], "And", kept, value)
    else:
        zero = np.zeros(1, helper.tensor_dtype_to_np_dtype(element))
        yield rewrite.into(node.output[0], "Where", kept, value, zero)


def _triangle(rewrite: NodeRewrite, value: str, k: int, context: Context, *, upper: bool) -> GivenOperand | None:
    """Return what is true for c − r ≥ k, or c − r ≤ k: a constant for known sizes, or r + (k ∓ 1) beside c."""
    dims = context.dims(value) or ()
    matrix = known_sizes(dims[-2:])
    if matrix is not None:
        if math.prod(matrix) > MOST_NUMBERS:
            return None
        distance = np.arange(matrix[1]) - np.arange(matrix[0])[:, None]
        return distance >= k if upper else distance <= k
    numbers: list[GivenOperand] = []
    for axis in range(len(dims))[-2:]:
        size, measured = dims[axis], value if context.element(value) in NUMBERS else None
        if isinstance(size, int) and size > MOST_NUMBERS:
            return None
        if isinstance(size, int):
            numbers.append(np.arange(size).reshape(-1, *[1] * (len(dims) - 1 - axis)))
        elif sources := context.sources(axis, size, measured):
            numbers.append(rewrite.places(axis, len(dims), sources))
        else:
            return None
    row, column = numbers
    moved = rewrite.add("Add", row, [min(max(k, -_FARTHEST), _FARTHEST) + (-1 if upper else 1)])
    return rewrite.add("Less", *((moved, column) if upper else (column, moved)))


def _random(node: NodeProto, held: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    """The operand gives random numbers their shape and their type, no value: any element, expanded, is as good."""
    sizes, element = held.get("shape"), context.element(node.input[0]) if node.input else int(TensorProto.FLOAT)
    if node.input:
        sizes = context.sizes(node.input[0])
    if sizes is None:
        return
    kept = {"dtype": element} | {name: value for name, value in held.items() if name != "shape"}
    rewrite, first = NodeRewrite(), [0]
    like = rewrite.add("Slice", rewrite.add("Reshape", rewrite.value(), [-1]), first, [1], first)
    if list(sizes) != [1]:
        like = rewrite.add("Expand", like, sizes)
    yield rewrite.into(node.output[0], f"{node.op_type.removesuffix('Like')}Like", like, **kept)


def _clip(node: NodeProto, _: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    """A Clip without bounds returns its input."""
    if context.opset >= 11 and not any(node.input[1:]):
        yield NodeRewrite().into(node.output[0], "Identity", node.input[0])


def _dropout(node: NodeProto, held: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    """A Dropout returns its input, in training x · mask / (1 − ratio) with a mask of random numbers."""
    ratio, mode = [*node.input[1:3], "", ""][:2]
    training = context.integers(mode) if mode else [0]
    if context.opset < 12:
        training = [0] if held.get("is_test", 1) else None
    if training == [0]:
        yield NodeRewrite().into(node.output[0], "Identity", node.input[0])
    element, number = context.element(node.input[0]), np.float32(0.5)
    if ratio:
        tensor = context.constants.get(ratio)
        if tensor is None or math.prod(tensor.dims) != 1:
            return
        number = np.float32(numpy_helper.to_array(tensor).item())
    if training != [1] or element not in _FLOATS:
        return
    kept, rewrite = np.float32(1) - number, NodeRewrite(rounded=True)
    drawn = {"dtype": TensorProto.FLOAT} | ({"seed": float(held["seed"])} if "seed" in held else {})
    mask = rewrite.value(next(filter(None, node.output[1:]), None))
    rewrite.into(mask, "Less", rewrite.add("RandomUniformLike", node.input[0], **drawn), np.array(kept))
    masked = rewrite.add("Mul", node.input[0], rewrite.add("Cast", mask, to=element))
    scale = np.array(np.float32(1) / kept).astype(helper.tensor_dtype_to_np_dtype(element))
    yield rewrite.into(node.output[0], "Mul", masked, scale)


def _pad(node: NodeProto, held: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    """Pads of every axis; negative ones as a Slice before the Pad."""
    rank = context.rank(node.input[0])
    pads = context.integers(node.input[1]) if len(node.input) > 1 else None
    axes = context.integers(node.input[3]) if len(node.input) > 3 and node.input[3] else list(range(rank or 0))
    if rank is None or pads is None or axes is None or len(pads) != 2 * len(axes):
        return
    first, last = np.zeros(rank, np.int64), np.zeros(rank, np.int64)
    for position, axis in enumerate(axes):
        first[axis], last[axis] = pads[position], pads[len(axes) + position]
    widths = np.maximum(np.concatenate([first, last]), 0)
    value = [name for name in node.input[2:3] if name]
    cut = [axis for axis in range(rank) if min(first[axis], last[axis]) < 0]
    if not cut:
        yield NodeRewrite().same(node, node.input[0], widths, *value)
    if cut and held.get("mode", b"constant") == b"constant":
        starts, ends = [max(-first[axis], 0) for axis in cut], [min(last[axis], 0) or FAR for axis in cut]
        rewrite = NodeRewrite()
        yield rewrite.same(node, rewrite.add("Slice", node.input[0], starts, ends, cut), widths, *value)
        if not widths.any():
            yield NodeRewrite().into(node.output[0], "Slice", node.input[0], starts, ends, cut)


def _batch_normalization(node: NodeProto, held: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    """The definition in training; onnxruntime adds up in another order, so the rewrite is `rounded`."""
    rank = context.rank(node.input[0])
    if not held.get("training_mode", 0) or rank is None or not all(node.output[:3]) or len(node.output) != 3:
        return
    x, scale, bias, old_mean, old_variance = node.input
    y, new_mean, new_variance = node.output
    axes, as_attribute = [axis for axis in range(rank) if axis != 1], context.opset < 18
    momentum = np.float32(held.get("momentum", 0.9))
    kept, taken = (np.array([factor], np.float32) for factor in (momentum, np.float32(1) - momentum))
    column = [-1, *[1] * (rank - 2)]
    rewrite = NodeRewrite(rounded=True)
    add = rewrite.add
    mean = rewrite.reduction("ReduceMean", x, axes, as_attribute=as_attribute)
    centred = add("Sub", x, mean)
    variance = rewrite.reduction("ReduceMean", add("Mul", centred, centred), axes, as_attribute=as_attribute)
    shifted = add("Add", variance, np.array([held.get("epsilon", 1e-5)], np.float32))
    normal = add("Div", centred, add("Sqrt", shifted))
    rewrite.into(y, "Add", add("Mul", normal, add("Reshape", scale, column)), add("Reshape", bias, column))
    for old, new, statistic in ((old_mean, new_mean, mean), (old_variance, new_variance, variance)):
        flat = add("Reshape", statistic, [-1])
        rewrite.into(new, "Add", add("Mul", old, kept), add("Mul", flat, taken))
    yield rewrite


def _mod(node: NodeProto, held: Mapping[str, Any], _: Context) -> Iterator[NodeRewrite]:
    """For integers, (a mod b + b) mod b is a mod b, whichever sign a remainder has."""
    if not held.get("fmod", 0):
        rewrite, (a, b) = NodeRewrite(), node.input
        total = rewrite.add("Add", rewrite.add("Mod", a, b, fmod=0), b)
        yield rewrite.into(node.output[0], "Mod", total, b, fmod=0)


def _loss(node: NodeProto, held: Mapping[str, Any], _: Context) -> Iterator[NodeRewrite]:
    """Without ignore_index every label counts, and −1 is none: labels are numbers of classes, from 0 on."""
    if "ignore_index" not in held:
        yield NodeRewrite().same(node, ignore_index=-1)


def _indices(node: NodeProto, _: Mapping[str, Any], __: Context) -> Iterator[NodeRewrite]:
    """Indices along an axis are below 2³¹: no tensor has an axis of more elements."""
    position = 1 if node.op_type == "TopK" else 0
    if len(node.output) > position and node.output[position]:
        rewrite = NodeRewrite()
        narrow = rewrite.add("Cast", rewrite.inner(position, node), to=TensorProto.INT32)
        yield rewrite.into(node.output[position], "Cast", narrow, to=TensorProto.INT64)


def _cast_like(node: NodeProto, _: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    if (element := context.element(node.input[1])) is not None:
        yield NodeRewrite().into(node.output[0], "Cast", node.input[0], to=element)


def _transpose(node: NodeProto, held: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    rank = context.rank(node.input[0])
    if rank is not None and "perm" not in held:
        if rank:
            yield NodeRewrite().same(node, perm=list(range(rank))[::-1])
        else:
            yield NodeRewrite().into(node.output[0], "Identity", node.input[0])


def _scatter_nd(node: NodeProto, held: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    """Data as rows, one for each index tuple; a tuple's row is its number in row-major order."""
    data, indices, updates = node.input
    sizes, depth = context.sizes(data), (context.dims(indices) or (None,))[-1]
    if sizes is None or not isinstance(depth, int) or depth > len(sizes):
        return
    outer, width = sizes[:depth], math.prod(sizes[depth:])
    tuples, added = context.sizes(indices), context.sizes(updates)
    rewrite = NodeRewrite()
    add = rewrite.add
    positions = add("Where", add("Less", indices, [0]), add("Add", indices, outer), indices)
    terms = add("Mul", positions, [math.prod(outer[axis + 1 :]) for axis in range(depth)])
    rows = rewrite.reduction("ReduceSum", terms, [-1], as_attribute=context.opset < 13)
    flat_updates = add("Reshape", updates, [-1, width])
    spread: GivenOperand
    if tuples is not None:
        spread = [math.prod(tuples[:-1]), width]
    elif added is not None and width:  # as many rows as tuples
        spread = [math.prod(added) // width, width]
    else:
        spread = add("Shape", flat_updates)
    flat_indices = add("Expand", add("Reshape", rows, [-1, 1]), spread)
    flat, reduction = add("Reshape", data, [math.prod(outer), width]), held.get("reduction", b"none")
    result = add("ScatterElements", flat, flat_indices, flat_updates, axis=0, reduction=reduction)
    yield rewrite.into(node.output[0], "Reshape", result, sizes)


def _in_parts(node: NodeProto, held: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    """A sum with a function before or after it; onnxruntime adds up some of them in another order."""
    is_sum = not held.get("noop_with_empty_axes") or any(node.input[1:])
    if context.element(node.input[0]) not in _WIDE_FLOATS or not is_sum:
        return
    axes = held.get("axes")  # an input of ReduceSum before it is one of the others
    operands: list[GivenOperand] = [*node.input[1:], *([axes] if axes is not None else [])]
    given = {name: value for name, value in held.items() if name != "axes"}
    sums = "ReduceSumSquare" if node.op_type == "ReduceL2" else "ReduceSum"
    rewrite = NodeRewrite(rounded=node.op_type != "ReduceL2")
    if node.op_type == "ReduceL1":
        yield rewrite.into(node.output[0], sums, rewrite.add("Abs", node.input[0]), *operands, **given)
    else:
        part = rewrite.add(sums, node.input[0], *operands, **given)
        yield rewrite.into(node.output[0], "Sqrt" if node.op_type == "ReduceL2" else "Log", part)


def _hard_swish(node: NodeProto, _: Mapping[str, Any], __: Context) -> Iterator[NodeRewrite]:
    rewrite = NodeRewrite()
    slope = rewrite.add("HardSigmoid", *node.input, alpha=1 / 6, beta=0.5)
    yield rewrite.into(node.output[0], "Mul", node.input[0], slope)


_REWRITES: Mapping[str, Callable[[NodeProto, Mapping[str, Any], Context], Iterator[NodeRewrite]]] = {
    **dict.fromkeys(("ArgMin", "TopK"), _indices),
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_normalization,
    "CastLike": _cast_like,
    "Clip": _clip,
    "Constant": _constant,
    **dict.fromkeys(("Conv", "ConvTranspose"), _windows),
    **dict.fromkeys(("ConstantOfShape", "Expand", "Reshape"), shape_rewrites),
    "Dropout": _dropout,
    "Gemm": _gemm,
    "GlobalMaxPool": lambda node, _, context: _of_planes("ReduceMax", node, context),
    "HardSwish": _hard_swish,
    **dict.fromkeys(("LogSoftmax", "Softmax"), _softmax),
    "IsInf": _is_inf,
    "IsNaN": _is_nan,
    "MaxPool": lambda *given: itertools.chain(_windows(*given), pool_rewrites(*given)),
    "Mod": _mod,
    "Pad": _pad,
    **dict.fromkeys(("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"), _random),
    **dict.fromkeys(("ReduceL1", "ReduceL2", "ReduceLogSum"), _in_parts),
    "ScatterND": _scatter_nd,
    "Shape": _shape,
    "Slice": start_rewrites,
    "SoftmaxCrossEntropyLoss": _loss,
    "Sub": position_rewrites,
    "Transpose": _transpose,
    "Trilu": _trilu,
}
