# SPDX-License-Identifier: Apache-2.0

"""`dX.flat[Indices[n, c, o]] += dY[n, c, o]`, o running over the windows of a MaxPool, Indices over the whole tensor.

Graph: onnxruntime training's operator, in the default domain. Its gradient builder writes it for MaxPool of any rank.

    Y, Indices = MaxPool(X)
    dX = MaxPoolGrad(dY, Indices)

What must hold: the Indices are those of a MaxPool, whose input is the x of the lowered node, and no attribute of
MaxPoolGrad contradicts that MaxPool. Older releases copy no attributes.
"""

from __future__ import annotations

from poolgrad_lowering.compiler.analysis.provenance import Numbering, indices
from poolgrad_lowering.compiler.families.gradient import Operand, form
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.max_pool.matching.forward import ForwardPool, forward_pool
from poolgrad_lowering.compiler.families.shared.checks import check_shape
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.attributes import attribute
from poolgrad_lowering.model.ir.scopes import Node


@form(
    ("", "MaxPoolGrad"),
    summary="onnxruntime training: MaxPoolGrad(dY, Indices) with the Indices of a MaxPool, 1-D to 3-D",
    priority=10,
)
def match(facts: Facts, node: Node) -> MaxPoolGradient | None:
    """The gradient that a MaxPoolGrad node computes; raises `Refuse` where it cannot be lowered.

    None for TensorFlow's operator of the same name, which has three inputs.
    """
    if len(node.inputs) == 3:
        return None
    grad, recorded, dx = node.input(0), node.input(1), node.output(0)
    if len(node.inputs) != 2 or grad is None or recorded is None or dx is None:
        raise Refuse(Code.ARITY, "MaxPoolGrad takes dY and Indices, here it has {} inputs", len(node.inputs))
    found = indices(facts, recorded)
    if found.numbering is not Numbering.TENSOR:
        what = "'{}' counts inside planes, MaxPoolGrad over the whole tensor"
        raise Refuse(Code.INDICES_NUMBERING, what, recorded.name)
    forward = forward_pool(facts, found.pool)
    _check_attributes(node, forward)
    check_shape(facts, Code.GRAD_SHAPE, recorded, forward.pooled_shape)
    return forward.gradient(Operand(grad), Operand(found.argmax), Operand(dx), found.argmax_numbering)


def _check_attributes(node: Node, forward: ForwardPool) -> None:
    """The node's own attributes are the pool's, where it has any."""
    pool = forward.attributes
    attributes = {
        "kernel_shape": list(pool.kernel),
        "strides": list(pool.strides),
        "dilations": list(pool.dilations),
        "ceil_mode": int(pool.ceil),
        "auto_pad": pool.auto_pad,
        "storage_order": pool.storage_order,
        **({"pads": list(pool.begins + pool.ends)} if pool.auto_pad == "NOTSET" else {}),
    }
    for name, expected in attributes.items():
        if name in node.attributes and (found := attribute(node, name)) != expected:
            what = "{} is {} here and {} on MaxPool '{}'"
            raise Refuse(Code.ATTRIBUTE_MISMATCH, what, name, found, expected, forward.node.label)
