"""The verdict on every anchor of a model: a gradient with its plan, or a refusal with its code."""

from __future__ import annotations

from dataclasses import dataclass

from onnx import FunctionProto

from poolgrad_lowering.codes import Code, Refusal, refuse
from poolgrad_lowering.dialect import DOMAIN, OPS
from poolgrad_lowering.facts import Facts
from poolgrad_lowering.gradient import Pattern, PoolGradient
from poolgrad_lowering.index import ModelIndex, Node, Scope
from poolgrad_lowering.legality import Plan, plan
from poolgrad_lowering.patterns import all_patterns
from poolgrad_lowering.targets import Target


@dataclass(frozen=True)
class Site:
    """An anchor that is lowered."""

    anchor: Node
    pattern: str
    gradient: PoolGradient
    plan: Plan


@dataclass(frozen=True)
class Declined:
    """An anchor that stays as it is. `pattern` is the form that proved it a gradient, None where none did."""

    anchor: Node
    pattern: str | None
    refusal: Refusal


def judge(index: ModelIndex, facts: Facts, target: Target) -> list[Site | Declined]:
    """A verdict per anchor, scope by scope in the order of the model."""
    by_op: dict[tuple[str, str], list[Pattern]] = {}
    for pattern in all_patterns():
        for op in pattern.anchors:
            by_op.setdefault(op, []).append(pattern)
    return [
        _verdict(facts, scope.node(position), patterns, target)
        for scope in index.scopes
        if not _is_dialect_body(scope)
        for position, patterns in sorted(
            (position, patterns) for op, patterns in by_op.items() for position in scope.by_op.get(op, ())
        )
    ]


def _verdict(facts: Facts, anchor: Node, patterns: list[Pattern], target: Target) -> Site | Declined:
    refusals: list[Refusal] = []
    for pattern in patterns:
        gradient = pattern.match(facts, anchor)
        if isinstance(gradient, Refusal):
            refusals.append(gradient)
            continue
        planned = _hidden(gradient) or plan(gradient, target)
        if isinstance(planned, Refusal):
            return Declined(anchor, pattern.name, planned)
        return Site(anchor, pattern.name, gradient, planned)
    return Declined(anchor, None, refusals[-1])


def _hidden(gradient: PoolGradient) -> Refusal | None:
    """Whether a value that the lowered node reads has another meaning where that node would stand."""
    for value in (gradient.x, gradient.grad, gradient.argmax):
        if gradient.dx.scope.resolve(value.name) != value:
            return refuse(Code.SHADOWED_NAME, "'{}' is redefined in {}", value.name, gradient.dx.scope.path)
    return None


def _is_dialect_body(scope: Scope) -> bool:
    """Whether the scope is (inside) a function body that this dialect brings along."""
    proto = scope.root.proto
    return isinstance(proto, FunctionProto) and proto.domain == DOMAIN and proto.name in OPS
