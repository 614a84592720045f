# SPDX-License-Identifier: Apache-2.0

"""The pools of a plan: windows of a MaxPool, an adaptive pool, or one axis, drawn and computed by definition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from tests.oracles import max_pool, same_pads
from tests.oracles.aten import adaptive_max_pool
from tests.window_facts import Axis

Array = npt.NDArray[Any]
Recorded = tuple[Array, npt.NDArray[np.int64]]
"""The maxima, and their positions in the whole x."""


@dataclass(frozen=True)
class PoolWindows:
    """A MaxPool's windows; the axes have explicit pads even if the node uses `auto_pad`."""

    axes: tuple[Axis, ...]
    auto_pad: str = "NOTSET"
    column_major: bool = False

    @property
    def kernel(self) -> list[int]:
        return [axis.kernel for axis in self.axes]

    @property
    def strides(self) -> list[int]:
        return [axis.stride for axis in self.axes]

    @property
    def pads(self) -> list[int]:
        return [axis.begin for axis in self.axes] + [axis.end for axis in self.axes]

    @property
    def dilations(self) -> list[int]:
        return [axis.dilation for axis in self.axes]

    @property
    def ceil(self) -> bool:
        return self.axes[0].ceil

    def drop(self, sizes: Sequence[int]) -> bool:
        """Whether ceil_mode drops a last window because it would start in the end padding."""
        return any(_drops_a_window(axis, size) for axis, size in zip(self.axes, sizes, strict=True))

    def attributes(self, *, opset: int, bare: bool) -> dict[str, Any]:
        """MaxPool's attributes, without default values if `bare`; older operators have fewer attributes."""
        rank = len(self.axes)
        given: dict[str, Any] = {"kernel_shape": self.kernel, "strides": self.strides}
        if self.auto_pad == "NOTSET":
            given["pads"] = self.pads
        defaults: dict[str, Any] = {"strides": [1] * rank, "pads": [0] * 2 * rank}
        optional = {"dilations": (self.dilations, [1] * rank, 10), "ceil_mode": (int(self.ceil), 0, 10)}
        optional |= {"auto_pad": (self.auto_pad, "NOTSET", 1), "storage_order": (int(self.column_major), 0, 8)}
        for name, (value, default, since) in optional.items():
            if opset >= since:
                given[name], defaults[name] = value, default
        return {name: value for name, value in given.items() if not bare or value != defaults.get(name)}

    def record(self, x: Array) -> Recorded:
        windows = (self.kernel, self.strides, self.pads, self.dilations)
        return max_pool(x, *windows, ceil_mode=self.ceil, storage_order=int(self.column_major))


@dataclass(frozen=True)
class AdaptiveWindows:
    """An adaptive pool with the output sizes `counts`."""

    counts: tuple[int, ...]

    def record(self, x: Array) -> Recorded:
        y, local = adaptive_max_pool(x, self.counts)
        plane = int(np.prod(x.shape[2:]))
        first = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *[1] * len(self.counts)) * plane
        return y, local + first


@dataclass(frozen=True)
class AxisWindow:
    """The maximum over one axis, which may be the batch or the channels."""

    axis: int

    def record(self, x: Array) -> Recorded:
        best = np.expand_dims(x.argmax(self.axis), self.axis)
        numbers = np.arange(x.size).reshape(x.shape)
        return np.take_along_axis(x, best, self.axis), np.take_along_axis(numbers, best, self.axis)


Windows = PoolWindows | AdaptiveWindows | AxisWindow


@st.composite
def pool_windows(
    draw: st.DrawFn, sizes: Sequence[int], *, opset: int, symmetric: bool, automatic: bool, drops: bool = False
) -> PoolWindows:
    """Windows over a plane of `sizes` that ONNX allows: they fit, and each has an element of x.

    `symmetric` windows have equal pads of at most half the kernel, as PyTorch wants them. Only `automatic` ones have
    an auto_pad or column-major Indices; only with `drops` does ceil_mode drop windows, on which runtimes disagree.
    """
    ceil = opset >= 10 and draw(st.booleans())
    axes = [draw(_axes(size, ceil, dilates=opset >= 10, symmetric=symmetric)) for size in sizes]
    windows = PoolWindows(tuple(axes))
    if windows.drop(sizes) and not drops:
        windows = PoolWindows(tuple(axis._replace(ceil=False) for axis in axes))
    if not automatic:
        return windows
    windows = replace(windows, column_major=draw(st.integers(0, 15)) == 15)
    auto_pad = draw(st.sampled_from(("NOTSET", "NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")))
    return _padded(windows, auto_pad, sizes)


@st.composite
def _axes(draw: st.DrawFn, size: int, ceil: bool, *, dilates: bool, symmetric: bool) -> Axis:
    kernel, stride = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    begin = draw(st.integers(0, 3))
    end = begin if symmetric else draw(st.integers(0, 3))
    dilation = draw(st.integers(1, 2)) if dilates else 1
    most = kernel // 2 if symmetric else kernel - 1
    axis = Axis(kernel, stride, dilation, min(begin, most), min(end, most), ceil)
    return axis if _fits(axis, size) else _shrunk(axis._replace(dilation=1), size)


def _fits(axis: Axis, size: int) -> bool:
    return axis.extent <= size + axis.begin + axis.end and all(axis.taps(size))


def _shrunk(axis: Axis, size: int) -> Axis:
    """The axis without dilation, with a kernel and pads that fit a plane of this size."""
    return axis if _fits(axis, size) else axis._replace(kernel=min(axis.kernel, size), begin=0, end=0)


def _drops_a_window(axis: Axis, size: int) -> bool:
    room = size + axis.begin + axis.end - axis.extent
    return axis.ceil and -(-room // axis.stride) + 1 != len(axis.starts(size))


def _padded(windows: PoolWindows, auto_pad: str, sizes: Sequence[int]) -> PoolWindows:
    """The windows with the pads of `auto_pad`; other windows if those would be ambiguous."""
    if auto_pad == "NOTSET":
        return windows
    axes = [axis._replace(dilation=1, begin=0, end=0, ceil=False) for axis in windows.axes]
    axes = [axis._replace(kernel=min(axis.kernel, size)) for axis, size in zip(axes, sizes, strict=True)]
    if auto_pad != "VALID":
        axes = [axis._replace(stride=min(axis.stride, axis.kernel)) for axis in axes]
        kernel, strides = [axis.kernel for axis in axes], [axis.stride for axis in axes]
        pads = same_pads(sizes, kernel, strides, upper=auto_pad == "SAME_UPPER")
        axes = [
            axis._replace(begin=begin, end=end)
            for axis, begin, end in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True)
        ]
    return replace(windows, axes=tuple(axes), auto_pad=auto_pad)


@st.composite
def adaptive_windows(draw: st.DrawFn, sizes: Sequence[int]) -> AdaptiveWindows:
    return AdaptiveWindows(tuple(draw(st.integers(1, size)) for size in sizes))
