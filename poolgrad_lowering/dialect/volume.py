"""Views of a tensor (N, C, [D, [H,]] W) as (N, C, D, H, W) and back, in ONNX text of any opset from 10 on.

They hold for every rank from 3 to 5 and for dynamic shapes; the ops that share them name the values in between.
"""

from __future__ import annotations

#: From x: its `shape`, the sizes `planes` = (N, C) and `plane` = (D, H, W), and x in float32 as `volume`.
TO_VOLUME = """
    first = Constant<value = int64[1] {0}>()
    first_spatial = Constant<value = int64[1] {2}>()
    third_last = Constant<value = int64[1] {-3}>()
    end = Constant<value = int64[1] {9223372036854775807}>()
    absent = Constant<value = int64[2] {1, 1}>()
    shape = Shape(x)
    planes = Slice(shape, first, first_spatial)
    spatial = Slice(shape, first_spatial, end)
    filled = Concat<axis = 0>(absent, spatial)
    plane = Slice(filled, third_last, end)
    volume_shape = Concat<axis = 0>(planes, plane)
    x_volume = Reshape(x, volume_shape)
    volume = Cast<to = 1>(x_volume)
"""

#: `pooled_shape` of x's rank from `pooled_sizes`, which end with the sizes of D, H and W.
POOLED_SHAPE = """
    rank = Shape(shape)
    first_pooled = Sub(first_spatial, rank)
    pooled_spatial = Slice(pooled_sizes, first_pooled, end)
    pooled_shape = Concat<axis = 0>(planes, pooled_spatial)
"""
