# SPDX-License-Identifier: Apache-2.0

"""Facts that are computed once, stored with what each depended on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from poolgrad_lowering.model.ir.scopes import Value

T = TypeVar("T")

_UNASKED = object()
_MAX_DEPTH = 64
"""The largest recursion depth: each level takes up to eight frames of Python's stack, which has 1000."""


@dataclass
class Reads:
    """What facts depended on.

    `error` is a sentence on the first external tensor that could not be read for a fact; empty if all could be read.
    `defaults` are the names of the inputs whose defaults facts asked for, trusted or not.
    """

    error: str = ""
    defaults: frozenset[str] = frozenset()


class Memo:
    """The facts about values that were asked for. A fact that is stored already brings what it depended on."""

    def __init__(self) -> None:
        self._reads: list[Reads] = []  # of the facts being computed, outermost first
        self._facts: defaultdict[str, dict[Value, Any]] = defaultdict(dict)
        self._reads_of: dict[tuple[str, Value], Reads] = {}
        self._depth = 0
        self._limit = _MAX_DEPTH

    @contextmanager
    def watched(self) -> Iterator[Reads]:
        """Collect what the facts depend on that are asked for in this block.

        A block around this one does not see it, unless `depend_on` is called with it.
        """
        before, reads = len(self._reads), Reads()
        try:
            yield reads
        finally:
            self._take(before, reads)

    def depend_on(self, reads: Reads) -> None:
        """Add to what the facts being watched depend on: a read, or all that was watched apart."""
        self._reads.append(reads)

    def _take(self, before: int, reads: Reads) -> None:
        """Move to `reads` all that was read after the first `before` reads."""
        for each in self._reads[before:]:
            reads.error = reads.error or each.error
            reads.defaults |= each.defaults
        del self._reads[before:]

    @contextmanager
    def room_for(self, levels: int) -> Iterator[None]:
        """Let facts be computed from others for so many levels, however deep they are computed themselves.

        Once at a time: what is computed meanwhile gets no further levels.
        """
        depth, limit = self._depth, self._limit
        self._limit = max(limit, min(depth + levels, _MAX_DEPTH + levels))
        try:
            yield
        finally:
            self._limit = limit

    def _is_known(self, fact: str, value: Value) -> bool:
        """Whether the fact is stored, or being computed."""
        return value in self._facts[fact]

    def once(self, fact: str, value: Value, compute: Callable[[Value], T]) -> T | None:
        """Return a fact, computed on first use; None if its computation depends on itself (a cycle) or is too deep."""
        known = self._facts[fact]
        found = known.get(value, _UNASKED)
        if found is not _UNASKED:
            if self._reads_of and (fact, value) in self._reads_of:
                self._reads.append(self._reads_of[fact, value])
            return found  # type: ignore[no-any-return]
        if self._depth >= self._limit:
            return None
        known[value] = None
        self._depth += 1
        before = len(self._reads)
        try:
            result = known[value] = compute(value)
        finally:
            self._depth -= 1
            if len(self._reads) > before:
                self._reads_of[fact, value] = reads = Reads()
                self._take(before, reads)
                self._reads.append(reads)
        return result
