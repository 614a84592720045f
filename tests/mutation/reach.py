# SPDX-License-Identifier: Apache-2.0

"""Which tests reach which lines: the tests of a mutant are those that run its statement.

`python -m tests.mutation.reach FILE` runs all of them once and writes what they reach.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.mutation.modules import TESTS, modules
from tests.mutation.mutants import Mutant
from tests.mutation.running import PYTEST

if TYPE_CHECKING:
    import coverage


@dataclass(frozen=True)
class Reach:
    """Per file and line the tests that run it, and the seconds that each test takes; tests by pytest's node ids."""

    tests: dict[str, dict[int, list[str]]]
    seconds: dict[str, float]

    def of(self, mutant: Mutant) -> list[str]:
        """The tests that run a mutant; where only importing runs it, all that run its module or are named after it."""
        lines = self.tests.get(str(mutant.file), {})
        own = range(mutant.first_line, mutant.last_line + 1) if mutant.function else lines
        found = {test for line in own for test in lines.get(line, ())}
        if not mutant.function:  # a test may do no more than read a table
            found |= {test for test in self.seconds if f"/test_{mutant.file.stem}.py::" in test}
        return sorted(found if found or mutant.function else self.seconds)

    def save(self, path: Path) -> None:
        """Write it as JSON, each test once: lines have the numbers of their tests."""
        path.parent.mkdir(parents=True, exist_ok=True)
        numbers = {test: number for number, test in enumerate(self.seconds)}
        lines = {
            file: {line: [numbers[test] for test in found] for line, found in reached.items()}
            for file, reached in self.tests.items()
        }
        path.write_text(json.dumps({"tests": lines, "seconds": self.seconds}), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Reach:
        """What was saved."""
        held = json.loads(path.read_text(encoding="utf-8"))
        names = list(held["seconds"])
        lines = {
            file: {int(line): [names[number] for number in found] for line, found in reached.items()}
            for file, reached in held["tests"].items()
        }
        return cls(lines, held["seconds"])


class _Watcher:
    """A plugin of pytest that tells coverage which test runs."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self._measured = measured
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._measured.switch_context(item.nodeid)
        yield
        self._measured.switch_context("")

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration


def measure(files: Sequence[Path], tests: Sequence[str]) -> Reach:
    """Run some folders or files of tests. Raises `RuntimeError` where one fails."""
    import coverage  # is not there where only what was measured is read

    measured = coverage.Coverage(data_file=None, include=[str(file) for file in files])
    watcher = _Watcher(measured)
    measured.start()
    code = pytest.main([*PYTEST, *tests], plugins=[watcher])
    measured.stop()
    if code != pytest.ExitCode.OK:
        raise RuntimeError("the tests fail without a mutant")
    data = measured.get_data()
    reached = {str(file): data.contexts_by_lineno(str(file)) for file in files}
    named = {file: {line: [t for t in found if t] for line, found in lines.items()} for file, lines in reached.items()}
    return Reach(named, watcher.seconds)


if __name__ == "__main__":
    measure(list(modules().values()), TESTS).save(Path(sys.argv[1]))
