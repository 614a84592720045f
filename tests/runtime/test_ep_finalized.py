# SPDX-License-Identifier: Apache-2.0

"""What sessions leave, also if another library finalises acl while they live: no object, no memory; Runs raise."""

from __future__ import annotations

import ctypes
import gc
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from poolgrad_lowering.runtime import get_host_library_path
from tests.harness.sessions.device_process import STRICT
from tests.harness.sessions.ep_process import run_python
from tests.harness.sessions.failure_sweep import FEEDS, Life, open_custom_operators, open_provider
from tests.harness.sessions.host_control import HostLibrary
from tests.harness.sessions.several_device_sweep import on_npu

UNINITIALIZED = 100001  # ACL_ERROR_UNINITIALIZE
# Without acl the provider only tries to make its device current.
ALLOWED = {"aclrtGetDevice", "aclrtSetDevice", "aclGetRecentErrMsg"}
OPENINGS: dict[str, Callable[[], Any]] = {
    "device memory": open_provider(),
    "staged": open_provider(memory="host"),
    "custom operators": open_custom_operators,
}


def finalize() -> None:
    """As another library of the process does, whose leaks are not those of a session that lives on."""
    assert ctypes.CDLL(get_host_library_path()).aclFinalize() == 0
    HostLibrary().reset()


def calls_of(run: Callable[[], object]) -> list[str]:
    """The functions that `run` calls, which may not break a rule."""
    library = HostLibrary()
    calls = [call["call"] for call in library.trace(run) if "call" in call]
    assert library.violations() == []
    return calls


def check_the_end_of_sessions(opening: str) -> set[str]:
    lives = [Life(OPENINGS[opening]) for _ in range(2)]
    for life in lives:
        life.go("open")
        life.go("first run")
    finalize()
    with pytest.raises(Exception, match=f"aclrtSetDevice failed with {UNINITIALIZED}"):
        lives[0].go("next run")
    gc.collect()
    return set(calls_of(lambda: [life.go("close") for life in lives]))


def check_the_end_of_values() -> set[str]:
    life = Life(open_provider())  # whose stream copies would wait for
    life.go("open")
    life.go("first run")
    values = [on_npu(array, 0) for array in FEEDS.values()]
    finalize()
    return set(calls_of(values.clear))


def run(code: str) -> Any:
    return run_python(f"from tests.runtime.test_ep_finalized import *; {code}", **STRICT)


@pytest.mark.parametrize("opening", OPENINGS)
def test_sessions_release_nothing(opening: str) -> None:
    assert set(run(f"answer(sorted(check_the_end_of_sessions({opening!r})))")) == ALLOWED


def test_values_release_nothing() -> None:
    assert set(run("answer(sorted(check_the_end_of_values()))")) == ALLOWED


def test_sessions_of_the_interpreter_release_nothing(tmp_path: Path) -> None:
    """A session that lives until the interpreter exits, after what is registered there finalises acl."""
    trace = tmp_path / "calls.jsonl"
    code = """
import atexit
life = Life(open_provider())
life.go("open")
atexit.register(finalize)
life.go("first run")
answer(True)
"""
    assert run_python(f"from tests.runtime.test_ep_finalized import *\n{code}", ACLNN_HOST_TRACE=str(trace), **STRICT)
    lines = [json.loads(line) for line in trace.read_text().splitlines()]
    calls = [line.get("call") for line in lines]
    after = lines[calls.index("aclFinalize") + 1 :]
    assert {line["call"] for line in after if "call" in line} == ALLOWED
    assert after[-1]["violations"] == 0


ENVIRONMENTS = {"host memory": {}, "device memory": STRICT}

# Resident memory is counted in pages, and malloc decides how full these are: the same Runs again may need a few hundred
# KiB more or less, the same sessions a few MiB. A pointer leaked in each of 100,000 Runs is more; so is an executor
# leaked by one of the kernels of each of 10,000 sessions. The first hundreds of sessions on a device with its own
# memory grow by up to 5 MiB, until its list of freed addresses is full: leaks in as many sessions are more than that.
# A sanitizer keeps freed memory, to find later uses of it: with it, only objects count.
WITH_SANITIZER = "LD_PRELOAD" in os.environ
FEW = {"measure_runs": 1 << 20, "measure_sessions": 8 << 20}
MANY = {"measure_runs": 1 << 20, "measure_sessions": 4 << 20}


def check_growth(measure: str, cycles: int, environment: str, tolerances: dict[str, int]) -> None:
    code = f"from tests.harness.sessions import leak_cycles; answer(leak_cycles.{measure}({cycles}))"
    growth = run_python(code, **ENVIRONMENTS[environment])
    assert growth["objects"] == 0
    assert growth["bytes"] < tolerances[measure] or WITH_SANITIZER, growth


@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize(("measure", "cycles"), [("measure_sessions", 400), ("measure_runs", 2000)])
def test_a_little_work_leaves_nothing(measure: str, cycles: int, environment: str) -> None:
    check_growth(measure, cycles, environment, FEW)


@pytest.mark.long
@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize(("measure", "cycles"), [("measure_sessions", 10_000), ("measure_runs", 100_000)])
def test_much_work_leaves_nothing(measure: str, cycles: int, environment: str) -> None:
    check_growth(measure, cycles, environment, MANY)
