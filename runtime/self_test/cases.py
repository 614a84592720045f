# SPDX-License-Identifier: Apache-2.0

"""The tables of the self-test: pairs of pool and gradient operators, and the windows with which they are tested."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from onnx import TensorProto

from poolgrad_lowering.dialect.onnx_window import onnx_window
from poolgrad_lowering.runtime.self_test.reference import Windows, adaptive_windows, pool_windows

_INT32 = 3  # Ascend's number of the type int32


@dataclass(frozen=True)
class ElementType:
    """An element type with `fraction_bits` bits of fraction; test data has exponents of at most ±`exponent`, so that
    sums do not overflow.
    """

    name: str
    onnx: int
    fraction_bits: int
    exponent: int


ELEMENT_TYPES = (
    ElementType("float32", TensorProto.FLOAT, 23, 16),
    ElementType("float16", TensorProto.FLOAT16, 10, 4),
    ElementType("bfloat16", TensorProto.BFLOAT16, 7, 16),
)


@dataclass(frozen=True)
class Family:
    """A pool of the dialect and its gradient.

    `axes` is the length of list attributes, 0 for the adaptive pool. `orders_nan` says whether CANN documents the
    pool's behaviour for NaN and −inf; for aclnnMaxPool2dWithIndices it does not.
    """

    pool: str
    gradient: str
    axes: int
    orders_nan: bool


POOL_3D = Family("MaxPool3DWithArgmaxV2", "MaxPool3DGradWithArgmax", axes=3, orders_nan=True)
POOL_2D = Family("MaxPoolWithArgmaxV3", "MaxPoolGradWithArgmaxV3", axes=2, orders_nan=False)
ADAPTIVE = Family("AdaptiveMaxPool3d", "AdaptiveMaxPool3DGrad", axes=0, orders_nan=True)


@dataclass(frozen=True)
class Case:
    """A family with windows and the shape of x; tuples have a value for each spatial axis of x. Only the adaptive pool
    has an `output_size`.
    """

    title: str
    family: Family
    x_shape: tuple[int, ...]
    kernel: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    ceil_mode: bool = False
    output_size: tuple[int, ...] = ()

    def windows(self) -> list[Windows]:
        """Return the windows of each spatial axis of x."""
        return self.windows_of(self.x_shape)

    def windows_of(self, x_shape: Sequence[int]) -> list[Windows]:
        """Return the windows of each spatial axis for an x of another shape."""
        spatial = x_shape[2:]
        if self.output_size:
            return [adaptive_windows(*axis) for axis in zip(spatial, self.output_size, strict=True)]
        axes = zip(spatial, self.kernel, self.strides, self.pads, strict=True)
        return [pool_windows(*axis, ceil_mode=self.ceil_mode) for axis in axes]

    def pool_attributes(self) -> dict[str, Any]:
        """Return all attributes of the pool's node."""
        if self.output_size:
            return {"output_size": _padded(self.output_size, 3, 1), "indices_dtype": _INT32}
        pads, ones = (self.pads, self.pads), [1] * len(self.kernel)
        in_onnx = onnx_window(self.kernel, self.strides, pads, ones, ceil=self.ceil_mode)
        return {**self._window_attributes(), "dtype": _INT32, **in_onnx}

    def gradient_attributes(self) -> dict[str, Any]:
        """Return all attributes of the gradient's node."""
        if self.output_size:
            return {}
        return self._window_attributes() | ({"dtype": _INT32} if self.family is POOL_2D else {})

    def _window_attributes(self) -> dict[str, Any]:
        axes = self.family.axes
        return {
            "ksize": _padded(self.kernel, axes, 1),
            "strides": _padded(self.strides, axes, 1),
            "pads": _padded(self.pads, axes, 0),
            "dilation": [1] * axes,
            "ceil_mode": int(self.ceil_mode),
            "data_format": "NCHW" if self.family is POOL_2D else "NCDHW",
        }


CASES = (
    Case("1-D", POOL_3D, (2, 3, 12), (3,), (3,), (0,)),
    Case("1-D overlapping, ceil", POOL_3D, (2, 3, 12), (3,), (2,), (1,), ceil_mode=True),
    Case("2-D", POOL_3D, (2, 3, 8, 10), (2, 2), (2, 2), (0, 0)),
    Case("2-D overlapping", POOL_3D, (2, 3, 9, 9), (3, 3), (2, 2), (1, 1)),
    Case("2-D ceil", POOL_3D, (2, 3, 7, 9), (2, 2), (2, 2), (0, 0), ceil_mode=True),
    Case("3-D", POOL_3D, (2, 3, 4, 6, 6), (2, 2, 2), (2, 2, 2), (0, 0, 0)),
    Case("3-D overlapping, ceil", POOL_3D, (1, 2, 5, 6, 7), (3, 3, 3), (2, 2, 2), (1, 1, 1), ceil_mode=True),
    Case("2-D", POOL_2D, (2, 3, 8, 10), (2, 2), (2, 2), (0, 0)),
    Case("2-D overlapping", POOL_2D, (2, 3, 9, 9), (3, 3), (2, 2), (1, 1)),
    Case("2-D ceil", POOL_2D, (2, 3, 7, 9), (2, 2), (2, 2), (0, 0), ceil_mode=True),
    Case("adaptive 1-D", ADAPTIVE, (2, 3, 12), output_size=(4,)),
    Case("adaptive 2-D", ADAPTIVE, (2, 3, 8, 6), output_size=(4, 3)),
    Case("adaptive 2-D, uneven", ADAPTIVE, (2, 3, 7, 8), output_size=(3, 5)),
    Case("adaptive 3-D, uneven", ADAPTIVE, (2, 2, 5, 6, 7), output_size=(2, 4, 3)),
)


def _padded(values: Sequence[int], length: int, absent: int) -> list[int]:
    """Return the values of an attribute, with `absent` for leading axes that x does not have."""
    return [absent] * (length - len(values)) + list(values)
