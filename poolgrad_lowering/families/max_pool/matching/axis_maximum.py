# SPDX-License-Identifier: Apache-2.0

"""The maximum over one axis as a max pool, whose window is that whole axis and one element of every other one.

Along a spatial axis of (N, C, spatial…) it is a max pool of x as it stands. Along any other axis, and of any other
rank, x is seen as [∏before, 1, L, ∏after]: the same elements in row-major order, with a window of [L, 1].
"""

from __future__ import annotations

from dataclasses import replace

from poolgrad_lowering.diagnostics.codes import Code, Refuse
from poolgrad_lowering.families.gradient import Operand, View
from poolgrad_lowering.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.families.max_pool.matching.first_maximum import RANKS
from poolgrad_lowering.ir.dims import Dim, Shape, Shown, fits_reshape, size


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
        raise Refuse(
            Code.UNKNOWN_SHAPE,
            "'{}' of shape {} cannot be folded around axis {}: several sizes are not known",
            gradient.x.value.name,
            Shown(shape),
            axis,
        )
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
