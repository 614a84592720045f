# SPDX-License-Identifier: Apache-2.0

"""Targets and forms as records, from the tables that the compiler itself reads."""

from __future__ import annotations

import doctest

import pytest

import poolgrad_lowering
from poolgrad_lowering import PatternRecord, list_patterns, list_targets
from poolgrad_lowering.entry import listing
from poolgrad_lowering.patterns import BrokenPlugin, all_forms


def test_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    used = [PatternRecord(pattern.name, pattern.anchors, pattern.summary) for pattern in all_forms()]
    assert list_patterns() == used
    monkeypatch.setattr(listing, "broken_plugins", lambda: (BrokenPlugin("theirs", "it is broken"),))
    assert list_patterns() == [*used, PatternRecord("theirs", (), "", "it is broken")]


def test_the_example_of_the_help_runs() -> None:
    [example] = doctest.DocTestFinder(recurse=False).find(list_targets, "list_targets", globs={})
    assert doctest.DocTestRunner().run(example).failed == 0
    assert {"list_targets", "list_patterns"} <= set(poolgrad_lowering.__all__)
