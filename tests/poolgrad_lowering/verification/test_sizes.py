# SPDX-License-Identifier: Apache-2.0

"""Sizes of the verification's runs: those that a model declares of one gradient alone, and those of runtimes."""

from __future__ import annotations

import onnx
import pytest
from onnx import ModelProto

from poolgrad_lowering import lower, verify
from poolgrad_lowering.verification.graph.types import tensor_types
from tests.heads import head
from tests.pool_graphs import parse

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


def nested(outer: str, pooled: str, dy: str) -> ModelProto:
    """A pool that drops a window, and a pool over its output with its gradient, which alone is lowered."""
    return parse(
        f"""g (float[2,1,5,2] x, float{dy} dy) => (float[2,1,{pooled}] dp) {{
            p = MaxPool <{outer}, ceil_mode=1> (x)
            y, i = MaxPool <kernel_shape=[2,1]> (p)
            dp = MaxPoolGrad (dy, i)
        }}"""
    )


DROPPING = {
    "kernel_of_one": ("kernel_shape=[2,1], strides=[1,2]", "4,1", "[2,1,3,1]"),
    "end_padding": ("kernel_shape=[2,2], strides=[2,3], pads=[0,0,1,1]", "3,1", "[2,1,2,1]"),
    "one_axis_keeps_its_last": ("kernel_shape=[2,1], strides=[2,2]", "3,1", "[2,1,2,1]"),
}


@pytest.mark.parametrize("described", [False, True])
@pytest.mark.parametrize(("outer", "pooled", "dy"), DROPPING.values(), ids=DROPPING)
def test_sizes_are_those_of_runtimes(outer: str, pooled: str, dy: str, described: bool) -> None:
    """Also where a tool has written what inference counts."""
    model = nested(outer, pooled, dy)
    if described:
        model = onnx.shape_inference.infer_shapes(model)
    found = tensor_types(model)["p"].dims
    assert found == (2, 1, *map(int, pooled.split(",")))
    result = lower(model)
    assert len(result.report.lowered) == 1
    verified = verify(model, result.model)
    assert verified.proven, verified.first_failure


def test_a_gradient_of_a_branch_has_the_sizes_of_the_node_that_reads_it() -> None:
    """onnx infers no sizes of it where the main graph declares its name. The scatter reads it with other sizes."""
    branch = """() => (out) {
        g = Neg (y) u = Reshape (g, rows) z = Expand (zero, canvas)
        s = ScatterElements <axis = 1, reduction = "add"> (z, r, u) dx = Reshape (s, sizes) out = Neg (dx) }"""
    model = onnx.parser.parse_model(
        f"""{head(18)} g (float[2,3,9,12] x, bool c) => (float[2,3,9,12] dx)
        <int64[2] starts = {{0,0}}, int64[2] ends = {{1,1}}, int64[2] axes = {{2,3}}, int64[2] rows = {{6,30}},
         int64[2] canvas = {{6,108}}, int64[4] sizes = {{2,3,9,12}}, float zero = {{0}}, float[2,3,5,6] g> {{
            y, i = MaxPool <kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1]> (x)
            y1, i1 = MaxPool <kernel_shape = [1,1], strides = [1,1]> (x)
            d = Slice (i1, starts, ends, axes) p = Sub (i, d) r = Reshape (p, rows)
            dx = If (c) <then_branch = t {branch}, else_branch = e {branch}> }}"""
    )
    result = lower(model)
    assert [anchor.status for anchor in result.report.anchors] == ["lowered", "lowered"]
    assert [site.status for site in verify(model, result.model, whole_model=False).sites] == ["proven"]
