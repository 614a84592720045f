"""TensorFlow's `MaxPoolGrad` and `MaxPool3DGrad` as tf2onnx leaves them: dx = MaxPoolGrad(x, y, dy).

tf2onnx converts the forward pool to a MaxPool between two Transposes, has nothing for the gradient and writes
TensorFlow's node into the model, which no ONNX runtime loads. The name and the domain are those of onnxruntime
training's operator; three inputs tell them apart. The node computes the maxima again from x and y; lowered, it takes
the Indices of the MaxPool that made y, if x is that MaxPool's input and the windows are the same. Among equal maxima
both take the first one. A MaxPool that has no Indices output gets one. onnxruntime's MaxPool with Indices treats NaN
(and windows of nothing but −inf) in another way than the one without; for other values y keeps its bits.
"""

from __future__ import annotations

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.diagnostics.codes import Code, Refuse
from poolgrad_lowering.gradient import Pattern, PoolGradient
from poolgrad_lowering.ir.scopes import Node, Value
from poolgrad_lowering.matching.layout import Arranged, arranged
from poolgrad_lowering.matching.tensorflow import DOMAINS, GradientOperator, gradient_operator, tensorflow_gradient


def match(facts: Facts, node: Node) -> PoolGradient | None:
    """The gradient that one of TensorFlow's nodes computes, or why it is not one that can be lowered.

    None for onnxruntime training's MaxPoolGrad, which has two inputs, and for a call of the model's own function.
    """
    if len(node.inputs) != 3 or facts.is_function(node):
        return None
    x, pooled, grad = node.input(0), node.input(1), node.input(2)
    if x is None or pooled is None or grad is None:
        raise Refuse(Code.ARITY, "{} '{}' lacks an input", node.proto.op_type, node.label)
    operator = gradient_operator(node)
    pool = _pool_of(pooled, operator)
    if pool is None:
        raise Refuse(Code.NO_FORWARD_POOL, "'{}' is not the output of a MaxPool", pooled.name)
    return tensorflow_gradient(facts, operator, pool, x, grad)


def _pool_of(pooled: Value, operator: GradientOperator) -> Node | None:
    """The MaxPool whose output, in the operator's layout, `pooled` is."""
    behind = arranged(pooled, len(operator.from_second))
    pool = behind.value.producer
    if pool is None or not pool.is_a("MaxPool") or behind.value != pool.output(0):
        return None
    return pool if behind == Arranged(behind.value, tuple(operator.from_second)) else None


PATTERN = Pattern(
    name="tensorflow_max_pool_grad",
    anchors=tuple((domain, op_type) for domain in DOMAINS for op_type in ("MaxPoolGrad", "MaxPool3DGrad")),
    summary="TensorFlow through tf2onnx: MaxPoolGrad and MaxPool3DGrad (x, y, dy) with the MaxPool that made y",
    match=match,
    priority=20,
)
