# SPDX-License-Identifier: Apache-2.0

"""The gradients of a convolution as operators of torch, which are ONNX by the bodies that artifacts have too.

The image is what the windows move over, in groups of channels; a padding is that of both ends of an axis. `left_over`
are those of `ConvolutionWindows`; a negative number is one that is not known. Eager runs read the sizes of tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from poolgrad_lowering.model import convolution_bodies as bodies
from poolgrad_lowering.model.convolution_gradients import ConvolutionWindows, WeightGradient, left_over
from poolgrad_lowering.model.windows import AxisWindow
from poolgrad_lowering.torch.internals.tracing import is_number
from poolgrad_lowering.torch.own_operators import operator
from poolgrad_lowering.torch.written import written

aten = torch.ops.aten

Ints = Sequence[int]
_WINDOWS = "int[] kernel, int[] strides, int[] padding, int[] dilations, SymInt groups, int[] left_over"


def _input_gradient(
    dy: Tensor, weight: Tensor, x: Tensor, kernel: Ints, strides: Ints, padding: Ints, *others: Any
) -> Tensor:
    dilations, groups, _ = others
    none = [0] * len(kernel)
    whole = aten.convolution(dy, weight, None, strides, none, dilations, True, none, groups)
    ends = zip(whole.shape[2:], padding, x.shape[2:], strict=True)
    return functional.pad(whole, [more for size, pad, own in [*ends][::-1] for more in (-pad, own + pad - size)])


_of_input = operator(
    f"input_gradient(Tensor dy, Tensor weight, Tensor x, {_WINDOWS}) -> Tensor",
    _input_gradient,
    lambda dy, weight, x, *windows: dy.new_empty([dy.shape[0], weight.shape[1] * windows[-2], *x.shape[2:]]),
)


def input_gradient(dy: Tensor, weight: Tensor, x: Tensor, windows: Sequence[AxisWindow], groups: int) -> Tensor:
    """Return the gradient of the image x, of which only the sizes behind batch and channels are read."""
    found: Tensor = _of_input(dy, weight, x, *_numbers(windows, groups, x, dy))
    return found


def _weight_gradient(
    image: Tensor, outputs: Tensor, _way: str, kernel: Ints, strides: Ints, padding: Ints, *others: Any
) -> Tensor:
    dilations, groups, _ = others
    padded = functional.pad(image, [pad for each in reversed(padding) for pad in (each, each)])
    reach = zip(outputs.shape[2:], strides, kernel, dilations, strict=True)
    ends = [(count - 1) * step + (taps - 1) * apart + 1 for count, step, taps, apart in reach]
    used = slice(None), slice(None), *map(slice, ends)
    weight, none = image.new_empty([outputs.shape[1], image.shape[1] // groups, *kernel]), [0] * len(kernel)
    operands = (outputs, padded[used], weight, None, strides, none, dilations, False, none, groups)
    found: Tensor = aten.convolution_backward(*operands, [False, True, False])[1]
    return found


_of_weight = operator(
    f"weight_gradient(Tensor image, Tensor outputs, str way, {_WINDOWS}) -> Tensor",
    _weight_gradient,
    lambda image, outputs, _, kernel, *windows: image.new_empty(
        [outputs.shape[1], image.shape[1] // windows[-2], *kernel]
    ),
)


def weight_gradient(
    image: Tensor, outputs: Tensor, way: WeightGradient, windows: Sequence[AxisWindow], groups: int
) -> Tensor:
    """Return the gradient of the weight from that of the outputs."""
    found: Tensor = _of_weight(image, outputs, way, *_numbers(windows, groups, image, outputs))
    return found


def _numbers(windows: Sequence[AxisWindow], groups: int, image: Tensor, outputs: Tensor) -> tuple[Any, ...]:
    """Return the operands `_WINDOWS`."""
    kernel, strides, padding, _, dilations = map(list, zip(*windows, strict=True))
    left = left_over(windows, image.shape[2:], outputs.shape[2:])
    return kernel, strides, padding, dilations, groups, [int(each) if is_number(each) else -1 for each in left]


def _windows_of(image: Any, outputs: Any, windows: Sequence[Any]) -> ConvolutionWindows:
    kernel, strides, padding, dilations, groups, numbers = windows
    axes = list(map(AxisWindow, kernel, strides, padding, padding, dilations))
    planes = [list(value.shape[2:]) for value in (image, outputs)]
    sizes, counts = planes if all(isinstance(size, int) for each in planes for size in each) else (None, None)
    left = [None if number < 0 else number for number in numbers]
    batch = image.shape[0] if isinstance(image.shape[0], int) else None
    return ConvolutionWindows(image.shape[1], outputs.shape[1], groups, axes, sizes, counts, left, batch)


def _input_gradient_written(dy: Any, weight: Any, x: Any, *windows: Any) -> Any:
    return written(partial(bodies.input_gradient, _windows_of(x, dy, windows)), dy, weight, x)


def _weight_gradient_written(image: Any, outputs: Any, way: WeightGradient, *windows: Any) -> Any:
    of = _windows_of(image, outputs, windows)
    return written(partial(bodies.weight_gradient, of, way=way), image, outputs)


GRADIENTS: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.ops.poolgrad_lowering.input_gradient.default: _input_gradient_written,
    torch.ops.poolgrad_lowering.weight_gradient.default: _weight_gradient_written,
}
"""The functions that write the nodes."""
