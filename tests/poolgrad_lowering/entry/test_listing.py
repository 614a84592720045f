# SPDX-License-Identifier: Apache-2.0

"""Targets and forms as records, from the tables that the compiler itself reads."""

from __future__ import annotations

import doctest
from dataclasses import FrozenInstanceError

import pytest

import poolgrad_lowering
from poolgrad_lowering import OperatorRecord, PatternRecord, list_patterns, list_targets
from poolgrad_lowering.dialect.targets import DEFAULT_TARGET, TARGETS, find_target
from poolgrad_lowering.entry import listing
from poolgrad_lowering.patterns import BrokenPlugin, all_forms


def test_every_name_of_a_target_is_a_target() -> None:
    found = list_targets()
    assert [target.name for target in found] == list(TARGETS)
    assert [target.name for target in found if target.is_default] == [DEFAULT_TARGET]
    for target in found:
        assert {find_target(name).name for name in (target.name, *target.socs)} == {target.name}
        assert [operator.name for operator in target.operators] == list(TARGETS[target.name].operators)


def test_an_operator() -> None:
    [a2] = [target for target in list_targets() if target.is_default]
    functions = ("aclnnAdaptiveMaxPool2dBackward", "aclnnAdaptiveMaxPool3dBackward")
    assert OperatorRecord("AdaptiveMaxPool3DGrad", functions, ("float32", "float16", "bfloat16"), 2**24) in a2.operators


def test_records_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        list_targets()[0].name = "other"


def test_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    used = [PatternRecord(pattern.name, pattern.anchors, pattern.summary) for pattern in all_forms()]
    assert list_patterns() == used
    monkeypatch.setattr(listing, "broken_plugins", lambda: (BrokenPlugin("theirs", "it is broken"),))
    assert list_patterns() == [*used, PatternRecord("theirs", (), "", "it is broken")]


def test_the_example_of_the_help_runs() -> None:
    [example] = doctest.DocTestFinder(recurse=False).find(list_targets, "list_targets", globs={})
    assert doctest.DocTestRunner().run(example).failed == 0
    assert {"list_targets", "list_patterns"} <= set(poolgrad_lowering.__all__)
