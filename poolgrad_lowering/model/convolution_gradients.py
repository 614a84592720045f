# SPDX-License-Identifier: Apache-2.0

"""Which way to write the gradients of a convolution is the fastest for its sizes.

That of the weight, with x the image that the windows move over, in groups of C channels, and N images:

* POSITIONS: for each position in the kernel, dy as (O, N·L) by the elements of x there as (N·L, C).
* ROWS: dy as (O, N·L) by the elements of x at all positions as (N·L, C·K), which are few beside the weight.
* COLUMNS: the elements of x at all positions as (K·C, L) by dy as (L, O), added up over N. Along `moved_axes` dy is
  moved in place of x, so that x is (k·C, L) and dy (L, k'·O) with k·k' = K.
* SUMS: for each position, the sum of dy · x, where each channel has one filter.
* CONVOLUTION: x by dy with batch and channels exchanged. The kernel is as large as the result of the layer.

The gradient of x is a transposed convolution, or a convolution with the kernel turned round (`is_turned_round`).

The numbers are those that are the fastest on onnxruntime's CPU provider.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Sequence, Set
from itertools import combinations
from typing import Literal, NamedTuple

from poolgrad_lowering.model.windows import AxisWindow

FEW_CHANNELS = 16
"""With fewer channels in a group, products for each position are slower than one over all of them."""

MANY_RESULTS = 4
"""How many times as many results as rows N·L make it faster to transpose the elements of x than the gradient."""

FEW_POSITIONS = 9
"""With more positions in the kernel, or strides, gathering their elements is slower than a convolution."""

FEWER_COPIES = 2
"""How many times fewer elements have to be copied for COLUMNS to be faster than what moves x alone."""

SOME_FEWER_COPIES = 1.5
"""The same for images of LARGE elements or more, whose copies are no longer in a cache."""

LARGE = 1 << 20
"""Elements of an image, in one group of channels."""

MANY_PLACES = 256
"""With fewer windows in an image of many channels, adding up over N is slower than one product."""

MOST_POSITIONS = 4096
"""With more positions in the kernel, what is written for each would be too many nodes."""

LARGEST_KERNEL = {1: 255, 2: 255, 3: 511}
"""The largest size of a kernel along an axis that Ascend documents, by the number of axes."""

LARGEST_PADDING = 255
"""The largest padding of a convolution that Ascend documents."""

LARGEST_STRIDE = 63
"""The largest stride of a convolution that Ascend documents."""


WeightGradient = Literal["by_shape", "matmul", "convolution"]
"""How the gradient of a convolution's weight is written.

"by_shape": the fastest way on onnxruntime's CPU provider for the sizes of the layer (`model.convolution_gradients`).
"convolution": one convolution of x and dy with batch and channels exchanged, whose kernel is as large as the image.
"matmul": the fastest way that is no convolution.
"""


class Spelling(enum.Enum):
    """A way to write the gradient of a convolution's weight."""

    POSITIONS = enum.auto()
    ROWS = enum.auto()
    COLUMNS = enum.auto()
    SUMS = enum.auto()
    CONVOLUTION = enum.auto()


class ConvolutionWindows(NamedTuple):
    """What a convolution moves over an image: `windows` are those of each axis.

    `sizes` and `counts` are those of image and outputs; they are None if one of them is symbolic, as is `batch`.
    `left_over` has for each axis how many elements of the padded image lie behind the last window, None if that is not
    known.
    """

    channels: int
    results: int
    groups: int
    windows: Sequence[AxisWindow]
    sizes: list[int] | None
    counts: list[int] | None
    left_over: Sequence[int | None]
    batch: int | None = None

    @property
    def lists(self) -> Iterator[list[int]]:
        """Kernel, strides, begins and ends of the padding, and dilations, by axis."""
        return map(list[int], zip(*self.windows, strict=True))

    @property
    def each_channels(self) -> int:
        """The channels of the image in a group."""
        return self.channels // self.groups

    @property
    def each_results(self) -> int:
        """The channels of the outputs in a group."""
        return self.results // self.groups

    @property
    def padded_sizes(self) -> list[int] | None:
        """The sizes of the padded image."""
        if self.sizes is None:
            return None
        return [size + window.begin + window.end for size, window in zip(self.sizes, self.windows, strict=True)]

    @property
    def kernel(self) -> list[int]:
        """The sizes of the kernel."""
        return [window.kernel for window in self.windows]

    @property
    def axes(self) -> range:
        """The spatial axes."""
        return range(2, 2 + len(self.windows))


def left_over(windows: Sequence[AxisWindow], sizes: Sequence[int], counts: Sequence[int]) -> list[int]:
    """Return how many elements of a padded image lie behind the last window of each axis."""
    return [window.end - window.overhang(*axis) for window, *axis in zip(windows, sizes, counts, strict=True)]


def spelling(of: ConvolutionWindows, *, convolution: bool = True) -> Spelling:
    """Return the way to write the gradient of a weight.

    Without `convolution`, it is a way for which no kernel is as large as an image. The convolution has the dilations of
    the windows as strides.
    """
    positions, counts, channels = math.prod(of.kernel), of.counts, of.each_channels
    if positions > MOST_POSITIONS or (counts is not None and 0 in counts):
        return Spelling.CONVOLUTION
    fewer_copies = _copies(of, set()) / _copies(of, moved_axes(of))
    if channels >= FEW_CHANNELS:
        places = 0 if counts is None else math.prod(counts)
        if places and of.batch is not None and positions > 1 and MANY_RESULTS * of.batch * places <= of.each_results:
            return Spelling.ROWS
        is_large = (of.batch or 1) * places * channels >= LARGE
        enough = SOME_FEWER_COPIES if is_large else FEWER_COPIES
        return Spelling.COLUMNS if fewer_copies >= enough and places >= MANY_PLACES else Spelling.POSITIONS
    if fewer_copies >= FEWER_COPIES:
        return Spelling.COLUMNS
    is_gathered_slowly = positions > FEW_POSITIONS or (positions > 1 and max(w.stride for w in of.windows) > 1)
    if convolution and is_gathered_slowly and counts is not None:
        dilation = max(window.dilation for window in of.windows)
        if max(counts) <= LARGEST_KERNEL[len(of.windows)] and dilation <= LARGEST_STRIDE:
            return Spelling.CONVOLUTION
    return Spelling.SUMS if channels == of.each_results == 1 else Spelling.COLUMNS


def moved_axes(of: ConvolutionWindows) -> Set[int]:
    """Return the spatial axes, from 0 on, along which COLUMNS moves dy in place of x, so that the fewest are copied.

    Windows with strides cannot be moved so. Where two choices copy as many elements, the fewer of them are cut along
    the last axis, where rows are short.
    """
    axes = [axis for axis, window in enumerate(of.windows) if _is_movable(window)] if of.counts is not None else []
    last = len(of.windows) - 1
    choices = [set(chosen) for count in range(len(axes) + 1) for chosen in combinations(axes, count)]
    return min(choices, key=lambda moved: (_copies(of, moved), of.results if last in moved else of.channels))


def _is_movable(window: AxisWindow) -> bool:
    return window.kernel > 1 == window.stride and max(window.begin, window.end) < window.extent


def _copies(of: ConvolutionWindows, moved: Set[int]) -> int:
    """Return how many copies of a group's channels and results COLUMNS has, with dy moved along these axes."""
    of_results = math.prod(of.kernel[axis] for axis in moved)
    return math.prod(of.kernel) // of_results * of.each_channels + of_results * of.each_results


MANY_CHANNELS = 2
"""How many times as many channels as results make a convolution faster than a transposed one, which adds up columns of
all channels."""


def is_turned_round(of: ConvolutionWindows) -> bool:
    """Whether the gradient of x is a convolution of dy with the kernel turned round."""
    return (
        of.groups == 1
        and of.channels >= MANY_CHANNELS * of.results
        and any(window.kernel > 1 for window in of.windows)
        and all(window.stride == 1 and window.begin == window.end < window.extent for window in of.windows)
    )
