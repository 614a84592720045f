# SPDX-License-Identifier: Apache-2.0

"""Lowered models do in every release of onnxruntime what their originals do there, to the bit, at every level.

`make test-releases` names the interpreters. What was run stays in build/releases: the cases, and each release's rows.
"""

from __future__ import annotations

import fnmatch
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.harness.releases import runner
from tests.harness.releases.prepare import prepare
from tests.harness.releases.runner import LEVELS, ORIGINAL
from tests.releases.faults import FAULTS, Fault
from tests.releases.sweep import FORMS_RUN

RELEASES = dict(named.split("=", 1) for named in os.environ.get("POOLGRAD_RELEASES", "").split())
"""By name, the interpreter of an environment with that onnxruntime."""
CORPUS = os.environ.get("POOLGRAD_CORPUS", "")
"""A folder of further models, each with its feeds beside it."""
FOLDER = Path(__file__).parents[2] / "build" / "releases"
FEWEST = 1500
"""Originals that every release runs at every level; there are more."""
SHOWN = 10

pytestmark = pytest.mark.releases
Row = dict[str, Any]


@pytest.fixture(scope="module")
def cases() -> Path:
    """The folder of cases, made anew."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    prepared = prepare(FOLDER / "cases", Path(CORPUS) if CORPUS else None)
    assert len({row["name"] for row in prepared}) == len(prepared)
    return FOLDER / "cases"


@cache
def rows(release: str, cases: Path) -> list[Row]:
    """What the release made of the cases."""
    found = FOLDER / f"{release}.jsonl"
    subprocess.run([RELEASES[release], runner.__file__, cases, found], check=True)
    return [json.loads(line) for line in found.read_text(encoding="utf-8").splitlines()]


@cache
def version(release: str) -> str:
    """The version of a release, which may be named `newest`."""
    command = [RELEASES[release], "-c", "import onnxruntime; print(onnxruntime.__version__)"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_there_are_releases() -> None:
    assert RELEASES, "POOLGRAD_RELEASES names no interpreter: run `make test-releases`"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("release", RELEASES)
def test_lowered_models_do_what_their_originals_do(cases: Path, release: str, level: str) -> None:
    at_level = [row for row in rows(release, cases) if row["level"] == level]
    runs = [row for row in at_level if row["model"] == ORIGINAL and row["outcome"] == "runs"]
    lowered = [row for row in at_level if row["model"] != ORIGINAL]
    known = [fault for fault in FAULTS if fault.concerns(version(release), level)]
    failures = [row for row in lowered if row["outcome"] != "same" and not any(f.has(row["case"]) for f in known)]
    assert not failures, described(failures, cases)
    assert len(runs) >= FEWEST
    assert {row["case"] for row in runs} == {row["case"] for row in lowered}
    assert {row["case"].split()[0] for row in runs} >= set(FORMS_RUN)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.cases[0])
def test_known_faults_are_still_there(cases: Path, release: str, fault: Fault) -> None:
    wrong = [row for row in rows(release, cases) if row["model"] != ORIGINAL and row["outcome"] != "same"]
    for level in LEVELS:
        if fault.concerns(version(release), level):
            names = {row["case"] for row in wrong if row["level"] == level}
            gone = [pattern for pattern in fault.cases if not fnmatch.filter(names, pattern)]
            assert not gone, f"no longer at fault, {level}: {gone}"


def described(failures: Sequence[Row], cases: Path) -> str:
    """The first failures: case, variants, outcome, message, and the file."""
    variants = {
        (row["name"], model): names
        for row in json.loads((cases / "cases.json").read_text(encoding="utf-8"))
        for model, names in row["lowered"].items()
    }
    lines = [
        f"{row['case']} ({'; '.join(variants[row['case'], row['model']])}) {row['outcome']}: {row['message']}\n"
        f"    {cases / row['model']}"
        for row in failures[:SHOWN]
    ]
    return "\n".join([f"{len(failures)} lowered models, of them:", *lines])
