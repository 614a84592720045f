# SPDX-License-Identifier: Apache-2.0

"""Forks that run the tests of one mutant each, so that nothing that it breaks is seen by the next.

A mutant inside of a function is put into a process that has collected all tests: the function gets the mutant's code,
whoever holds it. What only importing runs (tables, defaults) is put into a process that has not yet imported the
package, in place of the module, and the tests are collected anew.
"""

from __future__ import annotations

import functools
import gc
import importlib
import importlib.abc
import importlib.machinery
import inspect
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

from tests.mutation.mutants import Mutant

PYTEST = ("-x", "-q", "-s", "-p", "no:cacheprovider")
_MEMORY = 8 << 30
_GRACE = 20.0  # seconds
_BATCH = 8  # files
COLLECTING = 1.0
"""Seconds for the tests of one file, where the package is imported anew."""
_SLOWER = 5.0
"""The tests of a mutant may take so many times as long as without it, and the grace besides."""


@dataclass(frozen=True)
class Trial:
    """A mutant, the tests that could notice it, and the seconds that they take without it."""

    mutant: Mutant
    tests: Sequence[str]
    seconds: float


def in_order(tests: Sequence[str], seconds: Mapping[str, float], mutant: Mutant) -> list[str]:
    """The tests of the mutant's own file, then the quickest of each file, the second of each, and so on.

    Tests of one file notice the same, so each file should have its turn early, those of the mutant's room first.
    """
    own_file, room = f"/test_{mutant.file.stem}.py::", f"/{mutant.file.parent.name}/"
    earlier: Counter[str] = Counter()  # of each file
    order = []
    for test in sorted(tests, key=lambda test: (seconds[test], test)):
        file = test.partition("::")[0]
        order.append((own_file not in test, earlier[file], room not in test, seconds[test], test))
        earlier[file] += 1
    return [test for *_, test in sorted(order)]


def outcomes(trials: Sequence[Trial], notices: Callable[[Trial], bool], workers: int) -> Iterator[tuple[Trial, str]]:
    """Each trial with "killed", "timeout" or "survived", as they end; `notices` runs in a process of its own."""
    waiting = list(reversed(trials))
    running: dict[int, tuple[Trial, float]] = {}
    while waiting or running:
        while waiting and len(running) < workers:
            trial = waiting.pop()
            running[_fork(notices, trial)] = (trial, time.monotonic() + _GRACE + _SLOWER * trial.seconds)
        for child, (trial, deadline) in list(running.items()):
            found = _ended(child, deadline)
            if found is not None:
                del running[child]
                yield trial, found
        time.sleep(0.02)


def _fork(notices: Callable[[Trial], bool], trial: Trial) -> int:
    child = os.fork()
    if child:
        return child
    os.setpgid(0, 0)  # with the processes that its tests begin
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    noticed = True  # also where the mutant breaks more than a test
    try:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        noticed = notices(trial)
    finally:
        os._exit(int(noticed))


def _ended(child: int, deadline: float) -> str | None:
    done, status = os.waitpid(child, os.WNOHANG)
    if not done and time.monotonic() < deadline:
        return None
    with suppress(ProcessLookupError):  # nothing is left of the group
        os.killpg(child, signal.SIGKILL)
    if done:
        return "killed" if status else "survived"
    os.waitpid(child, 0)
    return "timeout"


def noticed_by_import(trial: Trial) -> bool:
    """Whether a test fails where the package has not been imported yet, some files after the other: few tell enough."""
    sys.meta_path.insert(0, _Instead(trial.mutant.module, trial.mutant.code()))
    files = list(dict.fromkeys(test.partition("::")[0] for test in trial.tests))
    batches = [files[:1], *(files[begin : begin + _BATCH] for begin in range(1, len(files), _BATCH))]
    passed = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    return any(pytest.main([*PYTEST, *batch], plugins=[_Selection(trial.tests)]) not in passed for batch in batches)


class Session:
    """A plugin of pytest that collects all tests and then, instead of running them, does `work` with itself."""

    def __init__(self, work: Callable[[Session], None]) -> None:
        self._work = work

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Do the work."""
        self._session = session
        self._items = {item.nodeid: item for item in session.items}
        gc.freeze()  # so that forks share the memory
        self._work(self)
        return True

    def noticed(self, trial: Trial) -> bool:
        """Whether a test fails once the function has the mutant's code."""
        _put(trial.mutant)
        items = [self._items[test] for test in trial.tests]
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._session.testsfailed:
                return True
        return False


class _Selection:
    """A plugin of pytest that runs some tests, in their order."""

    def __init__(self, tests: Sequence[str]) -> None:
        self._order = {test: number for number, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((item for item in items if item.nodeid in self._order), key=lambda i: self._order[i.nodeid])


class _Instead(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Importing one module runs other code."""

    def __init__(self, name: str, code: CodeType) -> None:
        self._name, self._code = name, code

    def find_spec(self, fullname: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        """The module's, where it is the one."""
        if fullname != self._name:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, origin=self._code.co_filename)

    def exec_module(self, module: ModuleType) -> None:
        """Run the other code."""
        module.__file__ = self._code.co_filename
        exec(self._code, module.__dict__)


def _put(mutant: Mutant) -> None:
    """Give the function of a mutant its code; nothing that it computed before is kept."""
    module = importlib.import_module(mutant.module)  # the tests may not have needed it yet
    holder: Any = module
    code = mutant.code()
    for name in mutant.function:
        code = next(inner for inner in code.co_consts if isinstance(inner, CodeType) and inner.co_name == name)
        holder = inspect.getattr_static(holder, name)
    function = _function(holder)
    before, function.__code__ = function.__code__, code
    _renew_made(before, code)
    for value in vars(module).values():
        if isinstance(value, functools._lru_cache_wrapper):
            value.cache_clear()


def _renew_made(before: CodeType, after: CodeType) -> None:
    """Give functions that a function has made, such as an import's entries of a table, the code of its mutant."""
    old, new = ([inner for inner in code.co_consts if isinstance(inner, CodeType)] for code in (before, after))
    for made, renewed in zip(old, new, strict=False):
        if made == renewed or made.co_freevars != renewed.co_freevars or made.co_name == "<genexpr>":
            continue
        gc.unfreeze()
        for holder in gc.get_referrers(made):
            if isinstance(holder, FunctionType) and holder.__code__ is made:
                holder.__code__ = renewed


def _function(held: Any) -> Any:
    """The function in what a class or module holds."""
    if isinstance(held, property):
        return held.fget
    if isinstance(held, functools.cached_property):
        return held.func
    return inspect.unwrap(held.__func__ if isinstance(held, (classmethod, staticmethod)) else held)
