# SPDX-License-Identifier: Apache-2.0

"""Small graphs written out, each of which an optimiser of some release of onnxruntime once took wrongly."""

from __future__ import annotations

import onnx

from tests.releases.cases import Case, drawn_feeds, standard

POOL = "MaxPool<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>"
BATCHES = {"static": "2", "symbolic batch": "N"}
BLOCK = """
<ir_version: 8, opset_import: ["" : {opset}]>
g (float[{n},3,9,12] a, float[{n},3,5,6] b, float[{n},3,5,6] dz) => (float[{n},3,5,6] z, float[{n},3,9,12] da) {{
    x = Relu(a)
    y, i = {pool}(x)
    r = Relu(y)
    z = Add(r, b)
    dx = MaxPoolGrad(dz, i)
    da = Relu(dx)
}}"""
CONV = "Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(a, w)"
POOLED_VALUE = """
<ir_version: 8, opset_import: ["" : {opset}]>
g (float[{n},3,9,12] a, float[3,3,3,3] w, float[{n},3,5,6] dy) => (float[{n},3,5,6] y, float[{n},3,9,12] da) {{
    x = {first}
    y, i = {pool}(x)
    dx = MaxPoolGrad(dy, i)
    da = Relu(dx)
}}"""

TWO_TYPES = """
<ir_version: 8, opset_import: ["" : {opset}]>
g (float[2,3,9,12] a, float[2,3,5,6] dy, float16[2,3,9,12] b, float16[2,3,5,6] dz)
    => (float[2,3,5,6] y, float[2,3,9,12] da, float16[2,3,5,6] z, float16[2,3,9,12] db) {{
    flat = Constant<value = int64[1] {{-1}}>()
    size = Constant<value = int64[1] {{648}}>()
    shape = Constant<value = int64[4] {{2, 3, 9, 12}}>()
    zeros = ConstantOfShape(size)
    ra = Relu(a)
    y, i = {pool}(ra)
    flat_i = Reshape(i, flat)
    flat_dy = Reshape(dy, flat)
    sums = ScatterElements<axis = 0, reduction = "add">(zeros, flat_i, flat_dy)
    dra = Reshape(sums, shape)
    da = Relu(dra)
    rb = Relu(b)
    z, j = {pool}(rb)
    flat_j = Reshape(j, flat)
    flat_dz = Reshape(dz, flat)
    wide_dz = Cast<to = 1>(flat_dz)
    wide_sums = ScatterElements<axis = 0, reduction = "add">(zeros, flat_j, wide_dz)
    wide_drb = Reshape(wide_sums, shape)
    drb = Cast<to = 10>(wide_drb)
    db = Relu(drb)
}}"""


AVERAGE = """
<ir_version: 8, opset_import: ["" : {opset}]>
g (float[{n},3,4,5] dz) => (float[{n},3,8,10] da) {{
    sixteen = Constant<value = float {{16}}>()
    planes_shape = Constant<value = int64[4] {{-1, 1, 4, 5}}>()
    one = Constant<value = int64[4] {{1, 1, 4, 4}}>()
    ones = ConstantOfShape<value = float[1] {{1.0}}>(one)
    x_shape = Constant<value = int64[4] {{{batch}, 3, 8, 10}}>()
    dy = Relu(dz)
    mean = Div(dy, sixteen)
    planes = Reshape(mean, planes_shape)
    sums = ConvTranspose<strides = [2, 2], pads = [1, 1, 1, 1]>(planes, ones)
    dx = Reshape(sums, x_shape)
    da = Relu(dx)
}}"""


def average(opset: int) -> list[Case]:
    """The gradient of an average pool of 4×4 elements that counts its padding; sums of sixteenths are exact."""
    return [
        from_text(f"average opset {opset}, {sizes}", AVERAGE.format(opset=opset, n=n, batch=n.replace("N", "-1")))
        for sizes, n in BATCHES.items()
    ]


def block(opset: int) -> list[Case]:
    """A pool between other layers, its gradient after them; static shapes let optimisers compute sizes."""
    return [
        from_text(f"block opset {opset}, {sizes}", BLOCK.format(opset=opset, n=n, pool=POOL))
        for sizes, n in BATCHES.items()
    ]


def pooled_value(opset: int) -> list[Case]:
    """The pooled value is a graph output, dx is not, and only the pool and its gradient read what was pooled."""
    return [
        from_text(
            f"pooled value of {first.partition('<')[0].partition('(')[0]} opset {opset}, {sizes}",
            POOLED_VALUE.format(opset=opset, n=n, pool=POOL, first=first),
        )
        for first in ("Relu(a)", CONV)
        for sizes, n in BATCHES.items()
    ]


def two_types(opset: int) -> list[Case]:
    """A float32 and a float16 gradient, which share one function body."""
    return [from_text(f"two types opset {opset}", TWO_TYPES.format(opset=opset, pool=POOL))]


def from_text(name: str, text: str) -> Case:
    model = onnx.parser.parse_model(text)
    return Case(name, model, drawn_feeds(model), original=standard(model))
