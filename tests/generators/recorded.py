# SPDX-License-Identifier: Apache-2.0

"""Writers of gradients by a MaxPool's Indices: MaxPoolGrad, and scatters that add or overwrite.

Each writes the forward pool over x and returns its output and what writes the gradient for a given dy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tests.generators.sites import Pooling
from tests.generators.windows import PoolWindows
from tests.generators.writer import Writer

Written = tuple[str, Callable[[str], str]]


def max_pool(write: Writer, site: Pooling, x: str) -> list[str]:
    """Write the MaxPool: Y and Indices."""
    return write.several("MaxPool", 2, x, **attributes(write, site))


def attributes(write: Writer, site: Pooling) -> dict[str, Any]:
    assert isinstance(site.windows, PoolWindows)
    return site.windows.attributes(opset=write.opset, bare=site.spelling.bare)


def plane_local(write: Writer, site: Pooling, x: str, indices: str) -> str:
    """Write the Indices relative to each plane's first element."""
    if site.spelling.remainder:
        return write("Mod", indices, np.array(site.plane, np.int64))
    every = write.several("MaxPool", 2, x, kernel_shape=[1] * site.rank)[1]
    axes = list(range(2, 2 + site.rank))
    return write("Sub", indices, write.slice(every, [0] * site.rank, [1] * site.rank, axes))


def zeros(write: Writer, site: Pooling, shape: list[int], x: str, element_type: int) -> str:
    """Write the zeros of a scatter; a size of -1 stands for the batch and its factors."""
    dtype = helper.tensor_dtype_to_np_dtype(element_type)
    if -1 in shape:
        batch = write.slice(write("Shape", x), [0], [1], [0])
        first = batch if len(shape) > 2 or site.rank == 0 else write("Mul", batch, [site.x_shape[1]])
        told = write("Concat", first, *([size] for size in shape[1:]), axis=0)
    elif site.spelling.zeros == 2:
        return write.constant(np.zeros(shape, dtype))
    else:
        told = write.constant(shape)
    if site.spelling.zeros == 1:
        return write("ConstantOfShape", told, value=helper.make_tensor("zero", element_type, [1], [0]))
    return write("Expand", write.constant(np.zeros((), dtype)), told)


def shaped(write: Writer, site: Pooling, value: str) -> str:
    """Write the view in x's shape."""
    return write("Reshape", value, [-1 if site.dynamic else site.x_shape[0], *site.x_shape[1:]])


def widened(write: Writer, site: Pooling, updates: str) -> str:
    return write("Cast", updates, to=TensorProto.FLOAT) if site.is_half else updates


def narrowed(write: Writer, site: Pooling, sums: str) -> str:
    return write("Cast", sums, to=site.element_type) if site.is_half else sums


def sum_type(site: Pooling) -> int:
    return TensorProto.FLOAT if site.is_half else site.element_type


def max_pool_grad(write: Writer, site: Pooling, x: str) -> Written:
    """onnxruntime training."""
    y, indices = max_pool(write, site, x)
    own = attributes(write, site) if not site.spelling.extra else {}
    return y, lambda dy: write("MaxPoolGrad", dy, indices, **own)


def scatter_add(write: Writer, site: Pooling, x: str) -> Written:
    """The scatter of PyTorch's joint graphs: one row per plane; half types are summed in float32."""
    y, indices = max_pool(write, site, x)
    local = plane_local(write, site, x, indices)
    if site.spelling.int32:
        local = write("Cast", local, to=TensorProto.INT32)
    return y, lambda dy: add_rows(write, site, x, local, dy)


def add_rows(write: Writer, site: Pooling, x: str, local: str, dy: str) -> str:
    """Write the scatter of dy onto rows of zeros by plane-local indices, and the way back to x's shape."""
    count = int(np.prod(site.pooled_shape[2:]))
    rows = write("Reshape", local, [*site.rows, count])
    updates = widened(write, site, write("Reshape", dy, [*site.rows, count]))
    base = zeros(write, site, [*site.rows, site.plane], x, sum_type(site))
    sums = write("ScatterElements", base, rows, updates, axis=len(site.rows), reduction="add")
    return narrowed(write, site, shaped(write, site, sums))


def overwrite(write: Writer, site: Pooling, x: str) -> Written:
    """PyTorch's scatter and max-unpool, which do not add, so that no type needs a wider sum."""
    y, indices = max_pool(write, site, x)
    local = plane_local(write, site, x, indices)

    def backward(dy: str) -> str:
        count = int(np.prod(site.pooled_shape[2:]))
        base = zeros(write, site, [*site.rows, site.plane], x, site.element_type)
        rows, updates = (write("Reshape", value, [*site.rows, count]) for value in (local, dy))
        return shaped(write, site, write("ScatterElements", base, rows, updates, axis=-1))

    return y, backward


def unpool(write: Writer, site: Pooling, x: str) -> Written:
    """ONNX's MaxUnpool, whose attributes are such that the shape of x follows from them."""
    assert isinstance(site.windows, PoolWindows)
    y, indices = max_pool(write, site, x)
    strides = [axis.stride for axis in site.windows.axes]
    axes = zip(site.x_shape[2:], site.pooled_shape[2:], strides, strict=True)
    unpooled = {"kernel_shape": [size - (count - 1) * stride for size, count, stride in axes], "strides": strides}
    shape = [write("Shape", x)] if site.spelling.extra else []
    return y, lambda dy: write("MaxUnpool", dy, indices, *shape, **unpooled)


def scatter_nd(write: Writer, site: Pooling, x: str) -> Written:
    """PyTorch's index_put: on rows by a table of their numbers, or on all elements by a table of firsts."""
    y, indices = max_pool(write, site, x)
    local = plane_local(write, site, x, indices)
    return y, lambda dy: (_by_rows if site.spelling.extra else _by_elements)(write, site, x, local, dy)


def _by_elements(write: Writer, site: Pooling, x: str, local: str, dy: str) -> str:
    firsts = np.arange(site.planes).reshape(*site.x_shape[:2], *[1] * site.rank) * site.plane
    places = write.unsqueeze(write("Reshape", write("Add", local, firsts), [-1]), -1)
    updates = widened(write, site, write("Reshape", dy, [-1]))
    base = zeros(write, site, [site.planes * site.plane], x, sum_type(site))
    sums = write("ScatterND", base, places, updates, reduction="add")
    return narrowed(write, site, shaped(write, site, sums))


def _by_rows(write: Writer, site: Pooling, x: str, local: str, dy: str) -> str:
    count = int(np.prod(site.pooled_shape[2:]))
    numbers = np.broadcast_to(np.arange(site.planes).reshape(-1, 1, 1), (site.planes, count, 1)).copy()
    places = write.unsqueeze(write("Reshape", local, [site.planes, count]), -1)
    table = write("Concat", numbers, places, axis=-1)
    updates = widened(write, site, write("Reshape", dy, [site.planes, count]))
    base = zeros(write, site, [site.planes, site.plane], x, sum_type(site))
    sums = write("ScatterND", base, table, updates, reduction="add")
    return narrowed(write, site, shaped(write, site, sums))
