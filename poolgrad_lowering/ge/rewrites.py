# SPDX-License-Identifier: Apache-2.0

"""Rewrites nodes so that GE's ONNX parser reads them right, with the same results in every other runtime.

Each rewrite is a row of `_REWRITES`: the operator, and a function that adds the nodes in its place to a `Writer`, or
returns False for a node that GE reads as it is, or whose rewrite needs a shape that is not known. `obstacles` names the
latter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from poolgrad_lowering.ge.kept_indices import pool_attributes, write_plane_starts, write_pool, write_positions
from poolgrad_lowering.ge.shape_operands import write_numbers
from poolgrad_lowering.ge.values import SHAPE_OPERANDS, ValueTypes, constant_tensor
from poolgrad_lowering.ge.writer import Writer
from poolgrad_lowering.model.facts.type_rules import FLOAT_TYPES
from poolgrad_lowering.model.ir.dims import Dim
from poolgrad_lowering.model.ir.graphs import graphs, is_standard, names_of

_LAST = (1 << 63) - 1
_VOLUME = 3
"""The axes of a convolution whose layout the plugin reads from strides, dilations or pads."""
_UNSET = b"NOTSET"
_EQUAL_OF_FLOATS_OPSET = 11
_PARTS = {
    "ReduceL1": ("Abs", "ReduceSum", 18),
    "ReduceL2": ("ReduceSumSquare", "Sqrt", 18),
    "ReduceLogSum": ("ReduceSum", "Log", 13),
}
"""By reduction, the two operators that compute it, and the first opset at which GE lacks it."""


Rewrite = Callable[[NodeProto, Mapping[str, Any], Writer], bool]
"""Adds the nodes in place of a node to the writer; returns whether there are any."""


def write_for_ge(model: ModelProto, opset: int, types: ValueTypes, *, is_cut: bool = False) -> int:
    """Write the nodes of the main graph and of its subgraphs as GE reads them; return how many were changed.

    If the graph `is_cut` into several, shapes that it computes become numbers, and nodes that would stay on the CPU
    become others. The new values are added to `types`. Nodes keep their outputs' names.
    """
    rewrites = _REWRITES | (_REWRITES_OF_CUT_GRAPHS if is_cut else {})
    present = {node.op_type for graph in graphs(model.graph) for node in graph.node if is_standard(node)}
    if not present & rewrites.keys():
        return 0
    taken = names_of(model.graph)
    return sum(_write(Writer(graph, opset, types, taken), graph.node, rewrites) for graph in graphs(model.graph))


def attributes_of(node: NodeProto) -> dict[str, Any]:
    """Return the values of a node's attributes by name."""
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


def _write(writer: Writer, nodes: Iterable[NodeProto], rewrites: Mapping[str, Rewrite]) -> int:
    changed = 0
    for node in nodes:
        rewrite = rewrites.get(node.op_type) if is_standard(node) else None
        if rewrite is not None and rewrite(node, attributes_of(node), writer):
            changed += 1
        else:
            writer.keep(node)
    if changed:
        writer.replace_nodes()
    return changed


def _constant(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> bool:
    """The parser reads the attribute `value` only, and takes numbers for an empty scalar."""
    tensor = constant_tensor(node)
    if "value" in attributes or tensor is None:
        return False
    return writer.change(node, {"value": tensor}, without=attributes)


def _convolution(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> bool:
    """ConvTranspose needs kernel_shape, Conv one of four attributes, over three axes of three that have its layout.

    Pads of SAME_LOWER become those of SAME. CANN has no output_padding over three axes: it is less padding at the end.
    """
    kernel = kernel_of(node, attributes, writer.types)
    if kernel is None:
        return False
    wanted: dict[str, Any] = {} if "kernel_shape" in attributes else {"kernel_shape": kernel}
    if node.op_type == "Conv":
        wanted |= _written_pads(node, {**attributes, "kernel_shape": kernel}, writer.types)
        if len(kernel) == _VOLUME and {"strides", "dilations", "pads"}.isdisjoint([*attributes, *wanted]):
            wanted["strides"] = [1] * _VOLUME
    elif len(kernel) == _VOLUME and attributes.get("auto_pad", _UNSET) == _UNSET and "output_shape" not in attributes:
        extra, pads = attributes.get("output_padding", ()), attributes.get("pads", ())
        ends = [pad - more for pad, more in zip(pads[_VOLUME:], extra, strict=False)]
        if any(extra) and ends and min(ends) >= 0:
            wanted |= {"pads": [*pads[:_VOLUME], *ends], "output_padding": [0] * _VOLUME}
    return writer.change(node, wanted)


def _pool(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> bool:
    """The plugins take SAME_LOWER for SAME_UPPER, and that of MaxPool refuses Indices and drops dilations."""
    if node.op_type == "MaxPool" and write_pool(node, attributes, writer):
        return True
    return writer.change(node, _written_pads(node, attributes, writer.types))


def kernel_of(node: NodeProto, attributes: Mapping[str, Any], types: ValueTypes) -> list[int] | None:
    """Return the kernel of a convolution, from its attribute or from the shape of its weight; None if unknown."""
    if "kernel_shape" in attributes:
        return list(attributes["kernel_shape"])
    kernel = types.shapes.get(node.input[1], ())[2:]
    sizes = [size for size in kernel if isinstance(size, int)]
    return sizes if sizes and len(sizes) == len(kernel) else None


def _written_pads(node: NodeProto, attributes: Mapping[str, Any], types: ValueTypes) -> dict[str, Any]:
    """Return the pads of SAME_LOWER as attributes; nothing for another auto_pad or where a size is not known."""
    sizes = [size for size in types.shapes.get(node.input[0], ())[2:] if isinstance(size, int)]
    kernel = tuple(attributes.get("kernel_shape", ()))
    if attributes.get("auto_pad") != b"SAME_LOWER" or len(sizes) != len(kernel):
        return {}
    pool = pool_attributes(attributes, kernel)
    if len(pool.windows) != len(sizes):
        return {}
    windows = [pool.axis(number, Dim(size)) for number, size in enumerate(sizes)]
    pads = [(window.begin, window.end) for window in windows if window is not None]
    return {"auto_pad": "NOTSET", "pads": [pad for side in zip(*pads, strict=True) for pad in side]}


def _shape(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> bool:
    """The plugin drops start and end."""
    start, end = attributes.get("start", 0), attributes.get("end", _LAST)
    if start == 0 and end == _LAST:
        return False
    whole = writer.name(f"{node.output[0]}/whole")
    writer.change(node, without=("start", "end"), outputs=[whole])
    writer.types.learn(whole, TensorProto.INT64, (writer.types.ranks.get(node.input[0]),))
    writer.slice(whole, [start], [end], [0], node.output[0])
    return True


def _gemm(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> bool:
    """The plugin drops alpha where C is missing. A C of −0.0 changes no sum, not even one that is a zero."""
    element = writer.types.elements.get(node.input[0])
    has_c = len(node.input) > 2 and node.input[2]
    if has_c or attributes.get("alpha", 1.0) == 1.0 or element not in FLOAT_TYPES:
        return False
    zero = writer.tensor(helper.make_tensor(f"{node.output[0]}/C", element, [1], [-0.0]))
    return writer.change(node, {"beta": 1.0}, inputs=[*node.input[:2], zero])


def _global_max_pool(node: NodeProto, _: Mapping[str, Any], writer: Writer) -> bool:
    """The plugin reduces axis 2 and the last one, and leaves those between them out."""
    rank = writer.types.ranks.get(node.input[0])
    if rank is None or rank <= 4:
        return False
    writer.reduce("ReduceMax", node.input[0], range(2, rank), node.output[0])
    return True


def _softmax(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> bool:
    """Below opset 13, ONNX normalises over all axes from `axis` on, 1 by default; the plugins over one.

    That of LogSoftmax takes the last one by default.
    """
    if writer.opset >= 13:
        return False
    rank, axis = writer.types.ranks.get(node.input[0]), attributes.get("axis", 1)
    if rank is None or axis in (-1, rank - 1):
        return rank is not None and "axis" not in attributes and writer.change(node, {"axis": axis})
    value, result = node.input[0], node.output[0]
    rows, done = (writer.name(f"{result}/{part}") for part in ("rows", "normalised"))
    writer.add("Flatten", [value], rows, axis=axis)
    writer.change(node, {"axis": 1}, inputs=[rows], outputs=[done])
    sizes = writer.types.sizes(value)
    if sizes and 0 not in sizes:
        writer.reshape(done, sizes, result)
    else:
        writer.add("Reshape", [done, writer.add("Shape", [value], writer.name(f"{result}/shape"))], result)
    return True


def _is_nan(node: NodeProto, _: Mapping[str, Any], writer: Writer) -> bool:
    """The provider does not take it: it would run on the CPU."""
    if writer.opset < _EQUAL_OF_FLOATS_OPSET:
        return False
    result = node.output[0]
    equal = writer.add("Equal", [node.input[0]] * 2, writer.name(f"{result}/equal"))
    writer.types.learn_as(equal, TensorProto.BOOL, result)
    writer.add("Not", [equal], result)
    return True


def _is_inf(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> bool:
    """As `_is_nan`. One of a single sign stays."""
    result, element = node.output[0], writer.types.elements.get(node.input[0])
    if attributes or element not in FLOAT_TYPES or writer.opset < _EQUAL_OF_FLOATS_OPSET:
        return False
    infinity = writer.tensor(helper.make_tensor(f"{result}/infinity", element, [], [math.inf]))
    size = writer.add("Abs", node.input, writer.name(f"{result}/size"))
    writer.types.learn_as(size, element, result)
    writer.add("Equal", [size, infinity], result)
    return True


def _random(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> bool:
    """The provider takes no node of constants alone: an element of a graph input, expanded, has the same shape."""
    given, element = attributes.get("shape"), cast("int | None", TensorProto.FLOAT)
    if node.input:
        if not writer.is_constant(node.input[0]):
            return False
        given, element = writer.types.sizes(node.input[0]), writer.types.elements.get(node.input[0])
    if given is None or element is None or writer.one_element is None:
        return False
    like = writer.one_element
    if tuple(given) != (1,):
        like = writer.add("Expand", [like, writer.vector(given)], writer.name(f"{node.output[0]}/like"))
        writer.types.learn(like, writer.types.elements.get(writer.one_element), given)
    kept = {"dtype": element} | {name: value for name, value in attributes.items() if name != "shape"}
    writer.add(f"{node.op_type.removesuffix('Like')}Like", [like], node.output[0], **kept)
    return True


def _identity(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> bool:
    """The plugin refuses a Clip without bounds, and there is no open plugin of Dropout, which only changes in training.

    A Dropout whose mask is read stays.
    """
    if node.op_type == "Clip":
        changes = writer.opset < 11 or any(node.input[1:])
    else:
        changes = any(node.output[1:]) or not _is_inference(node, attributes, writer)
    if not changes:
        writer.add("Identity", node.input[:1], node.output[0])
    return not changes


def _is_inference(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> bool:
    if writer.opset < 12:
        return bool(attributes.get("is_test", 1))
    mode = node.input[2] if len(node.input) > 2 else ""
    tensor = writer.types.constants.get(mode)
    if not mode or tensor is None or tensor.data_location == TensorProto.EXTERNAL:
        return not mode
    return not numpy_helper.to_array(tensor).any()


def _pad(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> bool:
    """The plugin refuses the input `axes`, and only Ascend 950 has a kernel for negative pads."""
    if writer.opset < 11:
        return False
    rank, pads = writer.types.ranks.get(node.input[0]), writer.types.numbers(node.input[1])
    has_axes = len(node.input) > 3 and bool(node.input[3])
    axes = writer.types.numbers(node.input[3]) if has_axes else None
    if pads is None or rank is None or (has_axes and axes is None):
        return False
    full = _over_all_axes(pads, axes, rank)
    if not has_axes and min(full, default=0) >= 0:
        return False
    before, after = full[:rank], full[rank:]
    value = node.input[0]
    if cut := [axis for axis in range(rank) if min(before[axis], after[axis]) < 0]:
        if attributes.get("mode", b"constant") != b"constant":
            return False
        result = node.output[0] if max(full) <= 0 else writer.name(f"{node.output[0]}/cut")
        starts = [max(-before[axis], 0) for axis in cut]
        ends = [after[axis] if after[axis] < 0 else _LAST for axis in cut]
        value = writer.slice(value, starts, ends, cut, result)
    if value != node.output[0]:
        widths = writer.vector([max(number, 0) for number in full])
        inputs = [value, widths, *node.input[2:3]]
        writer.change(node, inputs=inputs if inputs[-1] else inputs[:-1])
    return True


def _over_all_axes(pads: Sequence[int], axes: Sequence[int] | None, rank: int) -> list[int]:
    """Return pads of every axis, front and back, from those of `axes`, which may be negative."""
    if axes is None:
        return list(pads)
    full = [0] * (2 * rank)
    for number, axis in enumerate(axes):
        full[axis % rank], full[rank + axis % rank] = pads[number], pads[len(axes) + number]
    return full


def _batch_normalization(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> bool:
    """In training, the plugin drops the momentum: running statistics would become those of the batch.

    With μ and σ² of the batch over all axes but 1: y = (x − μ) / √(σ² + ε) · scale + B, and a running statistic is
    momentum · old + (1 − momentum) · new. Sums are not in onnxruntime's order: results may differ by their rounding.
    """
    x, scale, bias, mean, variance = node.input
    rank = writer.types.ranks.get(x)
    types = {writer.types.elements.get(name) for name in node.input}
    if not attributes.get("training_mode", 0) or rank is None or types != {TensorProto.FLOAT}:
        return False
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
    return True


def _mod(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> bool:
    """GE's remainder has the dividend's sign, ONNX's of integers the divisor's: ((a % b) + b) % b has it in both."""
    element = TensorProto.DataType.Name(writer.types.elements.get(node.input[0], TensorProto.UNDEFINED))
    if attributes.get("fmod", 0) or element.startswith("UINT") or _is_wrapped(node, writer):
        return False
    dividend, divisor = node.input
    remainder, positive = (writer.name(f"{node.output[0]}/{part}") for part in ("remainder", "positive"))
    writer.add("Mod", [dividend, divisor], remainder, fmod=0)
    writer.add("Add", [remainder, divisor], positive)
    writer.add("Mod", [positive, divisor], node.output[0], fmod=0)
    return True


def _is_wrapped(node: NodeProto, writer: Writer) -> bool:
    """Whether a Mod is the first or the second of this rewrite already."""
    sums = [each for each in writer.readers.get(node.output[0], ()) if each.op_type == "Add"]
    lasts = [each for added in sums for each in writer.readers.get(added.output[0], ()) if each.op_type == "Mod"]
    return any(_ends_form(last, writer) for last in (node, *lasts))


def _ends_form(node: NodeProto, writer: Writer) -> bool:
    added = writer.producers.get(node.input[0])
    first = writer.producers.get(added.input[0]) if added is not None and added.op_type == "Add" else None
    if added is None or first is None or first.op_type != "Mod":
        return False
    return added.input[1] == first.input[1] == node.input[1]


def _loss(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> bool:
    """Without ignore_index GE ignores class 0. No label is −1, which is also onnxruntime's default."""
    return "ignore_index" not in attributes and writer.change(node, {"ignore_index": -1})


def _indices(node: NodeProto, _: Mapping[str, Any], writer: Writer) -> bool:
    """GE's indices are int32, those of ArgMin but on Ascend 950, whose type the plugin asks of the device of ATC.

    Of two casts no optimiser of onnxruntime removes one, as it removes a cast of int64 to int64.
    """
    position = 1 if node.op_type == "TopK" else 0
    result = node.output[position] if len(node.output) > position else ""
    if result not in writer.read_with_type:
        return False
    outputs, narrow = list(node.output), writer.name(f"{result}/int32")
    outputs[position] = writer.name(f"{result}/indices")
    writer.change(node, outputs=outputs)
    for name, element in ((outputs[position], TensorProto.INT64), (narrow, TensorProto.INT32)):
        writer.types.learn_as(name, element, result)
    writer.add("Cast", [outputs[position]], narrow, to=TensorProto.INT32)
    writer.add("Cast", [narrow], result, to=TensorProto.INT64)
    return True


def _cast_like(node: NodeProto, _: Mapping[str, Any], writer: Writer) -> bool:
    """The plugin makes an operator of GE that no open repository defines."""
    element = writer.types.elements.get(node.input[1])
    if element is not None:
        writer.add("Cast", node.input[:1], node.output[0], to=element)
    return element is not None


def _transpose(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> bool:
    """The plugin needs the axes; without them ONNX reverses their order. A scalar has none."""
    rank = writer.types.ranks.get(node.input[0])
    if "perm" in attributes or rank is None:
        return False
    if rank == 0:
        writer.add("Identity", node.input[:1], node.output[0])
        return True
    return writer.change(node, {"perm": list(reversed(range(rank)))})


def _scatter_nd(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> bool:
    """Two libraries of CANN register ScatterND, of which one drops the reduction; ScatterElements keeps it.

    With data as rows (K, S), one for each position that an index tuple can have, the tuple (i₀ … iₖ₋₁) is row
    Σ iₐ · strideₐ. The order of the updates stays.
    """
    reduction = attributes.get("reduction", b"none")
    data, indices, updates = node.input
    sizes, last = writer.types.sizes(data), (writer.types.shapes.get(indices) or (None,))[-1]
    if reduction == b"none" or sizes is None or not isinstance(last, int) or 0 in sizes:
        return False
    result, element = node.output[0], writer.types.elements.get(data)
    outer, inner = sizes[:last], math.prod(sizes[last:])
    strides = [math.prod(outer[axis + 1 :]) for axis in range(last)]

    def new(part: str) -> str:
        return writer.name(f"{result}/{part}")

    zero, extents = writer.vector([0]), writer.vector(outer)
    wrapped = writer.add("Add", [indices, extents], new("wrapped"))
    negative = writer.add("Less", [indices, zero], new("is_negative"))
    positions = writer.add("Where", [negative, wrapped, indices], new("positions"))
    terms = writer.add("Mul", [positions, writer.vector(strides)], new("terms"))
    rows = writer.reduce("ReduceSum", terms, [-1], new("rows"))
    column = writer.reshape(rows, [-1, 1], new("column"))
    flat_updates = writer.reshape(updates, [-1, inner], new("updates"))
    known, given = writer.types.sizes(indices), writer.types.sizes(updates)
    if known is not None:
        shape = writer.vector([math.prod(known[:-1]), inner])
    elif given is not None:
        shape = writer.vector([math.prod(given) // inner, inner])
    else:
        shape = writer.add("Shape", [flat_updates], new("shape"))
    spread = writer.add("Expand", [column, shape], new("indices"))
    flat = writer.reshape(data, [math.prod(outer), inner], new("data"))
    writer.types.learn(flat, element, (math.prod(outer), inner))
    added = writer.add("ScatterElements", [flat, spread, flat_updates], new("flat"), axis=0, reduction=reduction)
    writer.reshape(added, sizes, result)
    return True


def _in_parts(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> bool:
    """‖x‖₁ = Σ|x|, ‖x‖₂ = √Σx² and ln Σx: GE lacks these reductions from some opset on. In 16 bits Σx² overflows."""
    value, result, element = node.input[0], node.output[0], writer.types.elements.get(node.input[0])
    keeps_all = attributes.get("noop_with_empty_axes", 0) and not any(node.input[1:])
    first, second, opset = _PARTS[node.op_type]
    if writer.opset < opset or element not in (TensorProto.FLOAT, TensorProto.DOUBLE) or keeps_all:
        return False
    axes = attributes.get("axes")  # before opset 18
    kept = {name: value for name, value in attributes.items() if name != "axes"}
    others = node.input[1:] if axes is None else [writer.vector(axes)]
    inner = writer.name(f"{result}/{first}")
    writer.types.learn_as(inner, element, value if first == "Abs" else result)
    for op_type, operand, output in ((first, value, inner), (second, inner, result)):
        reduces = op_type.startswith("Reduce")
        writer.add(op_type, [operand, *(others if reduces else ())], output, **(kept if reduces else {}))
    return True


def _hard_swish(node: NodeProto, _: Mapping[str, Any], writer: Writer) -> bool:
    """The plugin makes an operator of GE that no open repository defines. It is x · max(0, min(1, x / 6 + 1 / 2))."""
    value, result = node.input[0], node.output[0]
    slope = writer.add("HardSigmoid", [value], writer.name(f"{result}/slope"), alpha=1 / 6, beta=0.5)
    writer.types.learn_as(slope, writer.types.elements.get(value, TensorProto.UNDEFINED), result)
    writer.add("Mul", [value, slope], result)
    return True


_REWRITES_OF_CUT_GRAPHS: dict[str, Rewrite] = {
    **dict.fromkeys(SHAPE_OPERANDS, write_numbers),
    "IsInf": _is_inf,
    "IsNaN": _is_nan,
    **dict.fromkeys(("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"), _random),
}

_REWRITES: dict[str, Rewrite] = {
    **dict.fromkeys(("ArgMin", "TopK"), _indices),
    **dict.fromkeys(("AveragePool", "MaxPool"), _pool),
    "BatchNormalization": _batch_normalization,
    "CastLike": _cast_like,
    **dict.fromkeys(("Clip", "Dropout"), _identity),
    "Constant": _constant,
    **dict.fromkeys(("Conv", "ConvTranspose"), _convolution),
    "Gemm": _gemm,
    "GlobalMaxPool": _global_max_pool,
    "HardSwish": _hard_swish,
    **dict.fromkeys(("LogSoftmax", "Softmax"), _softmax),
    "Mod": _mod,
    "Pad": _pad,
    **dict.fromkeys(_PARTS, _in_parts),
    "ScatterND": _scatter_nd,
    "Shape": _shape,
    "Slice": write_plane_starts,
    "Sub": write_positions,
    "SoftmaxCrossEntropyLoss": _loss,
    "Transpose": _transpose,
}
