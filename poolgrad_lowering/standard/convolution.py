# SPDX-License-Identifier: Apache-2.0

"""The gradients of convolutions, with the names of `model.weight_gradients`."""

from __future__ import annotations

from typing import Any

from poolgrad_lowering.model import weight_gradients
from poolgrad_lowering.model.convolution_gradients import Spelling, is_turned_round, spelling
from poolgrad_lowering.model.diagnostics.codes import Refuse
from poolgrad_lowering.model.diagnostics.definition_codes import DefinitionCode
from poolgrad_lowering.model.ir.bodies import Tensor
from poolgrad_lowering.model.ir.dims import is_static
from poolgrad_lowering.model.weight_gradients import Convolution
from poolgrad_lowering.model.windows import PoolAttributes
from poolgrad_lowering.standard.definition import Call, defines

_VOLUME = 3
"""Spatial axes of a volume."""


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


def _windows(call: Call, *, transposed: bool) -> Convolution:
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
    return Convolution(weight[1] * groups, weight[0], groups, windows, sizes, counts, batch=batch)


def _attributes(windows: Convolution, *, cut: bool = True) -> dict[str, Any]:
    """Return the attributes of the convolution; without `cut`, its pads at the ends are 0."""
    kernel, strides, begins, ends, dilations = windows.lists
    pads = begins + (ends if cut else [0] * len(ends))
    numbers = {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "pads": pads}
    return {**numbers, "group": windows.groups}


def input_gradient(windows: Convolution, outputs: Tensor, weight: Tensor, image: Tensor | None = None) -> Tensor:
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


def _turned_round(windows: Convolution, outputs: Tensor, weight: Tensor) -> Tensor:
    """The convolution of the outputs with the kernel turned round."""
    kernel, _, _, _, dilations = windows.lists
    pads = [window.extent - 1 - window.begin for window in windows.windows]
    last, before = [-1] * len(kernel), [-size - 1 for size in kernel]
    flipped = weight.op("Slice", last, before, windows.axes, last).transpose([1, 0, *windows.axes])
    return outputs.op("Conv", flipped, kernel_shape=kernel, dilations=dilations, pads=pads + pads)


def weight_gradient(windows: Convolution, image: Tensor, outputs: Tensor) -> Tensor:
    """The gradient of the weight, as what is the fastest for the sizes; as a convolution if these are no numbers."""
    way = Spelling.CONVOLUTION
    if windows.counts is not None and 0 not in windows.counts:
        each = windows.each_channels, windows.each_results
        way = spelling(windows.windows, windows.counts, *each, batch=windows.batch)
    elif windows.sizes is None and windows.groups > 1 < windows.each_channels:
        raise Refuse(DefinitionCode.UNKNOWN_SIZES, "a convolution with groups of channels over symbolic sizes")
    return weight_gradients.weight_gradient(way, windows, image, outputs)
