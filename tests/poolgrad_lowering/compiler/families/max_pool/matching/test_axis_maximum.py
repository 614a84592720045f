# SPDX-License-Identifier: Apache-2.0

"""A maximum over one axis as a max pool: which shapes it has then, and where it has none."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest

from poolgrad_lowering.compiler.families.gradient import View
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.max_pool.matching.axis_maximum import as_max_pool
from poolgrad_lowering.model.diagnostics.codes import Code
from poolgrad_lowering.model.ir.dims import Dim, Shape, static_dims
from tests.patterns.lowering_checks import refuses
from tests.pool_graphs import axis_record, main_value, parse


def maximum(shape: Shape, axis: int, dx_shape: Shape | None = None) -> MaxPoolGradient:
    _, x = main_value(parse("g (float[2] x) => (y) { y = Identity (x) }"), "x")
    return axis_record(x, x, shape, axis, dx_shape)


SHAPES = [(7,), (3, 4), (2, 3, 4), (2, 3, 4, 5), (2, 3, 4, 5, 6), (2, 3, 4, 5, 6, 7), (1, 1, 1, 1, 1, 1)]


@pytest.mark.parametrize(("sizes", "axis"), [(sizes, axis) for sizes in SHAPES for axis in range(len(sizes))])
def test_every_axis(sizes: tuple[int, ...], axis: int) -> None:
    """Along a spatial axis x stays as it is; else the lines along the axis are those along the height of the view."""
    gradient = maximum(static_dims(sizes), axis)
    found = as_max_pool(gradient, axis)
    if len(sizes) in (3, 4, 5) and axis >= 2:
        assert found.axis == axis - 2
        assert replace(found, axis=0) == gradient
        return
    folded = (prod(sizes[:axis]), 1, sizes[axis], prod(sizes[axis + 1 :]))
    assert (found.x_shape, found.axis) == (static_dims(folded), 0)
    assert found.pooled_shape == static_dims((*folded[:2], 1, folded[3]))
    assert found.dx.shape == gradient.x_shape
    assert {operand.view for operand in (found.x, found.grad, found.known_argmax, found.dx)} == {View.FLAT}


def test_a_result_in_another_shape_stays_in_it() -> None:
    """Where x is a view, the result may have the shape of what it is a view of."""
    shape = static_dims((3, 4))
    assert as_max_pool(maximum(shape, 0, static_dims((12,))), 0).dx.shape == static_dims((12,))


N, H = Dim(1, ("N",)), Dim(1, ("H",))
REFUSED = {
    "empty": (static_dims((0, 4)), 1, Code.EMPTY_WINDOW),
    "empty_and_symbolic": ((N, H, Dim(0)), 1, Code.EMPTY_WINDOW),
    "two_symbols": ((N, H, Dim(4)), 1, Code.UNKNOWN_SHAPE),
}


@pytest.mark.parametrize(("shape", "axis", "code"), REFUSED.values(), ids=REFUSED)
def test_refused(shape: Shape, axis: int, code: Code) -> None:
    with refuses(code, names="x"):
        as_max_pool(maximum(shape, axis), axis)


def test_symbols_along_spatial_axes_need_no_view() -> None:
    shape = (N, Dim(3), H, Dim(5))
    assert as_max_pool(maximum(shape, 2), 2).x_shape == shape


def test_one_symbol_in_a_view() -> None:
    assert as_max_pool(maximum((N, Dim(3), Dim(5)), 1), 1).x_shape == (N, Dim(1), Dim(3), Dim(5))
