# SPDX-License-Identifier: Apache-2.0

"""Sessions on two devices: whichever call fails, a Run is right or raises, and no memory is freed that is in use."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.sessions.device_process import STRICT
from tests.harness.sessions.ep_process import run_python
from tests.harness.sessions.failure_sweep import RELEASES

SOCS = ("Ascend950PR_9599", "Ascend910B1")
RUNS = ("run_fetched", "run_bound")


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("soc", SOCS)
def test_each_call(soc: str, run: str) -> None:
    for outcome in outcomes(soc, f"sweep(Sessions({run}, threads=1))"):
        check(outcome)
        ((function, _, _),) = outcome["faults"]
        released = RELEASES.get(function)
        assert outcome["grown"] == ({released: 1} if released else {}), outcome


@pytest.mark.parametrize("soc", SOCS)
def test_calls_of_threads(soc: str) -> None:
    check_all(soc, "sweep(Sessions(run_fetched, threads=3), thorough=False)")


@pytest.mark.long
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("soc", SOCS)
def test_each_call_of_threads(soc: str, run: str) -> None:
    check_all(soc, f"sweep(Sessions({run}, threads=4))")


@pytest.mark.long
@pytest.mark.parametrize("run", RUNS)
def test_waits_that_fail_again(run: str) -> None:
    """The first wait, those that follow it to end the stream, and the stream's destruction."""
    sweep = f"sweep_waits(Sessions({run}, threads=1), times=times, destroyed=destroyed)"
    check_all(SOCS[0], f"[one for times in (2, 3, 4) for destroyed in (True, False) for one in {sweep}]")


@pytest.mark.long
@pytest.mark.parametrize("times", [2, 3])
def test_waits_of_threads_that_fail_again(times: int) -> None:
    check_all(SOCS[1], f"sweep_waits(Sessions(run_fetched, threads=3), times={times}, destroyed=True)")


def outcomes(soc: str, swept: str) -> list[dict[str, Any]]:
    code = f"from tests.harness.sessions.several_device_sweep import *; answer({swept})"
    found: list[dict[str, Any]] = run_python(code, ACLNN_HOST_DEVICES="2", ACLNN_HOST_SOC=soc, **STRICT)
    assert found
    return found


def check_all(soc: str, swept: str) -> None:
    for outcome in outcomes(soc, swept):
        check(outcome)


def check(outcome: dict[str, Any]) -> None:
    assert not outcome["wrong"], outcome
    assert outcome["violations"] == [], outcome
    assert outcome["recovered"], outcome
