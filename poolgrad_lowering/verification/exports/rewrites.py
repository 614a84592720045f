# SPDX-License-Identifier: Apache-2.0

"""What an export for CANN's graph engine may write in place of a standard node: nodes that compute the same.

Each rewrite is a list of nodes in ONNX's operators: inputs and outputs are those of the node, other names stand for any
name, and constants are given as arrays. The rewrites are derived here from ONNX's definitions, not from the export.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnx.helper import make_node

from poolgrad_lowering.verification.arrays import AnyArray
from poolgrad_lowering.verification.exports.gathered_pools import pool_rewrites, position_rewrites, start_rewrites
from poolgrad_lowering.verification.exports.node_rewrite import OWN, Context, NodeRewrite, same_but
from poolgrad_lowering.verification.exports.zeros import NUMBERS, inputs_with_size, zero_nodes
from poolgrad_lowering.verification.graph.protos import attribute_values, constant_tensor
from poolgrad_lowering.verification.graph.types import AxisSize, TensorType, factors_of
from poolgrad_lowering.verification.operators.pool import same_pads

_FAR = 2**63 - 1
_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)

_WIDE_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE)


def rewrites_of(node: NodeProto, context: Context) -> Iterator[NodeRewrite]:
    """Yield what may stand in place of a node of ONNX's operators; see `OWN` for the names."""
    if node.domain not in ("", "ai.onnx") or node.op_type not in _REWRITES:
        return
    held = attribute_values(node)
    marked, names = deepcopy(node), {*node.input, *node.output} - {""}
    for values in (marked.input, marked.output):
        values[:] = [OWN + name if name else "" for name in values]
    known = Context(
        context.opset,
        {OWN + name: context.types[name] for name in names.union(context.inputs) & context.types.keys()},
        {OWN + name: context.constants[name] for name in names & context.constants.keys()},
        context.inputs,
        {OWN + name: context.measured[name] for name in names & context.measured.keys()},
        {OWN + name: context.planes[name] for name in names & context.planes.keys()},
    )
    yield from _REWRITES[node.op_type](marked, held, known)


def _constant(node: NodeProto, held: Mapping[str, Any], _: Context) -> Iterator[NodeRewrite]:
    if "value" not in held and (tensor := constant_tensor(node)) is not None:
        yield NodeRewrite([same_but(node, **dict.fromkeys(held), value=tensor)])


def _windows(node: NodeProto, held: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    """kernel_shape is that of the weight; SAME_LOWER has the odd element of padding before the input."""
    written: dict[str, Any] = {}
    if "kernel_shape" not in held and node.op_type.startswith("Conv"):
        weight = context.sizes(node.input[1], 2)
        if weight is None:
            return
        written["kernel_shape"] = weight
        yield NodeRewrite([same_but(node, **written)])
    if node.op_type == "Conv" and {"strides", "dilations", "pads"}.isdisjoint(held):
        yield NodeRewrite([same_but(node, **written, strides=[1] * len({**held, **written}["kernel_shape"]))])
    is_padded = held.get("auto_pad", b"NOTSET") == b"NOTSET" and "output_shape" not in held and "pads" in held
    if is_padded and any(held.get("output_padding", ())):
        axes = len(held["output_padding"])  # a row more at the end is a row less of padding there
        fewer = [pad - more for pad, more in zip(held["pads"][axes:], held["output_padding"], strict=True)]
        moved = {"pads": [*held["pads"][:axes], *fewer], "output_padding": [0] * axes}
        yield NodeRewrite([same_but(node, **written, **moved)])
    sizes = context.sizes(node.input[0], 2)
    if held.get("auto_pad") != b"SAME_LOWER" or sizes is None:
        return
    kernel = list({**held, **written}["kernel_shape"])
    strides, dilations = (list(held.get(name, [1] * len(kernel))) for name in ("strides", "dilations"))
    begins, ends = same_pads(sizes, kernel, strides, dilations, upper=False)
    yield NodeRewrite([same_but(node, **written, auto_pad="NOTSET", pads=[*begins, *ends])])


def _max_pool(node: NodeProto, held: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    yield from _windows(node, held, context)
    yield from pool_rewrites(node, held, context)


def _shape(node: NodeProto, held: Mapping[str, Any], _: Context) -> Iterator[NodeRewrite]:
    bounds = {"starts": held.get("start", 0), "ends": held.get("end", _FAR), "axes": 0}
    whole = same_but(node, start=None, end=None)
    whole.output[:] = ["whole"]
    part = make_node("Slice", ["whole", *bounds], node.output)
    yield NodeRewrite([whole, part], {name: np.array([number], np.int64) for name, number in bounds.items()})


def _gemm(node: NodeProto, _: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    """A C of −0.0 leaves every sum as it is, zeros of both signs too."""
    known = context.types.get(node.input[0])
    if known is not None and not any(node.input[2:]) and known.element in _FLOATS:
        zero = np.array([-0.0], helper.tensor_dtype_to_np_dtype(known.element))
        yield NodeRewrite([same_but(node, [*node.input[:2], "zero"], beta=1.0)], {"zero": zero})


def _global_max_pool(node: NodeProto, _: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    rank = context.rank(node.input[0])
    if rank is not None:
        yield _reduction("ReduceMax", node.input[0], list(range(2, rank)), node.output[0], context.opset < 18)


def _reduction(op_type: str, value: str, axes: list[int], output: str, as_attribute: bool) -> NodeRewrite:
    if as_attribute:
        return NodeRewrite([make_node(op_type, [value], [output], axes=axes, keepdims=1)])
    node = make_node(op_type, [value, "axes"], [output], keepdims=1)
    return NodeRewrite([node], {"axes": np.array(axes, np.int64)})


def _softmax(node: NodeProto, held: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    """Below opset 13 an operand is a matrix with the axes from `axis` on, 1 by default, as its columns."""
    if context.opset >= 13:
        return
    axis = held.get("axis", 1)
    yield NodeRewrite([same_but(node, axis=axis)])
    rows = same_but(node, ["rows"], axis=1)
    rows.output[:] = ["done"]
    first, shape = make_node("Flatten", node.input, ["rows"], axis=axis), make_node("Shape", node.input, ["shape"])
    yield NodeRewrite([first, rows, shape, make_node("Reshape", ["done", "shape"], node.output)])


def _is_nan(node: NodeProto, _: Mapping[str, Any], __: Context) -> Iterator[NodeRewrite]:
    """NaN alone is not equal to itself."""
    yield NodeRewrite([make_node("Equal", [node.input[0]] * 2, ["equal"]), make_node("Not", ["equal"], node.output)])


def _is_inf(node: NodeProto, held: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    known = context.types.get(node.input[0])
    if known is not None and known.element in _FLOATS and not held:
        infinity = np.array(math.inf, helper.tensor_dtype_to_np_dtype(known.element))
        nodes = [make_node("Abs", node.input, ["size"]), make_node("Equal", ["size", "infinity"], node.output)]
        yield NodeRewrite(nodes, {"infinity": infinity})


def _random(node: NodeProto, held: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    """The operand gives random numbers their shape and their type, no value: any element, expanded, is as good."""
    sizes, element = held.get("shape"), int(TensorProto.FLOAT)
    if node.input:
        known = context.types.get(node.input[0])
        if known is None:
            return
        sizes, element = context.sizes(node.input[0]), known.element
    if sizes is None:
        return
    numbers = {"flat": [-1], "first": [0], "second": [1], "sizes": sizes}
    kept = {"dtype": element} | {name: value for name, value in held.items() if name != "shape"}
    nodes = [
        make_node("Reshape", ["any value", "flat"], ["row"]),
        make_node("Slice", ["row", "first", "second", "first"], ["element"]),
        make_node("Expand", ["element", "sizes"], ["like"]),
    ][: 2 if list(sizes) == [1] else 3]
    nodes.append(make_node(f"{node.op_type.removesuffix('Like')}Like", nodes[-1].output, node.output, **kept))
    yield NodeRewrite(nodes, {name: np.array(values, np.int64) for name, values in numbers.items()})


def _identity(node: NodeProto, held: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    """A Clip without bounds, and a Dropout that is not in training, return their input."""
    if node.op_type == "Clip":
        changes = context.opset < 11 or any(node.input[1:])
    elif context.opset < 12:
        changes = held.get("is_test", 1) == 0
    else:
        mode = node.input[2] if len(node.input) > 2 else ""
        changes = bool(mode) and context.integers(mode) != [0]
    if not changes:
        yield NodeRewrite([make_node("Identity", node.input[:1], node.output[:1])])


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
        yield NodeRewrite([same_but(node, [node.input[0], "widths", *value])], {"widths": widths})
    if cut and held.get("mode", b"constant") == b"constant":
        bounds = {
            "starts": np.array([max(-first[axis], 0) for axis in cut], np.int64),
            "ends": np.array([min(last[axis], 0) or _FAR for axis in cut], np.int64),
            "axes": np.array(cut, np.int64),
        }
        inner = make_node("Slice", [node.input[0], *bounds], ["cut"])
        yield NodeRewrite([inner, same_but(node, ["cut", "widths", *value])], {**bounds, "widths": widths})
        if not widths.any():
            yield NodeRewrite([make_node("Slice", [node.input[0], *bounds], node.output)], bounds)


def _batch_normalization(node: NodeProto, held: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    """The definition in training; onnxruntime adds up in another order, so the rewrite is `rounded`."""
    rank = context.rank(node.input[0])
    if not held.get("training_mode", 0) or rank is None or not all(node.output[:3]) or len(node.output) != 3:
        return
    x, scale, bias, old_mean, old_variance = node.input
    y, new_mean, new_variance = node.output
    axes = [axis for axis in range(rank) if axis != 1]
    as_attribute = context.opset < 18
    mean, variance = (
        _reduction("ReduceMean", value, axes, name, as_attribute) for value, name in ((x, "mean"), ("squares", "var"))
    )
    momentum = np.float32(held.get("momentum", 0.9))
    constants = {
        **mean.constants,
        "epsilon": np.array([held.get("epsilon", 1e-5)], np.float32),
        "column": np.array([-1, *[1] * (rank - 2)], np.int64),
        "flat": np.array([-1], np.int64),
        "kept": np.array([momentum], np.float32),
        "taken": np.array([np.float32(1) - momentum], np.float32),
    }
    rows = [
        ("Sub", [x, "mean"], "centred"),
        ("Mul", ["centred", "centred"], "squares"),
        ("Add", ["var", "epsilon"], "shifted"),
        ("Sqrt", ["shifted"], "deviation"),
        ("Div", ["centred", "deviation"], "normal"),
        ("Reshape", [scale, "column"], "scale_column"),
        ("Mul", ["normal", "scale_column"], "scaled"),
        ("Reshape", [bias, "column"], "bias_column"),
        ("Add", ["scaled", "bias_column"], y),
    ]
    for old, new, statistic in ((old_mean, new_mean, "mean"), (old_variance, new_variance, "var")):
        rows += [
            ("Reshape", [statistic, "flat"], f"flat_{statistic}"),
            ("Mul", [old, "kept"], f"kept_{statistic}"),
            ("Mul", [f"flat_{statistic}", "taken"], f"taken_{statistic}"),
            ("Add", [f"kept_{statistic}", f"taken_{statistic}"], new),
        ]
    nodes = [make_node(op_type, inputs, [output]) for op_type, inputs, output in rows]
    order = [mean.nodes[0], *nodes[:2], variance.nodes[0], *nodes[2:]]
    yield NodeRewrite(order, constants, rounded=True)


def _mod(node: NodeProto, held: Mapping[str, Any], _: Context) -> Iterator[NodeRewrite]:
    """For integers, (a mod b + b) mod b is a mod b, whichever sign a remainder has."""
    if not held.get("fmod", 0):
        operands = ((node.input[0], "first"), ("sum", node.output[0]))
        first, last = (make_node("Mod", [value, node.input[1]], [result], fmod=0) for value, result in operands)
        yield NodeRewrite([first, make_node("Add", ["first", node.input[1]], ["sum"]), last])


def _loss(node: NodeProto, held: Mapping[str, Any], _: Context) -> Iterator[NodeRewrite]:
    """Without ignore_index every label counts, and −1 is none: labels are numbers of classes, from 0 on."""
    if "ignore_index" not in held:
        yield NodeRewrite([same_but(node, ignore_index=-1)])


def _indices(node: NodeProto, _: Mapping[str, Any], __: Context) -> Iterator[NodeRewrite]:
    """Indices along an axis are below 2³¹: no tensor has an axis of more elements."""
    position = 1 if node.op_type == "TopK" else 0
    if len(node.output) > position and node.output[position]:
        wide = same_but(node)
        wide.output[position] = "wide"
        narrowed = make_node("Cast", ["wide"], ["narrow"], to=TensorProto.INT32)
        widened = make_node("Cast", ["narrow"], [node.output[position]], to=TensorProto.INT64)
        yield NodeRewrite([wide, narrowed, widened])


def _cast_like(node: NodeProto, _: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    known = context.types.get(node.input[1])
    if known is not None:
        yield NodeRewrite([make_node("Cast", node.input[:1], node.output, to=known.element)])


def _transpose(node: NodeProto, held: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    rank = context.rank(node.input[0])
    if rank is not None and "perm" not in held:
        same = same_but(node, perm=list(range(rank))[::-1]) if rank else make_node("Identity", node.input, node.output)
        yield NodeRewrite([same])


def _scatter_nd(node: NodeProto, held: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    """Data as rows, one for each index tuple; a tuple's row is its number in row-major order."""
    data, indices, updates = node.input
    sizes, known = context.sizes(data), context.types.get(indices)
    depth = known.dims[-1] if known is not None and known.dims else None
    if sizes is None or not isinstance(depth, int) or depth > len(sizes):
        return
    outer, width = np.array(sizes[:depth], np.int64), math.prod(sizes[depth:])
    constants = {
        "outer": outer,
        "zero": np.zeros(1, np.int64),
        "steps": np.array([math.prod(outer[axis + 1 :]) for axis in range(depth)], np.int64),
        "column_shape": np.array([-1, 1], np.int64),
        "updates_shape": np.array([-1, width], np.int64),
        "data_shape": np.array([math.prod(outer), width], np.int64),
        "shape": np.array(sizes, np.int64),
    }
    tuples, added = context.sizes(indices), context.sizes(updates)
    spread = []
    if tuples is not None:
        constants["spread"] = np.array([math.prod(tuples[:-1]), width], np.int64)
    elif added is not None and width:  # as many rows as tuples
        constants["spread"] = np.array([math.prod(added) // width, width], np.int64)
    else:
        spread = [make_node("Shape", ["flat_updates"], ["spread"])]
    reduction = held.get("reduction", b"none")
    total = _reduction("ReduceSum", "terms", [-1], "rows", context.opset < 13)
    operands = ["flat", "flat_indices", "flat_updates"]
    nodes = [
        make_node("Add", [indices, "outer"], ["wrapped"]),
        make_node("Less", [indices, "zero"], ["below"]),
        make_node("Where", ["below", "wrapped", indices], ["positions"]),
        make_node("Mul", ["positions", "steps"], ["terms"]),
        *total.nodes,
        make_node("Reshape", ["rows", "column_shape"], ["column"]),
        make_node("Reshape", [updates, "updates_shape"], ["flat_updates"]),
        *spread,
        make_node("Expand", ["column", "spread"], ["flat_indices"]),
        make_node("Reshape", [data, "data_shape"], ["flat"]),
        make_node("ScatterElements", operands, ["added"], axis=0, reduction=reduction),
        make_node("Reshape", ["added", "shape"], node.output),
    ]
    yield NodeRewrite(nodes, {**constants, **total.constants})


def _in_parts(node: NodeProto, held: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    """A sum with a function before or after it; onnxruntime adds up some of them in another order."""
    known = context.types.get(node.input[0])
    is_sum = not held.get("noop_with_empty_axes") or any(node.input[1:])
    if known is None or known.element not in _WIDE_FLOATS or not is_sum:
        return
    axes = held.get("axes")  # an input of ReduceSum before it is one of the others
    operands = [*node.input[1:], *(["axes"] if axes is not None else [])]
    given = {name: value for name, value in held.items() if name != "axes"}
    constants = {} if axes is None else {"axes": np.array(axes, np.int64)}
    sums = "ReduceSumSquare" if node.op_type == "ReduceL2" else "ReduceSum"
    if node.op_type == "ReduceL1":
        first = make_node("Abs", node.input[:1], ["part"])
        last = make_node(sums, ["part", *operands], node.output, **given)
    else:
        first = make_node(sums, [node.input[0], *operands], ["part"], **given)
        last = make_node("Sqrt" if node.op_type == "ReduceL2" else "Log", ["part"], node.output)
    yield NodeRewrite([first, last], constants, rounded=node.op_type != "ReduceL2")


def _hard_swish(node: NodeProto, _: Mapping[str, Any], __: Context) -> Iterator[NodeRewrite]:
    slope = make_node("HardSigmoid", node.input, ["slope"], alpha=1 / 6, beta=0.5)
    yield NodeRewrite([slope, make_node("Mul", [node.input[0], "slope"], node.output)])


def _to_numbers(node: NodeProto, held: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    """A shape as numbers: that of the result, with −1, 0 or 1 for sizes that follow from the input."""
    position = 0 if node.op_type == "ConstantOfShape" else 1
    result = context.measured.get(node.input[position], context.types.get(node.output[0]))
    if result is None or result.dims is None or 0 in result.dims:
        return
    source = context.types.get(node.input[0]) if position else TensorType(0, ())
    own = None if source is None or source.dims is None else list(source.dims)
    shape: list[AxisSize] = list(result.dims)
    zeros = False
    if node.op_type == "Reshape":
        unknown = [axis for axis, size in enumerate(shape) if not isinstance(size, int)]
        if len(unknown) > 1:  # 0 is the size of the input on the same axis
            known = [axis for axis in unknown if shape[axis] is not None]
            kept = [axis for axis in known if shape[axis] in (own or [])[axis : axis + 1]]
            shape, zeros = [0 if axis in kept else size for axis, size in enumerate(shape)], bool(kept)
        if sum(not isinstance(size, int) for size in shape) == 1:
            shape = list(_as_numbers(shape, -1))
    elif own is not None and len(own) <= len(shape):
        aligned = [*[None] * (len(shape) - len(own)), *own]
        if node.op_type == "Expand":
            pairs = zip(shape, aligned, strict=True)
            shape = [1 if isinstance(size, str) and size == of else size for size, of in pairs]
        yield from _filled(node, held, list(result.dims), own, context)
    if all(isinstance(size, int) for size in shape):
        inputs = [*node.input[:position], "shape", *node.input[position + 1 :]]
        changes = {"allowzero": 0} if zeros else {}
        yield NodeRewrite([same_but(node, inputs, **changes)], {"shape": np.array(shape, np.int64)})


def _filled(
    node: NodeProto, held: Mapping[str, Any], shape: Sequence[AxisSize], own: Sequence[AxisSize], context: Context
) -> Iterator[NodeRewrite]:
    """A value minus zeros, which have sizes of the graph's inputs: nothing is less than itself, and false is 0.

    A product of sizes is an axis for each factor until the last node.
    """
    own = [1] * (len(shape) - len(own)) + list(own)
    factors = [[size] if size == theirs else factors_of(size) for size, theirs in zip(shape, own, strict=True)]
    sizes = [size for each in factors for size in each]
    is_split = len(sizes) > len(shape)
    own = [theirs for each, theirs in zip(factors, own, strict=True) for _ in each]
    wanted = [axis for axis, size in enumerate(sizes) if isinstance(size, str) and size != own[axis]]
    if None in sizes or any(own[axis] != 1 for axis in wanted):
        return
    value = node.input[0]
    stored, constants = held.get("value"), dict[str, AnyArray]()
    if node.op_type == "ConstantOfShape":
        value = "value"
        constants[value] = np.zeros(1, np.float32) if stored is None else numpy_helper.to_array(stored)
        element = TensorProto.FLOAT if stored is None else stored.data_type
    elif (known := context.types.get(value)) is not None:
        element = known.element
    sources = [inputs_with_size(str(sizes[axis]), context) for axis in wanted]
    if not wanted or None in sources or element not in (*NUMBERS, TensorProto.BOOL):
        return
    nodes, reads = list[NodeProto](), list[str]()
    for axis, source in zip(wanted, sources, strict=True):
        assert source is not None
        made = zero_nodes(axis, len(sizes), source, element)
        nodes, constants = nodes + made.nodes, {**constants, **made.constants}
        reads += made.reads
    zeros, joins = ("false", "Or") if element == TensorProto.BOOL else ("zeros", "Sub")
    steps = [(joins, f"{axis} {zeros}") for axis in wanted]
    if is_split and set(own) != {1}:
        constants["axes"] = np.array(_as_numbers(own, -1), np.int64)
        steps.insert(0, ("Reshape", "axes"))
    numbers_of_all = _as_numbers(sizes, 1)
    if _as_numbers(own, 1) != numbers_of_all:
        constants["numbers"] = np.array(numbers_of_all, np.int64)
        steps.append(("Expand", "numbers"))
    if is_split:
        constants["shape"] = np.array(_as_numbers(shape, -1), np.int64)
        steps.append(("Reshape", "shape"))
    for number, (op_type, operand) in enumerate(steps):
        output = node.output[0] if number == len(steps) - 1 else f"step {number}"
        nodes.append(make_node(op_type, [value, operand], [output]))
        value = output
    yield NodeRewrite(nodes, constants, reads=tuple(reads))


def _as_numbers(sizes: Sequence[AxisSize], unknown: int) -> list[int]:
    """Return the sizes with a number in place of those that are not known."""
    return [size if isinstance(size, int) else unknown for size in sizes]


_REWRITES: Mapping[str, Callable[[NodeProto, Mapping[str, Any], Context], Iterator[NodeRewrite]]] = {
    **dict.fromkeys(("ArgMin", "TopK"), _indices),
    **dict.fromkeys(("AveragePool", "Conv", "ConvTranspose"), _windows),
    "BatchNormalization": _batch_normalization,
    "CastLike": _cast_like,
    **dict.fromkeys(("Clip", "Dropout"), _identity),
    "Constant": _constant,
    **dict.fromkeys(("ConstantOfShape", "Expand", "Reshape"), _to_numbers),
    "Gemm": _gemm,
    "GlobalMaxPool": _global_max_pool,
    "HardSwish": _hard_swish,
    **dict.fromkeys(("LogSoftmax", "Softmax"), _softmax),
    "IsInf": _is_inf,
    "IsNaN": _is_nan,
    "MaxPool": _max_pool,
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
}
