# SPDX-License-Identifier: Apache-2.0

"""`dx[n, c].flat[p(n, c, o)] += dy[n, c, o]`, p the position of the first maximum in window o of plane (n, c).

Graph: TensorFlow's `MaxPoolGrad`, `MaxPoolGradV2` or `MaxPool3DGrad`, which tf2onnx cannot convert and leaves in the
model.

    y = Transpose(MaxPool(Transpose(x)))                 # by tf2onnx, from NHWC to NCHW and back
    dx = MaxPoolGrad(x, y, dy)                           # or MaxPoolGradV2(x, y, dy, ksize, strides)

Three inputs tell it from onnxruntime training's operator of the same name and domain. It computes the maxima again
from x and y; lowered, it takes the Indices of the MaxPool that made y, which gets that output if it has none.

What must hold: y is the output of a MaxPool over x with the same windows, in the layout of the operator. Both take the
first of equal maxima. onnxruntime's MaxPool with Indices treats NaN, and windows of nothing but −inf, otherwise than
the one without; for other values y keeps its bits.
"""

from __future__ import annotations

from poolgrad_lowering.compiler.families.gradient import form
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.max_pool.matching.backward_ops import tensorflow_gradient
from poolgrad_lowering.compiler.families.shared.matching import arranged, gradient_operator
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.producers import TENSORFLOW_DOMAINS
from poolgrad_lowering.model.ir.scopes import Node

_INPUTS = {"MaxPoolGrad": 3, "MaxPoolGradV2": 5, "MaxPool3DGrad": 3}
"""The operators, and how many inputs each one has."""


@form(
    *((domain, op_type) for domain in TENSORFLOW_DOMAINS for op_type in _INPUTS),
    summary="TensorFlow through tf2onnx: MaxPoolGrad, MaxPoolGradV2 and MaxPool3DGrad with the MaxPool that made y",
    priority=20,
)
def match(facts: Facts, node: Node) -> MaxPoolGradient | None:
    """The gradient that one of TensorFlow's nodes computes; raises `Refuse` where it cannot be lowered.

    None for onnxruntime training's MaxPoolGrad, which has two inputs, and for a call of the model's own function.
    """
    if len(node.inputs) != _INPUTS[node.op[1]] or facts.is_function(node):
        return None
    x, pooled, grad = node.input(0), node.input(1), node.input(2)
    if x is None or pooled is None or grad is None:
        raise Refuse(Code.ARITY, "{} '{}' lacks an input", node.proto.op_type, node.label)
    operator = gradient_operator(facts, node)
    behind = arranged(pooled, len(operator.to_second)).transposed(operator.to_second)
    pool = behind.value.producer
    is_in_order = behind.axes == tuple(range(len(behind.axes)))
    is_its_output = pool is not None and behind.value == pool.output(0) and is_in_order
    if pool is None or not pool.is_a("MaxPool") or not is_its_output:
        raise Refuse(Code.NO_FORWARD_POOL, "'{}' is not the output of a MaxPool", pooled.name)
    return tensorflow_gradient(facts, operator, pool, x, grad)
