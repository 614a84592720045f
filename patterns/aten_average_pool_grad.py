# SPDX-License-Identifier: Apache-2.0

"""`dX[n, c][window o] += grad[n, c, o] / divisor(o)`, o running over the windows of an average pool.

Graph: PyTorch's operators, kept in domain org.pytorch.aten. ORTModule runs 2-D average pools this way.

    dX = avg_pool2d_backward(grad, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    dX = _adaptive_avg_pool2d_backward(grad, x)                                                   # or 3d, of both

What must hold: the windows are constant, and the shape of x, (N, C, spatial…) or (C, spatial…), is known. The elements
of x are not read.
"""

from __future__ import annotations

from poolgrad_lowering.compiler.families.avg_pool.gradient import AveragePoolGradient
from poolgrad_lowering.compiler.families.avg_pool.matching.planes import pooled_shape
from poolgrad_lowering.compiler.families.gradient import Operand, View, form
from poolgrad_lowering.compiler.families.shared import matching
from poolgrad_lowering.compiler.families.shared.checks import pooled_input_shape, stated_element_type
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.aten_pools import flag
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.known import static_integers
from poolgrad_lowering.model.ir.dims import Dim
from poolgrad_lowering.model.ir.scopes import Node, Value
from poolgrad_lowering.model.windows import AdaptiveWindows, Windows

_WINDOWED = {f"avg_pool{rank}d_backward": rank for rank in (1, 2, 3)}
_ADAPTIVE = {f"_adaptive_avg_pool{rank}d_backward": rank for rank in (2, 3)}
_RANKS = _WINDOWED | _ADAPTIVE
_GRAD, _X, _ARGUMENTS, _COUNTS, _DIVISOR = 0, 1, 2, 6, 7


@form(
    *matching.aten_anchors(*_RANKS),
    summary="PyTorch operators in ONNX: avg_pool2d_backward, _adaptive_avg_pool2d_backward and those of 3-D pools",
    priority=40,
)
def match(facts: Facts, node: Node) -> AveragePoolGradient | None:
    """The gradient that the node computes; raises `Refuse` where it cannot be lowered."""
    operator = matching.aten_operator(facts, node) or ""
    rank = _RANKS.get(operator)
    if rank is None:
        return None
    grad, x, dx = node.input(_GRAD), node.input(_X), node.output(0)
    if grad is None or x is None or dx is None:
        raise Refuse(Code.ARITY, "{} '{}' lacks an operand", operator, node.label)
    own = facts.shape(x)
    is_batched = own is None or len(own) != rank + 1  # PyTorch takes (C, spatial…) too
    x_shape = pooled_input_shape(facts, x, rank) if own is None or is_batched else (Dim(1), *own)
    (attributes, sizes), counts, divisor = _average(facts, node, x, rank)
    view = View.SAME if is_batched else View.FLAT
    return AveragePoolGradient(
        grad=Operand(grad, view),
        dx=Operand(dx, view, own),
        x=Operand(x) if is_batched else None,
        element_type=stated_element_type(facts, grad, x, dx),
        windows=attributes,
        x_shape=x_shape,
        pooled_shape=(*x_shape[:2], *sizes) if sizes else pooled_shape(facts, grad, attributes, x_shape, view),
        count_include_pad=counts,
        divisor=divisor,
    )


def _average(facts: Facts, node: Node, x: Value, rank: int) -> tuple[Windows, bool, int]:
    """The windows over x, whether the padding counts, and the divisor, 0 for none."""
    if matching.aten_operator(facts, node) in _ADAPTIVE:
        return Windows(AdaptiveWindows()), False, 0
    counts, divisor = flag(facts, node, _COUNTS), _divisor(facts, node)
    windows = matching.pool_arguments(facts, node, x, _ARGUMENTS, rank, dilated=False)
    if counts is None or divisor is None:
        raise matching.out_of_range(node)
    if not isinstance(windows.attributes, AdaptiveWindows):
        return windows, counts, divisor
    if divisor:  # windows of x's own sizes have no kernel to write
        raise Refuse(Code.POOL_ATTRIBUTES, "'{}' has a divisor for windows of symbolic size", node.label)
    return windows, False, 0


def _divisor(facts: Facts, node: Node) -> int | None:
    """The divisor of all windows: 0 if there is none, None if it is not a constant above 0."""
    if node.input(_DIVISOR) is None:
        return 0
    given = static_integers(facts, node, _DIVISOR)
    return given[0] if given is not None and len(given) == 1 and given[0] > 0 else None
