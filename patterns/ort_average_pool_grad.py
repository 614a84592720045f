# SPDX-License-Identifier: Apache-2.0

"""`dX[n, c][window o] += dY[n, c, o] / divisor(o)`, o running over the windows of an AveragePool.

Graph: onnxruntime training's operator, in the default domain. Its gradient builder writes it for AveragePool of any
rank, with the attributes of the pool.

    Y = AveragePool(X)
    dX = AveragePoolGrad(dY)

What must hold: the shape of X is known. It is that of dX where the graph declares it, which is what onnxruntime's
kernel uses, or of the input of the pool: the one AveragePool after which the node is named, or with its attributes.
"""

from __future__ import annotations

from poolgrad_lowering.compiler.families.avg_pool.gradient import AveragePoolGradient
from poolgrad_lowering.compiler.families.avg_pool.matching.planes import pooled_shape
from poolgrad_lowering.compiler.families.gradient import Operand, form
from poolgrad_lowering.compiler.families.shared.checks import check_windows, known_element_type
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.training_operators import forward_pools
from poolgrad_lowering.model.ir.attributes import integer
from poolgrad_lowering.model.ir.dims import Shape, Shown, differ
from poolgrad_lowering.model.ir.scopes import Node, Value
from poolgrad_lowering.model.windows import PoolAttributes


@form(
    ("", "AveragePoolGrad"),
    summary="onnxruntime training: AveragePoolGrad(dY) with the attributes of an AveragePool, 1-D to 3-D",
    priority=10,
)
def match(facts: Facts, node: Node) -> AveragePoolGradient | None:
    """The gradient that an AveragePoolGrad node computes; raises `Refuse` where it cannot be lowered."""
    grad, dx = node.input(0), node.output(0)
    if len(node.inputs) != 1 or grad is None or dx is None:
        raise Refuse(Code.ARITY, "AveragePoolGrad takes dY, here it has {} inputs", len(node.inputs))
    windows, counts = PoolAttributes.read(node), integer(node, "count_include_pad", 0)
    if windows is None or counts is None:
        raise Refuse(Code.POOL_ATTRIBUTES, "AveragePoolGrad '{}' has missing or malformed attributes", node.label)
    check_windows(windows, node)
    pools = forward_pools(facts, node)
    pool = pools[0] if pools else None
    x = None if pool is None else pool.input(0)
    x_shape = _x_shape(facts, dx, x)
    if len(x_shape) != len(windows.kernel) + 2:
        what = "AveragePoolGrad '{}' has {} spatial axes, '{}' has the shape {}"
        raise Refuse(Code.POOL_ATTRIBUTES, what, node.label, len(windows.kernel), dx.name, Shown(x_shape))
    return AveragePoolGradient(
        grad=Operand(grad),
        dx=Operand(dx),
        x=None if x is None else Operand(x),
        element_type=known_element_type(facts, grad if facts.element_type(grad) else dx),
        windows=windows,
        x_shape=x_shape,
        pooled_shape=pooled_shape(facts, grad, windows, x_shape),
        count_include_pad=bool(counts),
        pool=pool,
    )


def _x_shape(facts: Facts, dx: Value, x: Value | None) -> Shape:
    """The shape of X: of the pool's input, which is the declared one of dX."""
    declared, pooled = facts.shape(dx), facts.shape(x)
    if declared is not None and pooled is not None and differ(declared, pooled):
        what = "'{}' has shape {}, but its pool's input has shape {}"
        raise Refuse(Code.DX_SHAPE, what, dx.name, Shown(declared), Shown(pooled))
    known = declared if pooled is None else pooled
    if known is None:
        raise Refuse(Code.UNKNOWN_SHAPE, "neither the shape of '{}' nor that of its pool's input is known", dx.name)
    return known
