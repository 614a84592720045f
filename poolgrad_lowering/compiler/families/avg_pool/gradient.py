# SPDX-License-Identifier: Apache-2.0

"""`AveragePoolGradient`, the record of a gradient of an average pool that every form returns; what must hold of it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from poolgrad_lowering.compiler.families.gradient import Gradient, Operand, View
from poolgrad_lowering.compiler.families.shared import checks
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.dims import Shown, differ, fits_reshape, is_static
from poolgrad_lowering.model.ir.scopes import Value
from poolgrad_lowering.model.windows import AdaptiveWindows, pooled_sizes


@dataclass(frozen=True, kw_only=True)
class AveragePoolGradient(Gradient):
    """A proven gradient of an average pool: `dx = 0; dx[n, c][window o] += grad[n, c, o] / divisor(o)`.

    * `x`: a value of shape `x_shape` and of the same type, whose elements are not read; None if the form has none
    * `count_include_pad`: whether divisor(o) counts the elements of window o in the padding too, or those of x alone
    * `divisor`: the divisor of all windows; 0 if each one is counted
    * `in_onnx`: whether it is written out in operators of ONNX: GE has ConvTranspose, Gather and ReduceSum
    """

    x: Operand | None
    count_include_pad: bool = False
    divisor: int = 0
    in_onnx: bool = False

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
        counting = self.count_include_pad, self.divisor, self.in_onnx
        return repr(self.windows), counting, self.x_shape, self.pooled_shape, self.element_type, self.x is None


def verify_gradient(facts: Facts, gradient: AveragePoolGradient) -> None:
    """Raises `Refuse` at the first condition that the gradient violates."""
    checks.check_record(gradient)
    checks.check_pool(gradient)
    if isinstance(gradient.windows, AdaptiveWindows) and (gradient.divisor or gradient.count_include_pad):
        raise checks.malformed(gradient, "windows of adaptive pooling count their own elements")
    checks.check_element_types(facts, gradient, gradient.grad.value, gradient.dx.value)
    checks.check_operand_shape(facts, Code.GRAD_SHAPE, gradient.grad, gradient.pooled_shape)
    checks.check_result(facts, gradient)
    if gradient.x is not None:
        checks.check_operand_shape(facts, Code.MALFORMED_GRADIENT, gradient.x, gradient.x_shape)
    _check_count(gradient)
    checks.check_order(gradient)


def check_operands(gradient: AveragePoolGradient) -> None:
    """Raises `Refuse` if a node in the place of dx cannot read an operand of a verified gradient.

    Its name denotes another value there, or a shape that it needs is not known.
    """
    checks.check_names(gradient)
    if gradient.grad.view is View.FLAT and not fits_reshape(gradient.pooled_shape):
        what = "'{}' cannot be given the shape {}: sizes are not known"
        raise Refuse(Code.UNKNOWN_SHAPE, what, gradient.grad.value.name, Shown(gradient.pooled_shape))
    is_held = gradient.x is not None and gradient.x.view is View.SAME
    if gradient.reads_x and not is_held and not is_static(gradient.x_shape[2:]):
        what = "no value has the shape {} of the pooled input of '{}'"
        raise Refuse(Code.UNKNOWN_SHAPE, what, Shown(gradient.x_shape), gradient.dx.value.name)


def _check_count(gradient: AveragePoolGradient) -> None:
    """Raise `Refuse` if the windows over x are not as many as grad has elements: it is another pool's gradient."""
    if isinstance(gradient.windows, AdaptiveWindows):
        return
    given = gradient.pooled_shape[2:]
    counts = pooled_sizes(gradient.windows, gradient.x_shape[2:])
    sizes = tuple(other if count is None else count for count, other in zip(counts, given, strict=True))
    if differ(sizes, given):
        what = "the windows over {} are {}, and '{}' has the shape {}"
        shown = Shown(gradient.x_shape), Shown(sizes), gradient.grad.value.name, Shown(gradient.pooled_shape)
        raise Refuse(Code.GRAD_SHAPE, what, *shown)
