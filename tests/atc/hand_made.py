# SPDX-License-Identifier: Apache-2.0

"""Small graphs as GE takes them, in ONNX's text syntax, with feeds and the results that they must have."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import ModelProto

from tests.heads import head
from tests.oracles import adaptive_windows, ascend_pool, max_pool_indices, pool_gradient, pool_windows

Array = npt.NDArray[Any]

A2 = (
    head(16, "npu")
    + """
step (float[2,3,1,7,9] x, float[2,3,1,4,5] dy) => (float[2,3,1,4,5] y, float[2,3,1,7,9] dx) {
  [relu] r = Relu (x)
  [pool] y, argmax = npu.MaxPool3DWithArgmaxV2 <ksize=[1,3,3], strides=[1,2,2], pads=[0,1,1], dilation=[1,1,1],
    ceil_mode=0, data_format="NCDHW", dtype=3> (r)
  [site] dx = npu.MaxPool3DGradWithArgmax <ksize=[1,3,3], strides=[1,2,2], pads=[0,1,1], dilation=[1,1,1],
    ceil_mode=0, data_format="NCDHW"> (r, dy, argmax)
}
"""
)
"""A pool and its gradient for every SoC."""

NEW = (
    head(16, "npu")
    + """
step (float[2,3,7,9] x, float[2,3,4,5] dy) => (float[2,3,4,5] y, float[2,3,7,9] dx) {
  [relu] r = Relu (x)
  [pool] y, argmax = npu.MaxPoolWithArgmaxV3 <ksize=[3,3], strides=[2,2], pads=[1,1], dilation=[1,1],
    ceil_mode=0, data_format="NCHW", dtype=9> (r)
  [site] dx = npu.MaxPoolGradWithArgmaxV3 <ksize=[3,3], strides=[2,2], pads=[1,1], dilation=[1,1],
    ceil_mode=0, data_format="NCHW", dtype=9> (r, dy, argmax)
}
"""
)
"""The same for Ascend 950 alone, with indices of 64 bits."""

ADAPTIVE = (
    head(16, "npu")
    + """
step (float[2,3,1,7,9] x) => (float[2,3,1,4,5] y, int32[2,3,1,4,5] argmax) {
  [relu] r = Relu (x)
  [pool] y, argmax = npu.AdaptiveMaxPool3d <output_size=[1,4,5], indices_dtype=3> (r)
}
"""
)


AVERAGE = (
    head(16, "npu")
    + """
step (float[2,3,1,4,5] dy) => (float[2,3,1,7,9] dx) <int32[5] sizes = {2,3,1,7,9}> {
  [neg] g = Neg (dy)
  [site] dx = npu.AvgPool3DGrad <ksize=[1,3,3], strides=[1,2,2], pads=[0,0,1,1,1,1], ceil_mode=0,
    count_include_pad=0, divisor_override=0, data_format="NCDHW"> (sizes, g)
}
"""
)
"""The gradient of an average pool for every SoC."""

AVERAGE_2D = (
    head(16, "npu")
    + """
step (float[2,3,4,5] dy) => (float[2,3,7,9] dx) <int32[4] sizes = {2,3,7,9}> {
  [neg] g = Neg (dy)
  [site] dx = npu.AvgPoolV2Grad <ksize=[1,1,3,3], strides=[1,1,2,2], padding_mode="CALCULATED", pads=[1,1,1,1],
    data_format="NCHW", global_pooling=0, ceil_mode=0, exclusive=1, divisor_override=0> (sizes, g)
}
"""
)
"""The same for Ascend 950 alone."""

ADAPTIVE_AVERAGE = (
    head(16, "npu")
    + """
step (float[2,3,1,4,5] dy, float[2,3,1,7,9] x) => (float[2,3,1,7,9] dx) {
  [neg] g = Neg (dy)
  [site] dx = npu.AdaptiveAvgPool3dGrad <data_format="NCDHW"> (g, x)
}
"""
)

ADAPTIVE_AVERAGE_2D = (
    head(16, "npu")
    + """
step (float[2,3,4,5] dy) => (float[2,3,7,9] dx) {
  [neg] g = Neg (dy)
  [site] dx = npu.AdaptiveAvgPool2dGrad <orig_input_shape=[2,3,7,9]> (g)
}
"""
)


def parsed(text: str, *changes: tuple[str, str]) -> ModelProto:
    """Return the model of a text in which each first text is replaced by the second."""
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return onnx.parser.parse_model(text)


def feeds_of(model: ModelProto) -> dict[str, Array]:
    """Return feeds for a model whose inputs have numbers as sizes: values without ties."""
    generator = np.random.default_rng(7)
    found = {}
    for value in model.graph.input:
        kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        size = int(np.prod(shape))
        found[value.name] = (generator.permutation(size) - size / 4).astype(kind).reshape(shape)
    return found


def right_results(model: ModelProto) -> dict[str, Array]:
    """Return what `A2`, `NEW` or `ADAPTIVE`, or one of them with other types, has to compute for its feeds."""
    feeds = feeds_of(model)
    r = np.maximum(feeds["x"], 0)
    if "dy" not in feeds:
        y, argmax = ascend_pool(r, [adaptive_windows(size, count) for size, count in ((1, 1), (7, 4), (9, 5))])
        return {"y": y, "argmax": argmax.astype(np.int32)}
    spatial = r.shape[2:]
    depth = [pool_windows(1, 1, 1, 0, 1, ceil_mode=False)] if len(spatial) == 3 else []
    plane = [pool_windows(size, 3, 2, 1, 1, ceil_mode=False) for size in spatial[-2:]]
    y, _ = ascend_pool(r, [*depth, *plane])
    axes = len(spatial)
    lists = ([1] * (axes - 2) + [3, 3], [1] * (axes - 2) + [2, 2], ([0] * (axes - 2) + [1, 1]) * 2)
    return {"y": y, "dx": pool_gradient(r.shape, feeds["dy"], max_pool_indices(r, *lists))}
