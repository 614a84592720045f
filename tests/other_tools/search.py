# SPDX-License-Identifier: Apache-2.0

"""Searches for training graphs that other packages' tools change so that the compiler errs or finds fewer gradients.

`make fuzz-tools MINUTES=30`. First all built models through each tool, then random graphs; ends when time is up or
something fails. The smallest failing example is written into a folder: the error, the model, and what the tool made of
it. Prints a table with a row for each tool, and what tools and compiler said of models that they did not take.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from onnx import ModelProto

from models import catalogue
from tests.generators.fuzz import QUIET, write_failure
from tests.generators.models import build, feeds
from tests.generators.places import in_a_branch, in_a_function, outlined
from tests.generators.plans import Plan, plans
from tests.generators.protos import Choices
from tests.generators.shrinking import bound_shrinking
from tests.generators.transforms import Transform
from tests.harness.other_tools.apart import Apart, ToolError
from tests.other_tools.before_lowering import Array, Case, Tally, check
from tests.other_tools.producers import TOOLS

ROUND = settings(QUIET, max_examples=20)


def as_it_is(model: ModelProto, _: Choices) -> ModelProto:
    return model


PLACES: tuple[Transform, ...] = (as_it_is, as_it_is, as_it_is, in_a_function, outlined, in_a_branch)


def random_case(plan: Plan, tool: str, place: Transform) -> Case:
    """A plan's model; for tools that narrow, with feeds whose sums are exact in any type."""
    given_feeds = feeds(plan)
    if TOOLS[tool].narrows:
        given_feeds = {name: _exact(value) for name, value in given_feeds.items()}
    return Case(place(build(plan), [0]), given_feeds, plan.target, plan.forward)


def _exact(value: Array) -> Array:
    numbers = (np.arange(value.size) * 7 % 11 - 5).reshape(value.shape)
    return numbers.astype(value.dtype) if value.dtype.kind != "i" else value


def built_cases() -> Iterator[tuple[str, Case]]:
    """All built models by name, with feeds that are not exact."""
    for entry in (*catalogue.entries(), *catalogue.spellings(), *catalogue.external()):
        recorded = entry.file.with_suffix(".npz").exists()
        yield entry.name, Case(onnx.load(entry.file), entry.feeds() if recorded else None)


def for_tool(case: Case, tool: str) -> Case:
    """The case of a built model without feeds if the tool narrows: sums of rounded numbers depend on their order."""
    return replace(case, feeds=None) if TOOLS[tool].narrows else case


class Search:
    """Applies tools until the time is up, and keeps the last example that failed."""

    def __init__(self, apart: Apart, tools: Sequence[str], deadline: float, first_seed: int) -> None:
        self.tallies = {tool: Tally() for tool in tools}
        self.failed: tuple[str, dict[str, ModelProto]] | None = None
        self._apart = apart
        self._deadline = deadline
        self._seed = first_seed

    def run(self) -> BaseException | None:
        """Search until the time is up; returns the error if one is found."""
        try:
            for name, case in built_cases():
                for tool in self.tallies:
                    self._attempt(for_tool(case, tool), tool, name)
            while time.monotonic() < self._deadline:
                for tool in self.tallies:
                    self._graphs(tool)
        except Exception as error:  # whatever goes wrong is what is searched for
            return error
        return None

    def _graphs(self, tool: str) -> None:
        def example(plan: Plan, place: Transform) -> None:
            self._attempt(random_case(plan, tool, place), tool, f"{place.__name__} {plan!r}")

        self._seed += 1
        seed(self._seed)(ROUND(given(plans(), st.sampled_from(PLACES))(example)))()

    def _attempt(self, case: Case, tool: str, told: str) -> None:
        if time.monotonic() > self._deadline and self.failed is None:
            return
        try:
            check(case, tool, self._apart, self.tallies[tool])
        except Exception:
            self.failed = f"{tool}\n{told}", self._models(case, tool)
            raise

    def _models(self, case: Case, tool: str) -> dict[str, ModelProto]:
        try:
            return {"model": case.model, "changed": self._apart.apply(tool, case.model)}
        except ToolError:
            return {"model": case.model}


COLUMNS = ("graphs", "tool fails", "does not run", "other results", "not a model", "compared", "sites", "lowered")


def table(tallies: dict[str, Tally]) -> str:
    """The counts as a table in Markdown."""
    rows = [["tool", *COLUMNS, "refused"], ["---"] * (len(COLUMNS) + 2)]
    for tool, tally in tallies.items():
        refused = ", ".join(f"{code} {count}" for code, count in sorted(tally.refused.items()))
        rows.append([tool, *(str(tally.counts[column]) for column in COLUMNS), refused or "-"])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Search and print the counts; returns 1 if an example failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tool", choices=TOOLS, action="append", help="only this one; may be given more than once")
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    bound_shrinking()
    with Apart() as apart:
        search = Search(apart, options.tool or list(TOOLS), time.monotonic() + 60 * options.minutes, options.seed)
        error = search.run()
    sys.stdout.write(table(search.tallies))
    for tool, tally in search.tallies.items():
        sys.stdout.writelines(f"{count:6}  {tool}: {said}\n" for said, count in tally.told.most_common(8))
    if error is None or search.failed is None:
        return 0
    write_failure(options.folder, error, *search.failed)
    sys.stdout.write(f"failed: {error}\nthe smallest failing example is in {options.folder}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
