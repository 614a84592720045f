# SPDX-License-Identifier: Apache-2.0

"""`AveragePoolGradient`, the record that every form returns for a gradient of an average pool."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from poolgrad_lowering.compiler.families.gradient import Gradient, Operand
from poolgrad_lowering.model.ir.scopes import Node, Value
from poolgrad_lowering.model.windows import AdaptiveWindows


@dataclass(frozen=True, kw_only=True)
class AveragePoolGradient(Gradient):
    """A proven gradient of an average pool: `dx = 0; dx[n, c][window o] += grad[n, c, o] / divisor(o)`.

    * `x`: a value of shape `x_shape` and of the same type, whose elements are not read; None if the form has none
    * `count_include_pad`: whether divisor(o) counts the elements of window o in the padding too, or those of x alone
    * `divisor`: the divisor of all windows; 0 if each one is counted
    * `pool`: the forward pool; None if not known
    * `spelled`: whether it is written out in operators of ONNX, and no operator of a training runtime
    """

    x: Operand | None
    count_include_pad: bool = False
    divisor: int = 0
    pool: Node | None = None
    spelled: bool = False

    @property
    def reads_x(self) -> bool:
        """Whether the lowered node needs a value of x's shape: grad and the windows do not tell all sizes of x."""
        return isinstance(self.windows, AdaptiveWindows) or any(dim.static is None for dim in self.x_shape[2:])

    @property
    def operands(self) -> tuple[Value, ...]:
        """The values that the lowered node uses: grad, and x if it is read."""
        return (self.grad.value,) if self.x is None or not self.reads_x else (self.grad.value, self.x.value)

    @property
    def selected_by(self) -> Hashable:
        """The windows, how they count, the shapes, the element type, and whether there is a value of x's shape."""
        counting = self.count_include_pad, self.divisor
        return repr(self.windows), counting, self.x_shape, self.pooled_shape, self.element_type, self.x is None

    @property
    def in_onnx(self) -> bool:
        """Whether it is written out: GE has ConvTranspose, Gather and ReduceSum."""
        return self.spelled

    @property
    def pooling(self) -> Node | None:
        """The forward pool."""
        return self.pool
