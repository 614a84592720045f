"""What the attributes of a node of the dialect promise about its operands, as `docs/dialect.md` has it.

A function body needs none of Ascend's attributes, and a kernel may rely on all of them: the sizes of `grad` follow from
those of x, and every position in `argmax` is one that its window looks at. A pool's body has windows of its own, in
ONNX's words: both have to be the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from poolgrad_lowering.dialect.onnx_window import window_difference
from poolgrad_lowering.verification.flat import FlatNode
from poolgrad_lowering.verification.operators.pool import window_count

Array = npt.NDArray[Any]
Windows = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]
"""Along one axis: the first position of each window, the one behind its last, and the step between positions."""

_ASCEND_TYPES = {3: np.dtype(np.int32), 9: np.dtype(np.int64)}


def broken_promise(node: FlatNode, operands: Sequence[Array]) -> str | None:
    """What is wrong with the operands x, grad and argmax of a gradient, or None."""
    if len(operands) != 3:
        return f"it takes x, grad and argmax, and has {len(operands)} inputs"
    x, grad, argmax = operands
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.proto.attribute}
    if grad.shape != argmax.shape:
        return f"grad has shape {grad.shape}, argmax {argmax.shape}"
    if grad.dtype != x.dtype:
        return f"grad has type {grad.dtype}, x {x.dtype}"
    if "dtype" in attributes and argmax.dtype != _ASCEND_TYPES.get(attributes["dtype"]):
        return f"argmax has type {argmax.dtype}, which is not number {attributes['dtype']} of Ascend's"
    return _broken_windows(attributes, x.shape[2:], argmax, pooled=False)


def broken_pool_promise(node: FlatNode, x: Array, argmax: Array) -> str | None:
    """What is wrong with the attributes of a pool, by what it pools and the argmax that its body made, or None."""
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.proto.attribute}
    number = attributes.get("dtype", attributes.get("indices_dtype", 0))
    if argmax.dtype != _ASCEND_TYPES.get(number):
        return f"argmax has type {argmax.dtype}, which is not number {number} of Ascend's"
    return _broken_windows(attributes, x.shape[2:], argmax, pooled=True)


def _broken_windows(attributes: Mapping[str, Any], sizes: Sequence[int], argmax: Array, *, pooled: bool) -> str | None:
    """What is wrong with the windows of a pool, or of a gradient, whose grad has argmax's shape; None if nothing is."""
    counts = argmax.shape[2:]
    try:
        if pooled and "ksize" in attributes and (difference := window_difference(attributes)) is not None:
            return f"the attributes name two windows: {difference}"
        windows = _windows(attributes, sizes, counts)
    except (KeyError, IndexError, ValueError, ZeroDivisionError) as error:
        return f"the attributes do not fit x: {error}"
    expected = tuple(len(first) for first, _, _ in windows)
    if expected != counts:
        return f"the attributes give {expected} windows, {'argmax' if pooled else 'grad'} has {counts}"
    return _outside(windows, sizes, argmax)


def _windows(attributes: Mapping[str, Any], sizes: Sequence[int], counts: Sequence[int]) -> list[Windows]:
    """The windows of each axis that x has; attributes may name axes before those, of size 1."""
    if "ksize" not in attributes:
        return [_adaptive(size, count) for size, count in zip(sizes, counts, strict=True)]
    lists = [attributes[name] for name in ("ksize", "strides", "pads", "dilation")]
    missing = len(lists[0]) - len(sizes)
    axes = list(zip((*[1] * missing, *sizes), *lists, strict=True))
    found = [_fixed(*axis, ceil=bool(attributes.get("ceil_mode", 0))) for axis in axes]
    if any(len(first) != 1 for first, _, _ in found[:missing]):
        raise ValueError("an axis that x lacks has several windows")
    return found[missing:]


def _fixed(size: int, kernel: int, stride: int, pad: int, dilation: int, *, ceil: bool) -> Windows:
    if 2 * pad > kernel:
        raise ValueError(f"padding {pad} is more than half of kernel {kernel}")
    extent = dilation * (kernel - 1) + 1
    first = np.arange(window_count(size, extent, stride, pad, pad, ceil=ceil), dtype=np.int64) * stride - pad
    return first, first + extent, dilation


def _adaptive(size: int, count: int) -> Windows:
    number = np.arange(count, dtype=np.int64)
    return number * size // count, -(-(number + 1) * size // count), 1


def _outside(windows: Sequence[Windows], sizes: Sequence[int], argmax: Array) -> str | None:
    """The first position that is outside of its window."""
    wide = argmax.astype(np.int64)
    bad = (wide < 0) | (wide >= math.prod(sizes))
    for axis, (first, end, step) in enumerate(windows):
        along = [-1 if other == axis else 1 for other in range(len(sizes))]
        place = wide // math.prod(sizes[axis + 1 :]) % sizes[axis]
        offset = place - first.reshape(along)
        bad |= (offset < 0) | (place >= end.reshape(along)) | (offset % step != 0)
    if not bad.any():
        return None
    index = tuple(int(number) for number in np.argwhere(bad)[0])
    return f"argmax at {list(index)} is {argmax[index]}, which is outside of the window that the attributes give"
