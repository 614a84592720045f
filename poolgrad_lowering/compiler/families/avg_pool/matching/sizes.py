# SPDX-License-Identifier: Apache-2.0

"""The sizes of a gradient of an average pool: what its operator does not say, the graph does."""

from __future__ import annotations

from poolgrad_lowering.compiler.families.gradient import View
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.shape_rules import opaque
from poolgrad_lowering.model.ir.dims import Dim, Shape, Shown, channels_to_second
from poolgrad_lowering.model.ir.scopes import Value
from poolgrad_lowering.model.windows.adaptive import AdaptiveWindows
from poolgrad_lowering.model.windows.onnx_pool import PoolAttributes, pooled_sizes


def pooled_shape(
    facts: Facts, grad: Value, windows: PoolAttributes | AdaptiveWindows, x_shape: Shape, view: View = View.SAME
) -> Shape:
    """Return the shape of the pooled output: as the windows give it, or as the incoming gradient has it.

    A size that nothing tells is a symbol equal only to itself. A flat gradient has no batch axis.
    """
    shape, rank = facts.shape(grad), len(x_shape)
    if shape is not None and view is View.FLAT:
        shape = (Dim(1), *shape)
    if shape is not None and len(shape) != rank:
        raise Refuse(Code.GRAD_SHAPE, "'{}' has shape {}, x {}", grad.name, Shown(shape), Shown(x_shape))
    if shape is not None and view is View.CHANNELS_LAST:
        shape = tuple(shape[axis] for axis in channels_to_second(rank))
    given = tuple(opaque(grad, axis) for axis in range(2, rank)) if shape is None else shape[2:]
    computed: tuple[Dim | None, ...] = (None,) * (rank - 2)
    if isinstance(windows, PoolAttributes) and len(windows.kernel) == rank - 2:
        computed = pooled_sizes(windows, x_shape[2:])
    for number, size in enumerate(computed):
        if size is not None and size.static is not None and size.static < 0:
            what = "on spatial axis {} no window fits into {} elements"
            raise Refuse(Code.OUTPUT_SIZE, what, number, x_shape[2 + number])
    sizes = (other if size is None else size for size, other in zip(computed, given, strict=True))
    return (*x_shape[:2], *sizes)
