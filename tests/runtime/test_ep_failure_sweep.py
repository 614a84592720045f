# SPDX-License-Identifier: Apache-2.0

"""Makes every aclnn call of a session fail once, and requires an error that names the call, and full recovery.

`failure_sweep` makes the calls fail, and itself fails where results are wrong after it. In the default run it takes the
first and last call of a function in each stage of a session's life.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.harness.sessions.device_process import STRICT
from tests.harness.sessions.ep_process import run_python
from tests.harness.sessions.failure_sweep import FAULT, RELEASES

# With workspaces on this product; with what `deterministic` calls.
_A2 = {"ACLNN_HOST_SOC": "Ascend910B1"}
SETTINGS: dict[str, tuple[str, dict[str, str]]] = {
    "host library": ('open_provider(deterministic="1")', _A2),
    "device memory": ('open_provider(deterministic="1")', {**_A2, **STRICT}),
    "staged": ('open_provider(deterministic="1", memory="host")', {**_A2, **STRICT}),
    "custom operators": ("open_custom_operators", {**_A2, **STRICT}),
}

# Whose failure has no effect, and why.
WITHOUT_EFFECT = {
    "aclrtGetDevice": "the device is then set, as on a thread that has none",
    "aclGetRecentErrMsg": "the text of a tolerated code is dropped anyway",
}
# Null has no code.
CREATORS = {"aclCreateTensor", "aclCreateIntArray"}
# A tensor's memory: onnxruntime's allocators have no status, so the error is of the tensor, and the log has the cause.
NO_MEMORY = "there was no memory for "
# What no node does: copies of what is fed and fetched, on a stream of their own, and the wait at the end of a Run.
BETWEEN_NODES = {
    "aclrtCreateStream",
    "aclrtMallocHost",
    "aclrtCreateEventWithFlag",
    "aclrtMemcpyAsync",
    "aclrtRecordEvent",
    "aclrtSynchronizeEvent",
    "aclrtSynchronizeStream",
    "aclrtMalloc",
}

NODE = re.compile(r"while running \w+ node\. Name:'\w+'")
OWN_NODE = re.compile(r"\w+ node '\w+': (acl|there was no)")


@pytest.mark.parametrize("setting", SETTINGS)
def test_first_and_last_call_of_each_function(setting: str) -> None:
    check_sweep(setting, thorough=False)


@pytest.mark.long
@pytest.mark.parametrize("setting", SETTINGS)
def test_every_call(setting: str) -> None:
    check_sweep(setting, thorough=True)


def check_sweep(setting: str, *, thorough: bool) -> None:
    opens, environment = SETTINGS[setting]
    code = f"from tests.harness.sessions.failure_sweep import *; answer(sweep({opens}, thorough={thorough}))"
    outcomes = run_python(code, **environment)
    assert {outcome["stage"] for outcome in outcomes} >= {"first run", "next run", "close"}
    for outcome in outcomes:
        check_outcome(outcome)


def check_outcome(outcome: dict[str, Any]) -> None:
    stage, function, message = outcome["stage"], outcome["function"], outcome["message"]
    released = RELEASES.get(function)
    assert outcome["leaked"] == ({released: 1} if released else {}), outcome
    assert outcome["violations"] == [], outcome
    if stage == "close" or released or function in WITHOUT_EFFECT:
        assert message == "", outcome
        return
    assert is_told(function, message), outcome
    if stage in ("first run", "next run"):
        assert NODE.search(message) or function in BETWEEN_NODES, outcome
    if function not in BETWEEN_NODES and stage != "open":
        assert OWN_NODE.search(message), outcome


def is_told(function: str, message: str) -> bool:
    """Whether the message names the function, and the code if there is one."""
    if function in CREATORS:
        return f"{function} returned null" in message
    told = f"{function} failed with {FAULT} (ACL_ERROR_RT_DRV_INTERNAL_ERROR)" in message
    return told or (function == "aclrtMalloc" and NO_MEMORY in message)


# Of a registration also: the name and the architecture of the chip, which are used if they are known.
REGISTRATION_WITHOUT_EFFECT = {*WITHOUT_EFFECT, "aclrtGetSocName", "aclrtGetDeviceInfo"}


@pytest.mark.parametrize("environment", [{}, STRICT], ids=["host library", "device memory"])
def test_every_call_of_the_registration(environment: dict[str, str]) -> None:
    sites = run_python(
        "from tests.harness.sessions import failure_sweep; answer(failure_sweep.registration_sites())", **environment
    )
    assert {"aclInit", "aclrtSetDevice"} <= {function for function, _ in sites}
    refused = [site for site in sites if site[0] not in REGISTRATION_WITHOUT_EFFECT]
    for outcome in sweep_registration(refused, environment):
        assert is_told(outcome["function"], outcome["message"]), outcome
    for site in sites:  # one process each: who is registered does not register again
        if site not in refused:
            assert [outcome["message"] for outcome in sweep_registration([site], environment)] == [""]


def sweep_registration(sites: list[list[Any]], environment: dict[str, str]) -> list[dict[str, Any]]:
    code = f"from tests.harness.sessions import failure_sweep; answer(failure_sweep.sweep_registration({sites}))"
    found: list[dict[str, Any]] = run_python(code, **environment)
    return found
