# SPDX-License-Identifier: Apache-2.0

"""Writes the dialect's node of a gradient of any family, and the views of its incoming gradient and of its result."""

from __future__ import annotations

from collections.abc import Sequence

from poolgrad_lowering.compiler.families.gradient import Gradient, View
from poolgrad_lowering.compiler.families.verdicts import LoweredOp
from poolgrad_lowering.compiler.rewriting.node_writer import NodeWriter
from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.model.ir.dims import channels_to_last, channels_to_second


def write_grad(writer: NodeWriter, gradient: Gradient) -> str:
    """Return the incoming gradient in the pooled shape, channels second. A flat one needs a shape for Reshape."""
    grad, view = gradient.grad.value.name, gradient.grad.view
    if view is View.CHANNELS_LAST:
        return writer.transpose(grad, channels_to_second(len(gradient.x_shape)), "grad")
    return grad if view is View.SAME else writer.reshape(grad, gradient.pooled_shape, "grad")


def write_dx(writer: NodeWriter, gradient: Gradient, op: LoweredOp, inputs: Sequence[str]) -> None:
    """Append the dialect's node, then the views of its result as dx."""
    views = [
        view
        for view, needed in (
            (_off_canvas, bool(op.canvas)),
            (_channels_last, gradient.dx.view is View.CHANNELS_LAST),
            (_reshaped, gradient.dx.view is View.FLAT),
        )
        if needed
    ]
    outputs = [None] * len(views) + [gradient.dx.value.name]  # the last of them writes dx
    result = writer.write(op.name, inputs, op.name, domain=DOMAIN, output=outputs[0], stored=op.stored)
    for view, output in zip(views, outputs[1:], strict=True):
        result = view(writer, result, gradient, op, output)


def canvas_extents(gradient: Gradient, op: LoweredOp) -> tuple[list[int], list[int]]:
    """Return the sizes of the plane and of the canvas, which is planned only where they are known."""
    sizes = [dim.static or 0 for dim in gradient.x_shape[2:]]
    return sizes, [extent + before + after for extent, (before, after) in zip(sizes, op.canvas, strict=True)]


def _off_canvas(writer: NodeWriter, result: str, gradient: Gradient, op: LoweredOp, output: str | None) -> str:
    sizes, _ = canvas_extents(gradient, op)
    starts = [before for before, _ in op.canvas]
    ends = [before + size for before, size in zip(starts, sizes, strict=True)]
    axes = list(range(2, 2 + len(sizes)))
    if writer.opset < 10:
        return writer.write("Slice", [result], "plane_of_canvas", output=output, starts=starts, ends=ends, axes=axes)
    bounds = [writer.constant(starts, "starts"), writer.constant(ends, "ends"), writer.constant(axes, "axes")]
    return writer.write("Slice", [result, *bounds], "plane_of_canvas", output=output)


def _channels_last(writer: NodeWriter, result: str, gradient: Gradient, _: LoweredOp, output: str | None) -> str:
    return writer.transpose(result, channels_to_last(len(gradient.x_shape)), "channels_last", output=output)


def _reshaped(writer: NodeWriter, result: str, gradient: Gradient, _: LoweredOp, output: str | None) -> str:
    return writer.reshape(result, gradient.dx.shape or gradient.x_shape, "view", output=output)
