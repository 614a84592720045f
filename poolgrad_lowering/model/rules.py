# SPDX-License-Identifier: Apache-2.0

"""What a rule says of the facts and conditions without which it does not apply.

A rule is a function for one kind of node: it derives a fact about its results, or writes other nodes in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class NotApplicableError(Exception):
    """A rule does not apply: a fact that it needs is not known, or one of its conditions does not hold."""


def need(fact: T | None) -> T:
    """Return a fact that a rule needs. Raises `NotApplicableError` if it is None."""
    if fact is None:
        raise NotApplicableError
    return fact


def require(holds: object) -> None:
    """Raise `NotApplicableError` unless a condition of a rule holds."""
    if not holds:
        raise NotApplicableError


def by_rule(rule: Callable[P, T | None], *given: P.args, **options: P.kwargs) -> T | None:
    """Return what a rule tells of these, None if it does not apply."""
    try:
        return rule(*given, **options)
    except NotApplicableError:
        return None
