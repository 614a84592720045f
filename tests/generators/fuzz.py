# SPDX-License-Identifier: Apache-2.0

"""Searches for errors of the compiler for some minutes with new random graphs.

`make fuzz MINUTES=60`. Rounds of hypothesis with fresh seeds, until time is up or something fails; then the smallest
failing example, its models and the error are written into a folder, and the counts are printed.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import onnx
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from onnx import ModelProto

from tests.generators.average_plans import AveragePlan, average_plans
from tests.generators.averages import build_average, check_average_plan
from tests.generators.checks import (
    EXPORTS,
    check_export,
    check_false_shapes,
    check_mutant,
    check_plan,
    check_same_verdicts,
)
from tests.generators.models import build
from tests.generators.plans import Plan, plans
from tests.generators.protos import Choices
from tests.generators.shrinking import bound_shrinking
from tests.generators.transforms import TRANSFORMS, Transform

EXAMPLES_OF_A_ROUND = 200
CHOICES = st.lists(st.integers(0, 5), min_size=1, max_size=6)
QUIET = settings(
    max_examples=EXAMPLES_OF_A_ROUND,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
    report_multiple_bugs=False,
)


class Search:
    """Counts the examples, and keeps the last one that failed, which is hypothesis's smallest."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.counts: Counter[str] = Counter()
        self.failed: tuple[Plan | AveragePlan, str] | None = None

    def run(self) -> BaseException | None:
        """Search until the time is up; returns the error if one is found."""
        try:
            while time.monotonic() < self.deadline:
                searches = self._graphs, self._spellings, self._false_shapes, self._exports, self._mutants
                for search in (*searches, self._averages):
                    search()
        except Exception as error:  # whatever goes wrong is what is searched for
            self.counts["failures"] += 1
            return error
        return None

    def _graphs(self) -> None:
        def example(plan: Plan) -> None:
            self._attempt(plan, "", lambda: check_plan(plan, self.counts))

        _fresh(given(plans())(example))

    def _spellings(self) -> None:
        def example(plan: Plan, transform: Transform, choices: Choices) -> None:
            told = f"{transform.__name__} {list(choices)}"
            self._attempt(plan, told, lambda: check_same_verdicts(plan, transform, choices))
            self.counts["other spellings"] += 1

        _fresh(given(plans(decoys=False), st.sampled_from(TRANSFORMS), CHOICES)(example))

    def _false_shapes(self) -> None:
        def example(plan: Plan, choices: Choices) -> None:
            self._attempt(plan, f"false shapes {list(choices)}", lambda: check_false_shapes(plan, choices))
            self.counts["false shapes"] += 1

        _fresh(given(plans(decoys=False), CHOICES)(example))

    def _exports(self) -> None:
        def example(plan: Plan) -> None:
            for purpose in EXPORTS:
                self._attempt(plan, f"export for {purpose}", lambda purpose=purpose: check_export(plan, purpose))
                self.counts[f"exports for {purpose}"] += 1

        _fresh(given(plans())(example))

    def _mutants(self) -> None:
        def example(plan: Plan, which: int, how: int) -> None:
            def mutated() -> None:
                self.counts[check_mutant(plan, which, how)] += 1

            self._attempt(plan, f"mutant {which} {how}", mutated)

        _fresh(given(plans(decoys=False, max_roots=1), st.integers(0, 200), st.integers(0, 11))(example))

    def _averages(self) -> None:
        def example(plan: AveragePlan, verified: bool) -> None:
            def averaged() -> None:
                self.counts[check_average_plan(plan, verified=verified)] += 1

            self._attempt(plan, "average pool", averaged)

        _fresh(given(average_plans(), st.sampled_from((False, False, False, True)))(example))

    def _attempt(self, plan: Plan | AveragePlan, told: str, check: Callable[[], None]) -> None:
        if time.monotonic() > self.deadline and self.failed is None:
            return
        try:
            check()
        except Exception:
            self.failed = plan, told
            raise


def _fresh(test: Callable[[], None]) -> None:
    """Run a test of hypothesis with a fresh seed."""
    seed(secrets.randbits(64))(QUIET(test))()


def write_failure(folder: Path, error: BaseException, told: str, models: Mapping[str, ModelProto]) -> None:
    """Write what is told of an example with the error, and its models by name as ONNX files and as text."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(traceback.format_exception(error))
    (folder / "failure.txt").write_text(f"{told}\n\n{text}", encoding="utf-8")
    for name, model in models.items():
        onnx.save(model, folder / f"{name}.onnx")
        (folder / f"{name}.onnxtxt").write_text(onnx.printer.to_text(model), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Search and print the counts; returns 1 if an example failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    bound_shrinking()
    search = Search(time.monotonic() + 60 * options.minutes)
    error = search.run()
    for name, count in sorted(search.counts.items()):
        sys.stdout.write(f"{count:9}  {name}\n")
    if error is None:
        return 0
    if search.failed is not None:
        plan, told = search.failed
        model = build_average(plan) if isinstance(plan, AveragePlan) else build(plan)
        write_failure(options.folder, error, f"{told}\n{plan!r}", {"model": model})
    sys.stdout.write(f"failed: {error}\nthe smallest failing example is in {options.folder}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
