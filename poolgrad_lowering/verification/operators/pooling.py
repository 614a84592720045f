# SPDX-License-Identifier: Apache-2.0

"""Gradients of pools, of ONNX, of onnxruntime training and of TensorFlow, and operators around them.

TensorFlow's are those that tf2onnx exports, by TensorFlow's operator definitions. Those of max pools recompute the
maxima from x; of equal ones the first in row-major order gets the gradient. Those of average pools have the shape of x
as an operand, and divide by the number of elements of x in a window.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_conv_transpose import ConvTranspose as OnnxConvTranspose

from poolgrad_lowering.verification.arrays import AnyArray
from poolgrad_lowering.verification.operators import pool


def _max_pool(
    x: AnyArray, *, kernel_shape: Sequence[int], ceil_mode: int = 0, storage_order: int = 0, **windows: Any
) -> tuple[AnyArray, AnyArray]:
    """MaxPool; onnx's own gives wrong Indices if all strides and dilations are 1."""
    strides, dilations, pads = onnx_windows(x.shape[2:], kernel_shape, **windows)
    y, positions = pool.max_pool(x, kernel_shape, strides, dilations, pads, ceil=bool(ceil_mode))
    if storage_order:
        positions = np.ravel_multi_index(np.unravel_index(positions, x.shape[2:]), x.shape[2:], order="F")
    return y, positions + pool.plane_starts(x.shape)


class AveragePoolGrad(OpRun):
    """AveragePoolGrad(dY) with dX's shape as a second input, which the evaluator adds."""

    def _run(
        self,
        dy: AnyArray,
        shape: AnyArray,
        *,
        kernel_shape: Sequence[int],
        ceil_mode: int = 0,
        count_include_pad: int = 0,
        **windows: Any,
    ) -> tuple[AnyArray]:
        sizes = shape.tolist()[2:]
        strides, dilations, pads = onnx_windows(sizes, kernel_shape, **windows)
        given, ceil, padded = (sizes, kernel_shape, strides, pads), bool(ceil_mode), bool(count_include_pad)
        fixed = pool.AverageWindows.fixed(*given, dilations=dilations, ceil=ceil, counts_padding=padded)
        self._require_no_dropped_window(dy, sizes, fixed.divisors.shape, ceil=ceil)
        return (pool.average_gradient(sizes, dy, fixed),)

    def _require_no_dropped_window(
        self, dy: AnyArray, sizes: Sequence[int], counts: Sequence[int], *, ceil: bool
    ) -> None:
        """Raise `ValueError` if dy has one more window along some axes, which older releases of onnxruntime make."""
        more = [of_dy - count for of_dy, count in zip(dy.shape[2:], counts, strict=False)]
        if ceil and any(more) and {*more} <= {0, 1}:
            found, wanted = ("x".join(map(str, each)) for each in (dy.shape[2:], counts))
            raise ValueError(
                f"the gradient of AveragePoolGrad '{self.onnx_node.name or self.onnx_node.output[0]}' has {found} "
                f"windows over an input of {'x'.join(map(str, sizes))}, of which ONNX has {wanted}: with ceil_mode the "
                "last window starts in the padding, where onnxruntime-training 1.19.2 has one, newer releases and ONNX "
                "have none. Make the end padding smaller, or round down (ceil_mode=0)"
            )


WINDOWS = ("strides", "pads", "dilations", "auto_pad")
"""The attributes of windows that `onnx_windows` takes."""


def onnx_windows(
    sizes: Sequence[int],
    kernel: Sequence[int],
    *,
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    auto_pad: str | bytes = "NOTSET",
) -> tuple[Sequence[int], Sequence[int], pool.Pads]:
    """Return the strides, dilations and pads of a pool of ONNX, of which these are attributes."""
    rank, padding = len(kernel), auto_pad if isinstance(auto_pad, str) else auto_pad.decode(errors="replace")
    steps, spacing = strides or [1] * rank, dilations or [1] * rank
    if padding.startswith("SAME"):
        return steps, spacing, pool.same_pads(sizes, kernel, steps, spacing, upper=padding == "SAME_UPPER")
    both = [0] * 2 * rank if padding == "VALID" or not pads else list(pads)
    return steps, spacing, (both[:rank], both[rank:])


def _max_pool_grad(first: AnyArray, second: AnyArray, third: AnyArray, **attributes: Any) -> AnyArray:
    """MaxPoolGrad(dY, Indices) with dX's shape as a third input, which the evaluator adds.

    TensorFlow's MaxPoolGrad(x, y, dy) has the same name and domain, and a `ksize`.
    """
    if "ksize" in attributes:
        return pool_gradient(first, third, **attributes)
    return pool.scatter_gradient(third.tolist(), first, second)


def _max_unpool(
    dy: AnyArray, indices: AnyArray, stated: AnyArray | None = None, *, kernel_shape: Sequence[int], **windows: Any
) -> AnyArray:
    """MaxUnpool to the shape that follows from its windows.

    Indices count over that shape in ONNX's tests and over a third operand in onnxruntime, so they have to be equal.
    """
    strides, _, pads = onnx_windows(dy.shape[2:], kernel_shape, **windows)
    rows = zip(dy.shape[2:], kernel_shape, strides, *pads, strict=True)
    shape = [*dy.shape[:2], *((count - 1) * stride + taps - begin - end for count, taps, stride, begin, end in rows)]
    if stated is not None and stated.tolist() != shape:
        raise ValueError(f"the result has shape {shape} by the windows, {stated.tolist()} by the third operand")
    return pool.scatter_gradient(shape, dy, indices, overwrites=True)


def reduce_max(
    data: AnyArray, axes: Sequence[int] | AnyArray | None = None, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> AnyArray:
    """ReduceMax, with the axes as an attribute or as an input. NaN is the maximum.

    Of +0.0 and −0.0 the first is taken: ONNX does not say which one, and numpy takes either.
    """
    named = [] if axes is None else [int(axis) % data.ndim for axis in axes]
    if not named and noop_with_empty_axes:
        return data
    reduced = sorted(named) or list(range(data.ndim))
    kept = [axis for axis in range(data.ndim) if axis not in reduced]
    count = math.prod(data.shape[axis] for axis in reduced)
    windows = data.transpose(kept + reduced).reshape(*(data.shape[axis] for axis in kept), count)
    maxima = np.take_along_axis(windows, windows.argmax(axis=-1, keepdims=True), axis=-1)
    shape = [1 if axis in reduced else size for axis, size in enumerate(data.shape) if keepdims or axis in kept]
    return maxima.reshape(shape)


class ConvTranspose(OnnxConvTranspose):
    """ConvTranspose of one plane to one plane, as bodies of average pools have it, for all planes at once.

    onnx's reference evaluator computes one image after the other. Any other ConvTranspose is left to it.
    """

    def _run(self, x: AnyArray, w: AnyArray, b: AnyArray | None = None, **attributes: Any) -> Any:  # type: ignore[override]
        given = {name: value for name, value in attributes.items() if value is not None}
        is_planar = w.shape[:2] == (x.shape[1], 1) and given.get("group", 1) == x.shape[1]
        if not is_planar or given.get("auto_pad", "NOTSET") != "NOTSET" or "output_shape" in given:
            return super()._run(x, w, b, **attributes)  # type: ignore[no-untyped-call]
        rank, sizes = x.ndim - 2, x.shape[2:]
        strides, dilations = (list(given.get(name, [1] * rank)) for name in ("strides", "dilations"))
        pads, more = list(given.get("pads", [0] * 2 * rank)), list(given.get("output_padding", [0] * rank))
        rows = list(zip(sizes, w.shape[2:], strides, dilations, more, strict=True))
        whole = [stride * (size - 1) + dilation * (taps - 1) + 1 + end for size, taps, stride, dilation, end in rows]
        y = np.zeros((*x.shape[:2], *whole), x.dtype)
        planes = (slice(None), slice(None))
        for tap in itertools.product(*map(range, w.shape[2:])):
            spans = tuple(
                slice(number * dilation, number * dilation + stride * (size - 1) + 1, stride)
                for number, (size, _, stride, dilation, _) in zip(tap, rows, strict=True)
            )
            place = (slice(None), 0)
            weights = w[place + tap].reshape(-1, *[1] * rank)
            y[planes + spans] += x * weights
        ends = zip(pads[:rank], pads[rank:], whole, strict=True)
        kept = tuple(slice(begin, size - end) for begin, end, size in ends)
        bias = 0 if b is None else b.reshape(-1, *[1] * rank)
        return (y[planes + kept] + bias,)


def _layout_windows(
    shape: Sequence[int],
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int] = (),
    data_format: str = "NHWC",
    **_: Any,
) -> tuple[int, list[int], list[int], list[int], pool.Pads]:
    """Return the axis of the channels of x, and the sizes, kernel, strides and pads of its spatial axes."""
    channels = data_format.index("C")
    spatial = [axis for axis in range(len(shape)) if axis not in (0, channels)]
    sizes, kernel, steps = ([numbers[axis] for axis in spatial] for numbers in (shape, ksize, strides))
    pads: pool.Pads = [0] * len(spatial), [0] * len(spatial)
    if padding == "SAME":
        pads = pool.same_pads(sizes, kernel, steps, [1] * len(spatial), upper=True)
    elif padding == "EXPLICIT":
        begins, ends = ([explicit_paddings[2 * axis + end] for axis in spatial] for end in (0, 1))
        pads = begins, ends
    return channels, sizes, kernel, steps, pads


def pool_gradient(x: AnyArray, dy: AnyArray, **attributes: Any) -> AnyArray:
    """Return dx of MaxPoolGrad and MaxPool3DGrad; x, dy and dx have the layout `data_format`."""
    channels, _, kernel, strides, pads = _layout_windows(x.shape, **attributes)
    planes: AnyArray = np.moveaxis(x, channels, 1)
    positions = pool.max_pool(planes, kernel, strides, [1] * len(kernel), pads)[1] + pool.plane_starts(planes.shape)
    dx: AnyArray = np.moveaxis(pool.gradient_of(planes, np.moveaxis(dy, channels, 1), positions), 1, channels)
    return dx


def _gradient(x: AnyArray, _: AnyArray, dy: AnyArray, *windows: AnyArray, **attributes: Any) -> AnyArray:
    """MaxPoolGrad(x, y, dy), MaxPool3DGrad, and MaxPoolGradV2(x, y, dy, ksize, strides)."""
    given = {name: numbers.tolist() for name, numbers in zip(("ksize", "strides"), windows, strict=False)}
    return pool_gradient(x, dy, **attributes, **given)


def _gradient_with_argmax(
    x: AnyArray, dy: AnyArray, argmax: AnyArray, *, include_batch_in_index: int = 0, **_: Any
) -> AnyArray:
    """MaxPoolGradWithArgmax(x, dy, argmax), with positions in an (H, W, C) image or in the whole batch."""
    image = 0 if include_batch_in_index else math.prod(x.shape[1:])
    first = (np.arange(len(x)) * image).reshape(-1, *[1] * (x.ndim - 1))
    return pool.gradient_of(x, dy, argmax + first)


def _average_gradient(shape: AnyArray, dy: AnyArray, **attributes: Any) -> AnyArray:
    """AvgPoolGrad(orig_input_shape, dy) and AvgPool3DGrad; x and dy have the layout `data_format`."""
    channels, sizes, kernel, strides, pads = _layout_windows(shape.tolist(), **attributes)
    windows = pool.AverageWindows.fixed(sizes, kernel, strides, pads)
    dx: AnyArray = np.moveaxis(pool.average_gradient(sizes, np.moveaxis(dy, channels, 1), windows), 1, channels)
    if dx.shape != tuple(shape):
        raise ValueError(f"x has shape {tuple(shape.tolist())}, its gradient {dx.shape}")
    return dx


_OF_TENSORFLOW: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("AvgPoolGrad", "AvgPool3DGrad"), _average_gradient),
    **dict.fromkeys(("MaxPoolGrad", "MaxPool3DGrad", "MaxPoolGradV2"), _gradient),
    "MaxPoolGradWithArgmax": _gradient_with_argmax,
}

_OF_ONNX: dict[str, Callable[..., Any]] = {
    "MaxPool": _max_pool,
    "MaxPoolGrad": _max_pool_grad,
    "MaxUnpool": _max_unpool,
    "ReduceMax": reduce_max,
}
"""In the default domain MaxPoolGrad is onnxruntime's operator too, whose kernel calls `pool_gradient`."""

FUNCTIONS: dict[tuple[str, str], Callable[..., Any]] = {
    **{("ai.onnx.converters.tensorflow", name): kernel for name, kernel in _OF_TENSORFLOW.items()},
    **{("", name): kernel for name, kernel in (_OF_TENSORFLOW | _OF_ONNX).items()},
}
