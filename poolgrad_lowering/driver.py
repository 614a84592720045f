# SPDX-License-Identifier: Apache-2.0

"""Matches every anchor of a model: the verdict is a gradient with its operator, or a refusal with its code."""

from __future__ import annotations

from onnx import FunctionProto

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.analysis.provenance import Numbering
from poolgrad_lowering.checkpoint import verify_gradient
from poolgrad_lowering.diagnostics.codes import Code, Refusal, Refuse, refuse
from poolgrad_lowering.dialect import DOMAIN, OPS
from poolgrad_lowering.gradient import Pattern, PoolGradient
from poolgrad_lowering.ir.dims import Shown, fits_reshape
from poolgrad_lowering.ir.index import ModelIndex
from poolgrad_lowering.ir.scopes import Node, Scope
from poolgrad_lowering.legality.gradients import select_op
from poolgrad_lowering.legality.targets import Target
from poolgrad_lowering.patterns import all_patterns
from poolgrad_lowering.verdicts import Lowered, Refused

_NEED_CONSTANTS = (
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
"""Codes of conditions that also fail if the value of a constant is not known."""


def match_anchors(index: ModelIndex, facts: Facts, target: Target) -> list[Lowered | Refused]:
    """Return a verdict for each anchor, scope by scope, in the order of the model's nodes."""
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
    """Return the verdict of the first form that proves the anchor a gradient, else the first refusal of the lowest
    rank; None if no form recognises the anchor.
    """
    refusals: list[Refusal] = []
    for pattern in patterns:
        facts.read_error, facts.defaults = "", frozenset()
        gradient = _match(facts, anchor, pattern)
        if isinstance(gradient, Refusal):
            refusals.append(_missing_constant(facts, gradient) or gradient)
        elif gradient is not None:
            op = _check_names(gradient) or _check_known_shapes(gradient) or select_op(gradient, target)
            if isinstance(op, Refusal):
                return Refused(anchor, pattern.name, _missing_constant(facts, op) or op)
            return Lowered(anchor, pattern.name, gradient, op, trusted_defaults=tuple(sorted(facts.defaults)))
    return Refused(anchor, None, min(refusals, key=lambda refusal: refusal.rank)) if refusals else None


def _match(facts: Facts, anchor: Node, pattern: Pattern) -> PoolGradient | Refusal | None:
    """Return the result of the form's match; a gradient that fails the checkpoint becomes a refusal."""
    try:
        gradient = pattern.match(facts, anchor)
        if isinstance(gradient, PoolGradient):
            verify_gradient(facts, gradient)
    except Refuse as refused:
        return refused.refusal
    return gradient


def _missing_constant(facts: Facts, refusal: Refusal) -> Refusal | None:
    """Return a refusal that names a constant that is not known if that may be the cause of `refusal`, else None."""
    if refusal.code not in _NEED_CONSTANTS:
        return None
    if facts.read_error:
        return refuse(Code.EXTERNAL_DATA, "{}", facts.read_error)
    if facts.defaults and not facts.trusts_defaults:
        name = min(facts.defaults)
        return refuse(
            Code.INPUT_DEFAULT, "'{}' is an input of the graph with a default, which a caller can override", name
        )
    return None


def _check_names(gradient: PoolGradient) -> Refusal | None:
    """Refuse a gradient if the name of an operand denotes another value in the scope of dx."""
    for value in gradient.operands:
        if value.name and gradient.dx.scope.resolve(value.name) != value:
            return refuse(Code.SHADOWED_NAME, "'{}' is redefined in {}", value.name, gradient.dx.scope.path)
    return None


def _check_known_shapes(gradient: PoolGradient) -> Refusal | None:
    """Refuse a gradient if an operand must be reshaped and the new shape is not known."""
    flat = any(
        is_flat and not fits_reshape(shape)
        for is_flat, shape in (
            (gradient.argmax_is_flat, gradient.pooled_shape),
            (gradient.x_is_flat, gradient.x_shape),
        )
    )
    spatial = gradient.x_shape[2:]
    along_axis = gradient.numbering is Numbering.AXIS and len(spatial) > 1
    if flat or (along_axis and any(dim.static is None for dim in spatial)):
        return refuse(
            Code.UNKNOWN_SHAPE,
            "'{}' cannot be converted to plane-local indices for {}: sizes are not known",
            gradient.argmax.name,
            Shown(gradient.x_shape),
        )
    return None


def _is_dialect_body(scope: Scope) -> bool:
    """Whether the scope belongs to the function body of a dialect operator."""
    proto = scope.root.proto
    return isinstance(proto, FunctionProto) and proto.domain == DOMAIN and proto.name in OPS
