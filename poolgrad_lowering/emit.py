"""The nodes that take a gradient's place: index arithmetic in standard ONNX, and one node of the dialect.

Only operators of the scope's own opset are written. Knows nothing of what is removed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.dims import Shape
from poolgrad_lowering.facts import Facts
from poolgrad_lowering.gradient import PoolGradient
from poolgrad_lowering.legality import Plan
from poolgrad_lowering.provenance import Numbering

PATTERN_KEY = "poolgrad.pattern"
REPLACED_KEY = "poolgrad.replaced"


class NodeWriter:
    """Writes nodes one after the other, with names that no other value or node of the model has."""

    def __init__(self, prefix: str, taken: set[str], opset: int) -> None:
        self.nodes: list[NodeProto] = []
        self.opset = opset
        self._prefix = prefix
        self._taken = taken

    def write(
        self,
        op_type: str,
        inputs: Sequence[str],
        hint: str,
        *,
        output: str | None = None,
        domain: str = "",
        **attributes: Any,
    ) -> str:
        """Append a node and return the name of its one output, which is `output` or made from `hint`."""
        name = self._fresh(hint)
        result = name if output is None else output
        self.nodes.append(helper.make_node(op_type, inputs, [result], name=name, domain=domain, **attributes))
        return result

    def constant(self, values: Sequence[int] | int, hint: str) -> str:
        """An int64 scalar or vector."""
        return self.write("Constant", [], hint, value=numpy_helper.from_array(np.asarray(values, np.int64)))

    def _fresh(self, hint: str) -> str:
        name, number = f"{self._prefix}/{hint}", 1
        while name in self._taken:
            number += 1
            name = f"{self._prefix}/{hint}_{number}"
        self._taken.add(name)
        return name


def emit(facts: Facts, gradient: PoolGradient, plan: Plan, pattern: str, taken: set[str]) -> list[NodeProto]:
    """The nodes that compute `gradient.dx`, in order; the dialect's node is among them exactly once.

    Provenance in `metadata_props`: the pattern's name; what was replaced is added by `record_replaced`.
    """
    writer = NodeWriter(gradient.dx.name, taken, gradient.dx.scope.opset)
    argmax = _argmax(facts, writer, gradient, plan)
    grad = gradient.grad.name
    if gradient.grad_is_flat:
        grad = writer.write("Reshape", [grad, _shape_of_pooled(writer, gradient)], "grad")
    x = _onto_canvas(writer, gradient, plan) if plan.canvas else gradient.x.name
    whole = not plan.canvas and gradient.dx_shape is None
    result = writer.write(
        plan.op,
        [x, grad, argmax],
        plan.op,
        domain=DOMAIN,
        output=gradient.dx.name if whole else None,
        **plan.attributes,
    )
    writer.nodes[-1].metadata_props.add(key=PATTERN_KEY, value=pattern)
    if plan.canvas:
        result = _off_canvas(writer, result, gradient, plan)
    if gradient.dx_shape is not None:
        target = writer.constant(_with_one_free(gradient.dx_shape), "shape")
        writer.write("Reshape", [result, target], "view", output=gradient.dx.name)
    return writer.nodes


def record_replaced(nodes: Sequence[NodeProto], replaced: Sequence[str]) -> None:
    """Write the names of the replaced nodes onto the dialect's node, as a JSON list."""
    for node in nodes:
        if node.domain == DOMAIN:
            node.metadata_props.add(key=REPLACED_KEY, value=json.dumps(list(replaced)))


# -- indices: whole-tensor int64 to plane-local int32


def _argmax(facts: Facts, writer: NodeWriter, gradient: PoolGradient, plan: Plan) -> str:
    argmax = gradient.argmax.name
    if gradient.numbering is Numbering.TENSOR:
        argmax = _remainder(writer, argmax, _plane_size(writer, gradient))
    narrow = facts.element_type(gradient.argmax) == TensorProto.INT32
    if plan.canvas:
        wide = writer.write("Cast", [argmax], "wide_argmax", to=TensorProto.INT64) if narrow else argmax
        argmax = _on_canvas(writer, wide, gradient, plan)
    elif narrow:
        return argmax
    return writer.write("Cast", [argmax], "argmax", to=TensorProto.INT32)


def _plane_size(writer: NodeWriter, gradient: PoolGradient) -> str:
    sizes = [dim.static for dim in gradient.x_shape[2:]]
    if all(extent is not None for extent in sizes):
        return writer.constant(int(np.prod(np.asarray(sizes, dtype=object))), "plane")
    shape = writer.write("Shape", [gradient.x.name], "x_shape")
    axes = writer.constant(list(range(2, len(gradient.x_shape))), "spatial_axes")
    spatial = writer.write("Gather", [shape, axes], "sizes", axis=0)
    return writer.write("ReduceProd", [spatial], "plane", keepdims=1)


def _remainder(writer: NodeWriter, dividend: str, divisor: str) -> str:
    """`dividend mod divisor` of non-negative integers; below opset 10, without Mod."""
    if writer.opset >= 10:
        return writer.write("Mod", [dividend, divisor], "plane_index")
    quotient = writer.write("Div", [dividend, divisor], "plane_number")
    first = writer.write("Mul", [quotient, divisor], "plane_first")
    return writer.write("Sub", [dividend, first], "plane_index")


# -- canvas: the plane inside a larger one, so that no window needs padding


def _extents(gradient: PoolGradient, plan: Plan) -> tuple[list[int], list[int]]:
    """Static sizes of the plane and of the canvas (a canvas is planned only where they are known)."""
    sizes = [dim.static or 0 for dim in gradient.x_shape[2:]]
    return sizes, [size + before + after for size, (before, after) in zip(sizes, plan.canvas, strict=True)]


def _on_canvas(writer: NodeWriter, argmax: str, gradient: PoolGradient, plan: Plan) -> str:
    """Plane positions as canvas positions.

    With sizes (D, H, W) and canvas (D', H', W'), position p = (d·H + h)·W + w moves to
    p + ⌊p / W⌋·(W' − W) + ⌊p / (H·W)⌋·(H' − H)·W' + the canvas position of the plane's first element.
    """
    sizes, canvas = _extents(gradient, plan)
    moved = argmax
    for axis in range(len(sizes) - 1, 0, -1):
        step = (canvas[axis] - sizes[axis]) * int(np.prod(canvas[axis + 1 :], dtype=np.int64))
        if step:
            inner = writer.constant(int(np.prod(sizes[axis:], dtype=np.int64)), "row")
            row = writer.write("Div", [argmax, inner], "row_number")
            shift = writer.write("Mul", [row, writer.constant(step, "row_step")], "row_shift")
            moved = writer.write("Add", [moved, shift], "canvas_row")
    origin = 0
    for extent, (before, _) in zip(canvas, plan.canvas, strict=True):
        origin = origin * extent + before
    return writer.write("Add", [moved, writer.constant(origin, "origin")], "canvas_index") if origin else moved


def _onto_canvas(writer: NodeWriter, gradient: PoolGradient, plan: Plan) -> str:
    """x padded to the canvas; its values are never read, only its shape and type."""
    before = [0, 0, *(margin for margin, _ in plan.canvas)]
    after = [0, 0, *(margin for _, margin in plan.canvas)]
    if writer.opset < 11:
        return writer.write("Pad", [gradient.x.name], "canvas", pads=before + after)
    return writer.write("Pad", [gradient.x.name, writer.constant(before + after, "margins")], "canvas")


def _off_canvas(writer: NodeWriter, result: str, gradient: PoolGradient, plan: Plan) -> str:
    sizes, _ = _extents(gradient, plan)
    starts = [before for before, _ in plan.canvas]
    ends = [before + size for before, size in zip(starts, sizes, strict=True)]
    axes = list(range(2, 2 + len(sizes)))
    output = gradient.dx.name if gradient.dx_shape is None else None
    if writer.opset < 10:
        return writer.write("Slice", [result], "plane_of_canvas", output=output, starts=starts, ends=ends, axes=axes)
    bounds = [writer.constant(starts, "starts"), writer.constant(ends, "ends"), writer.constant(axes, "axes")]
    return writer.write("Slice", [result, *bounds], "plane_of_canvas", output=output)


# -- shapes


def _shape_of_pooled(writer: NodeWriter, gradient: PoolGradient) -> str:
    if sum(dim.static is None for dim in gradient.pooled_shape) <= 1:
        return writer.constant(_with_one_free(gradient.pooled_shape), "pooled_shape")
    return writer.write("Shape", [gradient.argmax.name], "pooled_shape")


def _with_one_free(shape: Shape) -> list[int]:
    """A shape as Reshape takes it: the one symbolic size is -1."""
    return [-1 if dim.static is None else dim.static for dim in shape]
