# SPDX-License-Identifier: Apache-2.0

"""Matches every anchor of a model: the verdict is a gradient with its operator, or a refusal with its code."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from onnx import FunctionProto

from poolgrad_lowering.compiler.families.gradient import Form, Gradient
from poolgrad_lowering.compiler.families.registry import Choices, family_of
from poolgrad_lowering.compiler.families.verdicts import Lowered, Refused, Verdict
from poolgrad_lowering.dialect import DOMAIN, OPS
from poolgrad_lowering.model.diagnostics.codes import Code, Refusal, attempt
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.memo import Reads
from poolgrad_lowering.model.ir.graphs import fresh
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.ir.scopes import Node, Scope
from poolgrad_lowering.patterns import all_forms, own_forms

logger = logging.getLogger(__name__)

_FAILED = "form '{}' failed on '{}': {}"

P = ParamSpec("P")
T = TypeVar("T")


def match_anchors(index: ModelIndex, facts: Facts, choices: Choices) -> list[Verdict]:
    """Return a verdict for each anchor, scope by scope, in the order of the model's nodes."""
    by_op: dict[tuple[str, str], list[Form]] = {}
    for form in sorted(all_forms(), key=lambda form: form.order):
        for op in form.anchors:
            by_op.setdefault(op, []).append(form)
    taken: set[str] = set()
    verdicts = (
        _verdict(facts, scope.node(position), by_op[op], choices, taken)
        for scope in index.scopes
        if not _is_dialect_body(scope)
        for position, op in sorted((position, op) for op in by_op for position in scope.by_op.get(op, ()))
    )
    return [verdict for verdict in verdicts if verdict is not None]


def identifier(anchor: Node, taken: set[str]) -> str:
    """Return `SCOPE:OUTPUT` of an anchor, with a number appended if two scopes have the same path.

    It is unique in the model, and the same at every lowering.
    """
    output = next((value.name for value in anchor.outputs if value is not None), anchor.label)
    return fresh(f"{anchor.scope.path}:{output}", taken)


def _verdict(facts: Facts, anchor: Node, forms: list[Form], choices: Choices, taken: set[str]) -> Verdict | None:
    """Return the verdict of the first form that proves the anchor a gradient, else the first refusal of the lowest
    rank; None if no form recognises the anchor. `taken` are the identifiers of earlier anchors.
    """
    refusals: list[Refusal] = []
    for form in forms:
        with facts.watched() as reads:
            gradient = _attempt(form, anchor, _match, facts, anchor, form)
        if isinstance(gradient, Refusal):
            refusals.append(_missing_constant(facts, reads, gradient))
        elif gradient is not None:
            op = _attempt(form, anchor, choices.select, gradient)
            if isinstance(op, Refusal):
                refusal = _missing_constant(facts, reads, op)
                return Refused(identifier(anchor, taken), anchor, form.name, refusal)
            defaults = tuple(sorted(reads.defaults))
            return Lowered(identifier(anchor, taken), anchor, form.name, gradient, op, trusted_defaults=defaults)
    if not refusals:
        return None
    return Refused(identifier(anchor, taken), anchor, None, min(refusals, key=lambda refusal: refusal.rank))


def _attempt(form: Form, anchor: Node, step: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T | Refusal:
    """As `attempt`, for what a form decides on an anchor: any error in it is the refusal of this anchor alone."""
    try:
        return attempt(step, *arguments, **options)
    except Exception as error:
        code = Code.FORM_FAILED if form in own_forms() else Code.PLUGIN_FAILED
        refusal = Refusal(code, _FAILED, (form.name, anchor.label, f"{type(error).__name__}: {error}"))
        logger.exception("%s", refusal.reason)
        return refusal


def _match(facts: Facts, anchor: Node, form: Form) -> Gradient | None:
    """Return the gradient that a form finds at the anchor, verified. Raises `Refuse`."""
    gradient: object = form.match(facts, anchor)
    if gradient is None:
        return None
    if not isinstance(gradient, Gradient):
        raise TypeError(f"it returned {gradient!r}")
    family_of(gradient).verify(facts, gradient)
    return gradient


def _missing_constant(facts: Facts, reads: Reads, refusal: Refusal) -> Refusal:
    """Return a refusal that names a constant that is not known if that may be the cause of `refusal`, else that."""
    if refusal.code.of_constants and reads.error:
        return Refusal(Code.EXTERNAL_DATA, "{}", (reads.error,))
    if refusal.code.of_constants and reads.defaults and not facts.trusts_defaults:
        what = "'{}' is an input of the graph with a default, which a caller can override"
        return Refusal(Code.INPUT_DEFAULT, what, (min(reads.defaults),))
    return refusal


def _is_dialect_body(scope: Scope) -> bool:
    """Whether the scope belongs to the function body of a dialect operator."""
    proto = scope.root.proto
    return isinstance(proto, FunctionProto) and proto.domain == DOMAIN and proto.name in OPS
