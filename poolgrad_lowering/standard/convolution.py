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
from dataclasses import dataclass

from poolgrad_lowering.model.convolution_gradients import Spelling, is_turned_round, spelling
from poolgrad_lowering.model.diagnostics.codes import Refuse
from poolgrad_lowering.model.diagnostics.definition_codes import DefinitionCode
from poolgrad_lowering.model.ir.dims import is_static
from poolgrad_lowering.model.windows import AxisWindow, PoolAttributes
from poolgrad_lowering.standard.definition import Call, Definition
from poolgrad_lowering.standard.nodes import ints, reduce, reshape, transpose


@dataclass(frozen=True)
class Windows:
    """What a convolution moves over: `image` and `outputs` name the operands, `axes` has the windows of each axis.

    `sizes` and `counts` are those of image and outputs; they are None if one of them is symbolic.
    """

    image: str
    outputs: str
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


def _conv_grad(call: Call) -> str:
    windows = _windows(call, "X", "dY")
    return _wanted_gradients(call, windows, input_gradient(windows))


def _conv_transpose_grad(call: Call) -> str:
    if call.attribute("output_shape") is not None or call.attribute("auto_pad", "NOTSET") != "NOTSET":
        raise call.refuse("a ConvTransposeGrad with output_shape or auto_pad")
    windows = _windows(call, "dY", "X")
    dx = f"dX = Conv<{_attributes(windows)}>(dY, W)\n"
    return _wanted_gradients(call, windows, dx)


def _wanted_gradients(call: Call, windows: Windows, dx: str) -> str:
    """Return the nodes of the outputs that the node has; `dx` are those of dX."""
    text = dx if call.wants("dX") else ""
    if call.wants("dW"):
        text += weight_gradient(windows)
    return text + (reduce("ReduceSum", "dB", "dY", [0, *windows.axes]) if call.wants("dB") else "")


def _windows(call: Call, image: str, outputs: str) -> Windows:
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
    if image == "dY":
        extra = call.attribute("output_padding", [0] * len(windows))
        if len(extra) != len(windows) or any(more >= w.stride for more, w in zip(extra, windows, strict=True) if more):
            raise call.refuse(f"output_padding {extra} with strides {[window.stride for window in windows]}")
        counts = sizes
        if counts is not None:
            ends = zip(windows, counts, extra, strict=True)
            sizes = [window.overhang(0, count) - window.end + more for window, count, more in ends]
    return Windows(image, outputs, weight[1] * groups, weight[0], groups, windows, sizes, counts)


def _attributes(windows: Windows, *, cut: bool = True) -> str:
    """Return the attributes of the convolution; without `cut`, its pads at the ends are 0."""
    kernel, strides, begins, ends, dilations = windows.lists
    return (
        f"kernel_shape = {kernel}, strides = {strides}, dilations = {dilations}, group = {windows.groups}, "
        f"pads = {begins + (ends if cut else [0] * len(ends))}"
    )


def input_gradient(windows: Windows, dx: str = "dX", weight: str = "W") -> str:
    """The transposed convolution of the outputs, with as many rows as the windows left over at the image's end."""
    operands = f"{windows.outputs}, {weight}"
    strides = [window.stride for window in windows.windows]
    if is_turned_round(windows.windows, windows.channels, windows.results, windows.groups):
        return _turned_round(windows, dx, weight)
    if windows.sizes is not None and windows.counts is not None:
        axes = zip(windows.windows, windows.sizes, windows.counts, strict=True)
        left_over = [window.end - window.overhang(size, count) for window, size, count in axes]
        return f"{dx} = ConvTranspose<{_attributes(windows)}, output_padding = {left_over}>({operands})\n"
    if max(strides) == 1:
        return f"{dx} = ConvTranspose<{_attributes(windows)}>({operands})\n"
    # The windows may end before the image's padding does: as many rows as there may be, cut to the image.
    most = [stride - 1 for stride in strides]
    return (
        f"whole = ConvTranspose<{_attributes(windows, cut=False)}, output_padding = {most}>({operands})\n"
        f"shape = Shape({windows.image})\n"
        + ints("first", [0] * (2 + len(strides)))
        + f"{dx} = Slice(whole, first, shape)\n"
    )


def _turned_round(windows: Windows, dx: str, weight: str) -> str:
    """The convolution of the outputs with the kernel turned round."""
    kernel, _, _, _, dilations = windows.lists
    axes = len(kernel)
    pads = [window.extent - 1 - window.begin for window in windows.windows]
    return (
        ints("flip_last", [-1] * axes)
        + ints("flip_before", [-size - 1 for size in kernel])
        + ints("flip_axes", windows.axes)
        + f"flipped = Slice({weight}, flip_last, flip_before, flip_axes, flip_last)\n"
        + transpose("flipped_by_channel", "flipped", [1, 0, *windows.axes])
        + f"{dx} = Conv<kernel_shape = {kernel}, dilations = {dilations}, pads = {pads + pads}>"
        f"({windows.outputs}, flipped_by_channel)\n"
    )


def weight_gradient(windows: Windows, dw: str = "dW") -> str:
    """The gradient of the weight, as what is the fastest for the sizes; as a convolution if these are no numbers."""
    if windows.counts is None or 0 in windows.counts:
        return _by_convolution(windows, dw)
    found = spelling(windows.windows, windows.counts, windows.each_channels, windows.each_results)
    if found is Spelling.CONVOLUTION:
        return _by_convolution(windows, dw)
    write = {Spelling.POSITIONS: _by_product_per_position, Spelling.COLUMNS: _by_columns, Spelling.SUMS: _by_sums}
    return write[found](windows, windows.counts, dw)


def _by_product_per_position(windows: Windows, counts: Sequence[int], dw: str) -> str:
    """For each position in the kernel, dY as (G, O, N·L) by the elements of X that it meets, as (G, N·L, C)."""
    groups, channels, results = windows.groups, windows.each_channels, windows.each_results
    axes = len(windows.kernel)
    lead = [groups] if groups > 1 else []  # of one group, they are products of matrices
    text = _padded(windows) + transpose("exchanged", windows.outputs, [1, 0, *windows.axes])
    text += reshape("rows", "exchanged", [*lead, results, -1])
    if lead:
        text += reshape("by_group", "padded", [-1, groups, channels, *(windows.padded_sizes or [])])
        text += transpose("last", "by_group", [1, 0, *range(3, 3 + axes), 2])
    else:
        text += transpose("last", "padded", [0, *windows.axes, 1])
    products = []
    for number, part in enumerate(_positions("last", windows, counts, first_axis=1 + len(lead))):
        text += part + reshape(f"columns_{number}", f"part_{number}", [*lead, -1, channels])
        text += f"product_{number} = MatMul(rows, columns_{number})\n"
        products.append(f"product_{number}")
    text += f"products = Concat<axis = 0>({', '.join(products)})\n"
    text += reshape("cube", "products", [*windows.kernel, *lead, results, channels])
    last = axes + len(lead)
    if not lead:
        return text + transpose(dw, "cube", [last, last + 1, *range(axes)])
    text += transpose("turned", "cube", [*range(axes, last + 2), *range(axes)])
    return text + reshape(dw, "turned", [windows.results, channels, *windows.kernel])


def _by_columns(windows: Windows, counts: Sequence[int], dw: str) -> str:
    """The elements of X that each position meets, as (N, G, K·C, L), by dY as (N, G, L, O), added up over N."""
    groups, channels, results = windows.groups, windows.each_channels, windows.each_results
    places = math.prod(counts)
    text, parts = _padded(windows), []
    for number, part in enumerate(_positions("padded", windows, counts, first_axis=2)):
        text += part + reshape(f"columns_{number}", f"part_{number}", [-1, groups, channels, places])
        parts.append(f"columns_{number}")
    text += f"columns = Concat<axis = 2>({', '.join(parts)})\n"
    text += reshape("flat", windows.outputs, [-1, groups, results, places]) + transpose("rows", "flat", [0, 1, 3, 2])
    text += "product = MatMul(columns, rows)\n" + reduce("ReduceSum", "total", "product", [0])
    text += reshape("by_position", "total", [groups, len(parts), channels, results])
    text += transpose("by_result", "by_position", [0, 3, 2, 1])
    return text + reshape(dw, "by_result", [windows.results, channels, *windows.kernel])


def _by_sums(windows: Windows, counts: Sequence[int], dw: str) -> str:
    """For each position in the kernel, the sum of dY times the elements of X that it meets, for each channel."""
    text, sums = _padded(windows), []
    for number, part in enumerate(_positions("padded", windows, counts, first_axis=2)):
        text += part + f"product_{number} = Mul({windows.outputs}, part_{number})\n"
        text += reduce("ReduceSum", f"sum_{number}", f"product_{number}", [0, *windows.axes], keep=True)
        sums.append(f"sum_{number}")
    text += f"sums = Concat<axis = 2>({', '.join(sums)})\n"
    return text + reshape(dw, "sums", [windows.results, 1, *windows.kernel])


def _padded(windows: Windows) -> str:
    _, _, begins, ends, _ = windows.lists
    pads = [0, 0, *begins, 0, 0, *ends]
    if not any(pads):
        return f"padded = Identity({windows.image})\n"
    return ints("pads", pads) + f"padded = Pad({windows.image}, pads)\n"


def _positions(source: str, windows: Windows, counts: Sequence[int], *, first_axis: int) -> Iterator[str]:
    """Yield a Slice for each position in the kernel, of the elements of the padded image that it meets."""
    axes = range(first_axis, first_axis + len(windows.windows))
    _, strides, _, _, dilations = windows.lists
    reach = [(count - 1) * stride + 1 for count, stride in zip(counts, strides, strict=True)]
    for number, position in enumerate(itertools.product(*map(range, windows.kernel))):
        starts = [tap * dilation for tap, dilation in zip(position, dilations, strict=True)]
        ends = [start + length for start, length in zip(starts, reach, strict=True)]
        yield (
            ints(f"starts_{number}", starts)
            + ints(f"ends_{number}", ends)
            + ints(f"axes_{number}", axes)
            + ints(f"steps_{number}", strides)
            + f"part_{number} = Slice({source}, starts_{number}, ends_{number}, axes_{number}, steps_{number})\n"
        )


def _by_convolution(windows: Windows, dw: str) -> str:
    """One convolution of X and dY with batch and channels, and strides and dilations, exchanged, cut to the kernel."""
    order = [1, 0, *windows.axes]
    kernel, strides, begins, ends, dilations = windows.lists
    text = transpose("outputs_first", windows.outputs, order)
    if windows.groups == 1:
        text += transpose("channels_first", windows.image, order)
    elif windows.each_channels == 1:
        text += transpose("exchanged", windows.image, order)
        text += reshape("channels_first", "exchanged", [1, -1, *(0 for _ in windows.axes)])
    else:
        text += _groups_exchanged(windows)
    text += (
        f"product = Conv<strides = {dilations}, dilations = {strides}, group = {windows.groups}, "
        f"pads = {begins + ends}>(channels_first, outputs_first)\n"
    )
    if windows.leaves_nothing:
        return text + transpose(dw, "product", order)
    text += ints("starts", [0] * len(kernel)) + ints("ends", kernel) + ints("axes", windows.axes)
    return text + "cut = Slice(product, starts, ends, axes)\n" + transpose(dw, "cut", order)


def _groups_exchanged(windows: Windows) -> str:
    """The image of G groups of C channels as (C, G·N, …). The sizes of its axes are numbers."""
    if windows.sizes is None:
        raise Refuse(DefinitionCode.UNKNOWN_SIZES, "a convolution with groups of channels over symbolic sizes")
    sizes, channels = windows.sizes, windows.each_channels
    text = reshape("by_group", windows.image, [-1, windows.groups, channels, *sizes])
    text += transpose("exchanged", "by_group", [2, 1, 0, *range(3, 3 + len(sizes))])
    return text + reshape("channels_first", "exchanged", [channels, -1, *sizes])


DEFINITIONS = (
    Definition(
        "ConvGrad",
        _conv_grad,
        "dX = ConvTranspose(dY, W); dW[o, c, k] = Σ dY[n, o, l] · X[n, c, l·s + k·d − p]; dB = Σ dY",
    ),
    Definition(
        "ConvTransposeGrad",
        _conv_transpose_grad,
        "dX = Conv(dY, W); dW[c, o, k] = Σ X[n, c, l] · dY[n, o, l·s + k·d − p]; dB = Σ dY",
    ),
)
