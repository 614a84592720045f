# SPDX-License-Identifier: Apache-2.0

"""Facts that are computed once, stored with what each depended on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, TypeVar

from poolgrad_lowering.ir.scopes import Value

T = TypeVar("T")

_UNASKED = object()
_MAX_DEPTH = 64
"""The largest recursion depth: each level takes up to eight frames of Python's stack, which has 1000."""


class Memo:
    """The facts about values that were asked for.

    `read_error` is a sentence on the first external tensor that could not be read for a fact since the caller last set
    `read_error` to the empty text. `defaults` are the names of the inputs whose defaults facts asked for, trusted or
    not, since the caller last set `defaults` to the empty set. A fact that is stored already adds what it depended on.
    """

    def __init__(self) -> None:
        self.read_error = ""
        self.defaults: frozenset[str] = frozenset()
        self._facts: defaultdict[str, dict[Value, Any]] = defaultdict(dict)
        self._read_errors: dict[tuple[str, Value], str] = {}
        self._used_defaults: dict[tuple[str, Value], frozenset[str]] = {}
        self._depth = 0

    def _is_known(self, fact: str, value: Value) -> bool:
        """Whether the fact is stored, or being computed."""
        return value in self._facts[fact]

    def _once(self, fact: str, value: Value, compute: Callable[[Value], T]) -> T | None:
        """Return a fact, computed on first use; None if its computation depends on itself (a cycle) or is too deep."""
        known = self._facts[fact]
        found = known.get(value, _UNASKED)
        if found is not _UNASKED:
            self.read_error = self.read_error or self._read_errors.get((fact, value), "")
            self.defaults |= self._used_defaults.get((fact, value), frozenset())
            return found  # type: ignore[no-any-return]
        if self._depth >= _MAX_DEPTH:
            return None
        known[value] = None
        self._depth += 1
        error_before, self.read_error = self.read_error, ""
        defaults_before, self.defaults = self.defaults, frozenset()
        try:
            result = compute(value)
        finally:
            self._depth -= 1
            if self.read_error:
                self._read_errors[fact, value] = self.read_error
            if self.defaults:
                self._used_defaults[fact, value] = self.defaults
            self.read_error = error_before or self.read_error
            self.defaults |= defaults_before
        known[value] = result
        return result
