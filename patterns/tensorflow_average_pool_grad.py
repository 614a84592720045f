# SPDX-License-Identifier: Apache-2.0

"""`dx[n, c][window o] += dy[n, c, o] / (the elements of window o that are in x)`.

Graph: TensorFlow's `AvgPoolGrad` or `AvgPool3DGrad`, which tf2onnx cannot convert and leaves in the model.

    dx = AvgPoolGrad(orig_input_shape, dy)

What must hold: the attributes are those of TensorFlow's operator, and orig_input_shape, in the operator's layout, is
known. TensorFlow never counts the padding.
"""

from __future__ import annotations

from poolgrad_lowering.compiler.families.avg_pool.gradient import AveragePoolGradient
from poolgrad_lowering.compiler.families.avg_pool.matching.planes import pooled_shape
from poolgrad_lowering.compiler.families.gradient import Operand, View, form
from poolgrad_lowering.compiler.families.shared.checks import known_element_type
from poolgrad_lowering.compiler.families.shared.matching import gradient_operator
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.dims import Shown
from poolgrad_lowering.model.ir.producers import TENSORFLOW_DOMAINS
from poolgrad_lowering.model.ir.scopes import Node

_OPERATORS = ("AvgPoolGrad", "AvgPool3DGrad")


@form(
    *((domain, op_type) for domain in TENSORFLOW_DOMAINS for op_type in _OPERATORS),
    summary="TensorFlow through tf2onnx: AvgPoolGrad and AvgPool3DGrad with the shape of x",
    priority=20,
)
def match(facts: Facts, node: Node) -> AveragePoolGradient | None:
    """The gradient that the node computes; raises `Refuse` where it cannot be lowered.

    None for a call of the model's own function.
    """
    if facts.is_function(node):
        return None
    sizes, grad, dx = node.input(0), node.input(1), node.output(0)
    if len(node.inputs) != 2 or sizes is None or grad is None or dx is None:
        raise Refuse(Code.ARITY, "{} '{}' takes the shape of x and dy", node.proto.op_type, node.label)
    operator = gradient_operator(facts, node)
    stated = facts.integers(sizes) or facts.shape(dx)
    if stated is None:
        raise Refuse(Code.UNKNOWN_SHAPE, "the elements of '{}', the shape of x, are not known", sizes.name)
    if len(stated) != len(operator.to_second):
        what = "'{}' is the shape {} for windows of {} spatial axes"
        raise Refuse(Code.POOL_ATTRIBUTES, what, sizes.name, Shown(stated), len(operator.windows.kernel))
    x_shape = tuple(stated[axis] for axis in operator.to_second)
    view = View.CHANNELS_LAST if operator.channels_last else View.SAME
    return AveragePoolGradient(
        grad=Operand(grad, view),
        dx=Operand(dx, view),
        x=None,
        element_type=known_element_type(facts, grad if facts.element_type(grad) else dx),
        windows=operator.windows,
        x_shape=x_shape,
        pooled_shape=pooled_shape(facts, grad, operator.windows, x_shape, view),
    )
