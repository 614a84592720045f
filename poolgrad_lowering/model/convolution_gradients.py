# SPDX-License-Identifier: Apache-2.0

"""Which way to write the gradients of a convolution is the fastest for its sizes.

That of the weight, with x the image that the windows move over, in groups of C channels, and N images:

* POSITIONS: for each position in the kernel, dy as (O, N·L) by the elements of x there as (N·L, C).
* ROWS: dy as (O, N·L) by the elements of x at all positions as (N·L, C·K), which are few beside the weight.
* COLUMNS: the elements of x at all positions as (K·C, L) by dy as (L, O), added up over N.
* SUMS: for each position, the sum of dy · x, where each channel has one filter.
* CONVOLUTION: x by dy with batch and channels exchanged. The kernel is as large as the result of the layer.

The gradient of x is a transposed convolution, or a convolution with the kernel turned round (`is_turned_round`).

The numbers are those that are the fastest on onnxruntime's CPU provider.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence

from poolgrad_lowering.model.windows import AxisWindow

FEW_CHANNELS = 16
"""With fewer channels in a group, products for each position are slower than one over all of them."""

MANY_RESULTS = 4
"""How many times as many results as rows N·L make it faster to transpose the elements of x than the gradient."""

FEW_POSITIONS = 9
"""With more positions in the kernel, or strides, gathering their elements is slower than a convolution."""

MOST_POSITIONS = 4096
"""With more positions in the kernel, what is written for each would be too many nodes."""

LARGEST_KERNEL = {1: 255, 2: 255, 3: 511}
"""The largest size of a kernel along an axis that Ascend documents, by the number of axes."""

LARGEST_PADDING = 255
"""The largest padding of a convolution that Ascend documents."""

LARGEST_STRIDE = 63
"""The largest stride of a convolution that Ascend documents."""


class Spelling(enum.Enum):
    """A way to write the gradient of a convolution's weight."""

    POSITIONS = enum.auto()
    ROWS = enum.auto()
    COLUMNS = enum.auto()
    SUMS = enum.auto()
    CONVOLUTION = enum.auto()


def spelling(
    windows: Sequence[AxisWindow],
    counts: Sequence[int] | None,
    channels: int,
    results: int,
    *,
    batch: int | None,
    convolution: bool = True,
) -> Spelling:
    """Return the way for windows of which there are `counts`, a group of channels and of results, and N = `batch`.

    `counts` is None if one of them is symbolic, and `batch` if N is. Without `convolution`, it is a way for which no
    kernel is as large as an image. The convolution has the dilations of the windows as strides.
    """
    positions = math.prod(window.kernel for window in windows)
    if positions > MOST_POSITIONS:
        return Spelling.CONVOLUTION
    if channels >= FEW_CHANNELS:
        has_few_rows = batch is not None and counts is not None and MANY_RESULTS * batch * math.prod(counts) <= results
        return Spelling.ROWS if has_few_rows and positions > 1 else Spelling.POSITIONS
    is_gathered_slowly = positions > FEW_POSITIONS or (positions > 1 and max(window.stride for window in windows) > 1)
    if convolution and is_gathered_slowly and counts is not None:
        dilation = max(window.dilation for window in windows)
        if max(counts) <= LARGEST_KERNEL[len(windows)] and dilation <= LARGEST_STRIDE:
            return Spelling.CONVOLUTION
    return Spelling.SUMS if channels == results == 1 else Spelling.COLUMNS


MANY_CHANNELS = 2
"""How many times as many channels as results make a convolution faster than a transposed one, which adds up columns of
all channels."""


def is_turned_round(windows: Sequence[AxisWindow], channels: int, results: int, groups: int) -> bool:
    """Whether the gradient of x is a convolution of dy with the kernel turned round."""
    return (
        groups == 1
        and channels >= MANY_CHANNELS * results
        and any(window.kernel > 1 for window in windows)
        and all(window.stride == 1 and window.begin == window.end < window.extent for window in windows)
    )
