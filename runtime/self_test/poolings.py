# SPDX-License-Identifier: Apache-2.0

"""A tensor and the windows of a pool over it, as attributes of any operator of the dialect that can express them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from poolgrad_lowering.dialect import Attribute, Op
from poolgrad_lowering.dialect.body_windows import average_window, onnx_window
from poolgrad_lowering.model.windows import AxisWindow
from poolgrad_lowering.runtime.self_test.reference import Windows, adaptive_windows, pool_windows


@dataclass(frozen=True)
class Pooling:
    """Windows and the shape of x; tuples have a value for each spatial axis of x. Only an adaptive pool has an
    `output_size`; only average pools have a `divisor`, and may count the padding.
    """

    title: str
    x_shape: tuple[int, ...]
    kernel: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    ceil_mode: bool = False
    count_include_pad: bool = False
    divisor: int = 0
    output_size: tuple[int, ...] = ()

    def suits(self, op: Op) -> bool:
        """Whether the operator can express it."""
        return len(self.x_shape) in op.ranks and bool(self.output_size) == op.is_adaptive

    @property
    def pooled_shape(self) -> tuple[int, ...]:
        """The shape of the pooled output."""
        return (*self.x_shape[:2], *map(len, self.windows()))

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

    def attributes(self, op: Op) -> dict[str, Any]:
        """Return all attributes of the operator's node."""
        values = {
            "orig_input_shape": self.x_shape,
            "output_size": self.output_size,
            "ksize": self.kernel,
            "strides": self.strides,
            "pads": self.pads if op.has_argmax else tuple(pad for pad in self.pads for _ in range(2)),
            "ceil_mode": int(self.ceil_mode),
            "count_include_pad": int(self.count_include_pad),
            "exclusive": int(not self.count_include_pad),
            "divisor_override": self.divisor,
            **self._onnx_window(op),
        }
        return {each.name: _of_all_axes(each, values.get(each.name, each.default)) for each in op.attributes}

    def _onnx_window(self, op: Op) -> dict[str, Any]:
        """The attributes of the function body of an operator with windows."""
        if op.is_adaptive:
            return {}
        if op.has_argmax:
            ones = [1] * len(self.kernel)
            return onnx_window(self.kernel, self.strides, (self.pads, self.pads), ones, ceil=self.ceil_mode)
        return average_window(
            [AxisWindow(*row, 1) for row in zip(self.kernel, self.strides, self.pads, self.pads, strict=True)],
            ceil=self.ceil_mode,
            count_include_pad=self.count_include_pad,
            divisor=self.divisor,
        )


def _of_all_axes(attribute: Attribute, value: Any) -> Any:
    """Return an attribute's value, of a list with entries for the axes that x does not have, which come first."""
    if attribute.length is None:
        return value
    absent = 0 if attribute.name == "pads" else 1
    return [absent] * (attribute.length - len(value)) + list(value)
