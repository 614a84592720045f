# SPDX-License-Identifier: Apache-2.0

"""The pool operators of CANN in numpy, from their definitions, by the attributes that GE has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.harness.ge.average import TYPES as AVERAGE
from tests.harness.ge.average import compute_average
from tests.harness.ge.kernels import Kernel, check_windows, index_type, kernel_for, refused, windows_of
from tests.harness.ge.parser import GeOperator
from tests.harness.ge.prototypes import Soc
from tests.oracles import adaptive_windows, ascend_pool, pool_windows
from tests.oracles.pooling import Windows

Array = npt.NDArray[Any]
LAYOUTS = {"NCDHW": False, "NCHW": False, "NDHWC": True, "NHWC": True}
"""The texts of data_format: whether the channels are last."""


def compute(operator: GeOperator, inputs: Sequence[Array], soc: Soc) -> list[Array]:
    """Return the outputs of a pool operator or of its gradient.

    Raises:
        GeError: the SoC has no kernel for the operator, or it refuses types, formats, shapes or attributes.
    """
    if operator.type in AVERAGE:
        return compute_average(operator, inputs, soc)
    kernel = kernel_for(operator, inputs, soc)
    channels_last = _channels_are_last(operator, kernel, soc)
    planes = [_as_planes(array, kernel.axes, channels_last=channels_last) for array in inputs]
    windows = _windows(operator, planes[0].shape[2:], soc)
    if len(planes) == 1:
        y, argmax = ascend_pool(planes[0], windows)
        results = [y, argmax.astype(index_type(operator))]
    else:
        results = [_gradient(operator, planes, windows)]
    return [_from_planes(array, inputs[0].ndim, channels_last=channels_last) for array in results]


def _channels_are_last(operator: GeOperator, kernel: Kernel, soc: Soc) -> bool:
    """Return how data_format is read: ascend910b and ascend910_93 have NCDHW only."""
    if "data_format" not in operator.attributes:
        return False
    text = operator.attributes["data_format"].value
    if len(text) != kernel.axes + 2 or text not in LAYOUTS or (LAYOUTS[text] and soc != "ascend950"):
        raise refused(operator, f"data_format {text}")
    return LAYOUTS[text]


def _as_planes(array: Array, axes: int, *, channels_last: bool) -> Array:
    """Return [N, C, *spatial]; a missing N is 1. So a rank of `axes` + 1 is (C, *spatial)."""
    array = array if array.ndim == axes + 2 else array[np.newaxis]
    return np.moveaxis(array, -1, 1) if channels_last else array


def _from_planes(array: Array, rank: int, *, channels_last: bool) -> Array:
    array = np.moveaxis(array, 1, -1) if channels_last else array
    return array if array.ndim == rank else array[0]


def _windows(operator: GeOperator, sizes: Sequence[int], soc: Soc) -> list[Windows]:
    if operator.type == "AdaptiveMaxPool3d":
        counts = operator.attributes["output_size"].value
        if len(counts) not in (1, 3) or min(counts) < 1:
            raise refused(operator, f"output_size {counts}")
        counts = counts * 3 if len(counts) == 1 else counts
        return [adaptive_windows(size, count) for size, count in zip(sizes, counts, strict=True)]
    check_windows(operator, sizes, soc)
    ceil_mode = operator.attributes["ceil_mode"].value
    rows = zip(sizes, *windows_of(operator, len(sizes)), strict=True)
    return [pool_windows(*row, ceil_mode=ceil_mode) for row in rows]


def _gradient(operator: GeOperator, planes: Sequence[Array], windows: Sequence[Windows]) -> Array:
    """Return y: at each position the sum, in float32, of the grads whose argmax is there and whose window has it."""
    x, grad, argmax = planes
    expected = (*x.shape[:2], *map(len, windows))
    if not grad.shape == argmax.shape == expected:
        raise refused(operator, f"grad of {grad.shape} and argmax of {argmax.shape}, expected {expected}")
    sizes = x.shape[2:]
    inside = (argmax >= 0) & (argmax < np.prod(sizes))
    places = np.unravel_index(np.where(inside, argmax, 0), sizes)
    for axis, (place, of_axis) in enumerate(zip(places, windows, strict=True)):
        member = np.zeros((len(of_axis), sizes[axis]), bool)
        for number, window in enumerate(of_axis):
            member[number, window] = True
        numbers = np.arange(len(of_axis)).reshape([-1 if each == axis else 1 for each in range(len(sizes))])
        inside &= member[numbers, place]
    y = np.zeros((x.shape[0] * x.shape[1], int(np.prod(sizes))), np.float32)
    plane = np.broadcast_to(np.arange(len(y)).reshape(*x.shape[:2], *[1] * len(sizes)), argmax.shape)
    np.add.at(y, (plane[inside], argmax[inside]), grad[inside].astype(np.float32))
    return y.astype(x.dtype).reshape(x.shape)
