# SPDX-License-Identifier: Apache-2.0

"""The gradients of average pools of CANN in numpy: what shape inference and tiling refuse, and the definition.

From ops-nn, `pooling/avg_pool3_d_grad`, `avg_pool_v2_grad`, `adaptive_avg_pool2d_grad` and `adaptive_avg_pool3d_grad`:
`*_infershape.cpp` and the tiling of each SoC. What they leave undefined is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.harness.ge.kernels import VALUE_TYPES, no_kernel, refused
from tests.harness.ge.parser import GeOperator
from tests.harness.ge.prototypes import Soc
from tests.oracles import adaptive_windows
from tests.oracles.training_operators import average_pool_grad, average_windows_grad

Array = npt.NDArray[Any]


def compute_average(operator: GeOperator, inputs: Sequence[Array], soc: Soc) -> list[Array]:
    """Return the result of a gradient of an average pool.

    Raises:
        GeError: the SoC has no kernel for the operator, or it refuses types, shapes or attributes.
    """
    if operator.type not in _ON[soc]:
        raise no_kernel(operator, f"{soc} has no {operator.type}")
    if len(inputs) < len(operator.inputs):
        raise refused(operator, f"input {operator.inputs[len(inputs)].name} is missing")
    values = [array for name, array in _named(operator, inputs) if name != SIZES]
    types = {array.dtype.name for array in values}
    if len(types) != 1 or not types <= VALUE_TYPES:
        raise no_kernel(operator, f"values of types {sorted(types)}")
    return [TYPES[operator.type](operator, inputs, soc).astype(values[0].dtype)]


def _named(operator: GeOperator, inputs: Sequence[Array]) -> list[tuple[str, Array]]:
    return [(tensor.name, array) for tensor, array in zip(operator.inputs, inputs, strict=False)]


SIZES = "orig_input_shape"
"""The input whose numbers shape inference reads."""


def _of_planes(operator: GeOperator, inputs: Sequence[Array], _: Soc) -> Array:
    """AvgPoolV2Grad."""
    read = _attributes(operator)
    sizes, grad = _sizes(operator, inputs[0], (3, 4)), inputs[1]
    kernel, strides, pads = read["ksize"], read["strides"], read["pads"]
    layout = read["data_format"]
    if layout not in ("NCHW", "NHWC") or read["padding_mode"] not in ("SAME", "VALID", "CALCULATED"):
        raise refused(operator, f"data_format {layout}, padding_mode {read['padding_mode']}")
    channels = layout.index("C")
    if len(kernel) != 4 or len(strides) != 4 or len(pads) != 4:
        raise refused(operator, f"lists of {len(kernel)}, {len(strides)} and {len(pads)} numbers, 4 are needed")
    if {kernel[0], kernel[channels], strides[0], strides[channels]} != {1}:
        raise refused(operator, f"ksize {kernel} and strides {strides} of batch or channels")
    if read["padding_mode"] != "CALCULATED" or read["global_pooling"] or len(sizes) != 4 or grad.ndim != 4:
        raise refused(operator, "the stand-in computes padding CALCULATED at rank 4 only")
    spatial = [axis for axis in (1, 2, 3) if axis != channels]
    rows = [[kernel[axis] for axis in spatial], [strides[axis] for axis in spatial], pads[0::2], pads[1::2]]
    moved = [sizes[0], sizes[channels], *(sizes[axis] for axis in spatial)]
    dx = _windowed(operator, np.moveaxis(grad, channels, 1), moved, rows, counts_padding=not read["exclusive"])
    return np.moveaxis(dx, 1, channels)


def _of_volumes(operator: GeOperator, inputs: Sequence[Array], soc: Soc) -> Array:
    """AvgPool3DGrad. On A2 and A3 the last three numbers of orig_input_shape are D, H and W in each layout."""
    read = _attributes(operator)
    sizes, grad = _sizes(operator, inputs[0], (5,) if soc != "ascend950" else (4, 5)), inputs[1]
    kernel, strides, pads = read["ksize"], read["strides"], list(read["pads"])
    if read["data_format"] not in ("NCDHW", "NDHWC"):
        raise refused(operator, f"data_format {read['data_format']}")
    if len(kernel) != 3 or len(strides) != 3 or len(pads) not in (3, 6):
        raise refused(operator, f"lists of {len(kernel)}, {len(strides)} and {len(pads)} numbers")
    if grad.ndim != 5 or len(sizes) != 5:
        raise refused(operator, f"grads of rank {grad.ndim}, and {len(sizes)} sizes, 5 are needed")
    begins = pads[0::2] if len(pads) == 6 else pads
    ends = pads[1::2] if len(pads) == 6 and soc == "ascend950" else begins
    last = read["data_format"] == "NDHWC"
    planes = np.moveaxis(grad, -1, 1) if last else grad
    moved = [sizes[0], sizes[4], *sizes[1:4]] if last and soc == "ascend950" else sizes
    rows = [kernel, strides, begins, ends]
    dx = _windowed(operator, planes, moved, rows, counts_padding=read["count_include_pad"])
    return (np.moveaxis(dx, 1, -1) if last else dx).reshape(sizes)


def _windowed(
    operator: GeOperator, grad: Array, sizes: Sequence[int], rows: Sequence[Sequence[int]], *, counts_padding: bool
) -> Array:
    kernel, strides, begins, ends = rows
    ceil_mode, divisor = (operator.attributes[name].value for name in ("ceil_mode", "divisor_override"))
    if min(*kernel, *strides) < 1 or min(*begins, *ends) < 0:
        raise refused(operator, "a window attribute is out of range")
    if any(2 * pad > size for size, *pads in zip(kernel, begins, ends, strict=True) for pad in pads):
        raise refused(operator, f"pads {[*begins, *ends]} are more than half of ksize {kernel}")
    counts = [_count(*row, ceil_mode=ceil_mode) for row in zip(sizes[2:], kernel, strides, begins, ends, strict=True)]
    if list(grad.shape) != [*sizes[:2], *counts]:
        raise refused(operator, f"a gradient of {grad.shape}, expected {[*sizes[:2], *counts]}")
    return average_pool_grad(
        grad,
        sizes,
        kernel=kernel,
        strides=strides,
        begins=begins,
        ends=ends,
        counts_padding=counts_padding,
        divisor=divisor or None,
    )


def _count(size: int, kernel: int, stride: int, begin: int, end: int, *, ceil_mode: bool) -> int:
    count = (size + begin + end - kernel + (stride - 1 if ceil_mode else 0)) // stride + 1
    return count - 1 if ceil_mode and (count - 1) * stride >= size + begin else count


def _adaptive_volumes(operator: GeOperator, inputs: Sequence[Array], soc: Soc) -> Array:
    """AdaptiveAvgPool3dGrad. On A2 and A3 y_grad is (D, H, W, N·C), whatever the layout, and so is the result."""
    grad, x = inputs
    layout = _attributes(operator)["data_format"]
    if layout not in ("NCDHW", "NDHWC"):
        raise refused(operator, f"data_format {layout}")
    if soc != "ascend950":
        raise refused(operator, f"y_grad of rank {grad.ndim} and order {layout}, (D, H, W, N·C) is needed")
    if grad.ndim != 5 or x.ndim != 5:
        raise refused(operator, f"y_grad of rank {grad.ndim}, x of rank {x.ndim}")
    if layout == "NDHWC":
        return np.moveaxis(_adaptive(operator, np.moveaxis(grad, -1, 1), np.moveaxis(x, -1, 1).shape), 1, -1)
    return _adaptive(operator, grad, x.shape)


def _adaptive_planes(operator: GeOperator, inputs: Sequence[Array], _: Soc) -> Array:
    """AdaptiveAvgPool2dGrad, of NCHW."""
    sizes = _attributes(operator)[SIZES]
    if len(sizes) != inputs[0].ndim or min(sizes, default=0) < 1:
        raise refused(operator, f"{SIZES} {sizes} for a gradient of rank {inputs[0].ndim}")
    return _adaptive(operator, inputs[0], sizes)


def _adaptive(operator: GeOperator, grad: Array, sizes: Sequence[int]) -> Array:
    if grad.shape[:2] != tuple(sizes[:2]):
        raise refused(operator, f"a gradient of {grad.shape} for x of {tuple(sizes)}")
    windows = [adaptive_windows(size, count) for size, count in zip(sizes[2:], grad.shape[2:], strict=True)]
    return average_windows_grad(grad.astype(np.float64), sizes, windows)


def _attributes(operator: GeOperator) -> dict[str, Any]:
    return {name: attribute.value for name, attribute in operator.attributes.items()}


def _sizes(operator: GeOperator, array: Array, lengths: tuple[int, ...]) -> list[int]:
    """Return the numbers of orig_input_shape."""
    if array.dtype != np.int32 or array.size not in lengths:
        raise refused(operator, f"{SIZES} has {array.size} numbers of type {array.dtype}")
    return [int(number) for number in array.reshape(-1)]


TYPES: Mapping[str, Callable[[GeOperator, Sequence[Array], Soc], Array]] = {
    "AvgPool3DGrad": _of_volumes,
    "AvgPoolV2Grad": _of_planes,
    "AdaptiveAvgPool3dGrad": _adaptive_volumes,
    "AdaptiveAvgPool2dGrad": _adaptive_planes,
}
_OLD = frozenset({"AvgPool3DGrad", "AdaptiveAvgPool3dGrad"})
_ON: Mapping[Soc, frozenset[str]] = {"ascend910b": _OLD, "ascend910_93": _OLD, "ascend950": frozenset(TYPES)}
