# SPDX-License-Identifier: Apache-2.0

"""Matches every anchor of a model: the verdict is a gradient with its operator, or a refusal with its code."""

from __future__ import annotations

from onnx import FunctionProto

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.analysis.memo import Reads
from poolgrad_lowering.diagnostics.codes import Code, Refusal, Refuse, refuse
from poolgrad_lowering.dialect import DOMAIN, OPS
from poolgrad_lowering.families.max_pool.checkpoint import check_operands, verify_gradient
from poolgrad_lowering.families.max_pool.legality.gradients import LoweredOp, select_op
from poolgrad_lowering.families.verdicts import Lowered, Refused
from poolgrad_lowering.gradient import Pattern, PoolGradient
from poolgrad_lowering.ir.index import ModelIndex
from poolgrad_lowering.ir.scopes import Node, Scope
from poolgrad_lowering.patterns import all_patterns
from poolgrad_lowering.targets.table import Target

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
        with facts.watched() as reads:
            gradient = _match(facts, anchor, pattern)
        if isinstance(gradient, Refusal):
            refusals.append(_missing_constant(facts, reads, gradient) or gradient)
        elif gradient is not None:
            op = _operator(gradient, target)
            if isinstance(op, Refusal):
                return Refused(anchor, pattern.name, _missing_constant(facts, reads, op) or op)
            return Lowered(anchor, pattern.name, gradient, op, trusted_defaults=tuple(sorted(reads.defaults)))
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


def _operator(gradient: PoolGradient, target: Target) -> LoweredOp | Refusal:
    try:
        check_operands(gradient)
    except Refuse as refused:
        return refused.refusal
    return select_op(gradient, target)


def _missing_constant(facts: Facts, reads: Reads, refusal: Refusal) -> Refusal | None:
    """Return a refusal that names a constant that is not known if that may be the cause of `refusal`, else None."""
    if refusal.code not in _NEED_CONSTANTS:
        return None
    if reads.error:
        return refuse(Code.EXTERNAL_DATA, "{}", reads.error)
    if reads.defaults and not facts.trusts_defaults:
        name = min(reads.defaults)
        return refuse(
            Code.INPUT_DEFAULT, "'{}' is an input of the graph with a default, which a caller can override", name
        )
    return None


def _is_dialect_body(scope: Scope) -> bool:
    """Whether the scope belongs to the function body of a dialect operator."""
    proto = scope.root.proto
    return isinstance(proto, FunctionProto) and proto.domain == DOMAIN and proto.name in OPS
