# SPDX-License-Identifier: Apache-2.0

"""The switch ACL_OPT_DETERMINISTIC: when it is on while a node's executors are created."""

from __future__ import annotations

from typing import Any

import pytest

from poolgrad_lowering.runtime import SessionError, create_session
from tests.harness.sessions.ep_process import run_python
from tests.runtime.ep_models import Case, make_model, window

_PRELUDE = """
import ctypes
import onnxruntime
from tests.runtime.ep_models import Case, make_feeds, make_model, window
from poolgrad_lowering.runtime import create_session, get_host_library_path

host = ctypes.CDLL(get_host_library_path())
def switch():
    "The context's value; None before the first set."
    host.aclrtSetDevice(0)
    value = ctypes.c_int64(-1)
    code = host.aclrtCtxGetSysParamOpt(0, ctypes.byref(value))
    return None if code == 107021 else value.value

case = Case("MaxPool3DGradWithArgmax", (2, 3, 7, 7), window([1, 3, 3], [1, 2, 2], [0, 0, 0], [1, 1, 1]))
feeds, expected = make_feeds(case)
model = make_model(case.op, case.attributes(), x=case.x_shape, grad=(2, 3, 3, 3))
def run(**options):
    (y,) = create_session(model, backend="host", **options).run(None, feeds)
    assert y.tobytes() == expected.tobytes()
"""


def run(code: str) -> Any:
    return run_python(_PRELUDE + code)


def test_the_switch_is_left_alone_where_nobody_asks() -> None:
    assert run("run()\nrun(deterministic='0')\nanswer(switch())") is None


def test_the_switch_is_on_where_a_session_asks_and_stays_on() -> None:
    assert run("run(deterministic='1')\nanswer(switch())") == 1


@pytest.mark.parametrize("option", ["0", "1"])
def test_phase_1_sees_the_switch(option: str) -> None:
    code = f"""
from tests.harness.sessions.host_control import HostLibrary
trace = HostLibrary().trace(lambda: run(deterministic={option!r}))
answer([line["deterministic"] for line in trace if line.get("call", "").endswith("GetWorkspaceSize")])
"""
    tried, created = run(code)  # when the node was claimed, and in its Run
    assert [bool(tried), bool(created)] == [option == "1"] * 2


def test_the_switch_is_on_before_an_operator_is_first_used() -> None:
    """CANN 8.5 reads it only then; the first use is the probe of the operator when a session is created."""
    assert run("create_session(model, backend='host', deterministic='1')\nanswer(switch())") == 1


def test_a_session_without_the_operators_turns_nothing_on() -> None:
    code = """
unclaimed = make_model(case.op, case.attributes(), x=(None,) * 6, grad=(None,) * 6)
try:
    create_session(unclaimed, backend="host", deterministic="1")
except Exception:
    pass
answer(switch())
"""
    assert run(code) is None


@pytest.mark.parametrize(("options", "expected"), [({}, 1), ({"deterministic": "0"}, None)])
def test_the_session_option_of_onnxruntime_is_passed_on(options: dict[str, str], expected: int | None) -> None:
    code = f"""
session_options = onnxruntime.SessionOptions()
session_options.use_deterministic_compute = True
run(session_options=session_options, **{options})
answer(switch())
"""
    assert run(code) == expected


@pytest.mark.parametrize("value", ["", "2", "true"])
def test_other_values_are_refused(value: str) -> None:
    case = Case("MaxPoolGradWithArgmaxV3", (2, 3, 6, 6), window([2, 2], [2, 2], [0, 0], [1, 1]))
    model = make_model(case.op, case.attributes(), x=case.x_shape, grad=(2, 3, 3, 3))
    with pytest.raises(SessionError, match=f"option deterministic is '{value}'; it takes 0 or 1"):
        create_session(model, backend="host", deterministic=value)
