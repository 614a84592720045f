# SPDX-License-Identifier: Apache-2.0

"""What CANN's graph engine (GE) knows: operators with ATC plugins, the dialect's prototypes, and those of graph mode.

`operators.json` is the table of the plugins that CANN's operator repositories register for ONNX. The plugin of this
package registers the operators of domain `npu`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from onnx import NodeProto

from poolgrad_lowering.dialect import DOMAIN, OPS
from poolgrad_lowering.dialect.targets import Target
from poolgrad_lowering.model.ir.graphs import is_standard
from poolgrad_lowering.model.ir.scopes import canonical_domain

OPSETS = range(8, 19)
"""The versions of ONNX's operators for which GE has plugins."""

WITHOUT_PROTOTYPE = {
    **dict.fromkeys(("CastLike", "ConcatFromSequence", "Det", "Dropout", "HardSwish", "SequenceAt"), 8),
    **dict.fromkeys(("SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength"), 8),
    "SplitToSequence": 8,
    "ReduceLogSum": 13,
}
"""Operators whose plugin makes an operator of GE which no open repository of CANN defines, and since which opset."""

PROTOTYPES = {name: op.prototype for name, op in OPS.items() if op.prototype is not None}
"""The operators of the dialect that GE has."""


def takes_layout(operator: str, target: Target) -> bool:
    """Whether a graph for the target takes an operator of the dialect with channels first."""
    chips = PROTOTYPES[operator].chips
    return chips is None or target.chip in chips


@lru_cache(maxsize=1 << 10)
def is_registered(domain: str, op_type: str, version: int) -> bool:
    """Whether ATC knows the operator `op_type` of a domain ("" is ONNX's) that the model imports in this version."""
    is_of_parser = (domain, op_type) == ("", "Constant") or (domain == DOMAIN and op_type in PROTOTYPES)
    return is_of_parser or version in _versions().get((domain, op_type), ())


def without_layout(target: Target) -> list[str]:
    """Return the operators of the dialect that a graph for the target does not take with channels first."""
    return [name for name in PROTOTYPES if not takes_layout(name, target)]


def least_release(operators: Iterable[str], target: Target) -> str:
    """Return the oldest CANN release that has these operators of the dialect and knows the target."""
    return max(
        [target.cann, *(PROTOTYPES[name].since for name in operators)],
        key=lambda release: [int(number) for number in release.split(".")],
    )


@lru_cache
def _versions() -> dict[tuple[str, str], frozenset[int]]:
    table = json.loads((Path(__file__).parent / "operators.json").read_text(encoding="utf-8"))
    return {
        (canonical_domain(domain), op_type): frozenset(
            number
            for first, last in re.findall(r"(\d+)-?(\d*)", text)  # ranges such as "8,12-18"
            for number in range(int(first), int(last or first) + 1)
        )
        for domain, operators in table["domains"].items()
        for op_type, text in operators.items()
    }


_TAKEN = frozenset(
    """
    Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization BitShift Cast Ceil
    Celu Clip Compress Concat Constant ConstantOfShape Conv ConvTranspose Cos Cosh CumSum DepthToSpace Det Div
    Dropout Elu Equal Erf Exp Expand EyeLike Flatten Floor Gather GatherElements GatherND Gemm GlobalAveragePool
    GlobalLpPool GlobalMaxPool Greater GreaterOrEqual Hardmax HardSigmoid HardSwish Identity InstanceNormalization
    LeakyRelu Less LessOrEqual Log LogSoftmax LpNormalization LpPool LRN LSTM MatMul Max MaxPool MaxRoiPool
    MaxUnpool Mean MeanVarianceNormalization Min Mod Mul Multinomial Neg NonMaxSuppression NonZero Not OneHot Or Pad
    Pow PRelu RandomNormalLike RandomUniform RandomUniformLike Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum
    ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize
    ReverseSequence RoiAlign Round Scatter ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign Sin Sinh Size
    Slice Softmax SoftmaxCrossEntropyLoss Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum Tanh
    TfIdfVectorizer ThresholdedRelu Tile TopK Transpose Unsqueeze Where Xor
    """.split()  # noqa: SIM905 - as a list it has many lines
)
"""The operators of ONNX that onnxruntime's CANN provider takes in graph mode.

Source: `SupportONNXModel` of onnxruntime-cann 1.24.4. It looks at nothing but the operator, ONNX's domain, and that an
operand is no constant.
"""


def is_taken(node: NodeProto) -> bool:
    """Whether the provider takes a node with this operator, if an operand is no constant."""
    return is_standard(node) and node.op_type in _TAKEN
