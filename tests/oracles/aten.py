# SPDX-License-Identifier: Apache-2.0

"""PyTorch's pooling operators as operators of onnx's reference evaluator, from their definitions in numpy.

Each runs as node `ATen` with the name in attribute `operator`, and under its own name, in domain org.pytorch.aten; the
backward ones of max pools also as a user's `npu` node with the arguments as attributes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx.reference.op_run import OpRun

from tests.oracles.gradient import pool_gradient_of
from tests.oracles.pooling import max_pool

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Numbers = Sequence[int] | Ints


def plane_pool(x: Array, kernel: Numbers, *others: Any) -> tuple[Array, Ints]:
    """Return max_pool{2,3}d_with_indices: Y and plane-local indices.

    Arguments after kernel_size are stride, padding, dilation and ceil_mode, from the last on left out for the default.
    An empty stride is the kernel; a list of one number stands for all axes.
    """
    rank = x.ndim - 2
    stride, padding, dilation, ceil = (*others, *((), (0,), (1,), False)[len(others) :])
    lists = (kernel, stride if len(stride) else kernel, padding, dilation)
    kernels, steps, pads, spacing = ((list(held) * rank if len(held) == 1 else list(held)) for held in lists)
    y, indices = max_pool(x, kernels, steps, pads * 2, spacing, ceil_mode=bool(ceil))
    return y, indices % np.prod(x.shape[2:], dtype=np.int64)


def plane_gradient(dy: Array, x: Array, indices: npt.NDArray[np.integer[Any]]) -> Array:
    """Return dX of a pool with plane-local indices."""
    plane = np.prod(x.shape[2:], dtype=np.int64)
    first = np.arange(np.prod(x.shape[:2])).reshape(*x.shape[:2], *[1] * (x.ndim - 2)) * plane
    return pool_gradient_of(x, dy, indices + first)


def adaptive_pool(x: Array, output_size: Numbers) -> tuple[Array, Ints]:
    """Return adaptive_max_pool{2,3}d: Y and plane-local indices.

    Window o of an axis spans ⌊o·in/out⌋ … ⌈(o+1)·in/out⌉ − 1; its first maximum in row-major order wins.
    """
    spatial, sizes = x.shape[2:], [int(size) for size in output_size]
    numbers = np.arange(np.prod(spatial)).reshape(spatial)
    y = np.empty((*x.shape[:2], *sizes), x.dtype)
    indices = np.empty(y.shape, np.int64)
    for place in itertools.product(*map(range, sizes)):
        window = tuple(
            slice(o * size // count, -(-(o + 1) * size // count))
            for o, size, count in zip(place, spatial, sizes, strict=True)
        )
        seen: Any = (..., *window)
        written: Any = (..., *place)
        taps = x[seen].reshape(*x.shape[:2], -1)
        best = taps.argmax(axis=-1)
        y[written] = np.take_along_axis(taps, best[..., None], -1)[..., 0]
        indices[written] = numbers[window].reshape(-1)[best]
    return y, indices


def axis_maximum(x: Array, dim: Ints, keepdim: npt.NDArray[np.bool_]) -> tuple[Array, Ints]:
    """Return max.dim: the maxima over an axis and their first positions on it."""
    axis, keepdims = int(dim), bool(keepdim)
    return x.max(axis, keepdims=keepdims), x.argmax(axis, keepdims=keepdims)


def selecting_gradient(dy: Array, dim: Ints, indices: Ints, sizes: Ints, keepdim: npt.NDArray[np.bool_]) -> Array:
    """Return value_selecting_reduction_backward: zeros of `sizes` with dY at the positions on axis `dim`.

    Raises:
        ValueError: dY and the positions have other shapes. PyTorch refuses a smaller dY and reads a part of a larger
            one.
    """
    if dy.shape != indices.shape:
        raise ValueError(f"dY has shape {dy.shape}, the positions {indices.shape}")
    axis = int(dim)
    if not keepdim:
        dy, indices = np.expand_dims(dy, axis), np.expand_dims(indices, axis)
    dx = np.zeros(sizes.tolist(), dy.dtype)
    np.put_along_axis(dx, indices, dy, axis)
    return dx


def _pool_backward(dy: Array, x: Array, *arguments: Array) -> Array:
    return plane_gradient(dy, x, arguments[-1])


OPERATORS: dict[str, Callable[..., Any]] = {
    "adaptive_max_pool2d": adaptive_pool,
    "adaptive_max_pool2d_backward": plane_gradient,
    "adaptive_max_pool3d": adaptive_pool,
    "adaptive_max_pool3d_backward": plane_gradient,
    "max": axis_maximum,
    "max_pool2d_with_indices": plane_pool,
    "max_pool2d_with_indices_backward": _pool_backward,
    "max_pool3d_with_indices": plane_pool,
    "max_pool3d_with_indices_backward": _pool_backward,
    "value_selecting_reduction_backward": selecting_gradient,
}


class ATen(OpRun):
    """The generic node: the operator is named by an attribute."""

    op_domain = "org.pytorch.aten"

    def _run(self, *inputs: Array, operator: str = "", **_: Any) -> tuple[Array, ...]:
        """Return what the operator returns."""
        return _as_outputs(OPERATORS[operator or self.onnx_node.op_type](*inputs))


class _UserPool(OpRun):
    """A user's forward node."""

    op_domain = "npu"

    def _run(self, x: Array, **attributes: Any) -> tuple[Array, ...]:
        names = ("kernel_size", "stride", "padding", "dilation")
        return plane_pool(x, *(attributes[name] for name in names), attributes["ceil_mode"])


class _UserBackward(OpRun):
    """A user's backward node: everything follows from the indices."""

    op_domain = "npu"

    def _run(self, dy: Array, x: Array, indices: Array, **_: Any) -> tuple[Array, ...]:
        return (plane_gradient(dy, x, indices),)


def _as_outputs(result: Any) -> tuple[Array, ...]:
    return result if isinstance(result, tuple) else (result,)


ATEN_OPS: list[type[OpRun]] = [
    ATen,
    *(type(name, (ATen,), {}) for name in OPERATORS),
    *(type(f"NPUMaxPool{rank}dWithIndices", (_UserPool,), {}) for rank in (2, 3)),
    *(type(f"NPUMaxPool{rank}dWithIndicesBackward", (_UserBackward,), {}) for rank in (2, 3)),
]
"""For `ReferenceEvaluator(new_ops=…)`."""
