# SPDX-License-Identifier: Apache-2.0

"""Every question of the benchmarks has its module and its section of the page."""

from __future__ import annotations

from importlib.util import find_spec

from benchmarks.page import _SECTIONS
from benchmarks.run import QUESTIONS


def test_every_question_has_a_module_and_a_section() -> None:
    assert all(find_spec(f"benchmarks.question_{name}") for name in QUESTIONS)
    assert set(QUESTIONS) == set(_SECTIONS)
