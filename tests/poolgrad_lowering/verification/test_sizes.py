# SPDX-License-Identifier: Apache-2.0

"""Sizes of the verification's runs where a model declares those of the incoming gradient and not those of x."""

from __future__ import annotations

import onnx
import pytest

from poolgrad_lowering import lower, verify
from tests.heads import head

POOLS = {
    "floor": ("kernel_shape=[2,2], strides=[2,3]", "4,3"),
    "one window": ("kernel_shape=[2,3], strides=[2,3]", "1,1"),
    "rounded up": ("kernel_shape=[3,2], strides=[2,3], ceil_mode=1", "4,3"),
    "as large as x": ('kernel_shape=[5,3], strides=[1,1], auto_pad="SAME_UPPER"', "9,2"),
    "pads": ("kernel_shape=[3,3], strides=[2,1], pads=[1,0,1,0]", "5,7"),
}


@pytest.mark.parametrize("dims", ["N,3,H,W", "?,?,?,?"])
@pytest.mark.parametrize("pool", POOLS)
def test_sizes_of_x_follow_from_those_of_the_gradient(pool: str, dims: str) -> None:
    attributes, pooled = POOLS[pool]
    model = onnx.parser.parse_model(
        f"""{head(17)} g (float[{dims}] x, float[2,3,{pooled}] dy) => (float[2,3,{pooled}] y, float[{dims}] dx) {{
            y, i = MaxPool <{attributes}> (x)
            dx = MaxPoolGrad (dy, i)
        }}"""
    )
    result = lower(model)
    assert [anchor.status for anchor in result.report.anchors] == ["lowered"]
    verdict = verify(model, result.model)
    assert verdict.proven
    assert [site.status for site in verdict.sites] == ["proven"]


@pytest.mark.parametrize("dims", ["N,3,H,W", "?,?,?,?"])
def test_sizes_of_x_are_those_of_dx(dims: str) -> None:
    """The incoming gradient alone leaves two sizes possible along each axis."""
    model = onnx.parser.parse_model(
        f"""{head(17)} g (float[{dims}] x, float[2,3,6,7] dy) => (float[2,3,12,14] dx) {{
            y, i = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)
            dx = MaxPoolGrad (dy, i)
        }}"""
    )
    result = lower(model)
    assert [anchor.status for anchor in result.report.anchors] == ["lowered"]
    assert [site.status for site in verify(model, result.model, whole_model=False).sites] == ["proven"]


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_an_average_behind_an_operator_that_tells_no_sizes(rank: int) -> None:
    ones, pooled = ",".join("1" * rank), ",".join("4" * rank)
    windows = f"kernel_shape=[{ones.replace('1', '3')}], strides=[{ones.replace('1', '2')}]"
    shape = ",".join("NCDHW"[: rank + 2])
    model = onnx.parser.parse_model(
        f"""{head(17, "other")}
        g (float[{shape}] w, float[2,3,{pooled}] dy) => (float[2,3,{pooled}] y, float[{shape}] dx)
        <float[{shape}] x> {{
            x = other.Op (w)
            y = AveragePool <{windows}> (x)
            dx = AveragePoolGrad <{windows}> (dy)
        }}"""
    )
    result = lower(model)
    assert [anchor.status for anchor in result.report.anchors] == ["lowered"]
    assert verify(model, result.model).proven


def test_sizes_that_are_multiples_of_one_symbol() -> None:
    """The zeros of a gradient may have sizes computed from those of another value: 8*T / 4 is 2*T."""
    model = onnx.parser.parse_model(
        f"""{head(18)} g (float[2,3,EIGHT] whole, float[2,3,TWO] x, float[2,3,T] dy) => (float[2,3,TWO] dx)
        <int64[1] begin = {{2}}, int64[1] end = {{3}}, int64[1] four = {{4}}, float zero = {{0}}, int64[1] six = {{6}},
         int64[1] starts = {{0}}, int64[1] ends = {{1}}, int64[1] axes = {{2}}, int64[2] rows = {{6,-1}},
         int64[2] outer = {{2,3}}> {{
            y, i = MaxPool <kernel_shape = [2], strides = [2]> (x)
            e, each = MaxPool <kernel_shape = [1], strides = [1]> (x)
            base = Slice (each, starts, ends, axes)
            place = Sub (i, base)
            places = Reshape (place, rows)
            sizes = Shape (whole)
            size = Slice (sizes, begin, end)
            extent = Div (size, four)
            plane = Concat <axis = 0> (six, extent)
            nothing = Expand (zero, plane)
            gradients = Reshape (dy, rows)
            sums = ScatterElements <axis = 1, reduction = "add"> (nothing, places, gradients)
            shape = Concat <axis = 0> (outer, extent)
            dx = Reshape (sums, shape)
        }}"""
    )
    for value in (*model.graph.input, *model.graph.output):
        dim = value.type.tensor_type.shape.dim[2]
        dim.dim_param = {"EIGHT": "8*T", "TWO": "2*T"}.get(dim.dim_param, "T")
    result = lower(model)
    assert [anchor.status for anchor in result.report.anchors] == ["lowered"]
    assert verify(model, result.model).proven
