# SPDX-License-Identifier: Apache-2.0

"""The mutants themselves: named once, unlike their original, and put into functions that are already imported."""

from __future__ import annotations

import ast
import inspect
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType

from tests.mutation.equivalent import EQUIVALENT
from tests.mutation.mutants import all_mutants, mutants
from tests.mutation.reach import Reach
from tests.mutation.running import Trial, _renew_made, in_order, outcomes

SOURCE = '''
"""Text."""
LIMIT = 3

def clipped(values: list[int], *, low: int = 0) -> list[int]:
    """Text."""
    if not values:
        return []
    return [max(value, low) for value in values if value < LIMIT and value is not None]
'''
EXPECTED = {
    "m: 3 → 4",
    "m.clipped: 0 → 1",
    "m.clipped: if not values → if True",
    "m.clipped: if not values → if False",
    "m.clipped: not values → values",
    "m.clipped: return [] → return None",
    "m.clipped: max → min",
    "m.clipped: value < LIMIT → value <= LIMIT",
    "m.clipped: value is not None → value is None",
    "m.clipped: value < LIMIT and value is not None → value < LIMIT or value is not None",
    "m.clipped: value < LIMIT and value is not None → value < LIMIT",
    "m.clipped: value < LIMIT and value is not None → value is not None",
}


def test_of_a_small_module(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_text(SOURCE, encoding="utf-8")
    found = {mutant.name: mutant for mutant in mutants("m", file)}
    assert found.keys() > EXPECTED
    assert not any("Text" in name or "int" in name for name in found)
    assert {name for name, mutant in found.items() if not mutant.function} == {"m: 3 → 4", "m.clipped: 0 → 1"}
    space: dict[str, object] = {}
    exec(found["m.clipped: value < LIMIT → value <= LIMIT"].code(), space)
    assert space["clipped"]([1, 3, 4]) == [1, 3]  # type: ignore[operator]
    assert ast.unparse(ast.parse(file.read_text(encoding="utf-8"))) == ast.unparse(ast.parse(SOURCE))


def test_importing_runs_defaults(tmp_path: Path) -> None:
    """A function that has another one's code keeps its own defaults."""
    file = tmp_path / "m.py"
    file.write_text(SOURCE, encoding="utf-8")
    imported = {mutant.name for mutant in mutants("m", file) if not mutant.function}
    assert imported == {"m: 3 → 4", "m.clipped: 0 → 1"}


def test_the_order_of_tests(tmp_path: Path) -> None:
    """The module's own tests, then one test of each file after the other."""
    file = tmp_path / "m.py"
    file.write_text("x = 1", encoding="utf-8")
    [mutant] = mutants("m", file)
    seconds = {"a/test_a.py::1": 0.1, "a/test_a.py::2": 0.2, "b/test_b.py::1": 0.3, "c/test_m.py::1": 9.0}
    assert in_order(list(seconds), seconds, mutant) == [
        "c/test_m.py::1",
        "a/test_a.py::1",
        "b/test_b.py::1",
        "a/test_a.py::2",
    ]


def test_a_table_is_also_tested_where_no_line_of_its_module_runs(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_text("x = 1", encoding="utf-8")
    [mutant] = mutants("m", file)
    named, running, other = "tests/test_m.py::test_a", "tests/test_n.py::test_b", "tests/test_n.py::test_c"
    reach = Reach({str(file): {5: [running]}}, {named: 0.1, running: 0.1, other: 0.1})
    assert reach.of(mutant) == [named, running]


def test_every_mutant_has_a_name_and_every_equivalent_one_is_there() -> None:
    names = [mutant.name for mutant in all_mutants()]
    assert len(set(names)) == len(names)
    gone = sorted(EQUIVALENT - set(names))
    assert not gone, "these are no mutants any more: rename or remove them in tests/mutation/equivalent.py"


def test_outcomes(tmp_path: Path) -> None:
    """A trial is noticed, is not, or breaks the process; each in a process of its own."""
    file = tmp_path / "m.py"
    file.write_text("x = 1", encoding="utf-8")
    [mutant] = mutants("m", file)
    trials = [Trial(mutant, [what], 0.0) for what in ("noticed", "not noticed", "broken")]

    def notices(trial: Trial) -> bool:
        if trial.tests == ["broken"]:
            os.kill(os.getpid(), signal.SIGKILL)
        return trial.tests == ["noticed"]

    assert sorted((trial.tests[0], outcome) for trial, outcome in outcomes(trials, notices, workers=2)) == [
        ("broken", "killed"),
        ("not noticed", "survived"),
        ("noticed", "killed"),
    ]


def _shifted(by: int) -> Callable[[int], int]:
    def shift(number: int) -> int:
        return number + by

    return shift


def test_functions_that_an_import_has_made_get_the_code_of_a_mutant() -> None:
    made = _shifted(2)
    tree = ast.parse(inspect.getsource(_shifted).replace("+ by", "- by"))
    [after] = [code for code in compile(tree, __file__, "exec").co_consts if isinstance(code, CodeType)]
    _renew_made(_shifted.__code__, after)
    assert made(5) == 3


def test_what_a_trial_begins_ends_with_it(tmp_path: Path) -> None:
    file, written = tmp_path / "m.py", tmp_path / "pid"
    file.write_text("x = 1", encoding="utf-8")
    [mutant] = mutants("m", file)

    def notices(_: Trial) -> bool:
        written.write_text(str(subprocess.Popen(["sleep", "60"]).pid), encoding="utf-8")
        return False

    assert [outcome for _, outcome in outcomes([Trial(mutant, [], 0.0)], notices, workers=1)] == ["survived"]
    begun = Path("/proc", written.read_text("utf-8"), "stat")
    ends = time.monotonic() + 10
    while begun.exists() and begun.read_text("utf-8").split()[2] != "Z":  # a zombie, if nobody waits for it
        assert time.monotonic() < ends
        time.sleep(0.01)
