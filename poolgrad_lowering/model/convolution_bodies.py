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
from typing import Any

import numpy as np
from onnx import TensorProto

from poolgrad_lowering.model.convolution_gradients import (
    LARGEST_PADDING,
    ConvolutionWindows,
    Spelling,
    WeightGradient,
    is_turned_round,
    moved_axes,
    spelling,
)
from poolgrad_lowering.model.facts.type_rules import HALF_TYPES
from poolgrad_lowering.model.ir.bodies import Tensor, joined
from poolgrad_lowering.model.windows import AxisWindow

_END = 2**63 - 1
_VOLUME = 3
"""Spatial axes of a volume."""


def convolution(of: ConvolutionWindows, image: Tensor, weight: Tensor) -> Tensor:
    """Return the convolution, which is dX of a transposed one, whose outputs' gradient is the image."""
    kernel, strides, begins, ends, dilations = of.lists
    numbers = {"kernel_shape": kernel, "strides": strides, "dilations": dilations}
    return _convolved(image, weight, begins, ends, **numbers, group=of.groups)


def input_gradient(of: ConvolutionWindows, outputs: Tensor, weight: Tensor, image: Tensor | None = None) -> Tensor:
    """Return dX: the outputs' gradient by a transposed convolution, or by one with the kernel turned round.

    What is left over at the image's end are zeros. The image is read where that is not known.
    """
    if is_turned_round(of):
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
    kernel, _, begins, ends, dilations = _exchanged(of).lists
    last, before = [-1] * len(kernel), [-size - 1 for size in kernel]
    flipped = weight.op("Slice", last, before, of.axes, last).transpose([1, 0, *of.axes])
    return _convolved(outputs, flipped, begins, ends, kernel_shape=kernel, dilations=dilations)


def _convolved(x: Tensor, weight: Tensor, begins: list[int], ends: list[int], **attributes: Any) -> Tensor:
    """A convolution, of a padded image if Ascend documents no such padding."""
    if max(begins + ends) <= LARGEST_PADDING:
        return x.op("Conv", weight, **attributes, pads=begins + ends)
    return x.op("Pad", [0, 0, *begins, 0, 0, *ends]).op("Conv", weight, **attributes)


def weight_gradient(of: ConvolutionWindows, image: Tensor, outputs: Tensor, way: WeightGradient = "by_shape") -> Tensor:
    """Return dW from the image that the windows move over and from the outputs' gradient."""
    found = Spelling.CONVOLUTION if way == "convolution" else spelling(of, convolution=way == "by_shape")
    return _WAYS[found](of, image, outputs)


def _padded(of: ConvolutionWindows, image: Tensor) -> Tensor:
    _, _, begins, ends, _ = of.lists
    return image.op("Pad", [0, 0, *begins, 0, 0, *ends]) if any(begins + ends) else image


def _by_product_per_position(of: ConvolutionWindows, image: Tensor, outputs: Tensor) -> Tensor:
    """For each position in the kernel, a product of `_factors`."""
    rows, parts = _factors(of, image, outputs)
    lead, axes = _lead(of), len(of.kernel)
    cube = joined([rows @ part for part in parts], 0).reshape([*of.kernel, *lead, of.each_results, of.each_channels])
    turned = cube.transpose([*range(axes, axes + len(lead) + 2), *range(axes)])
    return turned.reshape([of.results, of.each_channels, *of.kernel]) if lead else turned


def _by_rows(of: ConvolutionWindows, image: Tensor, outputs: Tensor) -> Tensor:
    """One product of `_factors`, with the elements of X at all positions, (G, N·L, C·K)."""
    rows, parts = _factors(of, image, outputs)
    lead = _lead(of)
    columns = joined([part.unsqueeze([2 + len(lead)]) for part in parts], 2 + len(lead))
    product = rows @ columns.reshape([*lead, -1, of.each_channels * len(parts)])
    return product.reshape([of.results, of.each_channels, *of.kernel])


def _lead(of: ConvolutionWindows) -> list[int]:
    return [of.groups] if of.groups > 1 else []


def _factors(of: ConvolutionWindows, image: Tensor, outputs: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Return dY as (G, O, N·L), and the elements of X at each position, (G, N·L, C). Of one group, without G."""
    lead = _lead(of)
    rows = outputs.transpose([1, 0, *of.axes]).reshape([*lead, of.each_results, -1])
    padded = _by_group(of, _padded(of, image))
    by_channel = padded.transpose([1, 0, *range(3, 3 + len(of.kernel)), 2] if lead else [0, *of.axes, 1])
    parts = _positions(of, by_channel, outputs, first_axis=1 + len(lead))
    return rows, [part.reshape([*lead, -1, of.each_channels]) for part in parts]


def _by_group(of: ConvolutionWindows, padded: Tensor) -> Tensor:
    """Return the padded image as (N, G, C, …), of one group as it is.

    A Reshape keeps an axis of an unknown size in its place.
    """
    if of.groups == 1:
        return padded
    if of.padded_sizes is not None:
        return padded.reshape([-1, of.groups, of.each_channels, *of.padded_sizes])
    return padded.unsqueeze([1]).reshape([0, of.groups, of.each_channels, *(0 for _ in of.kernel)])


def _by_columns(of: ConvolutionWindows, image: Tensor, outputs: Tensor) -> Tensor:
    """The elements of X at each position by those of dY, each moved along its axes, added up over N."""
    moved = sorted(moved_axes(of))
    still = [axis for axis in range(len(of.kernel)) if axis not in moved]
    x = _columns(_along(still, of), image, outputs)
    dy = _columns(_along(moved, _exchanged(of)), outputs, image, turned=True)
    lead = len(_lead(of))
    total = summed(x @ dy.transpose([*range(1 + lead), 2 + lead, 1 + lead]), [0])
    kernels = [[of.kernel[axis] for axis in axes] for axes in (still, moved)]
    by_axis = total.reshape([of.groups, *kernels[0], of.each_channels, *kernels[1], of.each_results])
    channels = 1 + len(still)
    order = {axis: place for place, axis in enumerate(still, 1)}
    order |= {axis: place for place, axis in enumerate(moved, channels + 1)}
    turned = by_axis.transpose([0, len(order) + 2, channels, *map(order.__getitem__, range(len(order)))])
    return turned.reshape([of.results, of.each_channels, *of.kernel])


def _columns(of: ConvolutionWindows, image: Tensor, outputs: Tensor, *, turned: bool = False) -> Tensor:
    """Return the elements of an image that each position meets as (N, G, K·C, L), of one group without G."""
    lead = _lead(of)
    parts = [*_positions(of, _by_group(of, _padded(of, image)), outputs, first_axis=2 + len(lead))]
    batch, places = (0, -1) if of.counts is None else (-1, math.prod(of.counts))
    rows = joined(parts[::-1] if turned else parts, 1 + len(lead))
    return rows.reshape([batch, *lead, of.each_channels * len(parts), places])


def _along(axes: Sequence[int], of: ConvolutionWindows) -> ConvolutionWindows:
    """Return what moves along these axes alone."""
    still = AxisWindow(1, 1, 0, 0, 1)
    windows = [window if axis in axes else still for axis, window in enumerate(of.windows)]
    left_over = [left if axis in axes else 0 for axis, left in enumerate(of.left_over)]
    counts = None
    if of.sizes is not None and of.counts is not None:
        counts = [pair[axis in axes] for axis, pair in enumerate(zip(of.sizes, of.counts, strict=True))]
    return of._replace(windows=windows, counts=counts, left_over=left_over)


def _exchanged(of: ConvolutionWindows) -> ConvolutionWindows:
    """Return what moves the outputs over the image, without strides: first over where the kernel's last position is."""
    windows = [
        each._replace(begin=each.extent - 1 - each.begin, end=each.extent - 1 - each.end + (left or 0))
        for each, left in zip(of.windows, of.left_over, strict=True)
    ]
    return of._replace(channels=of.results, results=of.channels, windows=windows, sizes=of.counts, counts=of.sizes)


def _by_sums(of: ConvolutionWindows, image: Tensor, outputs: Tensor) -> Tensor:
    """For each position in the kernel, the sum of dY times the elements of X that it meets, for each channel."""
    parts = _positions(of, _padded(of, image), outputs, first_axis=2)
    sums = joined([summed(outputs * part, [0, *of.axes], keep=True) for part in parts], 2)
    return sums.reshape([of.results, 1, *of.kernel])


def summed(value: Tensor, axes: Sequence[int], *, keep: bool = False) -> Tensor:
    """Return sums, which are in float32 if the value is in 16 bits."""
    if value.element_type not in HALF_TYPES:
        return value.reduced("ReduceSum", axes, keep=keep)
    return value.cast(TensorProto.FLOAT).reduced("ReduceSum", axes, keep=keep).cast(value.element_type)


def _positions(of: ConvolutionWindows, padded: Tensor, outputs: Tensor, *, first_axis: int) -> Iterator[Tensor]:
    """Yield the elements of the padded image that each position in the kernel meets.

    The axes of the windows begin at `first_axis`, in `outputs` at 2.
    """
    if of.counts is None or of.padded_sizes is None:
        yield from _along_axes(of, padded, outputs, first_axis)
        return
    sizes, kernel = zip(of.counts, of.padded_sizes, strict=True), [range(window.kernel) for window in of.windows]
    cut = [axis for axis, (count, size) in enumerate(sizes) if count < size]
    steps = [of.windows[axis].stride for axis in cut]
    for position in itertools.product(*kernel):
        starts = [position[axis] * of.windows[axis].dilation for axis in cut]
        ends = [start + (of.counts[axis] - 1) * step + 1 for start, axis, step in zip(starts, cut, steps, strict=True)]
        more = [steps] if max(steps, default=1) > 1 else []
        yield padded.op("Slice", starts, ends, [first_axis + axis for axis in cut], *more) if cut else padded


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
        exchanged = image.reshape([-1, of.groups, of.each_channels, *of.sizes]).transpose(
            [2, 1, 0, *range(3, 3 + len(kernel))]
        )
        channels_first = exchanged.reshape([of.each_channels, -1, *of.sizes])
    attributes = {"strides": dilations, "dilations": strides, "group": of.groups}
    attributes |= {"kernel_shape": of.counts} if of.counts else {}
    product = _convolved(channels_first, outputs.transpose(order), begins, ends, **attributes)
    if any(left != 0 for left in of.left_over):
        product = product.op("Slice", [0] * len(kernel), kernel, of.axes)
    return product.transpose(order)


_WAYS = {
    Spelling.POSITIONS: _by_product_per_position,
    Spelling.ROWS: _by_rows,
    Spelling.COLUMNS: _by_columns,
    Spelling.SUMS: _by_sums,
    Spelling.CONVOLUTION: _by_convolution,
}
