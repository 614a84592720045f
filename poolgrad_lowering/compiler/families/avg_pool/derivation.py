# SPDX-License-Identifier: Apache-2.0

"""The derivation of a site's attributes from those of its average pool; a test compares them with the operator."""

from __future__ import annotations

from collections.abc import Iterator

from poolgrad_lowering.compiler.families.avg_pool.gradient import AveragePoolGradient
from poolgrad_lowering.compiler.families.shared import derivation as shared
from poolgrad_lowering.compiler.families.verdicts import Lowered
from poolgrad_lowering.model.windows import AdaptiveWindows, AxisWindow


def derivation(site: Lowered[AveragePoolGradient]) -> shared.Derivation:
    """Return the derivation of the lowered gradient."""
    gradient = site.gradient
    windows = shared.chosen_windows(site.op, len(gradient.x_shape) - 2, pads_of_axis=2)
    axes = shared.derived_axes(gradient, site.op, windows, _steps)
    return shared.Derivation(_text(gradient), len(gradient.x_shape), _roles(gradient), axes)


def _text(gradient: AveragePoolGradient) -> str:
    windows = shared.window_text(gradient.windows)
    if isinstance(gradient.windows, AdaptiveWindows):
        return windows
    if gradient.divisor:
        return f"{windows}, every window divided by {gradient.divisor}"
    return f"{windows}, the padding {'counted' if gradient.count_include_pad else 'not counted'}"


def _roles(gradient: AveragePoolGradient) -> tuple[shared.OperandRole, ...]:
    rows = (
        ("x, the pooled input", gradient.x, gradient.x_shape),
        ("the incoming gradient", gradient.grad, gradient.pooled_shape),
        ("the gradient of x", gradient.dx, gradient.x_shape),
    )
    present = [(what, operand.value.name, shape) for what, operand, shape in rows if operand is not None]
    return tuple(shared.OperandRole(what, name, gradient.element_type, shape) for what, name, shape in present)


def _steps(window: AxisWindow, axis: shared.Axis) -> Iterator[shared.Step]:
    return shared.on_canvas(window, axis) if axis.chosen.before or axis.chosen.after else shared.exact(window, axis)
