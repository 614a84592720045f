# SPDX-License-Identifier: Apache-2.0

"""Nothing grows with the number of sessions or Runs: no object of the device, no memory of the process."""

from __future__ import annotations

import os

import pytest

from tests.harness.sessions.device_process import STRICT
from tests.harness.sessions.ep_process import run_python

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
