# SPDX-License-Identifier: Apache-2.0

"""Writes the dialect's node of a gradient of any family, and the views of its incoming gradient and of its result."""

from __future__ import annotations

from collections.abc import Sequence

from poolgrad_lowering.compiler.families.gradient import Gradient, View
from poolgrad_lowering.compiler.families.verdicts import LoweredOp
from poolgrad_lowering.compiler.rewriting.site_writer import SiteWriter
from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.model.ir.dims import channels_to_last, channels_to_second


def write_grad(writer: SiteWriter, gradient: Gradient) -> str:
    """Return the incoming gradient in the pooled shape, channels second. A flat one needs a shape for Reshape."""
    grad, view = gradient.grad.value.name, gradient.grad.view
    if view is View.CHANNELS_LAST:
        return writer.transpose(grad, channels_to_second(len(gradient.x_shape)), "grad")
    return grad if view is View.SAME else writer.reshape(grad, gradient.pooled_shape, "grad")


def write_dx(writer: SiteWriter, gradient: Gradient, op: LoweredOp, inputs: Sequence[str]) -> None:
    """Append the dialect's node, then the views of its result; the last of these nodes writes dx."""
    dx, view = gradient.dx.value.name, gradient.dx.view
    plain = dx if view is View.SAME else None
    first = None if op.canvas else plain
    result = writer.write(op.name, inputs, op.name, domain=DOMAIN, output=first, stored=op.stored)
    if op.canvas:
        result = _off_canvas(writer, result, gradient, op, plain)
    if view is View.CHANNELS_LAST:
        writer.transpose(result, channels_to_last(len(gradient.x_shape)), "channels_last", output=dx)
    elif view is View.FLAT:
        writer.reshape(result, gradient.dx.shape or gradient.x_shape, "view", output=dx)


def canvas_extents(gradient: Gradient, op: LoweredOp) -> tuple[list[int], list[int]]:
    """Return the sizes of the plane and of the canvas, which is planned only where they are known."""
    sizes = [dim.static or 0 for dim in gradient.x_shape[2:]]
    return sizes, [extent + before + after for extent, (before, after) in zip(sizes, op.canvas, strict=True)]


def _off_canvas(writer: SiteWriter, result: str, gradient: Gradient, op: LoweredOp, output: str | None) -> str:
    sizes, _ = canvas_extents(gradient, op)
    starts = [before for before, _ in op.canvas]
    ends = [before + size for before, size in zip(starts, sizes, strict=True)]
    axes = list(range(2, 2 + len(sizes)))
    if writer.opset < 10:
        return writer.write("Slice", [result], "plane_of_canvas", output=output, starts=starts, ends=ends, axes=axes)
    bounds = [writer.constant(starts, "starts"), writer.constant(ends, "ends"), writer.constant(axes, "axes")]
    return writer.write("Slice", [result, *bounds], "plane_of_canvas", output=output)
