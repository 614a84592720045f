# SPDX-License-Identifier: Apache-2.0

"""The provider registered twice with one onnxruntime: a clear error; the first registration keeps working."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from poolgrad_lowering.runtime import get_host_library_path, get_library_path
from tests.harness.sessions.ep_process import run_python

_PRELUDE = """
import onnxruntime
from tests.runtime.ep_models import Case, make_feeds, make_model, window
from poolgrad_lowering.runtime import create_session, get_ep_name, get_library_path, register

def register_as(name, path):
    "The error of it, or an empty text."
    try:
        onnxruntime.register_execution_provider_library(name, path)
        return ""
    except Exception as error:
        return str(error)

def devices():
    return [device for device in onnxruntime.get_ep_devices() if device.ep_name == get_ep_name()]

def works():
    "Whether a session on all devices of the provider computes the gradient."
    case = Case("MaxPool3DGradWithArgmax", (2, 3, 6, 6), window([1, 2, 2], [1, 2, 2], [0, 0, 0], [1, 1, 1]))
    feeds, expected = make_feeds(case)
    model = make_model(case.op, case.attributes(), x=case.x_shape, grad=(2, 3, 3, 3))
    options = onnxruntime.SessionOptions()
    options.add_provider_for_devices(devices(), {"backend": "host"})
    own = onnxruntime.InferenceSession(model.SerializeToString(), options)
    sessions = [own, create_session(model, backend="host")]
    return all(session.run(None, feeds)[0].tobytes() == expected.tobytes() for session in sessions)
"""


@pytest.fixture(params=["the same file", "a copy"])
def second(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The library to register beside the installed one."""
    if request.param == "the same file":
        return get_library_path()
    for path in (get_library_path(), get_host_library_path()):
        shutil.copy(path, tmp_path)
    return str(tmp_path / Path(get_library_path()).name)


def run(code: str) -> Any:
    return run_python(_PRELUDE + code)


def test_a_second_registration_is_an_error_that_names_the_first(second: str) -> None:
    error, count, right = run(f"register(); answer([register_as('Second', {second!r}), len(devices()), works()])")
    assert f"AclnnExecutionProvider is registered with this onnxruntime already, from {get_library_path()}" in error
    assert "under one name" in error
    assert (count, right) == (1, True)


def test_another_name_or_copy_serves_as_well(second: str) -> None:
    """`register` does nothing if the provider is registered under any name."""
    code = f"""
first = register_as("Mine", {second!r})
register()
answer([first, register_as(get_ep_name(), get_library_path()), works()])
"""
    first, error, right = run(code)
    assert first == ""
    assert f"already, from {second}" in error
    assert right


def test_after_the_end_of_a_registration_there_may_be_another(second: str) -> None:
    code = f"""
register()
onnxruntime.unregister_execution_provider_library(get_ep_name())
answer([register_as("Second", {second!r}), works()])
"""
    assert run(code) == ["", True]
