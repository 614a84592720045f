# SPDX-License-Identifier: Apache-2.0

"""The gradient of Resize, in all of its modes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper

from poolgrad_lowering.model import interpolation
from poolgrad_lowering.model.convolution_gradients import LARGEST_STRIDE
from poolgrad_lowering.model.ir.bodies import Tensor
from poolgrad_lowering.model.ir.dims import is_static
from poolgrad_lowering.standard.definition import Call, defines

Positions = npt.NDArray[Any]


@defines("ResizeGrad", "dY by the transposed matrix of the Resize, on each axis")
def _gradient(call: Call) -> Tensor:
    """A Resize is a product with a matrix along each axis; its gradient is one with the matrix transposed.

    If it repeats each element of images of any size, its gradient is the sum over the results of each.
    """
    for name, only in (("axes", []), ("keep_aspect_ratio_policy", "stretch")):
        if (value := call.attribute(name, only)) != only:
            raise call.refuse(f"{name} {value}")
    rank = call.rank("X")
    scales = call.numbers("scales") if call.has("scales") else []
    if scales is None:
        raise call.refuse("a ResizeGrad whose scales are no constant")
    if not is_static(call.shape("X")[2:]) and len(scales) == rank and _repeats(call, scales):
        return _sums(call, [int(by) for by in scales[2:]])
    sizes = call.sizes("X", 2)
    if not scales:
        counts = call.sizes("dY", 2)
        scales = [1, 1, *(count / size for count, size in zip(counts, sizes, strict=True))]
    elif len(scales) == rank:
        counts = [int(np.float32(size) * np.float32(by)) for size, by in zip(sizes, scales[2:], strict=True)]
    if len(scales) != rank or scales[:2] != [1, 1]:
        raise call.refuse(f"scales {scales} for {rank} axes, of which the first two stay")
    [result] = call.widened("dY")
    for axis, (size, count, scale) in enumerate(zip(sizes, counts, scales[2:], strict=True), 2):
        call.require_few(size * count)
        weights = _weights(call, size, count, scale)
        result = result.along(axis, rank, weights.astype(helper.tensor_dtype_to_np_dtype(result.element_type)))
    return call.narrowed(result, "dY")


_SAMPLE = 8
"""Elements of an axis of which it is seen whether each is repeated."""


def _repeats(call: Call, scales: Sequence[float]) -> bool:
    """Whether each element is repeated as often as the scales say, on axes of any size, in a type that pools have."""
    if call.element_type("dY") == TensorProto.DOUBLE or scales[:2] != [1, 1]:
        return False
    if not all(by.is_integer() and 1 <= by <= LARGEST_STRIDE for by in scales[2:]):
        return False
    matrices = ((_weights(call, _SAMPLE, _SAMPLE * int(by), by), int(by)) for by in scales[2:])
    return all(np.array_equal(weights, np.eye(_SAMPLE).repeat(by, axis=0)) for weights, by in matrices)


def _sums(call: Call, counts: Sequence[int]) -> Tensor:
    """The sums over windows side by side, which are their means times the number of elements."""
    [dy] = call.widened("dY")
    means = dy.op("AveragePool", kernel_shape=counts, strides=counts)
    return call.narrowed(means * math.prod(counts), "dY")


def _weights(call: Call, size: int, count: int, scale: float) -> npt.NDArray[np.float64]:
    """Return how much of each of `size` elements each of `count` results is, as (count, size).

    As in onnxruntime, positions are numbers of float32.
    """
    coordinates = call.attribute("coordinate_transformation_mode", "half_pixel")
    if coordinates not in _COORDINATES:
        raise call.refuse(f"{coordinates} coordinates")
    at = _COORDINATES[coordinates](np.arange(count, dtype=np.float32), size, count, np.float32(scale))
    mode, rounding = call.attribute("mode", "nearest"), call.attribute("nearest_mode", "round_prefer_floor")
    excludes = bool(call.attribute("exclude_outside", 0))
    cubic = partial(interpolation.cubic, a=call.attribute("cubic_coeff_a", -0.75))
    if call.attribute("antialias", 0):
        filters: dict[str, interpolation.Weights] = {"linear": interpolation.linear, "cubic": cubic}
        if mode not in filters or coordinates != "half_pixel" or not excludes:
            raise call.refuse(
                f"antialias of mode {mode} with {coordinates} coordinates, exclude_outside {int(excludes)}"
            )
        return interpolation.antialiased(filters[mode], size, count, 1 / scale)
    if mode == "linear":
        return interpolation.taps(at.clip(0, size - 1).astype(np.float64), size, 1, interpolation.linear)
    if mode == "cubic":
        return interpolation.taps(at.astype(np.float64), size, 2, cubic, exclude_outside=excludes)
    if mode != "nearest" or rounding not in _ROUNDINGS:
        raise call.refuse(f"mode {mode} with {rounding}")
    return np.eye(size)[_ROUNDINGS[rounding](at).clip(0, size - 1).astype(np.int64)]


def _half_pixel(results: Positions, _: int, __: int, scale: np.float32) -> Positions:
    positions: Positions = (results + np.float32(0.5)) / scale - np.float32(0.5)
    return positions


def _symmetric(results: Positions, size: int, count: int, scale: np.float32) -> Positions:
    """The middle of the results stays that of the elements, where size · scale was rounded."""
    exact = np.float32(size) * scale
    offset = np.float32(size / 2) * (np.float32(1) - np.float32(count) / exact)
    positions: Positions = offset + (results + np.float32(0.5)) / scale - np.float32(0.5)
    return positions


_COORDINATES: Mapping[str, Callable[[Positions, int, int, np.float32], Positions]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": lambda results, size, count, scale: (
        _half_pixel(results, size, count, scale) if count > 1 else np.zeros_like(results)
    ),
    "align_corners": lambda results, size, count, _: results * np.float32(size - 1) / np.float32(max(count - 1, 1)),
    "asymmetric": lambda results, _, __, scale: results / scale,
}
"""The position among the elements of each result, by `coordinate_transformation_mode` of ONNX's Resize."""

_ROUNDINGS: Mapping[str, Callable[[Positions], Positions]] = {
    "round_prefer_floor": lambda at: np.ceil(at - np.float32(0.5)),
    "round_prefer_ceil": lambda at: np.floor(at + np.float32(0.5)),
    "floor": np.floor,
    "ceil": np.ceil,
}
"""The nearest element to a position, by `nearest_mode`."""
