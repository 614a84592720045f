# SPDX-License-Identifier: Apache-2.0

"""Vectorized gathers, scatters and sort, which onnx's reference evaluator computes one element at a time; Flatten and
Resize.

If a scatter has duplicate indices, updates are applied in row-major order, as in onnx's evaluator and in onnxruntime.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx.reference.ops.op_resize import Resize as OnnxResize

from poolgrad_lowering.verification.arrays import AnyArray, IntArray

_REDUCTIONS = {"add": np.add, "max": np.maximum, "min": np.minimum, "mul": np.multiply}


def _scattered(data: AnyArray, flat: IntArray, updates: AnyArray, reduction: str | None) -> AnyArray:
    """Return `data` with `updates` applied at the flat positions."""
    result: AnyArray = data.copy().reshape(-1)
    if reduction in (None, "none"):
        result[flat.reshape(-1)] = updates.reshape(-1)
    else:
        _REDUCTIONS[str(reduction)].at(result, flat.reshape(-1), updates.reshape(-1))
    return result.reshape(data.shape)


def _wrapped(indices: AnyArray, size: int) -> IntArray:
    """Return indices with negative ones counted from the end. Raises `IndexError` if one is out of range."""
    if indices.size and not -size <= indices.min() <= indices.max() < size:
        raise IndexError(f"indices range from {indices.min()} to {indices.max()}, but the axis has {size} elements")
    return np.where(indices < 0, indices + size, indices).astype(np.int64)


def _rows(tuples: AnyArray, shape: Sequence[int]) -> IntArray:
    """Return the flat positions of the rows at index tuples (along the last axis) in a tensor of this shape."""
    flat = np.zeros(tuples.shape[:-1], np.int64)
    for axis in range(tuples.shape[-1]):
        flat = flat * shape[axis] + _wrapped(tuples[..., axis], shape[axis])
    row = math.prod(shape[tuples.shape[-1] :])
    return flat[..., None] * row + np.arange(row)


def _scatter_elements(
    data: AnyArray, indices: AnyArray, updates: AnyArray, axis: int = 0, reduction: str | None = None
) -> AnyArray:
    axis = (axis or 0) % data.ndim
    if indices.shape != updates.shape:
        raise ValueError(f"indices have shape {indices.shape}, updates {updates.shape}")
    places = list[AnyArray](np.indices(indices.shape, sparse=True))
    places[axis] = _wrapped(indices, data.shape[axis])
    return _scattered(data, np.ravel_multi_index(places, data.shape), updates, reduction)


def _scatter_nd(data: AnyArray, indices: AnyArray, updates: AnyArray, reduction: str | None = None) -> AnyArray:
    return _scattered(data, _rows(indices, data.shape), updates, reduction)


def _gather_elements(data: AnyArray, indices: AnyArray, axis: int = 0) -> AnyArray:
    axis = (axis or 0) % data.ndim
    part = data[tuple(slice(None if a == axis else indices.shape[a]) for a in range(data.ndim))]
    return np.take_along_axis(part, _wrapped(indices, data.shape[axis]), axis)


def _gather_nd(data: AnyArray, indices: AnyArray, batch_dims: int = 0) -> AnyArray:
    batch, inner = data.shape[: batch_dims or 0], data.shape[batch_dims or 0 :]
    flat = _rows(indices, inner)
    image = np.arange(math.prod(batch)).reshape(*batch, *[1] * (flat.ndim - len(batch)))
    flat = flat + image * math.prod(inner)
    return data.reshape(-1)[flat.reshape(-1)].reshape(*indices.shape[:-1], *inner[indices.shape[-1] :])


def _flatten(x: AnyArray, axis: int = 1) -> AnyArray:
    """Flatten, of empty tensors too, which onnx's reference evaluator does not flatten."""
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


def _top_k(data: AnyArray, k: AnyArray, axis: int = -1, largest: int = 1, **_: Any) -> tuple[AnyArray, IntArray]:
    """TopK of opset 10 and newer, always sorted; of equal elements the first is taken."""
    if largest:
        order = data.shape[axis] - 1 - np.flip(np.argsort(np.flip(data, axis), axis=axis, kind="stable"), axis)
    else:
        order = np.argsort(data, axis=axis, kind="stable")
    order = order.take(np.arange(int(k.item())), axis=axis)
    return np.take_along_axis(data, order, axis), order.astype(np.int64)


def _concat_of_training(*inputs: AnyArray, axis: int) -> tuple[AnyArray, IntArray]:
    """onnxruntime training's Concat, which also outputs the length of each input."""
    return np.concatenate(inputs, axis), np.array([array.shape[axis] for array in inputs], np.int64)


_COORDINATES: dict[str | None, Callable[[IntArray, float], AnyArray]] = {
    None: lambda places, scale: places / scale,  # opset 10 has no attribute
    "asymmetric": lambda places, scale: places / scale,
    "half_pixel": lambda places, scale: (places + 0.5) / scale - 0.5,
    "pytorch_half_pixel": lambda places, scale: (places + 0.5) / scale - 0.5,
}
_NEAREST: dict[str | None, Callable[[AnyArray], AnyArray]] = {
    None: np.floor,
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda at: np.ceil(at - 0.5),
    "round_prefer_ceil": lambda at: np.floor(at + 0.5),
}


class Resize(OnnxResize):
    """Resize to nearest elements, infinite ones too, which onnx's reference evaluator multiplies with 0.

    Any other Resize is left to it.
    """

    def _run(self, x: AnyArray, *operands: AnyArray | None, **attributes: Any) -> Any:  # type: ignore[override]
        given = {name: value for name, value in attributes.items() if value is not None}
        way, rounding = given.get("coordinate_transformation_mode"), given.get("nearest_mode")
        scales, sizes = operands[min(1, len(operands) - 1)], operands[2] if len(operands) > 2 else None
        if sizes is not None and given.get("keep_aspect_ratio_policy", "stretch") == "stretch" and x.size:
            scales = sizes / np.array(x.shape, np.float64)
        is_read = scales is not None and scales.size == x.ndim and x.size and "axes" not in given
        if given.get("mode", "nearest") != "nearest" or way not in _COORDINATES or not is_read:
            return super()._run(x, *operands, **attributes)  # type: ignore[arg-type]
        for axis, scale in enumerate(map(float, np.asarray(scales))):
            places = _NEAREST[rounding](_COORDINATES[way](np.arange(math.floor(x.shape[axis] * scale)), scale))
            x = x.take(np.clip(places.astype(np.int64), 0, x.shape[axis] - 1), axis)
        return (x,)


FUNCTIONS: dict[tuple[str, str], Callable[..., Any]] = {
    ("com.microsoft", "ConcatTraining"): _concat_of_training,
    ("", "Flatten"): _flatten,
    ("", "GatherElements"): _gather_elements,
    ("", "GatherND"): _gather_nd,
    **dict.fromkeys((("", "Scatter"), ("", "ScatterElements")), _scatter_elements),
    ("", "ScatterND"): _scatter_nd,
    ("", "TopK"): _top_k,
}
