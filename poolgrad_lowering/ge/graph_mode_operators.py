# SPDX-License-Identifier: Apache-2.0

"""The operators of ONNX that onnxruntime's CANN provider takes in graph mode (onnxruntime-cann 1.24.4, `SupportONNXModel`).

It looks at nothing but the operator, ONNX's domain, and that an operand is no constant.
"""

from __future__ import annotations

from onnx import NodeProto

TAKEN = frozenset(
    """
    Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization BitShift Cast Ceil Celu
    Clip Compress Concat Constant ConstantOfShape Conv ConvTranspose Cos Cosh CumSum DepthToSpace Det Div Dropout Elu
    Equal Erf Exp Expand EyeLike Flatten Floor Gather GatherElements GatherND Gemm GlobalAveragePool GlobalLpPool
    GlobalMaxPool Greater GreaterOrEqual Hardmax HardSigmoid HardSwish Identity InstanceNormalization LeakyRelu Less
    LessOrEqual Log LogSoftmax LpNormalization LpPool LRN LSTM MatMul Max MaxPool MaxRoiPool MaxUnpool Mean
    MeanVarianceNormalization Min Mod Mul Multinomial Neg NonMaxSuppression NonZero Not OneHot Or Pad Pow PRelu
    RandomNormalLike RandomUniform RandomUniformLike Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp
    ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize ReverseSequence RoiAlign
    Round Scatter ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign Sin Sinh Size Slice Softmax
    SoftmaxCrossEntropyLoss Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum Tanh TfIdfVectorizer
    ThresholdedRelu Tile TopK Transpose Unsqueeze Where Xor
    """.split()
)


def is_taken(node: NodeProto) -> bool:
    """Whether the provider takes a node with this operator, if an operand is no constant."""
    return node.domain in ("", "ai.onnx") and node.op_type in TAKEN
