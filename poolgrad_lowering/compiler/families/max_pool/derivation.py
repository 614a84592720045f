# SPDX-License-Identifier: Apache-2.0

"""The derivation of a site's attributes from those of its max pool.

The formulas are those of `windows` and `legality.pools`; a test compares their values with the lowered operator.
"""

from __future__ import annotations

from collections.abc import Iterator

from onnx import TensorProto

from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.shared import derivation as shared
from poolgrad_lowering.compiler.families.verdicts import Lowered, LoweredOp
from poolgrad_lowering.dialect.aclnn_windows import widened
from poolgrad_lowering.model.windows import AxisWindow


def derivation(site: Lowered[MaxPoolGradient]) -> shared.Derivation:
    """Return the derivation of the lowered gradient, and of its forward pool if that is lowered too."""
    gradient, forward = site.gradient, site.forward
    axes = _axes(gradient, site.op, forward=False)
    of_pool = _axes(gradient, forward, forward=True) if isinstance(forward, LoweredOp) else ()
    text, rank = shared.window_text(gradient.windows), len(gradient.x_shape)
    return shared.Derivation(text, rank, _roles(gradient), axes, of_pool)


def _axes(gradient: MaxPoolGradient, op: LoweredOp, *, forward: bool) -> tuple[shared.AxisDerivation, ...]:
    windows = shared.chosen_windows(op, len(gradient.x_shape) - 2)
    return shared.derived_axes(gradient, op, windows, shared.exact if forward else _steps)


def _roles(gradient: MaxPoolGradient) -> tuple[shared.OperandRole, ...]:
    floats, x_shape, pooled_shape = gradient.element_type, gradient.x_shape, gradient.pooled_shape
    return (
        shared.OperandRole("x, the pooled input", gradient.x.value.name, floats, x_shape),
        shared.OperandRole("grad, the incoming gradient", gradient.grad.value.name, floats, pooled_shape),
        shared.OperandRole("argmax, the indices", gradient.known_argmax.value.name, TensorProto.INT32, pooled_shape),
        shared.OperandRole("y, the gradient of x", gradient.dx.value.name, floats, x_shape),
    )


def _steps(window: AxisWindow, axis: shared.Axis) -> Iterator[shared.Step]:
    is_direct = (axis.chosen.kernel, axis.chosen.pad) == (widened(window).kernel, widened(window).pad)
    return _direct(window, axis) if is_direct else shared.on_canvas(window, axis)


def _direct(window: AxisWindow, axis: shared.Axis) -> Iterator[shared.Step]:
    kernel, pad, ends = axis.chosen.kernel, axis.chosen.pad, {"b": window.begin, "e": window.end}
    yield shared.effective_kernel(window)
    yield shared.Step.of("padding p", "max(b, e)", ends, pad)
    yield shared.Step.of("kernel k″", "k′ + |b − e|", {"k′": window.extent, **ends}, kernel)
    yield shared.Step.of("legal", "p ≤ ⌊k″ / 2⌋", {"p": pad, "k″": kernel}, shared.HOLDS)
    yield shared.output_size("I + 2·p − k″", {"p": pad, "k″": kernel}, axis, kernel)
