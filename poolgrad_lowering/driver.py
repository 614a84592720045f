"""The verdict on every anchor of a model: a gradient with its plan, or a refusal with its code."""

from __future__ import annotations

from onnx import FunctionProto

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.analysis.provenance import Numbering
from poolgrad_lowering.checkpoint import verify_gradient
from poolgrad_lowering.diagnostics.codes import Code, Refusal, Refuse, refuse
from poolgrad_lowering.dialect import DOMAIN, OPS
from poolgrad_lowering.gradient import Pattern, PoolGradient
from poolgrad_lowering.ir.dims import Shown
from poolgrad_lowering.ir.index import ModelIndex
from poolgrad_lowering.ir.scopes import Node, Scope
from poolgrad_lowering.legality.gradients import select_op
from poolgrad_lowering.legality.targets import Target
from poolgrad_lowering.patterns import all_patterns
from poolgrad_lowering.verdicts import Lowered, Refused

_FOR_WANT_OF_VALUES = (
    Code.BASE_NOT_ZERO,
    Code.ROW_LENGTH,
    Code.DX_SHAPE,
    Code.GRAD_SHAPE,
    Code.INDICES_ALTERED,
    Code.INDICES_NUMBERING,
    Code.INDICES_SOURCE,
    Code.NO_FORWARD_POOL,
    Code.PLANE_BASE,
    Code.POOL_ATTRIBUTES,
    Code.ROWS_NOT_PLANES,
    Code.UNKNOWN_SHAPE,
    Code.WINDOW_TABLES,
)
"""Conditions that also fail where the value of a constant is not known."""


def judge(index: ModelIndex, facts: Facts, target: Target) -> list[Lowered | Refused]:
    """A verdict per anchor, scope by scope in the order of the model."""
    by_op: dict[tuple[str, str], list[Pattern]] = {}
    for pattern in sorted(all_patterns(), key=lambda pattern: pattern.order):
        for op in pattern.anchors:
            by_op.setdefault(op, []).append(pattern)
    verdicts = (
        _verdict(facts, scope.node(position), by_op[op], target)
        for scope in index.scopes
        if not _is_dialect_body(scope)
        for position, op in sorted((position, op) for op in by_op for position in scope.by_op.get(op, ()))
    )
    return [verdict for verdict in verdicts if verdict is not None]


def _verdict(facts: Facts, anchor: Node, patterns: list[Pattern], target: Target) -> Lowered | Refused | None:
    """The verdict of the first form that proves the anchor a gradient, else the first refusal of the lowest rank; None
    where no form knows the anchor.
    """
    refusals: list[Refusal] = []
    for pattern in patterns:
        facts.unread = ""
        gradient = _match(facts, anchor, pattern)
        if isinstance(gradient, Refusal):
            refusals.append(_unread(facts, gradient) or gradient)
        elif gradient is not None:
            planned = _hidden(gradient) or _shapeless(gradient) or select_op(gradient, target)
            if isinstance(planned, Refusal):
                return Refused(anchor, pattern.name, _unread(facts, planned) or planned)
            return Lowered(anchor, pattern.name, gradient, planned)
    return Refused(anchor, None, min(refusals, key=lambda refusal: refusal.rank)) if refusals else None


def _match(facts: Facts, anchor: Node, pattern: Pattern) -> PoolGradient | Refusal | None:
    """What the form says of the anchor, a gradient only where it passes the checkpoint."""
    try:
        gradient = pattern.match(facts, anchor)
        if isinstance(gradient, PoolGradient):
            verify_gradient(facts, gradient)
    except Refuse as refused:
        return refused.refusal
    return gradient


def _unread(facts: Facts, refusal: Refusal) -> Refusal | None:
    """The refusal that says why external data was not read, where that may be the reason of another refusal."""
    if not facts.unread or refusal.code not in _FOR_WANT_OF_VALUES:
        return None
    return refuse(Code.EXTERNAL_DATA, "{}", facts.unread)


def _hidden(gradient: PoolGradient) -> Refusal | None:
    """Whether a value that the lowered node reads has another meaning where that node would stand."""
    for value in gradient.operands:
        if value.name and gradient.dx.scope.resolve(value.name) != value:
            return refuse(Code.SHADOWED_NAME, "'{}' is redefined in {}", value.name, gradient.dx.scope.path)
    return None


def _shapeless(gradient: PoolGradient) -> Refusal | None:
    """Whether an operand has to be brought into a shape that nothing tells."""
    flat = any(
        is_flat and sum(dim.static is None for dim in shape) > 1
        for is_flat, shape in (
            (gradient.argmax_is_flat, gradient.pooled_shape),
            (gradient.x_is_flat, gradient.x_shape),
        )
    )
    spatial = gradient.x_shape[2:]
    slanted = gradient.numbering is Numbering.AXIS and len(spatial) > 1 and any(dim.static is None for dim in spatial)
    if flat or slanted:
        return refuse(
            Code.UNKNOWN_SHAPE,
            "'{}' cannot be counted in planes of {}: several sizes are not known",
            gradient.argmax.name,
            Shown(gradient.x_shape),
        )
    return None


def _is_dialect_body(scope: Scope) -> bool:
    """Whether the scope is (inside) a function body that this dialect brings along."""
    proto = scope.root.proto
    return isinstance(proto, FunctionProto) and proto.domain == DOMAIN and proto.name in OPS
