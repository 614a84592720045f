"""PyTorch's joint graphs: dX = Reshape(ScatterElements(zeros, indices, updates, reduction="add")).

`torch.onnx.export(dynamo=True)` decomposes the backward of max_pool into a scatter of dY onto zeros, one row per
(n, c) plane, by the pool's Indices made plane-local; or, written by hand, a flat scatter by whole-tensor Indices.
The views around it come and go with the optimiser, half types are scattered in float32 between two casts, 1-D and
unbatched pools wrap everything in Unsqueeze and Squeeze. A scatter that adds in a half type itself is lowered too:
the lowered node adds in float32 and rounds once, where the scatter rounded every sum. What is proven here: the base
is all zero, a row is a plane, index and update of the same element meet, and the result is seen in x's shape.
"""

from __future__ import annotations

from poolgrad_lowering.attributes import integer, text
from poolgrad_lowering.codes import Code, Refusal, refuse
from poolgrad_lowering.dims import Shape, Shown, size
from poolgrad_lowering.facts import Facts
from poolgrad_lowering.forward import ForwardPool, forward_pool
from poolgrad_lowering.gradient import Pattern, PoolGradient
from poolgrad_lowering.index import Node
from poolgrad_lowering.provenance import Numbering, indices
from poolgrad_lowering.views import find_result, find_source


def match(facts: Facts, node: Node) -> PoolGradient | Refusal:
    """The gradient that a ScatterElements node computes, or why it is not one that can be lowered."""
    base, recorded, updates, scattered = node.input(0), node.input(1), node.input(2), node.output(0)
    if base is None or recorded is None or updates is None or scattered is None:
        return refuse(Code.ARITY, "ScatterElements '{}' lacks an input", node.label)
    found = indices(facts, recorded)
    if isinstance(found, Refusal):
        return found
    if text(node, "reduction") != "add":
        return refuse(
            Code.REDUCTION, "ScatterElements '{}' has reduction={}, not add", node.label, text(node, "reduction")
        )
    if not facts.is_zero(base):
        return refuse(Code.BASE_NOT_ZERO, "'{}' is not proven to be all zero", base.name)
    forward = forward_pool(facts, found.pool)
    if isinstance(forward, Refusal):
        return forward
    misplaced = _misplaced(facts, node, forward, found.numbering)
    if misplaced is not None:
        return misplaced
    grad = find_source(facts, updates, forward)
    if isinstance(grad, Refusal):
        return grad
    result = find_result(facts, scattered, forward)
    if isinstance(result, Refusal):
        return result
    return PoolGradient(
        x=forward.x,
        grad=grad.value,
        argmax=found.argmax,
        dx=result.value,
        numbering=found.argmax_numbering,
        element_type=forward.element_type,
        windows=forward.attributes,
        x_shape=forward.x_shape,
        pooled_shape=forward.pooled_shape,
        pool=forward.node,
        grad_is_flat=grad.shape != forward.pooled_shape,
        dx_shape=None if result.shape == forward.x_shape else result.shape,
    )


def _misplaced(facts: Facts, node: Node, forward: ForwardPool, numbering: Numbering) -> Refusal | None:
    """Why element (row, i) of the scatter would not be position i of its own plane (or of the whole tensor)."""
    base, recorded = (facts.shape(value) if value is not None else None for value in (node.input(0), node.input(1)))
    if base is None or recorded is None:
        return refuse(Code.UNKNOWN_SHAPE, "the shapes of ScatterElements '{}' are not known", node.label)
    rank, axis = len(base), integer(node, "axis")
    if rank == 0 or len(recorded) != rank or axis not in (-1, rank - 1):
        return refuse(Code.ROWS, "ScatterElements '{}' does not scatter along the last axis", node.label)
    planes, plane = size(forward.x_shape[:2]), size(forward.x_shape[2:])
    one_plane = planes.static == 1
    if numbering is Numbering.TENSOR and not one_plane:
        return _misnumbered(node, base, forward)
    if recorded[-1] != size(forward.pooled_shape[2:]) or recorded[:-1] != base[:-1] or size(base[:-1]) != planes:
        return refuse(
            Code.ROWS,
            "rows of {} onto {} are not proven to be the planes of {}",
            Shown(recorded),
            Shown(base),
            Shown(forward.x_shape),
        )
    if base[-1] != plane:
        return refuse(
            Code.CANVAS, "rows have {} elements, a plane of {} has {}", base[-1], Shown(forward.x_shape), plane
        )
    return None


def _misnumbered(node: Node, base: Shape, forward: ForwardPool) -> Refusal | None:
    """Whole-tensor indices need one row that is the whole tensor."""
    if size(base[:-1]).static == 1 and base[-1] == size(forward.x_shape):
        return None
    return refuse(
        Code.INDICES_NUMBERING,
        "ScatterElements '{}' uses whole-tensor Indices on rows of {}",
        node.label,
        Shown(base),
    )


PATTERN = Pattern(
    name="torch_scatter_add",
    anchors=(("", "ScatterElements"),),
    summary="PyTorch joint graphs: ScatterElements(reduction=add) of dY onto zeros by a MaxPool's Indices",
    match=match,
)
