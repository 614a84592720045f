# SPDX-License-Identifier: Apache-2.0

"""`dX[…, indices[…], …] = grad[…]`, the index standing at axis `dim`: the gradient of `torch.max(x, dim)`.

Graph: PyTorch's operators, kept in domain org.pytorch.aten. The forward node may also be ONNX's ArgMax.

    y, indices = max.dim(x, dim, keepdim)
    dX = value_selecting_reduction_backward(grad, dim, indices, sizes of x, keepdim)

It is a max pool whose window is the whole axis and one element of every other one. Along the axes that are not spatial,
and for other ranks than 3 to 5, x is viewed as [∏before, 1, L, ∏after] and the window is [L, 1].

What must hold: both nodes name the same axis, constant, and the sizes are those of the forward node's x. A view needs
an x that is not empty and has at most one symbolic size. The operator writes onto zeros and the lowered node adds to
them, so a gradient of −0.0 arrives as +0.0.
"""

from __future__ import annotations

from poolgrad_lowering.compiler.analysis.provenance import Numbering, of_no_pool
from poolgrad_lowering.compiler.families.gradient import Operand, View, form
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.max_pool.matching import axis_maximum
from poolgrad_lowering.compiler.families.max_pool.matching.backward_ops import check_not_constant
from poolgrad_lowering.compiler.families.max_pool.matching.forward import Pooled
from poolgrad_lowering.compiler.families.shared.checks import check_shape, stated_element_type
from poolgrad_lowering.compiler.families.shared.matching import aten_anchors, aten_operator, out_of_range
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.aten_pools import flag
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.known import static_integers
from poolgrad_lowering.model.ir.attributes import boolean, integer
from poolgrad_lowering.model.ir.dims import Shown
from poolgrad_lowering.model.ir.scopes import Node, Value

_OPERATOR = "value_selecting_reduction_backward"
_FORWARD = ("max.dim", "max")  # the TorchScript exporter drops the overload where it writes the name as op type
_GRAD, _DIM, _INDICES, _SIZES, _KEEPDIM = range(5)
_FORWARD_DIM, _FORWARD_KEEPDIM = 1, 2

_Named = tuple[int | None, bool | None]
"""The axis as a node names it, and whether it stays with size 1; None where it is not constant."""


@form(
    *aten_anchors(_OPERATOR),
    summary="PyTorch operators in ONNX: value_selecting_reduction_backward of a maximum over one axis",
    priority=30,
)
def match(facts: Facts, node: Node) -> MaxPoolGradient | None:
    """The gradient that the node computes; raises `Refuse` where it cannot be lowered."""
    if aten_operator(facts, node) != _OPERATOR:
        return None
    grad, recorded, dx = node.input(_GRAD), node.input(_INDICES), node.output(0)
    if grad is None or recorded is None or dx is None:
        raise Refuse(Code.ARITY, "{} '{}' lacks an operand", node.proto.op_type, node.label)
    x, named = _forward(facts, recorded)
    x_shape = facts.shape(x)
    if x_shape is None:
        raise Refuse(Code.UNKNOWN_SHAPE, "the shape of '{}' is not known", x.name)
    axis, keepdims = _reduced(facts, node, x, named, len(x_shape))
    pooled_shape = axis_maximum.reduced_shape(x_shape, axis)
    given = pooled_shape if keepdims else x_shape[:axis] + x_shape[axis + 1 :]
    if (sizes := facts.integers(node.input(_SIZES))) != x_shape:
        what = "'{}' gives sizes {}, '{}' has {}"
        raise Refuse(Code.DX_SHAPE, what, node.label, Shown(sizes), x.name, Shown(x_shape))
    check_shape(facts, Code.GRAD_SHAPE, grad, given)
    view = View.SAME if keepdims else View.FLAT
    pooled = Pooled(x, stated_element_type(facts, x, grad, dx), x_shape, pooled_shape)
    gradient = pooled.gradient(Operand(grad, view), Operand(recorded, view), Operand(dx), Numbering.AXIS)
    return axis_maximum.with_whole_reduction(
        facts, axis_maximum.as_max_pool(gradient, axis), facts.behind_views(recorded, "ArgMax")
    )


def _forward(facts: Facts, recorded: Value) -> tuple[Value, _Named]:
    """The input of the maximum whose positions are the indices, and the axis that it names."""
    source = recorded.origin
    check_not_constant(source)
    node = source.producer
    if node is not None and (x := node.input(0)) is not None:
        if node.is_a("ArgMax"):
            return x, (integer(node, "axis"), boolean(node, "keepdims"))
        if aten_operator(facts, node) in _FORWARD and source == node.output(1):
            return x, (_number(facts, node, _FORWARD_DIM), flag(facts, node, _FORWARD_KEEPDIM))
    raise of_no_pool(facts, source, "indices come from '{}', which are no positions of a maximum over an axis")


def _reduced(facts: Facts, node: Node, x: Value, named: _Named, rank: int) -> tuple[int, bool]:
    """The reduced axis and whether it stays, which both nodes name alike."""
    both = (_number(facts, node, _DIM), flag(facts, node, _KEEPDIM)), named
    found = [
        (axis % rank, keepdims)
        for axis, keepdims in both
        if axis is not None and -rank <= axis < rank and keepdims is not None
    ]
    if len(found) != 2:
        raise out_of_range(node)
    if found[0] != found[1]:
        what = "'{}' reduces another axis, or otherwise, than the maximum of '{}'"
        raise Refuse(Code.ATTRIBUTE_MISMATCH, what, node.label, x.name)
    return found[0]


def _number(facts: Facts, node: Node, position: int) -> int | None:
    numbers = static_integers(facts, node, position)
    return numbers[0] if numbers is not None and len(numbers) == 1 else None
