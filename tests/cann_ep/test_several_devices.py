# SPDX-License-Identifier: Apache-2.0

"""Sessions of both providers on two devices, on the CANN provider's streams: whichever call fails, a Run is right or
raises, and our provider frees no memory that is in use.
"""

from __future__ import annotations

from typing import Any

import onnx
import onnxruntime as ort
import pytest

from poolgrad_lowering.runtime import get_ep_name, register
from tests.cann_ep.test_failures import NOT_SURVIVED
from tests.harness.sessions import failure_sweep
from tests.harness.sessions.mixed_sessions import CANN, MODES, on_device, quiet_options
from tests.harness.sessions.several_device_sweep import Sessions, run_fetched, sweep

pytestmark = pytest.mark.cann_ep


def open_on(device: int) -> Any:
    """A session of both providers on this device, the CANN provider first."""
    register()
    options = quiet_options()
    options.add_provider(CANN, {**MODES["operators"], "device_id": str(device)})
    ours = [found for found in ort.get_ep_devices() if found.ep_name == get_ep_name()]
    options.add_provider_for_devices([ours[device]], {"backend": "cann"})
    model = onnx.load_from_string(failure_sweep.model())
    return ort.InferenceSession(model.SerializeToString(), options, enable_fallback=0)


_KEPT: list[Sessions] = []  # until the process ends: the CANN provider's sessions close on whichever device is current


def check_each_call() -> list[dict[str, Any]]:
    _KEPT.append(Sessions(run_fetched, threads=1, open_session=open_on))
    return sweep(_KEPT[0], without=NOT_SURVIVED)


@pytest.mark.parametrize("soc", ["Ascend950PR_9599", "Ascend910B1"])
def test_each_call(soc: str) -> None:
    outcomes = on_device(check_each_call, ACLNN_HOST_SOC=soc, ACLNN_HOST_DEVICES="2")
    assert outcomes
    for outcome in outcomes:
        assert not outcome["wrong"], outcome
        assert outcome["recovered"], outcome
        assert outcome["violations"] == [], outcome
