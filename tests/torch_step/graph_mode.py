# SPDX-License-Identifier: Apache-2.0

"""What onnxruntime's CANN provider takes in graph mode, and what GE's ONNX parser then reads as ONNX means it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import NodeProto, TensorProto, numpy_helper

OPERATORS = frozenset(
    """
    Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization BitShift Cast Ceil
    Celu Clip Compress Concat Constant ConstantOfShape Conv ConvTranspose Cos Cosh CumSum DepthToSpace Div Elu Equal
    Erf Exp Expand EyeLike Flatten Floor Gather GatherElements GatherND Gemm GlobalAveragePool GlobalLpPool
    GlobalMaxPool Greater GreaterOrEqual Hardmax HardSigmoid Identity InstanceNormalization LeakyRelu Less
    LessOrEqual Log LogSoftmax LpNormalization LpPool LRN LSTM MatMul Max MaxPool MaxRoiPool MaxUnpool Mean
    MeanVarianceNormalization Min Mod Mul Multinomial Neg NonMaxSuppression NonZero Not OneHot Or Pad Pow PRelu
    RandomNormalLike RandomUniform RandomUniformLike Range Reciprocal ReduceL1 ReduceL2 ReduceLogSumExp ReduceMax
    ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize ReverseSequence RoiAlign Round
    Scatter ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign Sin Sinh Size Slice Softmax
    SoftmaxCrossEntropyLoss Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum Tanh TfIdfVectorizer
    ThresholdedRelu Tile TopK Transpose Unsqueeze Where Xor
    """.split()  # noqa: SIM905 - as a list it has 150 lines
)
"""The provider's list but Det, Dropout, HardSwish and ReduceLogSum, of which GE has no open prototype."""

SHAPES = {"ConstantOfShape": 0, "Expand": 1, "Reshape": 1}
"""The operands that are shapes, which GE has to know."""


@dataclass(frozen=True)
class Known:
    """A node with its attributes, and the constants among its inputs (None for others)."""

    node: NodeProto
    attributes: dict[str, Any]
    constants: list[TensorProto | None]


FAULTS: dict[str, Callable[[Known], bool]] = {
    "is not taken": lambda known: known.node.op_type not in OPERATORS,
    "has a computed shape": lambda known: (
        known.node.op_type in SHAPES and known.constants[SHAPES[known.node.op_type]] is None
    ),
    "of constants is not taken": lambda known: known.node.op_type.startswith("Random") and all(known.constants),
    "without value is read as an empty scalar": lambda known: (
        known.node.op_type == "Constant" and "value" not in known.attributes
    ),
    "loses its bounds": lambda known: (
        known.node.op_type == "Shape" and (bool(known.attributes.get("start")) or "end" in known.attributes)
    ),
    "without kernel_shape is refused": lambda known: (
        known.node.op_type.startswith("Conv") and "kernel_shape" not in known.attributes
    ),
    "with SAME_LOWER is read as SAME_UPPER": lambda known: known.attributes.get("auto_pad", b"")[:4] == b"SAME",
    "with axes is refused": lambda known: known.node.op_type == "Pad" and len(known.node.input) > 3,
    "with negative pads has a kernel on Ascend 950 alone": lambda known: (
        known.node.op_type == "Pad" and bool((numpy_helper.to_array(known.constants[1]) < 0).any())
    ),
    "without bounds is refused": lambda known: known.node.op_type == "Clip" and not any(known.node.input[1:]),
    "without C loses alpha": lambda known: (
        known.node.op_type == "Gemm" and len(known.node.input) == 2 and known.attributes.get("alpha", 1) != 1
    ),
    "loses momentum": lambda known: bool(known.attributes.get("training_mode")),
    "may lose its reduction": lambda known: (
        known.node.op_type == "ScatterND" and known.attributes.get("reduction", b"none") != b"none"
    ),
    "with select_last_index is refused": lambda known: bool(known.attributes.get("select_last_index")),
    "loses fmod": lambda known: bool(known.attributes.get("fmod")),
}
"""What is not taken, refused, or read otherwise, as the end of a sentence about the node."""


def faults(model: onnx.ModelProto) -> list[str]:
    """Return the faults of an exported step beside the operators of the dialect, one sentence each."""
    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    constants |= {
        node.output[0]: attribute.t for node in graph.node if node.op_type == "Constant" for attribute in node.attribute
    }
    found = [fault for node in graph.node if not node.domain for fault in _of_node(node, constants)]
    times = Counter(node.name for node in graph.node)
    values = {value.name for value in graph.input} | {name for node in graph.node for name in node.output}
    found += [f"the node name {name!r} is used {count} times" for name, count in times.items() if count > 1 or not name]
    others = [node.name for node in graph.node if node.name in values and node.name not in node.output]
    found += [f"{name} is a node and the value of another one" for name in others]
    declared = (*graph.input, *graph.output, *graph.value_info)
    doubles = [value.name for value in declared if value.type.tensor_type.elem_type == TensorProto.DOUBLE]
    doubles += [name for name, tensor in constants.items() if tensor.data_type == TensorProto.DOUBLE]
    return found + [f"{name} is float64" for name in doubles]


def _of_node(node: NodeProto, constants: dict[str, TensorProto]) -> Iterator[str]:
    attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    known = Known(node, attributes, [constants.get(name) for name in node.input])
    yield from (f"{node.op_type} '{node.name}' {fault}" for fault, has in FAULTS.items() if has(known))
