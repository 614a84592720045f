# SPDX-License-Identifier: Apache-2.0

"""Writes the nodes that replace a max pool's gradient: one of the dialect, and conversions of its operands and result.

Indices of any numbering become the argmax that the dialect takes, by index arithmetic in standard ONNX.

All nodes are operators of the scope's opset.
"""

from __future__ import annotations

import math

import numpy as np
from onnx import NodeProto, TensorProto

from poolgrad_lowering.compiler.analysis.provenance import Numbering
from poolgrad_lowering.compiler.families.gradient import View
from poolgrad_lowering.compiler.families.max_pool.forward_pools import y_view
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.shared.emission import SiteWriter, canvas_extents, write_dx, write_grad
from poolgrad_lowering.compiler.families.verdicts import Lowered, LoweredOp, LoweredPool
from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.dims import fits_reshape, size


def emit(facts: Facts, site: Lowered[MaxPoolGradient], taken: set[str]) -> list[NodeProto]:
    """The nodes that compute the gradient's dx, in order; the dialect's node is among them exactly once."""
    gradient, op = site.gradient, site.op
    dx = gradient.dx.value
    writer = SiteWriter(dx.name, taken, dx.scope.opset)
    moved = isinstance(site.forward, LoweredOp)  # its argmax, which no fact knows yet, is int32
    is_int32 = moved or facts.element_type(gradient.known_argmax.value) == TensorProto.INT32
    argmax = plane_argmax(writer, site, is_int32=is_int32)
    grad = _grad(writer, gradient)
    x = gradient.x.value.name
    if gradient.x.view is View.FLAT:
        x = writer.reshape(x, gradient.x_shape, "x")
    if op.canvas:
        x = _onto_canvas(writer, x, op)
    write_dx(writer, gradient, op, [x, grad, argmax])
    return writer.nodes


def emit_forward(forward: LoweredPool[MaxPoolGradient], taken: set[str]) -> list[NodeProto]:
    """The nodes that take a forward pool's place, one of them the dialect's."""
    op, y, gradient = forward.op, forward.y.name, forward.gradient
    writer = SiteWriter(y, taken, forward.pool.scope.opset)
    x, view = forward.viewed.name, y_view(gradient)
    if forward.viewed != forward.x:
        writer.reshape(forward.x.name, gradient.x_shape, "x", output=x)
    output = y if view is None else None
    pooled = writer.write(op.name, [x], op.name, domain=DOMAIN, output=output, stored=op.stored)
    writer.nodes[-1].output.append(forward.argmax.name)
    if view is not None:
        writer.reshape(pooled, view, "y", output=y)
    return writer.nodes


def _grad(writer: SiteWriter, gradient: MaxPoolGradient) -> str:
    """The incoming gradient in the pooled shape, which is also that of the indices."""
    if gradient.grad.view is not View.FLAT or fits_reshape(gradient.pooled_shape):
        return write_grad(writer, gradient)
    shape = writer.write("Shape", [gradient.known_argmax.value.name], "pooled_shape")
    return writer.write("Reshape", [gradient.grad.value.name, shape], "grad")


def _onto_canvas(writer: SiteWriter, x: str, op: LoweredOp) -> str:
    """x padded to the canvas; its values are never read, only its shape and type."""
    before = [0, 0, *(margin for margin, _ in op.canvas)]
    after = [0, 0, *(margin for _, margin in op.canvas)]
    if writer.opset < 11:
        return writer.write("Pad", [x], "canvas", pads=before + after)
    return writer.write("Pad", [x, writer.constant(before + after, "margins")], "canvas")


def plane_argmax(writer: SiteWriter, site: Lowered[MaxPoolGradient], *, is_int32: bool) -> str:
    """The gradient's indices as the dialect takes them: int32, plane-local, in the pooled shape (on the canvas).

    `is_int32` says whether the argmax that the gradient has is of that type.
    """
    gradient, op = site.gradient, site.op
    argmax = gradient.known_argmax.value.name
    if gradient.known_argmax.view is View.FLAT:
        argmax = writer.reshape(argmax, gradient.pooled_shape, "pooled_argmax")
    if gradient.numbering is Numbering.TENSOR:
        argmax = _remainder(writer, argmax, _plane_size(writer, gradient))
    elif gradient.numbering is Numbering.AXIS:
        argmax = _from_axis(writer, argmax, gradient)
    if op.canvas:
        wide = writer.write("Cast", [argmax], "wide_argmax", to=TensorProto.INT64) if is_int32 else argmax
        argmax = _on_canvas(writer, wide, gradient, op)
    elif is_int32:
        return argmax  # it counts in planes already: whole-tensor and axis indices are int64
    return writer.write("Cast", [argmax], "argmax", to=TensorProto.INT32)


def _plane_size(writer: SiteWriter, gradient: MaxPoolGradient) -> str:
    plane = size(gradient.x_shape[2:]).static
    if plane is not None:
        return writer.constant(plane, "plane")
    shape = writer.write("Shape", [gradient.x.value.name], "x_shape")
    axes = writer.constant(list(range(2, len(gradient.x_shape))), "spatial_axes")
    spatial = writer.write("Gather", [shape, axes], "sizes", axis=0)
    return writer.write("ReduceProd", [spatial], "plane", keepdims=1)


def _remainder(writer: SiteWriter, dividend: str, divisor: str) -> str:
    """`dividend mod divisor` of non-negative integers; below opset 10, without Mod."""
    if writer.opset >= 10:
        return writer.write("Mod", [dividend, divisor], "plane_index")
    quotient = writer.write("Div", [dividend, divisor], "plane_number")
    first = writer.write("Mul", [quotient, divisor], "plane_first")
    return writer.write("Sub", [dividend, first], "plane_index")


def _from_axis(writer: SiteWriter, argmax: str, gradient: MaxPoolGradient) -> str:
    """Positions along one spatial axis as plane positions: the other coordinates are the window's own."""
    sizes, axis = [dim.static or 1 for dim in gradient.x_shape[2:]], gradient.axis
    plane = np.arange(math.prod(sizes), dtype=np.int64).reshape(sizes)
    first = plane.take([0], axis)  # where each window starts
    step = math.prod(sizes[axis + 1 :])
    if step != 1:
        argmax = writer.write("Mul", [argmax, writer.constant(step, "axis_step")], "axis_offset")
    return writer.write("Add", [argmax, writer.constant(first, "first")], "plane_index") if first.any() else argmax


def _on_canvas(writer: SiteWriter, argmax: str, gradient: MaxPoolGradient, op: LoweredOp) -> str:
    """Plane positions as canvas positions.

    With sizes (D, H, W) and canvas (D', H', W'), position p = (d·H + h)·W + w moves to
    p + ⌊p / W⌋·(W' − W) + ⌊p / (H·W)⌋·(H' − H)·W' + the canvas position of the plane's first element.
    """
    sizes, canvas = canvas_extents(gradient, op)
    moved = argmax
    for axis in range(len(sizes) - 1, 0, -1):
        step = (canvas[axis] - sizes[axis]) * int(np.prod(canvas[axis + 1 :], dtype=np.int64))
        if step:
            inner = writer.constant(int(np.prod(sizes[axis:], dtype=np.int64)), "row")
            row = writer.write("Div", [argmax, inner], "row_number")
            shift = writer.write("Mul", [row, writer.constant(step, "row_step")], "row_shift")
            moved = writer.write("Add", [moved, shift], "canvas_row")
    origin = 0
    for extent, (before, _) in zip(canvas, op.canvas, strict=True):
        origin = origin * extent + before
    return writer.write("Add", [moved, writer.constant(origin, "origin")], "canvas_index") if origin else moved
