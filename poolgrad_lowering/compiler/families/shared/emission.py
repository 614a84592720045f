# SPDX-License-Identifier: Apache-2.0

"""Writes the dialect's node of a gradient of any family, and the views of its incoming gradient and of its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import numpy_helper

from poolgrad_lowering.compiler.families.gradient import Gradient, View
from poolgrad_lowering.compiler.families.verdicts import LoweredOp
from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.model.ir.dims import Shape, channels_to_last, channels_to_second
from poolgrad_lowering.model.ir.graph_writer import NodeWriter


class SiteWriter(NodeWriter):
    """Collects the nodes of the site whose result is `prefix`, as operators of `opset`."""

    def __init__(self, prefix: str, taken: set[str], opset: int) -> None:
        super().__init__(taken)
        self.opset = opset
        self._prefix = prefix

    def write(
        self, op_type: str, inputs: Sequence[str], hint: str, *, output: str | None = None, **attributes: Any
    ) -> str:
        """Append a node named after `hint`; its one output has the name `output` or that of the node. See `add`."""
        name = self.name(f"{self._prefix}/{hint}")
        return self.add(op_type, inputs, name if output is None else output, node_name=name, **attributes)

    def constant(self, values: npt.ArrayLike, hint: str) -> str:
        """Append a Constant of int64 values and return its output's name."""
        return self.write("Constant", [], hint, value=numpy_helper.from_array(np.asarray(values, np.int64)))

    def reshape(self, source: str, shape: Shape, hint: str, *, output: str | None = None) -> str:
        """Append a Reshape of `source`, whose new shape has at most one symbolic size; return its output's name."""
        target = self.constant([-1 if dim.static is None else dim.static for dim in shape], f"{hint}_shape")
        return self.write("Reshape", [source, target], hint, output=output)


def write_grad(writer: SiteWriter, gradient: Gradient) -> str:
    """Return the incoming gradient in the pooled shape, channels second. A flat one needs a shape for Reshape."""
    grad, view = gradient.grad.value.name, gradient.grad.view
    if view is View.CHANNELS_LAST:
        return writer.write("Transpose", [grad], "grad", perm=channels_to_second(len(gradient.x_shape)))
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
        order = channels_to_last(len(gradient.x_shape))
        writer.write("Transpose", [result], "channels_last", output=dx, perm=order)
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
