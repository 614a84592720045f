# SPDX-License-Identifier: Apache-2.0

"""Rewrites of arithmetic, normalizations, constants and random numbers for GE's ONNX parser; see `rewrites`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from poolgrad_lowering.ge.values import all_numbers
from poolgrad_lowering.ge.writer import Writer
from poolgrad_lowering.ge.zeros import MOST_NUMBERS, are_counted, numbers_along
from poolgrad_lowering.model.facts.known import need, require
from poolgrad_lowering.model.facts.type_rules import FLOAT_TYPES
from poolgrad_lowering.model.ir.tensors import constant_tensor

_EQUAL_OF_FLOATS_OPSET = 11

_FAR = 1 << 62
"""A diagonal that no matrix reaches."""

PARTS = {
    "ReduceL1": ("Abs", "ReduceSum", 18),
    "ReduceL2": ("ReduceSumSquare", "Sqrt", 18),
    "ReduceLogSum": ("ReduceSum", "Log", 13),
}
"""By reduction, the two operators that compute it, and the first opset at which GE lacks it."""


def as_value(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> None:
    """The parser reads the attribute `value` only, and takes numbers for an empty scalar."""
    require("value" not in attributes)
    writer.change(node, {"value": need(constant_tensor(node))}, without=attributes)


def cast_like(node: NodeProto, _: Mapping[str, Any], writer: Writer) -> None:
    """The plugin makes an operator of GE that no open repository defines."""
    writer.add("Cast", node.input[:1], node.output[0], to=need(writer.types.elements.get(node.input[1])))


def gemm(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> None:
    """The plugin drops alpha where C is missing. A C of −0.0 changes no sum, not even one that is a zero."""
    element = need(writer.types.elements.get(node.input[0]))
    require(not any(node.input[2:]) and attributes.get("alpha", 1.0) != 1.0 and element in FLOAT_TYPES)
    zero = writer.tensor(helper.make_tensor(f"{node.output[0]}/C", element, [1], [-0.0]))
    writer.change(node, {"beta": 1.0}, inputs=[*node.input[:2], zero])


def mod(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> None:
    """GE's remainder has the dividend's sign, ONNX's of integers the divisor's: ((a % b) + b) % b has it in both."""
    element = TensorProto.DataType.Name(writer.types.elements.get(node.input[0], TensorProto.UNDEFINED))
    require(not attributes.get("fmod", 0) and not element.startswith("UINT") and not _is_wrapped(node, writer))
    dividend, divisor = node.input
    remainder, positive = (writer.name(f"{node.output[0]}/{part}") for part in ("remainder", "positive"))
    writer.add("Mod", [dividend, divisor], remainder, fmod=0)
    writer.add("Add", [remainder, divisor], positive)
    writer.add("Mod", [positive, divisor], node.output[0], fmod=0)


def _is_wrapped(node: NodeProto, writer: Writer) -> bool:
    """Whether a Mod is the first or the second of this rewrite already."""
    sums = [name for each in writer.readers.get(node.output[0], ()) for name in each.output]
    lasts = [each for name in sums for each in writer.readers.get(name, ()) if each.op_type == "Mod"]
    return any(_ends_form(last, writer) for last in (node, *lasts))


def _ends_form(node: NodeProto, writer: Writer) -> bool:
    added = writer.producers.get(node.input[0])
    if added is None or added.op_type != "Add":
        return False
    first = writer.producers.get(added.input[0])
    return first is not None and first.op_type == "Mod" and added.input[1] == first.input[1] == node.input[1]


def softmax(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> None:
    """Below opset 13, ONNX normalises over all axes from `axis` on, 1 by default; the plugins over one.

    That of LogSoftmax takes the last one by default.
    """
    require(writer.opset < 13)
    rank, axis = need(writer.types.rank(node.input[0])), attributes.get("axis", 1)
    if axis in (-1, rank - 1):
        writer.change(node, {} if "axis" in attributes else {"axis": axis})
        return
    value, result = node.input[0], node.output[0]
    rows, done = (writer.name(f"{result}/{part}") for part in ("rows", "normalised"))
    writer.add("Flatten", [value], rows, axis=axis)
    writer.change(node, {"axis": 1}, inputs=[rows], outputs=[done])
    sizes = writer.types.sizes(value)
    if sizes and 0 not in sizes:
        writer.reshape(done, sizes, result)
    else:
        writer.add("Reshape", [done, writer.add("Shape", [value], writer.name(f"{result}/shape"))], result)


def hard_swish(node: NodeProto, _: Mapping[str, Any], writer: Writer) -> None:
    """The plugin makes an operator of GE that no open repository defines. It is x · max(0, min(1, x / 6 + 1 / 2))."""
    value, result = node.input[0], node.output[0]
    slope = writer.add("HardSigmoid", [value], writer.name(f"{result}/slope"), alpha=1 / 6, beta=0.5)
    writer.types.learn(slope, writer.types.elements.get(value, TensorProto.UNDEFINED), writer.types.shapes.get(result))
    writer.add("Mul", [value, slope], result)


def in_parts(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> None:
    """‖x‖₁ = Σ|x|, ‖x‖₂ = √Σx² and ln Σx: GE lacks these reductions from some opset on. In 16 bits Σx² overflows."""
    value, result, element = node.input[0], node.output[0], need(writer.types.elements.get(node.input[0]))
    keeps_all = attributes.get("noop_with_empty_axes", 0) and not any(node.input[1:])
    first, second, opset = PARTS[node.op_type]
    require(writer.opset >= opset and element in (TensorProto.FLOAT, TensorProto.DOUBLE) and not keeps_all)
    axes = attributes.get("axes")  # before opset 18
    kept = {name: value for name, value in attributes.items() if name != "axes"}
    others = node.input[1:] if axes is None else [writer.vector(axes)]
    inner = writer.name(f"{result}/{first}")
    writer.types.learn(inner, element, writer.types.shapes.get(value if first == "Abs" else result))
    for op_type, operand, output in ((first, value, inner), (second, inner, result)):
        reduces = op_type.startswith("Reduce")
        writer.add(op_type, [operand, *(others if reduces else ())], output, **(kept if reduces else {}))


def batch_normalization(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> None:
    """In training, the plugin drops the momentum: running statistics would become those of the batch.

    With μ and σ² of the batch over all axes but 1: y = (x − μ) / √(σ² + ε) · scale + B, and a running statistic is
    momentum · old + (1 − momentum) · new. Sums are not in onnxruntime's order: results may differ by their rounding.
    """
    x, scale, bias, mean, variance = node.input
    rank = need(writer.types.rank(x))
    types = {writer.types.elements.get(name) for name in node.input}
    require(attributes.get("training_mode", 0) == 1 and types == {TensorProto.FLOAT})
    result, axes = node.output[0], [axis for axis in range(rank) if axis != 1]

    def add(op_type: str, inputs: Sequence[str], part: str) -> str:
        return writer.add(op_type, inputs, writer.name(f"{result}/{part}"))

    def number(part: str, value: float) -> str:
        return writer.constant(f"{result}/{part}", np.array([value], np.float32))

    def column(value: str, part: str) -> str:
        return writer.reshape(value, [-1, *[1] * (rank - 2)], writer.name(f"{result}/{part}"))

    means = writer.reduce("ReduceMean", x, axes, writer.name(f"{result}/mean"))
    centred = add("Sub", [x, means], "centred")
    squares = add("Mul", [centred, centred], "squares")
    variances = writer.reduce("ReduceMean", squares, axes, writer.name(f"{result}/variance"))
    shifted = add("Add", [variances, number("epsilon", attributes.get("epsilon", 1e-5))], "shifted")
    normal = add("Div", [centred, add("Sqrt", [shifted], "deviation")], "normal")
    writer.add("Add", [add("Mul", [normal, column(scale, "scale")], "scaled"), column(bias, "bias")], result)
    momentum = np.float32(attributes.get("momentum", 0.9))
    kept, taken = number("kept", float(momentum)), number("taken", float(np.float32(1) - momentum))
    for output, old, new, part in zip(node.output[1:], (mean, variance), (means, variances), "mv", strict=False):
        if output:
            flat = writer.reshape(new, [-1], writer.name(f"{result}/{part}"))
            terms = [add("Mul", [old, kept], f"{part}_kept"), add("Mul", [flat, taken], f"{part}_taken")]
            writer.add("Add", terms, output)


def without_ignored_class(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> None:
    """Without ignore_index GE ignores class 0. No label is −1, which is also onnxruntime's default."""
    writer.change(node, {} if "ignore_index" in attributes else {"ignore_index": -1})


def is_nan(node: NodeProto, _: Mapping[str, Any], writer: Writer) -> None:
    """The provider does not take it: it would run on the CPU."""
    require(writer.opset >= _EQUAL_OF_FLOATS_OPSET)
    result = node.output[0]
    equal = writer.add("Equal", [node.input[0]] * 2, writer.name(f"{result}/equal"))
    writer.types.learn(equal, TensorProto.BOOL, writer.types.shapes.get(result))
    writer.add("Not", [equal], result)


def is_inf(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> None:
    """As `is_nan`. One of a single sign stays."""
    result, element = node.output[0], need(writer.types.elements.get(node.input[0]))
    require(not attributes and element in FLOAT_TYPES and writer.opset >= _EQUAL_OF_FLOATS_OPSET)
    infinity = writer.tensor(helper.make_tensor(f"{result}/infinity", element, [], [math.inf]))
    size = writer.add("Abs", node.input, writer.name(f"{result}/size"))
    writer.types.learn(size, element, writer.types.shapes.get(result))
    writer.add("Equal", [size, infinity], result)


def trilu(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> None:
    """As `is_nan`. Matrices of known sizes have a mask; of others, the numbers of rows and columns are compared.

    onnxruntime's Where makes 0.0 of −0.0.
    """
    value, result, element = node.input[0], node.output[0], need(writer.types.elements.get(node.input[0]))
    first = need(writer.types.numbers(node.input[1]) if any(node.input[1:]) else [0])
    shape = need(writer.types.shapes.get(value))
    require(first and len(shape) > 1)
    require(element in {*FLOAT_TYPES, TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL})
    matrix, upper = all_numbers(shape[-2:]), bool(attributes.get("upper", 1))
    if matrix is None:
        require(are_counted(shape[-2:], writer, None if element == TensorProto.BOOL else value))
        mask = _compared_places(value, shape, first[0], writer, upper=upper)
    else:
        require(math.prod(matrix) <= MOST_NUMBERS)
        diagonal = min(max(first[0], -matrix[0]), matrix[1])  # any integer is valid
        kept = np.triu if upper else np.tril
        mask = writer.constant(f"{result}/triangle", kept(np.ones(matrix, bool), diagonal))
    if element == TensorProto.BOOL:
        writer.add("And", [mask, value], result)
    else:
        zero = writer.tensor(helper.make_tensor(f"{result}/zero", element, [1], [0]))
        writer.add("Where", [mask, value, zero], result)


def _compared_places(value: str, shape: Sequence[int | str | None], first: int, writer: Writer, *, upper: bool) -> str:
    """Return the triangle of a value's matrices: of row r and column c, r + first ≤ c, or r + first ≥ c."""
    rank = len(shape)
    measured = None if writer.types.elements.get(value) == TensorProto.BOOL else value

    def numbers(axis: int) -> str:
        if isinstance(size := shape[axis], int):
            known = np.arange(size).reshape(-1, *[1] * (rank - 1 - axis))
            return writer.constant(f"{value}/numbers", known)
        name = size or f"?{value}[{axis}]"
        return need(numbers_along(axis, rank, str(name), writer, measured))

    unknown_first = sorted((rank - 2, rank - 1), key=lambda axis: isinstance(shape[axis], int))
    found = {axis: numbers(axis) for axis in unknown_first}
    row, column = found[rank - 2], found[rank - 1]
    bound = min(max(first, -_FAR), _FAR) + (-1 if upper else 1)
    moved = writer.add("Add", [row, writer.vector([bound])], writer.name(f"{value}/diagonal"))
    operands = [moved, column] if upper else [column, moved]
    mask = writer.add("Less", operands, writer.name(f"{value}/triangle"))
    writer.types.learn(moved, TensorProto.INT64, writer.types.shapes.get(row))
    writer.types.learn(mask, TensorProto.BOOL, (*[1] * (rank - 2), *shape[-2:]))
    return mask


def like_an_input(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> None:
    """The provider takes no node of constants alone: an element of a graph input, expanded, has the same shape."""
    given, element = attributes.get("shape"), cast("int | None", TensorProto.FLOAT)
    if node.input:
        require(node.input[0] in writer.folded)
        given, element = writer.types.sizes(node.input[0]), writer.types.elements.get(node.input[0])
    shape, element, one = need(given), need(element), need(writer.one_element)
    like = one
    if tuple(shape) != (1,):
        like = writer.add("Expand", [one, writer.vector(shape)], writer.name(f"{node.output[0]}/like"))
        writer.types.learn(like, writer.types.elements.get(one), shape)
    kept = {"dtype": element} | {name: value for name, value in attributes.items() if name != "shape"}
    writer.add(f"{node.op_type.removesuffix('Like')}Like", [like], node.output[0], **kept)


def clip(node: NodeProto, _: Mapping[str, Any], writer: Writer) -> None:
    """The plugin refuses a Clip without bounds."""
    require(writer.opset >= 11 and not any(node.input[1:]))
    writer.add("Identity", node.input[:1], node.output[0])


def dropout(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> None:
    """There is no open prototype of the plugin's operator. Out of training, where no mask is read, x is the result.

    In training, x · mask / (1 − ratio), with a mask where uniform numbers are below 1 − ratio.
    """
    is_inference = _is_inference(node, attributes, writer)
    if is_inference:
        require(writer.read.isdisjoint(node.output[1:]))
        writer.add("Identity", node.input[:1], node.output[0])
        return
    element, ratio = need(writer.types.elements.get(node.input[0])), need(_ratio(node, writer))
    require(is_inference is False and element in FLOAT_TYPES and 0 <= ratio < 1)
    x, result, kept = node.input[0], node.output[0], np.float32(1) - np.float32(ratio)
    mask = next(filter(None, node.output[1:]), "") or writer.name(f"{result}/mask")
    kind: dict[str, Any] = {"dtype": TensorProto.FLOAT}
    kind |= {"seed": float(attributes["seed"])} if "seed" in attributes else {}
    drawn = writer.add("RandomUniformLike", [x], writer.name(f"{result}/drawn"), **kind)
    writer.add("Less", [drawn, writer.constant(f"{result}/kept", np.array(kept))], mask)
    factors = writer.add("Cast", [mask], writer.name(f"{result}/factors"), to=element)
    scale = writer.tensor(helper.make_tensor(f"{result}/scale", element, [], [np.float32(1) / kept]))
    masked = writer.add("Mul", [x, factors], writer.name(f"{result}/masked"))
    writer.add("Mul", [masked, scale], result)
    for name, of in ((drawn, TensorProto.FLOAT), (mask, TensorProto.BOOL), (factors, element), (masked, element)):
        writer.types.learn(name, of, writer.types.shapes.get(x))


def _ratio(node: NodeProto, writer: Writer) -> float | None:
    """Return the ratio of a Dropout, None if it is no number."""
    if not any(node.input[1:2]):
        return 0.5
    tensor = writer.types.constants.get(node.input[1])
    if tensor is None or tensor.data_location == TensorProto.EXTERNAL or math.prod(tensor.dims) != 1:
        return None
    return float(numpy_helper.to_array(tensor).item())


def _is_inference(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> bool | None:
    """Whether a Dropout changes nothing; None if that is not known."""
    if writer.opset < 12:
        return bool(attributes.get("is_test", 1)) or None
    mode = node.input[2] if len(node.input) > 2 else ""
    tensor = writer.types.constants.get(mode)
    if mode and (tensor is None or tensor.data_location == TensorProto.EXTERNAL):
        return None
    return tensor is None or not numpy_helper.to_array(tensor).any()
