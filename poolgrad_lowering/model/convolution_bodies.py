# SPDX-License-Identifier: Apache-2.0

"""The bodies of the gradients of convolutions, that of the weight in each of the ways of `convolution_gradients`.

A convolution with strides s, begins p of the padding, dilations d and groups is, on one axis,

    Y[n, o, l] = Σ_c Σ_k W[o, c, k] · X[n, c, l·s + k·d − p]

and a transposed convolution is the same sum with X and Y exchanged, so that the same bodies serve both.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from onnx import TensorProto

from poolgrad_lowering.model.convolution_gradients import LARGEST_PADDING, Spelling, is_turned_round
from poolgrad_lowering.model.facts.type_rules import HALF_TYPES
from poolgrad_lowering.model.ir.bodies import Tensor, joined
from poolgrad_lowering.model.windows import AxisWindow

_END = 2**63 - 1
_VOLUME = 3
"""Spatial axes of a volume."""


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


def convolution(of: ConvolutionWindows, image: Tensor, weight: Tensor) -> Tensor:
    """Return the convolution, which is dX of a transposed one, whose outputs' gradient is the image."""
    kernel, strides, begins, ends, dilations = of.lists
    numbers = {"kernel_shape": kernel, "strides": strides, "dilations": dilations}
    return _convolved(image, weight, begins, ends, **numbers, group=of.groups)


def input_gradient(of: ConvolutionWindows, outputs: Tensor, weight: Tensor, image: Tensor | None = None) -> Tensor:
    """Return dX: the outputs' gradient by a transposed convolution, or by one with the kernel turned round.

    What is left over at the image's end are zeros. The image is read where that is not known.
    """
    if is_turned_round(of.windows, of.channels, of.results, of.groups):
        return _turned_round(of, outputs, weight)
    kernel, strides, begins, ends, dilations = of.lists
    most = [step - 1 if left is None else left for left, step in zip(of.left_over, strides, strict=True)]
    is_cut = max(begins + ends) > LARGEST_PADDING
    pads = [0] * 2 * len(kernel) if is_cut else begins + ends
    # Over three axes CANN has no more output_padding than padding.
    kept = list(map(min, most, pads[len(kernel) :])) if len(kernel) == _VOLUME else most
    numbers: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "pads": pads}
    result = outputs.op("ConvTranspose", weight, **numbers, group=of.groups, output_padding=kept)
    rest = [more - less for more, less in zip(most, kept, strict=True)]
    result = result.op("Pad", [0] * (len(rest) + 4) + rest) if any(rest) else result
    result = result.op("Slice", begins, [-end or _END for end in ends], of.axes) if is_cut else result
    for axis, left in zip(of.axes, of.left_over, strict=True):
        if left is None and image is not None:
            (places,) = _places(image, axis, 2 + len(kernel), [0], 1)
            result = result.op("Gather", places, axis=axis)
    return result


def _turned_round(of: ConvolutionWindows, outputs: Tensor, weight: Tensor) -> Tensor:
    """The convolution of the outputs with the kernel turned round."""
    kernel, _, _, _, dilations = of.lists
    pads = [window.extent - 1 - window.begin for window in of.windows]
    last, before = [-1] * len(kernel), [-size - 1 for size in kernel]
    flipped = weight.op("Slice", last, before, of.axes, last).transpose([1, 0, *of.axes])
    return _convolved(outputs, flipped, pads, pads, kernel_shape=kernel, dilations=dilations)


def _convolved(x: Tensor, weight: Tensor, begins: list[int], ends: list[int], **attributes: Any) -> Tensor:
    """A convolution, of a padded image if Ascend documents no such padding."""
    if max(begins + ends) <= LARGEST_PADDING:
        return x.op("Conv", weight, **attributes, pads=begins + ends)
    return x.op("Pad", [0, 0, *begins, 0, 0, *ends]).op("Conv", weight, **attributes)


def weight_gradient(way: Spelling, of: ConvolutionWindows, image: Tensor, outputs: Tensor) -> Tensor:
    """Return dW, written in this way, from the image that the windows move over and from the outputs' gradient."""
    if way is Spelling.CONVOLUTION:
        return _by_convolution(of, image, outputs)
    _, _, begins, ends, _ = of.lists
    padded = image.op("Pad", [0, 0, *begins, 0, 0, *ends]) if any(begins + ends) else image
    return _WAYS[way](of, padded, outputs)


def _by_product_per_position(of: ConvolutionWindows, padded: Tensor, outputs: Tensor) -> Tensor:
    """For each position in the kernel, a product of `_factors`."""
    rows, parts = _factors(of, padded, outputs)
    lead, axes = _lead(of), len(of.kernel)
    cube = joined([rows @ part for part in parts], 0).reshape([*of.kernel, *lead, of.each_results, of.each_channels])
    turned = cube.transpose([*range(axes, axes + len(lead) + 2), *range(axes)])
    return turned.reshape([of.results, of.each_channels, *of.kernel]) if lead else turned


def _by_rows(of: ConvolutionWindows, padded: Tensor, outputs: Tensor) -> Tensor:
    """One product of `_factors`, with the elements of X at all positions, (G, N·L, C·K)."""
    rows, parts = _factors(of, padded, outputs)
    lead = _lead(of)
    columns = joined([part.unsqueeze([2 + len(lead)]) for part in parts], 2 + len(lead))
    product = rows @ columns.reshape([*lead, -1, of.each_channels * len(parts)])
    return product.reshape([of.results, of.each_channels, *of.kernel])


def _lead(of: ConvolutionWindows) -> list[int]:
    return [of.groups] if of.groups > 1 else []


def _factors(of: ConvolutionWindows, padded: Tensor, outputs: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Return dY as (G, O, N·L), and the elements of X at each position, (G, N·L, C). Of one group, without G."""
    lead = _lead(of)
    rows = outputs.transpose([1, 0, *of.axes]).reshape([*lead, of.each_results, -1])
    if lead:
        last = _by_group(of, padded, of.padded_sizes).transpose([1, 0, *range(3, 3 + len(of.kernel)), 2])
    else:
        last = padded.transpose([0, *of.axes, 1])
    parts = _positions(of, last, outputs, first_axis=1 + len(lead))
    return rows, [part.reshape([*lead, -1, of.each_channels]) for part in parts]


def _by_group(of: ConvolutionWindows, image: Tensor, sizes: Sequence[int] | None) -> Tensor:
    """Return an image as (N, G, C, …). A Reshape keeps an axis of an unknown size in its place."""
    if sizes is not None:
        return image.reshape([-1, of.groups, of.each_channels, *sizes])
    return image.unsqueeze([1]).reshape([0, of.groups, of.each_channels, *(0 for _ in of.kernel)])


def _by_columns(of: ConvolutionWindows, padded: Tensor, outputs: Tensor) -> Tensor:
    """The elements of X that each position meets, as (N, G, K·C, L), by dY as (N, G, L, O), added up over N."""
    batch, places = (0, -1) if of.counts is None else (-1, math.prod(of.counts))
    parts = [
        part.reshape([batch, of.groups, of.each_channels, places])
        for part in _positions(of, padded, outputs, first_axis=2)
    ]
    rows = outputs.reshape([batch, of.groups, of.each_results, places]).transpose([0, 1, 3, 2])
    total = summed(joined(parts, 2) @ rows, [0])
    by_result = total.reshape([of.groups, len(parts), of.each_channels, of.each_results]).transpose([0, 3, 2, 1])
    return by_result.reshape([of.results, of.each_channels, *of.kernel])


def _by_sums(of: ConvolutionWindows, padded: Tensor, outputs: Tensor) -> Tensor:
    """For each position in the kernel, the sum of dY times the elements of X that it meets, for each channel."""
    parts = _positions(of, padded, outputs, first_axis=2)
    sums = joined([summed(outputs * part, [0, *of.axes], keep=True) for part in parts], 2)
    return sums.reshape([of.results, 1, *of.kernel])


def summed(value: Tensor, axes: Sequence[int], *, keep: bool = False) -> Tensor:
    """Return sums, which are in float32 if the value is in 16 bits."""
    if value.element_type not in HALF_TYPES:
        return value.reduced("ReduceSum", axes, keep=keep)
    return value.cast(TensorProto.FLOAT).reduced("ReduceSum", axes, keep=keep).cast(value.element_type)


_WAYS = {
    Spelling.POSITIONS: _by_product_per_position,
    Spelling.ROWS: _by_rows,
    Spelling.COLUMNS: _by_columns,
    Spelling.SUMS: _by_sums,
}


def _positions(of: ConvolutionWindows, padded: Tensor, outputs: Tensor, *, first_axis: int) -> Iterator[Tensor]:
    """Yield the elements of the padded image that each position in the kernel meets.

    The axes of the windows begin at `first_axis`, in `outputs` at 2.
    """
    if of.counts is None:
        yield from _along_axes(of, padded, outputs, first_axis)
        return
    if of.counts == of.padded_sizes:  # the kernel has one position, which meets all elements
        yield padded
        return
    _, strides, _, _, dilations = of.lists
    reach = [(count - 1) * stride + 1 for count, stride in zip(of.counts, strides, strict=True)]
    axes, steps = range(first_axis, first_axis + len(reach)), [strides] if max(strides) > 1 else []
    for position in itertools.product(*map(range, of.kernel)):
        starts = [tap * dilation for tap, dilation in zip(position, dilations, strict=True)]
        ends = [start + length for start, length in zip(starts, reach, strict=True)]
        yield padded.op("Slice", starts, ends, axes, *steps)


def _along_axes(of: ConvolutionWindows, padded: Tensor, outputs: Tensor, first_axis: int) -> list[Tensor]:
    """Return the same elements, one axis after the other: as many as `outputs` has, which need not be known."""
    found = [padded]
    for axis, (window, left) in enumerate(zip(of.windows, of.left_over, strict=True)):
        starts, own = range(0, window.extent, window.dilation), first_axis + axis
        if left is None or window.stride > 1:
            places = _places(outputs, 2 + axis, 2 + len(of.kernel), starts, window.stride)
            found = [each.op("Gather", place, axis=own) for each in found for place in places]
        else:
            behind = window.extent - 1 + left
            ends = [start - behind or _END for start in starts]
            cuts = [([start], [end], [own]) for start, end in zip(starts, ends, strict=True)]
            found = [each.op("Slice", *cut) if behind else each for each in found for cut in cuts]
    return found


def _places(outputs: Tensor, axis: int, rank: int, starts: Sequence[int], step: int) -> list[Tensor]:
    """Return as many positions as the outputs have elements on an axis, every `step`, from each of `starts` on."""
    counted = (outputs.zeros_along(axis, rank) + step).op("CumSum", np.array(0, np.int64))
    return [counted + (start - step) for start in starts]


def _by_convolution(of: ConvolutionWindows, image: Tensor, outputs: Tensor) -> Tensor:
    """One convolution of X and dY with batch and channels, and strides and dilations, exchanged, cut to the kernel."""
    order = [1, 0, *of.axes]
    kernel, strides, begins, ends, dilations = of.lists
    if of.groups == 1:
        channels_first = image.transpose(order)
    elif of.each_channels == 1:
        channels_first = image.transpose(order).reshape([1, -1, *(0 for _ in of.axes)])
    elif of.sizes is None:  # the first channels of all groups, then the second ones: a Reshape keeps the other axes
        first = np.arange(of.channels).reshape(of.groups, -1).T.ravel()
        by_place = image.transpose(order).op("Gather", first, axis=0)
        channels_first = by_place.reshape([of.each_channels, -1, *(0 for _ in of.axes)])
    else:
        exchanged = _by_group(of, image, of.sizes).transpose([2, 1, 0, *range(3, 3 + len(kernel))])
        channels_first = exchanged.reshape([of.each_channels, -1, *of.sizes])
    attributes = {"strides": dilations, "dilations": strides, "group": of.groups}
    attributes |= {"kernel_shape": of.counts} if of.counts else {}
    product = _convolved(channels_first, outputs.transpose(order), begins, ends, **attributes)
    if any(left != 0 for left in of.left_over):
        product = product.op("Slice", [0] * len(kernel), kernel, of.axes)
    return product.transpose(order)
