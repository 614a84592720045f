# SPDX-License-Identifier: Apache-2.0

"""Releases of CANN that export functions which phase 1 refuses on the product: such a node is not claimed.

The host library acts as one of them by an injected failure of phase 1. CANN 9.0 on Ascend 950 refuses the adaptive
gradients.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.sessions.device_process import STRICT
from tests.harness.sessions.ep_process import run_python

_REFUSED = ("aclnnAdaptiveMaxPool2dBackward", "aclnnAdaptiveMaxPool3dBackward")
CANN_9_0 = {"ACLNN_HOST_FAIL": ",".join(f"{function}GetWorkspaceSize:0:161002" for function in _REFUSED)}

_PRELUDE = """
import ctypes, os, tempfile
import onnxruntime
from tests.runtime.ep_models import Case, make_feeds, make_model, window
from tests.harness.sessions.host_control import HostLibrary
from poolgrad_lowering.runtime import assignment, create_session, get_ep_name, get_library_path, register

ADAPTIVE_2D = Case("AdaptiveMaxPool3DGrad", (2, 3, 7, 8), out=(3, 4))
ADAPTIVE_3D = Case("AdaptiveMaxPool3DGrad", (2, 2, 5, 6, 7), out=(2, 6, 3))
POOL = Case("MaxPool3DGradWithArgmax", (2, 3, 6, 6), window([1, 2, 2], [1, 2, 2], [0, 0, 0], [1, 1, 1]))
library = HostLibrary()

def model_of(case, **options):
    grad = make_feeds(case)[0]["grad"].shape
    return make_model(case.op, case.attributes(), x=case.x_shape, grad=grad, **options)

def verbose():
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 1
    return options

def is_claimed(case, **options):
    "Whether the provider takes the node; its result must be right in any case."
    session = create_session(model_of(case), backend="host", **options)
    feeds, expected = make_feeds(case)
    assert session.run(None, feeds)[0].tobytes() == expected.tobytes()
    return any(node.provider == get_ep_name() for node in assignment(session))

def tries(make):
    "The codes of the calls of phase 1 that this makes, by function."
    calls = library.trace(make)
    return [[call["call"], call["code"]] for call in calls if call.get("call", "").endswith("GetWorkspaceSize")]

def logged(make):
    "What is logged meanwhile."
    with tempfile.TemporaryFile() as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            make()
        finally:
            os.dup2(kept, 2)
        file.seek(0)
        return file.read().decode()
"""


def run(code: str, **environment: str) -> Any:
    return run_python(_PRELUDE + code, **environment)


@pytest.mark.parametrize("mode", [{}, STRICT], ids=["lenient", "strict"])
def test_refused_gradients_run_their_bodies(mode: dict[str, str]) -> None:
    code = """
cases = (ADAPTIVE_2D, ADAPTIVE_3D, POOL)
answer([[is_claimed(case, deterministic="1") for case in cases], library.violations()])
"""
    assert run(code, **CANN_9_0, **mode) == [[False, False, True], []]
    assert run(code, **mode) == [[True, True, True], []]


def test_the_reason_is_logged() -> None:
    log = run("answer(logged(lambda: is_claimed(ADAPTIVE_2D, session_options=verbose())))", **CANN_9_0)
    assert (
        "node 'pool_grad' is left to its function body: this CANN does not run it on Ascend 950: "
        "aclnnAdaptiveMaxPool2dBackwardGetWorkspaceSize failed with 161002 (ACLNN_ERR_PARAM_INVALID)"
    ) in log


def test_custom_operators_fail_the_session_with_the_reason() -> None:
    code = """
options = onnxruntime.SessionOptions()
options.add_session_config_entry("ep.aclnnexecutionprovider.backend", "host")
options.register_custom_ops_library(get_library_path())
model = model_of(ADAPTIVE_2D, with_body=False).SerializeToString()
try:
    onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
except Exception as error:
    answer(str(error))
"""
    assert "this CANN does not run it on Ascend 950: aclnnAdaptiveMaxPool2dBackward" in run(code, **CANN_9_0)


@pytest.mark.parametrize("environment", [STRICT, {**STRICT, **CANN_9_0}], ids=["taken", "refused"])
def test_a_function_is_tried_once_and_nothing_is_left(environment: dict[str, str]) -> None:
    """The probe leaves no object, message or violation, and does not run before a node needs the function."""
    code = """
register()
library.c = ctypes.CDLL(library._library._name)
library.c.aclGetRecentErrMsg.restype = ctypes.c_char_p
def sessions():
    for case in (ADAPTIVE_2D, POOL, ADAPTIVE_2D):
        create_session(model_of(case), backend="host")
before = library.live_objects()
made = tries(sessions)
answer([made, library.live_objects() - before, library.c.aclGetRecentErrMsg(), library.violations()])
"""
    refused = 161002 if "ACLNN_HOST_FAIL" in environment else 0
    tried = [
        ["aclnnAdaptiveMaxPool2dBackwardGetWorkspaceSize", refused],
        ["aclnnMaxPool3dWithArgmaxBackwardGetWorkspaceSize", 0],
    ]
    assert run(code, **environment) == [tried, 0, None, []]


@pytest.mark.parametrize("soc", ["Ascend950PR_9599", "Ascend910B3"])
def test_every_function_takes_what_it_is_tried_with(soc: str) -> None:
    """The smallest call is legal for all functions on all products: no function is refused by mistake."""
    code = """
import json
from poolgrad_lowering.runtime import probing
described = json.loads(probing.describe(get_library_path(), "host"))
answer([[row["functions"], row["missing"], row["refused"]] for row in described["operators"]])
"""
    rows = run(code, ACLNN_HOST_SOC=soc)
    assert len(rows) == 10
    assert all(functions and missing == [] and refused == {} for functions, missing, refused in rows)


@pytest.mark.parametrize("function", ["aclnnAdaptiveMaxPool2dBackwardGetWorkspaceSize", "aclCreateTensor"])
def test_another_failure_is_no_refusal_and_is_not_remembered(function: str) -> None:
    """The error appears when the node runs; an earlier error would leave the node to its function body."""
    code = f"""
register()
library.fail({function!r}, 0, 561112)
session = create_session(model_of(ADAPTIVE_2D), backend="host")
try:
    session.run(None, make_feeds(ADAPTIVE_2D)[0])
except Exception as error:
    message = str(error)
library.heal()
answer([message, is_claimed(ADAPTIVE_2D)])
"""
    message, claimed = run(code)
    assert claimed
    if function == "aclCreateTensor":
        assert "aclCreateTensor returned null" in message
        return
    assert (
        "AdaptiveMaxPool3DGrad node 'pool_grad': aclnnAdaptiveMaxPool2dBackwardGetWorkspaceSize failed with 561112"
    ) in message
    assert "install the CANN operator package" in message


def test_doctor_names_refused_functions() -> None:
    code = """
from poolgrad_lowering.runtime import doctor
from poolgrad_lowering.runtime.diagnosis_text import to_text
answer(to_text(doctor.diagnose()))
"""
    text = run(code, **CANN_9_0)
    line = next(line for line in text.splitlines() if "operator: AdaptiveMaxPool3DGrad" in line)
    assert "runs by" not in line
    for function in _REFUSED:
        assert f"cannot run by {function}: {function}GetWorkspaceSize failed with 161002" in line


def test_doctor_names_the_types_of_a_refused_function() -> None:
    code = """
from poolgrad_lowering.runtime import doctor
from poolgrad_lowering.runtime.diagnosis_text import to_text
answer(to_text(doctor.diagnose()))
"""
    function = "aclnnMaxPool3dWithArgmaxBackward"
    text = run(code, ACLNN_HOST_FAIL=f"{function}GetWorkspaceSize:2:161002")  # the second call has float16
    line = next(line for line in text.splitlines() if "operator: MaxPool3DGradWithArgmax" in line)
    assert f"runs by {function};" in line
    assert f"cannot run by {function} with float16: {function}GetWorkspaceSize failed with 161002" in line


def test_each_element_type_is_tried_once() -> None:
    """A function may take fewer types than the table of its product says: nodes of the others run their bodies."""
    code = """
register()
def claimed(values):
    session = create_session(model_of(POOL, values=values), backend="host")
    return any(node.provider == get_ep_name() for node in assignment(session))
found = []
made = tries(lambda: found.extend(map(claimed, ("float32", "float16", "bfloat16", "float16", "float32"))))
answer([found, made])
"""
    function = "aclnnMaxPool3dWithArgmaxBackwardGetWorkspaceSize"
    second = {"ACLNN_HOST_FAIL": f"{function}:2:161002"}
    assert run(code, **second) == [
        [True, False, True, False, True],
        [[function, refused] for refused in (0, 161002, 0)],
    ]
    assert run(code) == [[True] * 5, [[function, 0]] * 3]
