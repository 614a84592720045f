# SPDX-License-Identifier: Apache-2.0

"""Makes every runtime call of sessions of both providers fail once, and requires an error and full recovery.

`failure_sweep` makes the calls fail. It fails itself if results are wrong, in that Run or after it.
"""

from __future__ import annotations

from typing import Any

import onnx
import pytest

from tests.harness.sessions import failure_sweep
from tests.harness.sessions.mixed_sessions import GOOD_MODES, ORDERS, on_device, open_mixed

pytestmark = [
    pytest.mark.cann_ep,
    pytest.mark.parametrize("mode", GOOD_MODES),
    pytest.mark.parametrize("order", ORDERS),
]

# Functions after whose failure onnxruntime or the CANN provider does not recover, independent of our provider.
NOT_SURVIVED = {
    "aclGetRecentErrMsg": "has no failure, and one made here would leave a message",
    "aclrtDestroyStream": "the CANN provider leaves its message, and its next node takes that for an error",
    "aclrtFree": "the same",
    "aclrtGetSocName": "the same",
    "aclrtSetDevice": "onnxruntime waits for ever for a Run that cannot set the device of its stream",
    "aclmdlUnload": "the CANN provider's destructor throws",
}
# The same if our provider comes first: the CANN provider's nodes then use its allocator too.
NOT_SURVIVED_BY_OURS_FIRST = {
    "aclrtMalloc": "an allocator can only answer null, and the CANN provider's kernels write to that",
}
# Functions whose failure has no effect, with the reason.
WITHOUT_EFFECT = {
    "aclrtGetDevice": "the device is then set, as on a thread that has none",
    "aclrtMalloc": "is tried again once memory that waits for reuse is given back",
}
# If they fail by request, they have not waited.
TOLERATED = {"aclrtSynchronizeStream": {"race"}}


def check_every_call(order: str, mode: str) -> list[dict[str, Any]]:
    model = onnx.load_from_string(failure_sweep.model())
    without = NOT_SURVIVED | (NOT_SURVIVED_BY_OURS_FIRST if order == "ours_first" else {})
    return failure_sweep.sweep(lambda: open_mixed(model, order, mode), thorough=True, without=without)


def check_outcomes(outcomes: list[dict[str, Any]]) -> None:
    assert {outcome["stage"] for outcome in outcomes} >= {"first run", "next run", "close"}
    for outcome in outcomes:
        function = outcome["function"]
        released = failure_sweep.RELEASES.get(function)
        assert outcome["leaked"] == ({released: 1} if released else {}), outcome
        assert set(outcome["violations"]) <= TOLERATED.get(function, set()), outcome
        if function not in WITHOUT_EFFECT:
            assert (outcome["message"] != "") == (outcome["stage"] != "close" and not released), outcome


def test_every_call(order: str, mode: str) -> None:
    check_outcomes(on_device(check_every_call, order, mode, ACLNN_HOST_SOC="Ascend910B1"))
