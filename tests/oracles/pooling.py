# SPDX-License-Identifier: Apache-2.0

"""Max pooling from its definition in ONNX's operator documentation (MaxPool-12 and later)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tests.oracles.windows import Array, Ints, Windows, least_padding, pool


def max_pool(
    x: Array,
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    *,
    ceil_mode: bool = False,
    storage_order: int = 0,
) -> tuple[Array, Ints]:
    """Return MaxPool's Y and Indices, each [N, C, *out].

    The first maximum of a window in row-major order wins. A NaN wins only as the first element of its window, as in
    onnxruntime 1.31: every comparison with NaN is false.

    Args:
        x: [N, C, *spatial] of any number of spatial axes.
        kernel_shape: as ONNX's attribute.
        strides: as ONNX's attribute; 1 where absent.
        pads: as ONNX's attribute, all begins before all ends; 0 where absent.
        dilations: as ONNX's attribute; 1 where absent.
        ceil_mode: round the output size up; a last window that would start beyond the input is dropped.
        storage_order: Indices number the whole x, each plane row-major (0) or column-major (1).

    Raises:
        ValueError: a window holds no element of x.
    """
    spatial = x.shape[2:]
    windows = []
    for axis, (size, kernel) in enumerate(zip(spatial, kernel_shape, strict=True)):
        stride, dilation = strides[axis] if strides else 1, dilations[axis] if dilations else 1
        ends = (pads[axis], pads[len(spatial) + axis]) if pads else (0, 0)
        windows.append(_windows(size, kernel, stride, ends, dilation, ceil_mode=ceil_mode))
    y, positions = pool(x, windows, np.greater)
    plane = math.prod(spatial)
    in_plane = np.arange(plane).reshape(spatial, order="F" if storage_order else "C").reshape(-1)
    indices = in_plane[positions]
    for n, c in np.ndindex(x.shape[:2]):
        indices[n, c] += (n * x.shape[1] + c) * plane
    return y, indices


def max_pool_indices(
    x: Array,
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    *,
    ceil_mode: bool = False,
) -> Ints:
    """Return the row-major Indices of `max_pool`."""
    return max_pool(x, kernel_shape, strides, pads, dilations, ceil_mode=ceil_mode)[1]


def same_pads(spatial: Sequence[int], kernel_shape: Sequence[int], strides: Sequence[int], *, upper: bool) -> list[int]:
    """Return the pads that auto_pad SAME_UPPER or SAME_LOWER stands for (dilation 1).

    As ONNX documents them: the output size is ceil(size / stride), and of an odd total the larger half is at the
    end (upper) or at the begin (lower).
    """
    begins, ends = [], []
    for axis in zip(spatial, kernel_shape, strides, strict=True):
        total = least_padding(*axis)
        begins.append(math.floor(total / 2) if upper else math.ceil(total / 2))
        ends.append(total - begins[-1])
    return begins + ends


def _windows(size: int, kernel: int, stride: int, pads: tuple[int, int], dilation: int, *, ceil_mode: bool) -> Windows:
    """Return the windows of one axis; ONNX's formula says how many, and elements in the padding are left out."""
    quotient = (size + sum(pads) - ((kernel - 1) * dilation + 1)) / stride
    count = (math.ceil(quotient) if ceil_mode else math.floor(quotient)) + 1
    windows = []
    for start in range(-pads[0], count * stride - pads[0], stride):
        if start < size or not ceil_mode:
            taps = range(start, start + kernel * dilation, dilation)
            windows.append([tap for tap in taps if 0 <= tap < size])
    return windows
