# SPDX-License-Identifier: Apache-2.0

"""What CANN documents of the operators that GE makes of ONNX's: element types, ranks and windows.

GE's parser looks at none of this; the operator library does when the graph is built, with the shapes of that build. The
stand-in for graph mode refuses what is outside of what the sources document, though a device may take some of it.

Sources, of the same commits as `plugin_table.py`: the prototypes that CANN registers (`*_proto.h` of ops-nn and
ops-math, `common/inc/op_graph/`), where a prototype and the README or the operator's definition (`*_def.cpp`) name
different element types all that one of them names; the prototype of Conv2D is that of the releases, whose kernels have
255 elements along an axis instead of the 511 of the newest source. An operator or a rank without a row is documented
nowhere in them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx
from onnx import ModelProto, NodeProto, TensorProto, shape_inference

from tests.harness.ge import faults
from tests.harness.ge.faults import GeError
from tests.harness.ge.plugin_rules import Context, Node
from tests.harness.ge.prototypes import Soc

_NEW = "ascend950"
_VOLUME = 3
"""The axes of a window with depth, height and width."""


def _types(names: str) -> frozenset[int]:
    return frozenset(TensorProto.DataType.Value(name.upper()) for name in names.split())


_REAL = "float16 float bfloat16"
_WIDE = f"{_REAL} double"
_SMALL = "int8 int32 int64 uint8"
_SIGNED = "int8 int16 int32 int64"
_INTEGERS = f"{_SIGNED} uint8 uint16 uint32 uint64"

_ELEMENTS: Mapping[str, frozenset[int]] = {
    operator: _types(types)
    for types, operators in {
        _WIDE: "Acosh Asinh Atan Atanh AveragePool Ceil Cos Cosh Elu Erf Exp Floor IsInf IsNaN LeakyRelu LogSoftmax "
        "Reciprocal Sigmoid Sin Sinh Softmax SoftmaxCrossEntropyLoss Softplus Softsign Sqrt Tanh",
        _REAL: "BatchNormalization ConvTranspose GlobalLpPool InstanceNormalization LayerNormalization PRelu "
        "ReduceLogSumExp ReduceSumSquare",
        f"{_REAL} int8": "Conv",
        f"{_REAL} int8 int32": "Gemm MatMul",
        f"{_REAL} int32": "HardSigmoid",
        f"{_REAL} int8 int32 int64 uint8 bool": "Expand",
        "float16 float": "Celu GRU Hardmax LRN LSTM MeanVarianceNormalization Shrink",
        "float16 float int32": "Einsum",
        "float16 float int8 int32 uint8": "Mean Sum",
        "float16 float double": "GlobalAveragePool",
        f"float16 float double {_SIGNED} uint8 uint16": "Resize",
        f"{_WIDE} int32": "Tan",
        f"{_WIDE} int32 int64": "Acos Asin Range Round",
        f"{_WIDE} int8 int32": "Selu",
        f"{_WIDE} int8 int32 int64": "Neg",
        f"{_WIDE} {_SMALL}": "Max Min Mod",
        f"{_WIDE} {_SIGNED} uint8": "Pow",
        f"{_WIDE} {_SIGNED} uint8 bool": "Abs Add Equal Log",
        f"{_WIDE} {_SIGNED} uint8 uint16": "Clip MaxPool Relu",
        f"{_WIDE} {_SIGNED} uint8 uint16 bool": "Div Mul Sub",
        f"{_WIDE} {_INTEGERS}": "ArgMax ArgMin CumSum DepthToSpace GlobalMaxPool Greater GreaterOrEqual Less "
        "LessOrEqual ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ScatterElements Sign SpaceToDepth TopK",
    }.items()
    for operator in operators.split()
}
"""The element types of the first operand. Operators without a row have all types that ONNX gives them."""

_SCALE = _types("float")
"""Of the other operands of BatchNormalization: GE's BatchNorm has statistics and factors of float32 only."""

_RANKS: Mapping[str, range] = {
    operator: ranks
    for ranks, operators in {
        range(9): "Abs Acosh ArgMax Asinh Atan Atanh Cast ConstantOfShape Elu Expand Floor HardSigmoid IsNaN LeakyRelu "
        "Mod Neg OneHot Pad ReduceLogSumExp ReduceMean ReduceSum Relu Selu Slice Softmax Softplus Softsign Transpose "
        "Trilu",
        range(1, 7): "MatMul",
    }.items()
    for operator in operators.split()
}
"""The ranks of operands and results. MatMul is BatchMatMulV2, of two to six axes; vectors are not counted here."""


@dataclass(frozen=True)
class Windows:
    """The largest numbers of windows along an axis; the depth of three axes is free unless `has_depth`.

    `elements` is the largest number of elements of a window over all axes.
    """

    operator: str
    kernel: int | None = None
    strides: int | None = 63
    pads: int | None = None
    dilations: int | None = None
    elements: int | None = None
    has_depth: bool = False


def _windows(operator: str, axes: int, soc: Soc) -> Windows | None:
    if operator == "Conv":
        kernel = 511 if axes == _VOLUME and soc != _NEW else 255
        return Windows("Conv3D" if axes == _VOLUME else "Conv2D", kernel=kernel, pads=255, dilations=255)
    if operator == "ConvTranspose" and axes == _VOLUME:
        return Windows("Conv3DTranspose", kernel=511, strides=None, pads=255)
    if operator == "ConvTranspose":
        return Windows("Conv2DTranspose", kernel=255, pads=255, dilations=255)
    if operator == "AveragePool" and axes < _VOLUME:
        return Windows("AvgPoolV2", kernel=255, elements=255)
    if axes == _VOLUME and soc != _NEW:  # a 2-D MaxPool with large windows is one on the device's CPU: plugin_table.py
        return Windows("AvgPool3D" if operator == "AveragePool" else "MaxPool3D", elements=255, has_depth=True)
    return None


@dataclass(frozen=True)
class _Values:
    """What is known of the values of a model with the shapes of a build."""

    shapes: Mapping[str, Sequence[int]]
    elements: Mapping[str, int]
    constants: Mapping[str, TensorProto]


def check_kernels(model: ModelProto, context: Context) -> None:
    """Check the standard nodes of a model whose inputs have the shapes of the build.

    Raises:
        GeError: one is outside of what CANN documents.
    """
    values = _values(model)
    for proto in model.graph.node:
        if not proto.domain:
            _check_types(proto, values, context)
            for check in (_check_ranks, _check_windows, _check_layout, _check_pads):
                for reason in check(Node(proto), values, context):
                    raise GeError.of(faults.OPERATOR_INNER, f"{proto.name} ({proto.op_type}): {reason}")


def _values(model: ModelProto) -> _Values:
    inferred = shape_inference.infer_shapes(model, data_prop=True).graph
    tensors = [*inferred.input, *inferred.value_info, *inferred.output]
    shapes = {
        value.name: [dim.dim_value if dim.HasField("dim_value") else -1 for dim in value.type.tensor_type.shape.dim]
        for value in tensors
        if value.type.tensor_type.HasField("shape")
    }
    elements = {value.name: value.type.tensor_type.elem_type for value in tensors}
    for tensor in inferred.initializer:
        shapes[tensor.name], elements[tensor.name] = list(tensor.dims), tensor.data_type
    return _Values(shapes, elements, {tensor.name: tensor for tensor in inferred.initializer})


# -- element types


def _check_types(node: NodeProto, values: _Values, context: Context) -> None:
    for name, taken in _typed_operands(node, values, context):
        element = values.elements.get(name, TensorProto.UNDEFINED)
        if element and element not in taken:
            what = TensorProto.DataType.Name(element).lower()
            raise GeError.of(faults.NO_KERNEL, f"{node.name} ({node.op_type}): no kernel for '{name}' of type {what}")


def _typed_operands(node: NodeProto, values: _Values, context: Context) -> Iterator[tuple[str, frozenset[int]]]:
    taken = _ELEMENTS.get(node.op_type)
    rank = len(values.shapes.get(node.input[0], ())) if node.input else 0
    if node.op_type == "MaxPool" and rank == 5:  # the MaxPool3D of Atlas A2 and A3 has no bfloat16 either
        taken = _types(_REAL if context.soc == _NEW else "float16 float")
    if node.op_type == "AveragePool" and rank == 5:
        taken = _types(_REAL)
    if node.op_type == "Resize" and Node(node).attributes.get("mode", b"nearest") == b"nearest":
        taken = _types(f"{_WIDE} {_SIGNED} uint8 uint16")
    if taken:
        yield node.input[0], taken
    if node.op_type == "BatchNormalization":
        yield from ((name, _SCALE) for name in node.input[1:])


# -- ranks, windows, pads


def _check_ranks(node: Node, values: _Values, _: Context) -> Iterator[str]:
    ranks = _RANKS.get(node.proto.op_type)
    for name in (*node.proto.input, *node.proto.output) if ranks else ():
        if name in values.shapes and ranks and len(values.shapes[name]) not in ranks:
            yield f"'{name}' has {len(values.shapes[name])} axes, {ranks[-1]} at most are documented"


def _check_windows(node: Node, values: _Values, context: Context) -> Iterator[str]:
    operator, attributes = node.proto.op_type, node.attributes
    if operator not in ("Conv", "ConvTranspose", "AveragePool", "MaxPool"):
        return
    weight = values.shapes.get(node.proto.input[1], ()) if "Conv" in operator else ()
    kernel = attributes.get("kernel_shape") or list(weight[2:])
    if not (limits := _windows(operator, len(kernel), context.soc)):
        return
    if limits.elements is not None and math.prod(kernel) > limits.elements:
        yield f"a window of {math.prod(kernel)} elements, {limits.operator} documents {limits.elements} at most"
    given = {name: attributes.get(name, ()) for name in ("strides", "pads", "dilations")}
    for name, numbers in {"kernel": kernel, **given}.items():
        largest = getattr(limits, name)
        flat = [
            number for at, number in enumerate(numbers) if limits.has_depth or len(kernel) < _VOLUME or at % _VOLUME
        ]
        if largest is not None and max(flat, default=0) > largest:
            yield f"{name} {list(numbers)}, {limits.operator} documents {largest} at most"
    other = [*(number - 1 for number in given["dilations"]), *attributes.get("output_padding", ())]
    if limits.operator == "Conv3DTranspose" and any(other):
        yield f"dilations or output_padding, which {limits.operator} does not have in a graph"


def _check_layout(node: Node, values: _Values, _: Context) -> Iterator[str]:
    """Check a convolution over three axes, whose plugin takes the layout from other attributes than kernel_shape."""
    lengths = {"strides": _VOLUME, "dilations": _VOLUME, "pads": 2 * _VOLUME}
    is_volume = node.proto.op_type == "Conv" and len(values.shapes.get(node.proto.input[0], ())) == 2 + _VOLUME
    if is_volume and not any(len(node.attributes.get(name, ())) == length for name, length in lengths.items()):
        yield f"none of {list(lengths)}, so its data_format is NCHW; Conv3D documents NCDHW and NDHWC"


def _check_pads(node: Node, values: _Values, context: Context) -> Iterator[str]:
    """Check Pad: the kernel of Atlas A2 and A3 gets no negative pads from aclnn either, which cuts by a slice."""
    if node.proto.op_type != "Pad" or context.soc == _NEW:
        return
    given = values.constants.get(node.proto.input[1]) if len(node.proto.input) > 1 else None
    pads = node.attributes.get("pads", ()) if given is None else onnx.numpy_helper.to_array(given).tolist()
    if min(pads, default=0) < 0:
        yield f"negative pads {list(pads)}: only Ascend 950 has a kernel for them"
