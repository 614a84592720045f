# SPDX-License-Identifier: Apache-2.0

"""PyTorch's pooling operators as operators of onnx's reference evaluator, from their definitions.

Each runs as node `ATen` with the name in attribute `operator`, and under its own name, in domain org.pytorch.aten; the
backward ones of max pools also as a user's `npu` node with the arguments as attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx.reference.op_run import OpRun

from tests.oracles.as_operator import as_operator
from tests.oracles.pooling import (
    Array,
    Ints,
    adaptive_windows,
    ascend_pool,
    check_gradient_type,
    pool_gradient,
    pool_windows,
)

DOMAIN = "org.pytorch.aten"

_ARGUMENTS = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")


def max_pool_with_indices(x: Array, *arguments: Any) -> tuple[Array, Ints]:
    """Return max_pool{2,3}d_with_indices: Y and plane-local indices. PyTorch's kernel treats NaN as CANN's does.

    The last arguments may be missing. An empty stride is the kernel; a list of one number stands for all axes.
    """
    given: dict[str, Any] = {"stride": (), "padding": (0,), "dilation": (1,), "ceil_mode": False}
    given.update(zip(_ARGUMENTS, arguments, strict=False))
    if not len(given["stride"]):
        given["stride"] = given["kernel_size"]
    of_axes = (np.broadcast_to(given[name], x.ndim - 2).tolist() for name in _ARGUMENTS[:4])
    axes = zip(x.shape[2:], *of_axes, strict=True)
    return ascend_pool(x, [pool_windows(*axis, ceil_mode=bool(given["ceil_mode"])) for axis in axes])


def adaptive_max_pool(x: Array, output_size: Sequence[int] | Ints) -> tuple[Array, Ints]:
    """Return adaptive_max_pool{2,3}d: Y and plane-local indices."""
    axes = zip(x.shape[2:], output_size, strict=True)
    return ascend_pool(x, [adaptive_windows(size, int(count)) for size, count in axes])


def max_pool_backward(dy: Array, x: Array, *arguments: Array) -> Array:
    """Return dX of a pool, plane by plane. The last argument are its indices, which are plane-local."""
    check_gradient_type(x, dy)
    dx, indices = np.empty(x.shape, dy.dtype), arguments[-1]
    for plane in np.ndindex(x.shape[:2]):
        dx[plane] = pool_gradient(x.shape[2:], dy[plane], indices[plane])
    return dx


def maximum(x: Array, dim: Ints, keepdim: npt.NDArray[np.bool_]) -> tuple[Array, Ints]:
    """Return max.dim: the maxima over an axis and their first positions on it; the first NaN is a maximum."""
    lines = np.moveaxis(x, dim, 0)
    best, position = lines[0], np.zeros(lines[0].shape, np.int64)
    for number, elements in enumerate(lines):
        better = ~(elements <= best) & ~np.isnan(best)
        best, position = np.where(better, elements, best), np.where(better, number, position)
    return (np.expand_dims(best, dim), np.expand_dims(position, dim)) if keepdim else (best, position)


def selecting_gradient(dy: Array, dim: Ints, indices: Ints, sizes: Ints, keepdim: npt.NDArray[np.bool_]) -> Array:
    """Return value_selecting_reduction_backward: zeros of `sizes` with dY at the positions on axis `dim`.

    Raises:
        ValueError: dY and the positions have other shapes. PyTorch refuses a smaller dY and reads a part of a larger
            one.
    """
    if indices.shape != dy.shape:
        raise ValueError(f"dY has shape {dy.shape}, the positions {indices.shape}")
    dx, axis = np.zeros(tuple(sizes), dy.dtype), int(dim) % len(sizes)
    for place, gradient in np.ndenumerate(dy):
        selected = list(place)
        selected[axis : axis + 1 if keepdim else axis] = [indices[place]]
        dx[tuple(selected)] = gradient
    return dx


_POOLS: dict[str, Callable[..., Any]] = {
    name.format(rank): function
    for rank in (2, 3)
    for name, function in (
        ("adaptive_max_pool{}d", adaptive_max_pool),
        ("max_pool{}d_with_indices", max_pool_with_indices),
    )
}
OPERATORS: dict[str, Callable[..., Any]] = {
    **_POOLS,
    **{f"{name}_backward": max_pool_backward for name in _POOLS},
    "max": maximum,
    "value_selecting_reduction_backward": selecting_gradient,
}


def _named(*inputs: Array, operator: str, **_: Any) -> Any:
    return OPERATORS[operator](*inputs)


def _user_pool(x: Array, **attributes: Any) -> Any:
    return max_pool_with_indices(x, *(attributes[name] for name in _ARGUMENTS))


def _user_backward(dy: Array, x: Array, indices: Array, **_: Any) -> Array:
    return max_pool_backward(dy, x, indices)


ATEN_OPS: list[type[OpRun]] = [
    as_operator("ATen", DOMAIN, _named),
    *(as_operator(name, DOMAIN, function) for name, function in OPERATORS.items()),
    *(as_operator(f"NPUMaxPool{rank}dWithIndices", "npu", _user_pool) for rank in (2, 3)),
    *(as_operator(f"NPUMaxPool{rank}dWithIndicesBackward", "npu", _user_backward) for rank in (2, 3)),
]
"""For `ReferenceEvaluator(new_ops=…)`."""
