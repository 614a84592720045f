# SPDX-License-Identifier: Apache-2.0

"""The gradients of convolutions.

A convolution with strides s, begins p of the padding, dilations d and groups is, on one axis,

    Y[n, o, l] = Σ_c Σ_k W[o, c, k] · X[n, c, l·s + k·d − p]

and a transposed convolution is the same sum with X and Y exchanged, so that the same bodies serve both.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from poolgrad_lowering.model.convolution_gradients import Spelling, is_turned_round, spelling
from poolgrad_lowering.model.diagnostics.codes import Refuse
from poolgrad_lowering.model.diagnostics.definition_codes import DefinitionCode
from poolgrad_lowering.model.ir.dims import is_static
from poolgrad_lowering.model.windows import AxisWindow, PoolAttributes
from poolgrad_lowering.standard.definition import Call, defines
from poolgrad_lowering.standard.nodes import Tensor, joined

_VOLUME = 3
"""Spatial axes of a volume."""


class Windows(NamedTuple):
    """What a convolution moves over an image: `windows` are those of each axis.

    `sizes` and `counts` are those of image and outputs; they are None if one of them is symbolic, as is `batch`.
    """

    batch: int | None
    channels: int
    results: int
    groups: int
    windows: list[AxisWindow]
    sizes: list[int] | None
    counts: list[int] | None

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
    def leaves_nothing(self) -> bool:
        """Whether the windows reach the end of the padded image, so that a gradient by a convolution needs no cut."""
        return self.counts is not None and self.padded_sizes == [
            (count - 1) * window.stride + window.extent for window, count in zip(self.windows, self.counts, strict=True)
        ]

    @property
    def kernel(self) -> list[int]:
        """The sizes of the kernel."""
        return [window.kernel for window in self.windows]

    @property
    def axes(self) -> range:
        """The spatial axes."""
        return range(2, 2 + len(self.windows))


@defines("ConvGrad", "dX = ConvTranspose(dY, W); dW[o, c, k] = Σ dY[n, o, l] · X[n, c, l·s + k·d − p]; dB = Σ dY")
def _conv_grad(call: Call) -> dict[str, Tensor]:
    windows = _windows(call, transposed=False)
    x, w, dy = map(call.tensor, ("X", "W", "dY"))
    results = {"dX": input_gradient(windows, dy, w, x)}
    if call.wants("dW"):
        results["dW"] = weight_gradient(windows, x, dy)
    return {**results, "dB": dy.reduced("ReduceSum", [0, *windows.axes])}


@defines("ConvTransposeGrad", "dX = Conv(dY, W); dW[c, o, k] = Σ X[n, c, l] · dY[n, o, l·s + k·d − p]; dB = Σ dY")
def _conv_transpose_grad(call: Call) -> dict[str, Tensor]:
    if call.attribute("output_shape") is not None or call.attribute("auto_pad", "NOTSET") != "NOTSET":
        raise call.refuse("a ConvTransposeGrad with output_shape or auto_pad")
    windows = _windows(call, transposed=True)
    x, w, dy = map(call.tensor, ("X", "W", "dY"))
    results = {"dX": dy.op("Conv", w, **_attributes(windows))}
    if call.wants("dW"):
        results["dW"] = weight_gradient(windows, dy, x)
    return {**results, "dB": dy.reduced("ReduceSum", [0, *windows.axes])}


def _windows(call: Call, *, transposed: bool) -> Windows:
    """Return the windows of a node. The gradient's sizes follow from those of X."""
    weight, known = call.sizes("W"), call.shape("X")
    pool = PoolAttributes.read(call.node, kernel=weight[2:])
    groups = call.attribute("group", 1)
    if pool is None or len(known) != len(weight) or not isinstance(groups, int) or groups < 1 or weight[0] % groups:
        raise call.refuse("attributes that are not those of a convolution")
    if list(pool.kernel) != weight[2:]:
        raise call.refuse(f"kernel_shape {list(pool.kernel)} for a weight of {weight}")
    axes = [pool.axis(number, size) for number, size in enumerate(known[2:])]
    windows = [window for window in axes if window is not None]
    if len(windows) < len(axes) or pool.has_ambiguous_pads:
        raise Refuse(DefinitionCode.UNKNOWN_SIZES, "auto_pad with sizes or strides for which its pads are not known")
    sizes = counts = None
    if is_static(known[2:]):
        sizes = [dim.coefficient for dim in known[2:]]
        counts = [window.output_size(size, ceil=False) for window, size in zip(windows, sizes, strict=True)]
    if transposed:
        extra = call.attribute("output_padding", [0] * len(windows))
        if len(extra) != len(windows) or any(more >= w.stride for more, w in zip(extra, windows, strict=True) if more):
            raise call.refuse(f"output_padding {extra} with strides {[window.stride for window in windows]}")
        counts = sizes
        if counts is not None:
            ends = zip(windows, counts, extra, strict=True)
            sizes = [window.overhang(0, count) - window.end + more for window, count, more in ends]
    batch = known[0].coefficient if is_static(known[:1]) else None
    return Windows(batch, weight[1] * groups, weight[0], groups, windows, sizes, counts)


def _attributes(windows: Windows, *, cut: bool = True) -> dict[str, Any]:
    """Return the attributes of the convolution; without `cut`, its pads at the ends are 0."""
    kernel, strides, begins, ends, dilations = windows.lists
    pads = begins + (ends if cut else [0] * len(ends))
    numbers = {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "pads": pads}
    return {**numbers, "group": windows.groups}


def input_gradient(windows: Windows, outputs: Tensor, weight: Tensor, image: Tensor | None = None) -> Tensor:
    """The transposed convolution of the outputs, with as many rows as the windows left over at the image's end.

    The image is read if its sizes are not known.
    """
    strides = [window.stride for window in windows.windows]
    if is_turned_round(windows.windows, windows.channels, windows.results, windows.groups):
        return _turned_round(windows, outputs, weight)
    if windows.sizes is not None and windows.counts is not None:
        axes = zip(windows.windows, windows.sizes, windows.counts, strict=True)
        left_over = [window.end - window.overhang(size, count) for window, size, count in axes]
        return _transposed(outputs, weight, _attributes(windows), left_over)
    if max(strides) == 1 or image is None:
        return outputs.op("ConvTranspose", weight, **_attributes(windows))
    # The windows may end before the image's padding does: as many rows as there may be, cut to the image.
    most = [stride - 1 for stride in strides]
    whole = _transposed(outputs, weight, _attributes(windows, cut=False), most)
    return whole.op("Slice", [0] * (2 + len(strides)), image.op("Shape"))


def _transposed(outputs: Tensor, weight: Tensor, attributes: dict[str, Any], left_over: list[int]) -> Tensor:
    """The transposed convolution with rows that no window reaches at the end, which are zeros.

    Over three axes CANN has no more output_padding than padding.
    """
    axes = len(left_over)
    kept = list(map(min, left_over, attributes["pads"][axes:])) if axes == _VOLUME else left_over
    result = outputs.op("ConvTranspose", weight, **attributes, output_padding=kept)
    rest = [more - less for more, less in zip(left_over, kept, strict=True)]
    return result.op("Pad", [0] * (axes + 4) + rest) if any(rest) else result


def _turned_round(windows: Windows, outputs: Tensor, weight: Tensor) -> Tensor:
    """The convolution of the outputs with the kernel turned round."""
    kernel, _, _, _, dilations = windows.lists
    pads = [window.extent - 1 - window.begin for window in windows.windows]
    last, before = [-1] * len(kernel), [-size - 1 for size in kernel]
    flipped = weight.op("Slice", last, before, windows.axes, last).transpose([1, 0, *windows.axes])
    return outputs.op("Conv", flipped, kernel_shape=kernel, dilations=dilations, pads=pads + pads)


def weight_gradient(windows: Windows, image: Tensor, outputs: Tensor) -> Tensor:
    """The gradient of the weight, as what is the fastest for the sizes; as a convolution if these are no numbers."""
    if windows.counts is None or 0 in windows.counts:
        return _by_convolution(windows, image, outputs)
    each = windows.each_channels, windows.each_results
    found = spelling(windows.windows, windows.counts, *each, batch=windows.batch)
    if found is Spelling.CONVOLUTION:
        return _by_convolution(windows, image, outputs)
    _, _, begins, ends, _ = windows.lists
    padded = image.op("Pad", [0, 0, *begins, 0, 0, *ends]) if any(begins + ends) else image
    return _WAYS[found](windows, windows.counts, padded, outputs)


def _by_product_per_position(windows: Windows, counts: Sequence[int], padded: Tensor, outputs: Tensor) -> Tensor:
    """For each position in the kernel, a product of `_factors`."""
    lead, rows, parts = _factors(windows, counts, padded, outputs)
    cube = joined([rows @ part for part in parts], 0).reshape(
        [*windows.kernel, *lead, windows.each_results, windows.each_channels]
    )
    axes = len(windows.kernel)
    turned = cube.transpose([*range(axes, axes + len(lead) + 2), *range(axes)])
    return turned.reshape([windows.results, windows.each_channels, *windows.kernel]) if lead else turned


def _by_rows(windows: Windows, counts: Sequence[int], padded: Tensor, outputs: Tensor) -> Tensor:
    """One product of `_factors`, with the elements of X at all positions, (G, N·L, C·K)."""
    lead, rows, parts = _factors(windows, counts, padded, outputs)
    columns = joined([part.reshape([*lead, -1, windows.each_channels, 1]) for part in parts], 2 + len(lead))
    product = rows @ columns.reshape([*lead, -1, windows.each_channels * len(parts)])
    return product.reshape([windows.results, windows.each_channels, *windows.kernel])


def _factors(
    windows: Windows, counts: Sequence[int], padded: Tensor, outputs: Tensor
) -> tuple[list[int], Tensor, list[Tensor]]:
    """Return [G], dY as (G, O, N·L), and the elements of X at each position, (G, N·L, C). Of one group, without G."""
    groups, channels, axes = windows.groups, windows.each_channels, len(windows.kernel)
    lead = [groups] if groups > 1 else []
    rows = outputs.transpose([1, 0, *windows.axes]).reshape([*lead, windows.each_results, -1])
    if lead:
        by_group = padded.reshape([-1, groups, channels, *(windows.padded_sizes or [])])
        last = by_group.transpose([1, 0, *range(3, 3 + axes), 2])
    else:
        last = padded.transpose([0, *windows.axes, 1])
    parts = _positions(last, windows, counts, first_axis=1 + len(lead))
    return lead, rows, [part.reshape([*lead, -1, channels]) for part in parts]


def _by_columns(windows: Windows, counts: Sequence[int], padded: Tensor, outputs: Tensor) -> Tensor:
    """The elements of X that each position meets, as (N, G, K·C, L), by dY as (N, G, L, O), added up over N."""
    groups, channels, results = windows.groups, windows.each_channels, windows.each_results
    places = math.prod(counts)
    parts = [part.reshape([-1, groups, channels, places]) for part in _positions(padded, windows, counts, first_axis=2)]
    columns = joined(parts, 2)
    rows = outputs.reshape([-1, groups, results, places]).transpose([0, 1, 3, 2])
    total = (columns @ rows).reduced("ReduceSum", [0])
    by_result = total.reshape([groups, len(parts), channels, results]).transpose([0, 3, 2, 1])
    return by_result.reshape([windows.results, channels, *windows.kernel])


def _by_sums(windows: Windows, counts: Sequence[int], padded: Tensor, outputs: Tensor) -> Tensor:
    """For each position in the kernel, the sum of dY times the elements of X that it meets, for each channel."""
    axes = [0, *windows.axes]
    parts = _positions(padded, windows, counts, first_axis=2)
    sums = joined([(outputs * part).reduced("ReduceSum", axes, keep=True) for part in parts], 2)
    return sums.reshape([windows.results, 1, *windows.kernel])


_WAYS = {
    Spelling.POSITIONS: _by_product_per_position,
    Spelling.ROWS: _by_rows,
    Spelling.COLUMNS: _by_columns,
    Spelling.SUMS: _by_sums,
}


def _positions(source: Tensor, windows: Windows, counts: Sequence[int], *, first_axis: int) -> Iterator[Tensor]:
    """Yield a Slice for each position in the kernel, of the elements of the padded image that it meets."""
    axes = range(first_axis, first_axis + len(windows.windows))
    _, strides, _, _, dilations = windows.lists
    reach = [(count - 1) * stride + 1 for count, stride in zip(counts, strides, strict=True)]
    for position in itertools.product(*map(range, windows.kernel)):
        starts = [tap * dilation for tap, dilation in zip(position, dilations, strict=True)]
        ends = [start + length for start, length in zip(starts, reach, strict=True)]
        yield source.op("Slice", starts, ends, axes, strides)


def _by_convolution(windows: Windows, image: Tensor, outputs: Tensor) -> Tensor:
    """One convolution of X and dY with batch and channels, and strides and dilations, exchanged, cut to the kernel."""
    order = [1, 0, *windows.axes]
    kernel, strides, begins, ends, dilations = windows.lists
    outputs_first = outputs.transpose(order)
    if windows.groups == 1:
        channels_first = image.transpose(order)
    elif windows.each_channels == 1:
        channels_first = image.transpose(order).reshape([1, -1, *(0 for _ in windows.axes)])
    else:
        if windows.sizes is None:
            raise Refuse(DefinitionCode.UNKNOWN_SIZES, "a convolution with groups of channels over symbolic sizes")
        by_group = image.reshape([-1, windows.groups, windows.each_channels, *windows.sizes])
        exchanged = by_group.transpose([2, 1, 0, *range(3, 3 + len(windows.sizes))])
        channels_first = exchanged.reshape([windows.each_channels, -1, *windows.sizes])
    product = channels_first.op(
        "Conv", outputs_first, strides=dilations, dilations=strides, group=windows.groups, pads=begins + ends
    )
    if not windows.leaves_nothing:
        product = product.op("Slice", [0] * len(kernel), kernel, windows.axes)
    return product.transpose(order)
