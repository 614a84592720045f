"""onnxruntime training's `MaxPoolGrad` (default domain): dX = MaxPoolGrad(dY, Indices).

The gradient builder emits it for MaxPool of any rank, with the forward node's attributes copied (older releases:
none). The kernel is a flat scatter of dY by the pool's whole-tensor Indices; x is not an input and is taken from
the MaxPool that recorded them.
"""

from __future__ import annotations

from typing import Any

from poolgrad_lowering.attributes import attribute, has_attribute
from poolgrad_lowering.codes import Code, Refusal, refuse
from poolgrad_lowering.dims import Shape, Shown, differ
from poolgrad_lowering.facts import Facts, type_name
from poolgrad_lowering.forward import ForwardPool, forward_pool
from poolgrad_lowering.gradient import Pattern, PoolGradient
from poolgrad_lowering.index import Node, Value
from poolgrad_lowering.pool import PoolAttributes
from poolgrad_lowering.provenance import Numbering, indices


def match(facts: Facts, node: Node) -> PoolGradient | Refusal:
    """The gradient that a MaxPoolGrad node computes, or why it is not one that can be lowered."""
    grad, recorded, dx = node.input(0), node.input(1), node.output(0)
    if len(node.proto.input) != 2 or grad is None or recorded is None or dx is None:
        return refuse(Code.ARITY, "MaxPoolGrad takes dY and Indices, here it has {} inputs", len(node.proto.input))
    found = indices(facts, recorded)
    if isinstance(found, Refusal):
        return found
    if found.numbering is not Numbering.TENSOR:
        return refuse(
            Code.INDICES_NUMBERING, "'{}' counts inside planes, MaxPoolGrad over the whole tensor", recorded.name
        )
    forward = forward_pool(facts, found.pool)
    if isinstance(forward, Refusal):
        return forward
    return (
        _other_attributes(node, forward)
        or _other_type(facts, grad, forward)
        or _other_shape(facts, Code.DX_SHAPE, dx, forward.x_shape)
        or _other_shape(facts, Code.GRAD_SHAPE, recorded, forward.pooled_shape)
        or _other_shape(facts, Code.GRAD_SHAPE, grad, forward.pooled_shape)
        or PoolGradient(
            x=forward.x,
            grad=grad,
            argmax=found.argmax,
            dx=dx,
            numbering=found.argmax_numbering,
            element_type=forward.element_type,
            windows=forward.attributes,
            x_shape=forward.x_shape,
            pooled_shape=forward.pooled_shape,
            pool=forward.node,
        )
    )


def _other_attributes(node: Node, forward: ForwardPool) -> Refusal | None:
    """The node's own attributes are the pool's, where it has any."""
    for name, expected in _attributes(forward.attributes).items():
        if has_attribute(node, name) and (found := attribute(node, name)) != expected:
            return refuse(
                Code.ATTRIBUTE_MISMATCH,
                "{} is {} here and {} on MaxPool '{}'",
                name,
                found,
                expected,
                forward.node.label,
            )
    return None


def _other_type(facts: Facts, grad: Value, forward: ForwardPool) -> Refusal | None:
    """The kernel never sees x; the lowered node does, and takes one element type."""
    element_type = facts.element_type(grad)
    if element_type is None or element_type == forward.element_type:
        return None
    names = [type_name(number) for number in (element_type, forward.element_type)]
    return refuse(Code.DTYPE_MIX, "'{}' is {}, the pooled input '{}' {}", grad.name, names[0], forward.x.name, names[1])


def _other_shape(facts: Facts, code: Code, value: Value, expected: Shape) -> Refusal | None:
    """The kernel takes shapes as they come: only one that is known to be another is held against it."""
    shape = facts.shape(value)
    if shape is None or not differ(shape, expected):
        return None
    return refuse(code, "'{}' has shape {}, the pool {}", value.name, Shown(shape), Shown(expected))


def _attributes(pool: PoolAttributes) -> dict[str, Any]:
    attributes = {
        "kernel_shape": list(pool.kernel),
        "strides": list(pool.strides),
        "dilations": list(pool.dilations),
        "ceil_mode": int(pool.ceil),
        "auto_pad": pool.auto_pad,
        "storage_order": pool.storage_order,
    }
    return attributes if pool.auto_pad != "NOTSET" else {**attributes, "pads": list(pool.begins + pool.ends)}


PATTERN = Pattern(
    name="ort_max_pool_grad",
    anchors=(("", "MaxPoolGrad"),),
    summary="onnxruntime training: MaxPoolGrad(dY, Indices) with the Indices of a MaxPool, 1-D to 3-D",
    match=match,
)
