# SPDX-License-Identifier: Apache-2.0

"""Changes the compiler's reasoning in one place after the other, and lists what no test notices.

`python -m tests.mutation`, or `make mutate`.
"""

from __future__ import annotations

import argparse
import importlib
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path

import pytest

from tests.mutation.equivalent import EQUIVALENT
from tests.mutation.modules import TESTS
from tests.mutation.mutants import Mutant, all_mutants
from tests.mutation.reach import Reach
from tests.mutation.running import COLLECTING, PYTEST, Session, Trial, in_order, noticed_by_import, outcomes
from tests.mutation.type_checks import TypeChecker

OUTCOMES = ("killed", "timeout", "survived", "equivalent")
# Loaded once; the package itself is imported by the forks.
_HEAVY = ("onnx.reference", "networkx", "hypothesis", "ml_dtypes", "onnxruntime")


class Run:
    """Tries mutants, says of each how it went, and counts."""

    def __init__(self, reach: Reach, workers: int, seconds: float) -> None:
        self._reach = reach
        self._workers = workers
        self._seconds = seconds
        self.counts: Counter[str] = Counter()
        self.survivors: list[Mutant] = []

    def try_all(self, tried: Sequence[Mutant]) -> None:
        """Try mutants, those that importing runs first, as the package has to be new to the process."""
        trials = [self._trial(mutant) for mutant in tried]
        imported = [trial for trial in trials if not trial.mutant.function]
        called = [trial for trial in trials if trial.mutant.function]
        self._count(outcomes(imported, noticed_by_import, self._workers))
        session = Session(lambda own: self._count(outcomes(called, own.noticed, self._workers)))
        pytest.main([*PYTEST, *TESTS], plugins=[session])

    def ask_types(self, folder: Path) -> None:
        """Keep the survivors that the type checker, in a folder of its own, has nothing to say of."""
        with TypeChecker.running(folder) as checker:
            mistyped = [mutant for mutant in self.survivors if checker.notices(mutant)]
        self.survivors = [mutant for mutant in self.survivors if mutant not in mistyped]
        self.counts["survived"] -= len(mistyped)
        self.counts["mistyped"] += len(mistyped)

    def _trial(self, mutant: Mutant) -> Trial:
        tests, total, files = [], 0.0, set[str]()
        for test in in_order(self._reach.of(mutant), self._reach.seconds, mutant):
            file = test.partition("::")[0]
            collecting = COLLECTING if not mutant.function and file not in files else 0.0
            if total + self._reach.seconds[test] + collecting <= self._seconds:
                tests.append(test)
                total += self._reach.seconds[test] + collecting
                files.add(file)
        return Trial(mutant, tests, total)

    def _count(self, ended: Iterator[tuple[Trial, str]]) -> None:
        for trial, outcome in ended:
            name = trial.mutant.name
            counted = "equivalent" if outcome == "survived" and name in EQUIVALENT else outcome
            self.counts[counted] += 1
            if counted == "survived":
                self.survivors.append(trial.mutant)
            sys.stdout.write(f"{counted:10} {name}\n")
            sys.stdout.flush()

    def score(self) -> float:
        """The part of the mutants that tests or types notice, without those that compute what the original does."""
        noticed = self.counts["killed"] + self.counts["timeout"] + self.counts["mistyped"]
        return noticed / max(noticed + self.counts["survived"], 1)


def _named(output: Path) -> set[str]:
    """The mutants whose outcomes the output of a run lists."""
    lines = (line.split(maxsplit=1) for line in output.read_text("utf-8").splitlines())
    return {words[1] for words in lines if len(words) > 1 and words[0] in OUTCOMES}


def main(arguments: Sequence[str] | None = None) -> int:
    """Try mutants; 1 where one that is not known to be equivalent survives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, help="try so many, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="try those with this text in their names")
    parser.add_argument("--again", type=Path, help="try those that a file lists as survivors of another run")
    parser.add_argument("--done", type=Path, help="leave out those that the output of another run names")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=inf, help="of a mutant's tests, only the first that fit")
    parser.add_argument("--reach", type=Path, default=Path("build/mutation/reach.json"))
    options = parser.parse_args(arguments)
    again = options.again and {line.partition(": ")[2] for line in options.again.read_text("utf-8").splitlines()}
    done = _named(options.done) if options.done else set()
    every = [
        m for m in all_mutants() if options.only in m.name and m.name not in done and (again is None or m.name in again)
    ]
    tried = every if options.sample is None else random.Random(options.seed).sample(every, options.sample)
    for name in _HEAVY:
        importlib.import_module(name)
    run = Run(Reach.load(options.reach), options.workers, options.seconds)
    run.try_all(tried)
    run.ask_types(options.reach.parent / "typing")
    survivors = "".join(f"{m.file.name}:{m.last_line}: {m.name}\n" for m in run.survivors)
    (options.reach.parent / "survivors.txt").write_text(survivors, encoding="utf-8")
    sys.stdout.write(f"\n{survivors}{len(tried)} of {len(every)} mutants: {dict(run.counts)}, {run.score():.1%}\n")
    return int(bool(run.survivors))


if __name__ == "__main__":
    sys.exit(main())
