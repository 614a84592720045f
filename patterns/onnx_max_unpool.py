# SPDX-License-Identifier: Apache-2.0

"""`dX.flat[Indices[n, c, o]] = dY[n, c, o]`, o running over the windows of a MaxPool of which no two share an element.

Graph: ONNX's operator, by which decoders such as SegNet's undo a pool; the shape of X may be a third operand.

    Y, Indices = MaxPool(X)
    dX = MaxUnpool(dY, Indices)

What must hold: the Indices are those of the MaxPool, which count over the whole tensor, its windows do not overlap, and
the shape that follows from dY and the attributes of MaxUnpool is that of X, as is the third operand. If an operand
names another shape, the Indices count over that one in onnxruntime, and over the one that follows in ONNX's own tests.
One bit differs: −0.0 is written as it is, where a gradient adds it to zero.
"""

from __future__ import annotations

from poolgrad_lowering.compiler.analysis.provenance import Numbering, indices
from poolgrad_lowering.compiler.families.gradient import Operand, form
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.max_pool.matching.forward import ForwardPool, forward_pool
from poolgrad_lowering.compiler.families.shared.checks import check_shape
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.dims import Dim, Shape, Shown
from poolgrad_lowering.model.ir.scopes import Node
from poolgrad_lowering.model.windows import PoolAttributes


@form(
    ("", "MaxUnpool"),
    summary="ONNX's MaxUnpool(dY, Indices) with the Indices of a MaxPool whose windows do not overlap",
    priority=10,
)
def match(facts: Facts, node: Node) -> MaxPoolGradient:
    """The gradient that a MaxUnpool node computes; raises `Refuse` where it cannot be lowered."""
    grad, recorded, dx = node.input(0), node.input(1), node.output(0)
    if len(node.inputs) > 3 or grad is None or recorded is None or dx is None:
        raise Refuse(Code.ARITY, "MaxUnpool takes dY, Indices and a shape, here it has {} inputs", len(node.inputs))
    found = indices(facts, recorded)
    if found.numbering is not Numbering.TENSOR:
        what = "'{}' counts inside planes, MaxUnpool over the whole tensor"
        raise Refuse(Code.INDICES_NUMBERING, what, recorded.name)
    forward = forward_pool(facts, found.pool)
    forward.check_no_overlap(node)
    check_shape(facts, Code.GRAD_SHAPE, recorded, forward.pooled_shape)
    _check_result(facts, node, forward)
    return forward.gradient(Operand(grad), Operand(found.argmax), Operand(dx), found.argmax_numbering)


def _check_result(facts: Facts, node: Node, forward: ForwardPool) -> None:
    """The result has the shape of the pooled input, by the attributes and by the third operand."""
    shape = _unpooled_shape(node, forward.pooled_shape)
    if shape != forward.x_shape:
        what = "MaxUnpool '{}' makes {} of {}, MaxPool '{}' pools {}"
        shapes = Shown(shape), Shown(forward.pooled_shape), forward.node.label, Shown(forward.x_shape)
        raise Refuse(Code.DX_SHAPE, what, node.label, *shapes)
    stated = node.input(2)
    if stated is not None and facts.integers(stated) != shape:
        what = "'{}' is {}, not proven to be the shape {} that follows from MaxUnpool '{}'"
        raise Refuse(Code.DX_SHAPE, what, stated.name, Shown(facts.integers(stated)), Shown(shape), node.label)


def _unpooled_shape(node: Node, pooled: Shape) -> Shape | None:
    """Return the shape that follows from the attributes; None if they are malformed, or a symbolic size is no product.

    Of a symbolic number of windows, it is one if they lie side by side without padding.
    """
    windows = PoolAttributes.read(node)
    if windows is None or len(windows.kernel) + 2 != len(pooled):
        return None
    sizes = []
    for count, window in zip(pooled[2:], windows.windows, strict=True):
        beyond = window.kernel - window.stride - window.begin - window.end
        if count.static is None and beyond:
            return None
        sizes.append(Dim(count.coefficient * window.stride + beyond, count.symbols))
    return (*pooled[:2], *sizes)
