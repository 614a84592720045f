# SPDX-License-Identifier: Apache-2.0

"""Facts that are stored: each is computed once, to a depth, and brings what it depended on with every answer."""

from __future__ import annotations

from collections import Counter

from poolgrad_lowering.model.facts.memo import Memo, Reads
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.ir.scopes import Value
from tests.pool_graphs import parse

DEPTH = 64


class Sums(Memo):
    """A fact of a chain of values: what one adds to what the values before it come to."""

    def __init__(self, length: int = 5) -> None:
        super().__init__()
        nodes = "".join(f"v{number + 1} = Neg(v{number}) " for number in range(length))
        self.scope = ModelIndex(parse(f"g (float v0) => (v{length}) {{ {nodes} }}")).scopes[0]
        self.asked: Counter[int] = Counter()
        self.errors: dict[int, str] = {}
        self.used: dict[int, str] = {}
        self.before: dict[int, tuple[int, ...]] = {number: (number - 1,) for number in range(1, length + 1)}

    def value(self, number: int) -> Value:
        value = self.scope.resolve(f"v{number}")
        assert value is not None
        return value

    def sum(self, number: int, fact: str = "sum") -> int | None:
        """One for the value and the sums of those before it; None if one of them is not known."""
        return self.once(fact, self.value(number), lambda _: self._sum(number, fact))

    def is_known(self, number: int, fact: str = "sum") -> bool:
        return self._is_known(fact, self.value(number))

    def _sum(self, number: int, fact: str) -> int | None:
        self.asked[number] += 1
        assert self._depth > 0
        assert self.is_known(number, fact)
        if number in self.errors or number in self.used:
            self.depend_on(Reads(self.errors.get(number, ""), frozenset(self.used.get(number, ""))))
        found = [self.sum(behind, fact) for behind in self.before.get(number, ())]
        return None if None in found else 1 + sum(one for one in found if one is not None)

    def left(self) -> tuple[str, set[str]]:
        """What facts depended on since the last time."""
        reads = Reads()
        self._take(0, reads)
        assert self._depth == 0
        return reads.error, set(reads.defaults)


def test_a_fact_is_computed_once() -> None:
    sums = Sums()
    assert not sums.is_known(3)
    assert [sums.sum(3), sums.sum(5), sums.sum(3)] == [4, 6, 4]
    assert sums.asked == Counter(range(6))
    assert sums.is_known(3)


def test_a_cycle_is_not_known() -> None:
    sums = Sums()
    sums.before[1] = (3,)
    assert [sums.sum(number) for number in (3, 2, 1, 0)] == [None, None, None, 1]
    assert sums._depth == 0


def test_the_deepest_question() -> None:
    assert Sums(DEPTH).sum(DEPTH - 1) == DEPTH


def test_a_question_that_is_too_deep() -> None:
    sums = Sums(DEPTH)
    assert sums.sum(DEPTH) is None
    assert not sums.is_known(0)
    assert sums.sum(0) == 1


def test_the_depth_of_one_branch_is_not_that_of_the_other() -> None:
    for start, expected in ((100, 1 + 46 + 50), (70, None)):
        sums = Sums(150)
        sums.before[150] = (45, 149)
        sums.before[start] = ()
        assert sums.sum(150) == expected


def test_what_could_not_be_read_comes_with_every_answer() -> None:
    sums = Sums()
    sums.errors = {0: "zero", 3: "three"}
    assert sums.sum(2) == 3
    assert sums.left() == ("zero", set())
    assert sums.sum(2) == 3
    assert sums.left() == ("zero", set())
    assert sums.sum(4) == 5
    assert sums.left() == ("three", set())
    sums.sum(2)
    sums.sum(4)
    assert sums.left() == ("zero", set())


def test_defaults_come_with_every_answer() -> None:
    sums = Sums()
    sums.used = {0: "a", 2: "b", 3: "c"}
    assert sums.sum(1) == 2
    assert sums.left() == ("", {"a"})
    assert sums.sum(2) == 3
    assert sums.left() == ("", {"a", "b"})
    sums.sum(1)
    assert sums.left() == ("", {"a"})
    sums.sum(1)
    sums.before[3] = ()
    sums.sum(3)
    assert sums.left() == ("", {"a", "c"})
    sums.sum(3)
    sums.sum(2)
    assert sums.left() == ("", {"a", "b", "c"})


def test_what_is_watched_apart_is_not_seen_around() -> None:
    sums = Sums()
    sums.errors, sums.used = {1: "one"}, {2: "b"}
    with sums.watched() as around:
        with sums.watched() as inner:
            sums.sum(1)
        sums.sum(0)
        assert (inner.error, around.error) == ("one", "")
        sums.depend_on(inner)
        sums.sum(2)
    assert (around.error, around.defaults) == ("one", {"b"})
    assert sums.left() == ("", set())
