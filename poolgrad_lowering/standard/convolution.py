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

from poolgrad_lowering.model.diagnostics.codes import Refuse
from poolgrad_lowering.model.diagnostics.definition_codes import DefinitionCode
from poolgrad_lowering.model.ir.dims import is_static
from poolgrad_lowering.model.windows import AxisWindow, PoolAttributes
from poolgrad_lowering.standard.definition import Call, Definition
from poolgrad_lowering.standard.nodes import ints, reduce, reshape, transpose

FEW_CHANNELS = 16
"""With fewer channels in a group, one matrix product over all positions of the kernel is faster than one for each."""


MOST_POSITIONS = 4096
"""With more positions of the kernel, their matrix products would be too many nodes: it is one convolution."""


@dataclass(frozen=True)
class Windows:
    """What a convolution moves over: `image` and `outputs` name the operands, `axes` has the windows of each axis.

    `sizes` and `counts` are those of image and outputs; they are None if one of them is symbolic. A transposed
    convolution has no use for `sizes`.
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
        counts, sizes = sizes, None
        extra = call.attribute("output_padding", [0] * len(windows))
        if len(extra) != len(windows) or any(more >= w.stride for more, w in zip(extra, windows, strict=True) if more):
            raise call.refuse(f"output_padding {extra} with strides {[window.stride for window in windows]}")
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


def weight_gradient(windows: Windows, dw: str = "dW") -> str:
    """The gradient of the weight, as matrix products where the sizes are numbers."""
    if windows.counts is None or 0 in windows.counts or math.prod(windows.kernel) > MOST_POSITIONS:
        return _by_convolution(windows, dw)
    if windows.groups > 1 or windows.channels < FEW_CHANNELS:
        return _by_one_product(windows, windows.counts, dw)
    return _by_product_per_position(windows, windows.counts, dw)


def _by_product_per_position(windows: Windows, counts: Sequence[int], dw: str) -> str:
    """For each position in the kernel, dY as (O, N·L) by the elements of X that it meets, as (N·L, C)."""
    first, axes = len(windows.kernel), windows.axes
    text = _padded(windows) + transpose("last", "padded", [0, *axes, 1])
    text += transpose("exchanged", windows.outputs, [1, 0, *axes]) + reshape("rows", "exchanged", [windows.results, -1])
    products = []
    for number, part in enumerate(_positions("last", windows, counts, first_axis=1)):
        text += part + reshape(f"columns_{number}", f"part_{number}", [-1, windows.channels])
        text += f"product_{number} = MatMul(rows, columns_{number})\n"
        products.append(f"product_{number}")
    text += f"products = Concat<axis = 0>({', '.join(products)})\n"
    text += reshape("cube", "products", [*windows.kernel, windows.results, windows.channels])
    return text + transpose(dw, "cube", [first, first + 1, *range(first)])


def _by_one_product(windows: Windows, counts: Sequence[int], dw: str) -> str:
    """dY as (N, G, O/G, L) by the elements of X that each position meets, as (N, G, L, K·C/G), added up over N."""
    groups, channels, places = windows.groups, windows.channels // windows.groups, math.prod(counts)
    text, parts = _padded(windows), []
    for number, part in enumerate(_positions("padded", windows, counts, first_axis=2)):
        text += part + reshape(f"columns_{number}", f"part_{number}", [-1, groups, channels, places])
        parts.append(f"columns_{number}")
    text += f"columns = Concat<axis = 2>({', '.join(parts)})\n" + transpose("upright", "columns", [0, 1, 3, 2])
    text += reshape("rows", windows.outputs, [-1, groups, windows.results // groups, places])
    text += "product = MatMul(rows, upright)\n" + reduce("ReduceSum", "total", "product", [0])
    text += reshape("by_position", "total", [windows.results, len(parts), channels])
    text += transpose("by_channel", "by_position", [0, 2, 1])
    return text + reshape(dw, "by_channel", [windows.results, channels, *windows.kernel])


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
    if windows.groups > 1:
        raise Refuse(DefinitionCode.UNKNOWN_SIZES, "a convolution with groups, over symbolic sizes or by a huge kernel")
    order = [1, 0, *windows.axes]
    kernel, strides, begins, ends, dilations = windows.lists
    return (
        transpose("channels_first", windows.image, order)
        + transpose("outputs_first", windows.outputs, order)
        + f"product = Conv<strides = {dilations}, dilations = {strides}, "
        f"pads = {begins + ends}>(channels_first, outputs_first)\n"
        + ints("starts", [0] * len(kernel))
        + ints("ends", kernel)
        + ints("axes", windows.axes)
        + "cut = Slice(product, starts, ends, axes)\n"
        + transpose(dw, "cut", order)
    )


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
