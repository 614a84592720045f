# SPDX-License-Identifier: Apache-2.0

"""What a visitor is told while a model is indexed."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import ModelProto

from poolgrad_lowering.model.ir.index import ModelIndex, Visitor
from poolgrad_lowering.model.ir.scopes import Scope
from tests.pool_graphs import parse


class Recorder(Visitor):
    """Records what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def on_duplicate_definition(self, scope: Scope, position: int, name: str) -> None:
        self.told.append(("twice", scope.path, position, name))

    def on_scope_closed(self, scope: Scope, *, unsorted: bool) -> None:
        self.told.append(("closed", scope.path, unsorted))


def told(model: ModelProto) -> list[tuple[Any, ...]]:
    recorder = Recorder()
    ModelIndex(model, recorder)
    return recorder.told


def in_main(nodes: str, stored: str = "") -> ModelProto:
    return parse(f"g (float[2] X, bool c) => (float[2] Y) {stored} {{ {nodes} }}")


@pytest.mark.parametrize(
    ("nodes", "unsorted"),
    [
        ("", False),
        ("A = Neg(X)  Y = Neg(A)", False),
        ("Y = Neg(A)  A = Neg(X)", True),
        ("A = Neg(A)", True),
        ("A = Neg(X)  Y = Add(A, B)  B = Neg(A)", True),
        ("Y = Neg(nobody)", False),
        ("A = Neg(X)  Y = Clip(A, , X)", False),
    ],
)
def test_a_value_that_is_used_before_it_is_made(nodes: str, unsorted: bool) -> None:
    assert ("closed", "main", unsorted) in told(in_main(nodes))


@pytest.mark.parametrize(
    ("nodes", "position", "name"),
    [
        ("A = Neg(X)  A = Neg(X)", 1, "A"),
        ("Y, A, Y = Split(X)", 0, "Y"),
        ("A = Neg(X)  X = Neg(A)", 1, "X"),
        ("A = Neg(X)  W = Neg(A)", 1, "W"),
        ("A, , = Split(X)  , B, = Split(X)  C = Neg(A)  B = Neg(C)  A = Neg(B)", 3, "B"),
        ("W = Neg(X)  X = Neg(W)", 0, "W"),
    ],
)
def test_a_value_that_is_made_twice(nodes: str, position: int, name: str) -> None:
    events = told(in_main(nodes, "<float[2] W = {1.0, 2.0}>"))
    assert [event for event in events if event[0] == "twice"] == [("twice", "main", position, name)]
