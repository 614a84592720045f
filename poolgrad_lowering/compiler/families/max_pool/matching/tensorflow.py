# SPDX-License-Identifier: Apache-2.0

"""The gradient that one of TensorFlow's max-pool operators computes, with the ONNX MaxPool that is its forward.

These operators have the pool's windows as attributes and compute the maxima again from x. A lowered node takes the
Indices of the MaxPool that the converter wrote for the same pool: it must pool the same tensor with the same windows.
"""

from __future__ import annotations

from poolgrad_lowering.compiler.analysis.provenance import Numbering
from poolgrad_lowering.compiler.families.gradient import Operand, View
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.max_pool.matching.forward import ForwardPool, forward_pool
from poolgrad_lowering.compiler.families.shared.matching import GradientOperator, arranged
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.scopes import Node, Value

_FIRST_WITH_INDICES = 8
"""The opset from which ONNX's MaxPool has its second output."""


def tensorflow_gradient(facts: Facts, operator: GradientOperator, pool: Node, x: Value, grad: Value) -> MaxPoolGradient:
    """The gradient of a MaxPool that an operator computes from x and the incoming gradient, in its own layout."""
    node, dx = operator.node, operator.node.output(0)
    if dx is None:
        raise Refuse(Code.ARITY, "{} '{}' has no output", node.proto.op_type, node.label)
    if pool.scope.opset < _FIRST_WITH_INDICES:
        raise Refuse(Code.OPSET, "MaxPool '{}' has no Indices below opset {}", pool.label, _FIRST_WITH_INDICES)
    forward = forward_pool(facts, pool)
    _check_windows(operator, forward)
    rank = len(forward.x_shape)
    if arranged(forward.x, rank) != arranged(x, rank).transposed(operator.to_second):
        order = "channels-last order" if operator.channels_last else "the same order"
        raise Refuse(Code.NO_FORWARD_POOL, "MaxPool '{}' is not over '{}' in {}", pool.label, x.name, order)
    recorded, view = pool.output(1), View.CHANNELS_LAST if operator.channels_last else View.SAME
    argmax = None if recorded is None else Operand(recorded)
    return forward.gradient(Operand(grad, view), argmax, Operand(dx, view), Numbering.TENSOR)


def _check_windows(operator: GradientOperator, forward: ForwardPool) -> None:
    """The MaxPool has the operator's windows, whether its pads are written out or left to `auto_pad`."""
    mine, its = operator.windows, forward.attributes
    if mine == its:
        return
    if len(mine.kernel) == len(its.kernel) and not its.ceil:
        axes = enumerate(forward.x_shape[2:])
        windows = [(mine.axis(number, extent), its.axis(number, extent)) for number, extent in axes]
        if all(own is not None and own == other for own, other in windows):
            return
    what = "the windows of {} '{}' are not proven to be those of MaxPool '{}'"
    raise Refuse(Code.ATTRIBUTE_MISMATCH, what, operator.node.proto.op_type, operator.node.label, forward.node.label)
