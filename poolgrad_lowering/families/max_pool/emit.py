# SPDX-License-Identifier: Apache-2.0

"""Writes the nodes that replace a max pool's gradient: one of the dialect, and conversions of its operands and result.

All nodes are operators of the scope's opset.
"""

from __future__ import annotations

from onnx import NodeProto, TensorProto

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.families.gradient import View
from poolgrad_lowering.families.max_pool.argmax import canvas_extents, plane_argmax
from poolgrad_lowering.families.max_pool.forward_pools import LoweredMaxPool
from poolgrad_lowering.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.families.verdicts import Lowered, LoweredOp
from poolgrad_lowering.ir.dims import channels_to_last, channels_to_second, fits_reshape
from poolgrad_lowering.rewriting.node_writer import NodeWriter


def emit(facts: Facts, site: Lowered[MaxPoolGradient], taken: set[str]) -> list[NodeProto]:
    """The nodes that compute the gradient's dx, in order; the dialect's node is among them exactly once."""
    gradient, op = site.gradient, site.op
    dx = gradient.dx.value
    writer = NodeWriter(dx.name, taken, dx.scope.opset)
    moved = isinstance(site.forward, LoweredOp)  # its argmax, which no fact knows yet, is int32
    is_int32 = moved or facts.element_type(gradient.indices.value) == TensorProto.INT32
    argmax = plane_argmax(writer, site, is_int32=is_int32)
    grad = _grad(writer, gradient)
    x = gradient.x.value.name
    if gradient.x.view is View.FLAT:
        x = writer.reshape(x, gradient.x_shape, "x")
    if op.canvas:
        x = _onto_canvas(writer, x, op)
    views = [
        view
        for view, needed in (
            (_off_canvas, bool(op.canvas)),
            (_channels_last, gradient.dx.view is View.CHANNELS_LAST),
            (_reshaped, gradient.dx.view is View.FLAT),
        )
        if needed
    ]
    outputs = [None] * len(views) + [dx.name]  # the last of them writes dx
    result = writer.write(op.name, [x, grad, argmax], op.name, domain=DOMAIN, output=outputs[0], stored=op.stored)
    for view, output in zip(views, outputs[1:], strict=True):
        result = view(writer, result, gradient, op, output)
    return writer.nodes


def emit_forward(forward: LoweredMaxPool, taken: set[str]) -> list[NodeProto]:
    """The nodes that take a forward pool's place, one of them the dialect's."""
    op, y = forward.op, forward.y.name
    writer = NodeWriter(y, taken, forward.pool.scope.opset)
    x = forward.x.name if forward.x_view is None else writer.reshape(forward.x.name, forward.x_view, "x")
    output = y if forward.y_view is None else None
    pooled = writer.write(op.name, [x], op.name, domain=DOMAIN, output=output, stored=op.stored)
    writer.nodes[-1].output.append(forward.argmax.name)
    if forward.y_view is not None:
        writer.reshape(pooled, forward.y_view, "y", output=y)
    return writer.nodes


def _grad(writer: NodeWriter, gradient: MaxPoolGradient) -> str:
    """The incoming gradient in the pooled shape, channels second."""
    grad, view = gradient.grad.value.name, gradient.grad.view
    if view is View.CHANNELS_LAST:
        return writer.transpose(grad, channels_to_second(len(gradient.x_shape)), "grad")
    if view is View.SAME:
        return grad
    if fits_reshape(gradient.pooled_shape):
        return writer.reshape(grad, gradient.pooled_shape, "grad")
    shape = writer.write("Shape", [gradient.indices.value.name], "pooled_shape")
    return writer.write("Reshape", [grad, shape], "grad")


def _onto_canvas(writer: NodeWriter, x: str, op: LoweredOp) -> str:
    """x padded to the canvas; its values are never read, only its shape and type."""
    before = [0, 0, *(margin for margin, _ in op.canvas)]
    after = [0, 0, *(margin for _, margin in op.canvas)]
    if writer.opset < 11:
        return writer.write("Pad", [x], "canvas", pads=before + after)
    return writer.write("Pad", [x, writer.constant(before + after, "margins")], "canvas")


# -- views of the dialect's result


def _off_canvas(writer: NodeWriter, result: str, gradient: MaxPoolGradient, op: LoweredOp, output: str | None) -> str:
    sizes, _ = canvas_extents(gradient, op)
    starts = [before for before, _ in op.canvas]
    ends = [before + size for before, size in zip(starts, sizes, strict=True)]
    axes = list(range(2, 2 + len(sizes)))
    if writer.opset < 10:
        return writer.write("Slice", [result], "plane_of_canvas", output=output, starts=starts, ends=ends, axes=axes)
    bounds = [writer.constant(starts, "starts"), writer.constant(ends, "ends"), writer.constant(axes, "axes")]
    return writer.write("Slice", [result, *bounds], "plane_of_canvas", output=output)


def _channels_last(writer: NodeWriter, result: str, gradient: MaxPoolGradient, _: LoweredOp, output: str | None) -> str:
    return writer.transpose(result, channels_to_last(len(gradient.x_shape)), "channels_last", output=output)


def _reshaped(writer: NodeWriter, result: str, gradient: MaxPoolGradient, _: LoweredOp, output: str | None) -> str:
    return writer.reshape(result, gradient.dx.shape or gradient.x_shape, "view", output=output)
