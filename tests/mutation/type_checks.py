# SPDX-License-Identifier: Apache-2.0

"""Asks the type checker of the project about mutants: what `make check` refuses needs no test."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.mutation.mutants import Mutant

_HOME = Path(__file__).parents[2]
_PACKAGE = "poolgrad_lowering"


class TypeChecker:
    """A daemon of mypy over a copy of the package without its comments, in a folder that it may overwrite.

    Code that cannot be reached is no finding, or every condition that is always true would be one.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._before: Counter[str] = Counter()

    @classmethod
    @contextmanager
    def running(cls, folder: Path) -> Iterator[TypeChecker]:
        """A daemon, which ends with the block."""
        shutil.rmtree(folder, ignore_errors=True)
        for source in (_PACKAGE, "patterns"):
            name = source if source == _PACKAGE else f"{_PACKAGE}/{source}"
            shutil.copytree(_HOME / source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for file in folder.rglob("*.py"):
            file.write_text(ast.unparse(ast.parse(file.read_text("utf-8"))), encoding="utf-8")
        checker = cls(folder)
        try:
            options = ("--config-file", str(_HOME / "pyproject.toml"), "--no-warn-unreachable", "--no-error-summary")
            checker._run("start", "--", *options)
            checker._before = checker._findings("check", _PACKAGE)
            yield checker
        finally:
            checker._run("kill")

    def notices(self, mutant: Mutant) -> bool:
        """Whether the mutant has findings that the package does not have."""
        file = self._folder.joinpath(*mutant.module.split(".")).with_suffix(".py")
        before = file.read_text("utf-8")
        try:
            file.write_text(mutant.text(), encoding="utf-8")
            return bool(self._findings("recheck") - self._before)
        finally:
            file.write_text(before, encoding="utf-8")
            self._findings("recheck")

    def _findings(self, *command: str) -> Counter[str]:
        """What is found, by its text without the line."""
        lines = self._run(*command).splitlines()
        return Counter(line.partition(": error: ")[2] for line in lines if ": error: " in line)

    def _run(self, *command: str) -> str:
        daemon: Sequence[str] = (sys.executable, "-m", "mypy.dmypy", "--status-file", "dmypy.json")
        done = subprocess.run([*daemon, *command], cwd=self._folder, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            raise RuntimeError(f"mypy's daemon ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout
