# SPDX-License-Identifier: Apache-2.0

"""The maximum over one axis, recorded by ArgMax, as a max pool: a window is the axis and one element of the others.

Along a spatial axis of (N, C, spatial…) it is a max pool of x as it stands. Along any other axis, and of any other
rank, x is seen as [∏before, 1, L, ∏after]: the same elements in row-major order, with a window of [L, 1].
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from poolgrad_lowering.compiler.families.gradient import Operand, View
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.max_pool.matching.views import view_sources
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.attributes import attribute, boolean, integer
from poolgrad_lowering.model.ir.dims import Dim, Shape, Shown, fits_reshape, size
from poolgrad_lowering.model.ir.scopes import Node, Value

RANKS = (3, 4, 5)
"""Of a pooled input: batch, channels and one to three spatial axes."""


@dataclass(frozen=True)
class FirstMaximum:
    """An ArgMax that selects the first maximum of `data` (of this shape) along `axis` (≥ 0)."""

    node: Node
    data: Value
    shape: Shape
    axis: int

    @classmethod
    def read(cls, facts: Facts, node: Node) -> FirstMaximum:
        """What an ArgMax node computes; raises `Refuse` where it records no indices of a pool."""
        data = node.input(0)
        shape, axis = facts.shape(data), integer(node, "axis")
        if data is None or shape is None or axis is None or not -len(shape) <= axis < len(shape):
            raise Refuse(Code.UNKNOWN_SHAPE, "the shape that ArgMax '{}' reduces is not known", node.label)
        if boolean(node, "keepdims") is None:
            raise Refuse(Code.POOL_ATTRIBUTES, "runtimes differ about keepdims of ArgMax '{}'", node.label)
        # The attribute exists from opset 12; before, runtimes select the first one too.
        if attribute(node, "select_last_index") not in (0, None):
            raise Refuse(Code.LAST_MAXIMUM, "ArgMax '{}' selects the last of equal maxima", node.label)
        return cls(node, data, shape, axis % len(shape))

    def flattened(self, facts: Facts) -> tuple[Value, Shape] | None:
        """The tensor of which each reduced row is an (n, c) plane, and its shape; None if there is none.

        Of the values that the rows are a view of, it is the first one in the graph that has rank 3 to 5 and planes as
        large as a row.
        """
        if self.axis != len(self.shape) - 1:
            return None
        found = None
        for source in list(view_sources(facts, self.data.origin))[1:]:
            shape = facts.shape(source)
            if shape is not None and len(shape) in RANKS and size(shape[2:]) == self.shape[-1]:
                found = source, shape
        return found


def reduced_shape(x_shape: Shape, axis: int) -> Shape:
    """The shape of the maxima, in which the axis stays with size 1."""
    return (*x_shape[:axis], Dim(1), *x_shape[axis + 1 :])


def as_max_pool(gradient: MaxPoolGradient, axis: int) -> MaxPoolGradient:
    """The gradient of a maximum over `axis` (≥ 0) as the gradient of a max pool.

    `gradient` has x's own shape, of any rank, as `x_shape` and the maxima's, axis kept, as `pooled_shape`; its `axis`
    is the default 0, as is that of the view. Raises `Refuse` where x needs another shape and is empty, or has several
    symbolic sizes.
    """
    shape = gradient.x_shape
    if axis >= 2 and len(shape) in RANKS:
        return replace(gradient, axis=axis - 2)
    if size(shape).static == 0:
        raise Refuse(Code.EMPTY_WINDOW, "'{}' of shape {} has no element", gradient.x.value.name, Shown(shape))
    if not fits_reshape(shape):
        what = "'{}' of shape {} cannot be folded around axis {}: several sizes are not known"
        raise Refuse(Code.UNKNOWN_SHAPE, what, gradient.x.value.name, Shown(shape), axis)
    folded = (size(shape[:axis]), Dim(1), shape[axis], size(shape[axis + 1 :]))
    return replace(
        gradient,
        x=gradient.x.flat(),
        grad=gradient.grad.flat(),
        argmax=gradient.indices.flat(),
        dx=Operand(gradient.dx.value, View.FLAT, gradient.dx.shape or shape),
        x_shape=folded,
        pooled_shape=reduced_shape(folded, 2),
    )
