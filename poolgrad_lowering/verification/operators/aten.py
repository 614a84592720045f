# SPDX-License-Identifier: Apache-2.0

"""PyTorch's pools and their backward operators: as ATen nodes, under their own names, and as a user's npu nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from poolgrad_lowering.verification.arrays import AnyArray, IntArray
from poolgrad_lowering.verification.operators import pool

Numbers = Sequence[int] | IntArray


def _of_axes(rank: int, *lists: Numbers) -> Iterator[list[int]]:
    """Yield the lists with a number for each axis; a single number applies to all axes."""
    for numbers in lists:
        yield [int(number) for number in numbers] * (rank if len(numbers) == 1 else 1)


def plane_pool(x: AnyArray, kernel: Numbers, *others: Any) -> tuple[AnyArray, IntArray]:
    """max_pool{2,3}d_with_indices; `others` are stride, padding, dilation and ceil_mode, as many as there are.

    An empty stride means the kernel.
    """
    defaults: tuple[Any, ...] = ((), (0,), (1,), False)
    stride, padding, dilation, ceil = (*others, *defaults[len(others) :])
    given = kernel, stride if len(stride) else kernel, padding, dilation
    kernels, steps, pads, spacing = _of_axes(x.ndim - 2, *given)
    return pool.max_pool(x, kernels, steps, spacing, (pads, pads), ceil=bool(ceil), last_nan=True)


def plane_gradient(dy: AnyArray, x: AnyArray, *arguments: Any, **_: Any) -> AnyArray:
    """Return dx of a pool, which the last argument, its plane-local indices, determines."""
    return pool.gradient_of(x, dy, arguments[-1] + pool.plane_starts(x.shape))


def average_windows(sizes: Sequence[int], kernel: Numbers, *others: Any) -> pool.AverageWindows:
    """Return the windows of avg_pool{1,2,3}d over axes of these sizes.

    `others` are stride, padding, ceil_mode, count_include_pad and divisor_override, as many as there are. An empty
    stride means the kernel.
    """
    defaults: tuple[Any, ...] = ((), (0,), False, True, None)
    stride, padding, ceil, counts_padding, divisor = (*others, *defaults[len(others) :])
    given = kernel, kernel if stride is None or not len(stride) else stride, padding
    kernels, steps, pads = _of_axes(len(sizes), *given)
    fixed = 0 if divisor is None or not np.size(divisor) else int(np.reshape(divisor, ()))
    return pool.AverageWindows.fixed(
        sizes, kernels, steps, (pads, pads), ceil=bool(ceil), counts_padding=bool(counts_padding), divisor=fixed
    )


def _average(x: AnyArray, *arguments: Any, rank: int, windows: Callable[..., pool.AverageWindows]) -> AnyArray:
    return pool.average_pool(x, windows(x.shape[-rank:], *arguments))


def _average_backward(dy: AnyArray, x: AnyArray, *arguments: Any, rank: int, adaptive: bool = False) -> AnyArray:
    """Return dx. Raises `ValueError` if it does not have the shape and element type of x, as PyTorch does."""
    find, given = (pool.AverageWindows.adaptive, (dy.shape[-rank:],)) if adaptive else (average_windows, ())
    dx = pool.average_gradient(x.shape[-rank:], dy, find(x.shape[-rank:], *given, *arguments))
    if (dx.shape, dx.dtype) != (x.shape, x.dtype):
        raise ValueError(f"x has type {x.dtype} and shape {x.shape}, its gradient {dx.dtype} and {dx.shape}")
    return dx


def _maximum(x: AnyArray, dim: AnyArray, keepdim: AnyArray) -> tuple[AnyArray, IntArray]:
    axis, keep = int(dim), bool(keepdim)
    return x.max(axis, keepdims=keep), x.argmax(axis, keepdims=keep)


def _selecting_backward(dy: AnyArray, dim: AnyArray, indices: IntArray, sizes: IntArray, keepdim: AnyArray) -> AnyArray:
    """value_selecting_reduction_backward: zeros of shape `sizes`, with dy written at the indices along an axis."""
    if dy.shape != indices.shape:
        raise ValueError(f"the gradient has shape {dy.shape}, the indices {indices.shape}")
    axis = int(dim)
    if not keepdim:
        dy, indices = np.expand_dims(dy, axis), np.expand_dims(indices, axis)
    dx = np.zeros(sizes.tolist(), dy.dtype)
    np.put_along_axis(dx, indices, dy, axis)
    return dx


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{
        f"_adaptive_avg_pool{rank}d": partial(_average, rank=rank, windows=pool.AverageWindows.adaptive)
        for rank in (2, 3)
    },
    **{f"_adaptive_avg_pool{rank}d_backward": partial(_average_backward, rank=rank, adaptive=True) for rank in (2, 3)},
    **{f"avg_pool{rank}d": partial(_average, rank=rank, windows=average_windows) for rank in (1, 2, 3)},
    **{f"avg_pool{rank}d_backward": partial(_average_backward, rank=rank) for rank in (1, 2, 3)},
    **{f"adaptive_max_pool{rank}d": pool.adaptive_max_pool for rank in (2, 3)},
    **{f"adaptive_max_pool{rank}d_backward": plane_gradient for rank in (2, 3)},
    "max": _maximum,
    **{f"max_pool{rank}d_with_indices": plane_pool for rank in (2, 3)},
    **{f"max_pool{rank}d_with_indices_backward": plane_gradient for rank in (2, 3)},
    "value_selecting_reduction_backward": _selecting_backward,
}


def _called(*inputs: AnyArray, operator: str, **_: Any) -> Any:
    """Return the result of the operator that is named in an attribute, or is the node's own."""
    if operator not in _FUNCTIONS:
        raise NotImplementedError(f"PyTorch's operator '{operator}' is not known here")
    return _FUNCTIONS[operator](*inputs)


def _user_pool(x: AnyArray, **attributes: Any) -> tuple[AnyArray, IntArray]:
    """A user's forward node, with the arguments as attributes."""
    kernel, *others = (attributes[name] for name in ("kernel_size", "stride", "padding", "dilation", "ceil_mode"))
    return plane_pool(x, kernel, *others)


FUNCTIONS: dict[tuple[str, str], Callable[..., Any]] = {
    **{("org.pytorch.aten", name): partial(_called, operator=name) for name in ("ATen", *_FUNCTIONS)},
    **{("npu", f"NPUMaxPool{rank}dWithIndices"): _user_pool for rank in (2, 3)},
    **{("npu", f"NPUMaxPool{rank}dWithIndicesBackward"): plane_gradient for rank in (2, 3)},
}
