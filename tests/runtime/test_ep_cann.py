# SPDX-License-Identifier: Apache-2.0

"""The cann backend: how CANN's libraries are found, options by SoC, and calls with operands in device memory."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from poolgrad_lowering.model.diagnostics.errors import SessionError
from poolgrad_lowering.runtime import get_host_library_path, get_library_path
from poolgrad_lowering.runtime.cann_provider import note_precision, require_one_precision, set_defaults
from tests.harness.sessions.ep_process import run_python

_LIBRARIES = ("libacl_rt.so", "libnnopbase.so", "libopapi_nn.so")

_PRELUDE = """
from tests.runtime.ep_models import Case, make_feeds, make_model, window
from poolgrad_lowering.runtime import SessionError, assignment, create_session, get_backend, get_ep_name

case = Case("MaxPool3DGradWithArgmax", (2, 3, 6, 6), window([1, 2, 2], [1, 2, 2], [0, 0, 0], [1, 1, 1]))
model = make_model(case.op, case.attributes(), x=case.x_shape, grad=(2, 3, 3, 3))
def open_session(backend):
    try:
        return create_session(model, backend=backend)
    except SessionError as error:
        return str(error)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A complete ASCEND_HOME_PATH."""
    folder = tmp_path / "cann" / "lib64"
    folder.mkdir(parents=True)
    for name in _LIBRARIES:
        (folder / name).symlink_to(get_host_library_path())
    return folder.parent


def run(code: str, **environment: str) -> Any:
    """The code's answer; it may use case, model and open_session."""
    return run_python(_PRELUDE + code, **environment)


def replace(link: Path, target: Path | str) -> None:
    link.unlink()
    link.symlink_to(target)


def cann_error(home: Path | None, **environment: str) -> str:
    """The error of a session with backend cann, after a check that auto chooses the host."""
    code = "answer([get_backend(), open_session('cann')])"
    if home is not None:
        environment["ASCEND_HOME_PATH"] = str(home)
    backend, message = run(code, **environment)
    assert backend == "host"
    assert isinstance(message, str)
    return message


def test_auto_takes_cann_where_a_device_answers(home: Path) -> None:
    code = """
import onnxruntime
sessions = [open_session(backend) for backend in ("auto", "cann", "host")]
(device,) = [device for device in onnxruntime.get_ep_devices() if device.ep_name == get_ep_name()]
answer([[get_backend(session) for session in sessions], device.device.type.name, hex(device.device.vendor_id)])
"""
    assert run(code, ASCEND_HOME_PATH=str(home)) == [["cann", "cann", "host"], "NPU", "0x19e5"]


def test_staged_calls_compute_the_gradient(home: Path) -> None:
    code = """
from tests.runtime.test_ep_gradients import CASES
wrong = []
for name, case in CASES.items():
    for values in ("float32", "float16", "bfloat16"):
        for indices in ("int32", "int64"):
            feeds, expected = make_feeds(case, values, indices)
            model = make_model(case.op, case.attributes(indices), x=[None] * len(case.x_shape),
                               grad=[None] * len(case.x_shape), values=values, indices=indices)
            session = create_session(model, backend="cann")
            assert any(node.provider == get_ep_name() for node in assignment(session))
            for _ in range(2):  # the second call reuses stream and buffers
                (y,) = session.run(None, feeds)
                if y.tobytes() != expected.tobytes():
                    wrong.append([name, values, indices])
answer(wrong)
"""
    assert run(code, ASCEND_HOME_PATH=str(home)) == []


@pytest.mark.parametrize("indices", ["int32", "int64"])
def test_indices_are_checked_before_a_device_sees_them(home: Path, indices: str) -> None:
    code = f"""
feeds, _ = make_feeds(case, indices="{indices}")
model = make_model(case.op, case.attributes(), x=case.x_shape, grad=(2, 3, 3, 3), indices="{indices}")
session = create_session(model, backend="cann")
messages = []
for bad in (-1, 36, 2**31 - 1):
    feeds["argmax"][1, 2, 0, 1] = bad
    try:
        session.run(None, feeds)
    except Exception as error:
        messages.append(str(error))
answer(messages)
"""
    messages = run(code, ASCEND_HOME_PATH=str(home))
    for bad, message in zip((-1, 36, 2**31 - 1), messages, strict=True):
        assert f"'pool_grad': argmax holds {bad} at flat position 46, outside the plane of 36" in message


def test_error_without_cann() -> None:
    assert "ASCEND_HOME_PATH is not set; source the set_env.sh" in cann_error(None)


def test_error_where_the_folder_is_missing(tmp_path: Path) -> None:
    assert f"no folder {tmp_path}/lib64" in cann_error(tmp_path)


@pytest.mark.parametrize(
    ("library", "expected"),
    [
        ("libacl_rt.so", "libacl_rt.so or libascendcl.so is missing"),
        ("libnnopbase.so", "libnnopbase.so is missing"),
        ("libopapi_nn.so", "there is no library, such as libopapi_nn.so"),
    ],
)
def test_error_names_the_missing_library(home: Path, library: str, expected: str) -> None:
    (home / "lib64" / library).unlink()
    assert expected in cann_error(home)


@pytest.mark.parametrize(
    ("library", "symbol"),
    [
        ("libacl_rt.so", "aclInit"),
        ("libnnopbase.so", "aclCreateTensor"),
        ("libopapi_nn.so", "aclnnMaxPool3dWithArgmaxBackward"),
    ],
)
def test_error_names_the_missing_symbol(home: Path, library: str, symbol: str) -> None:
    replace(home / "lib64" / library, get_library_path())  # a library without a symbol of CANN
    message = cann_error(home)
    assert symbol in message
    assert library in message


def test_error_of_a_file_that_is_no_library(home: Path) -> None:
    (home / "lib64" / "libacl_rt.so").unlink()
    (home / "lib64" / "libacl_rt.so").write_text("nothing")
    assert "cannot open" in cann_error(home)


@pytest.mark.parametrize("stubs", ["devlib", "stub"])
def test_link_time_stubs_are_not_opened(home: Path, stubs: str) -> None:
    folder = home / stubs
    folder.mkdir()
    for name in _LIBRARIES:
        (folder / name).write_bytes(Path(get_host_library_path()).read_bytes())
        replace(home / "lib64" / name, folder / name)
    assert "libacl_rt.so or libascendcl.so is missing" in cann_error(home)


def test_chip_without_the_operators_leaves_auto_on_the_host(home: Path) -> None:
    code = "answer([get_backend(), get_backend(open_session('cann'))])"
    assert run(code, ASCEND_HOME_PATH=str(home), ACLNN_HOST_SOC="Ascend310P3") == ["host", "cann"]


@pytest.mark.parametrize("runtime", ["libacl_rt.so", "libascendcl.so"])
@pytest.mark.parametrize("operators", ["libopapi_nn.so", "libopapi_extra.so", "libopapi.so", "custom", "vendor"])
def test_every_place_of_the_libraries_is_found(home: Path, runtime: str, operators: str) -> None:
    (home / "lib64" / "libacl_rt.so").rename(home / "lib64" / runtime)
    library = home / "lib64" / "libopapi_nn.so"
    places = {
        "custom": home / "custom" / "op_api" / "lib" / "libcust_opapi.so",
        "vendor": home / "opp" / "vendors" / "second" / "op_api" / "lib" / "libcust_opapi.so",
    }
    place = places.get(operators, home / "lib64" / operators)
    place.parent.mkdir(parents=True, exist_ok=True)
    library.rename(place)
    (home / "opp" / "vendors").mkdir(parents=True, exist_ok=True)
    (home / "opp" / "vendors" / "config.ini").write_text("load_priority=first,second\n")
    environment = {
        "ASCEND_HOME_PATH": str(home),
        "ASCEND_CUSTOM_OPP_PATH": f"{home / 'nowhere'}:{home / 'custom'}",
        "ASCEND_OPP_PATH": str(home / "opp"),
    }
    assert run("answer(get_backend(open_session('auto')))", **environment) == "cann"


KEEPS = {"enable_cann_subgraph": "1", "dump_om_model": "0", "precision_mode": "must_keep_origin_dtype"}


@pytest.mark.parametrize("soc", ["Ascend950PR_9599", "Ascend910B1", "Ascend910B4-1", "Ascend910_9391"])
def test_products_with_float32_keep_it(soc: str, caplog: pytest.LogCaptureFixture) -> None:
    options: dict[str, str] = {}
    set_defaults(options, soc)
    assert options == KEEPS
    assert caplog.messages == []


@pytest.mark.parametrize("soc", ["Ascend310P3", "Ascend910A", "Ascend910ProB", "Ascend910PremiumA", "Ascend910B"])
def test_products_without_it_get_float16_where_they_must_and_say_so(soc: str, caplog: pytest.LogCaptureFixture) -> None:
    options: dict[str, str] = {}
    with caplog.at_level(logging.WARNING, "poolgrad_lowering"):
        set_defaults(options, soc)
    assert options["precision_mode"] == "allow_fp32_to_fp16"
    [message] = caplog.messages
    assert message.startswith(f"{soc} has no float32 unit")


def test_what_a_user_sets_stays() -> None:
    given = {"enable_cann_subgraph": "1", "dump_om_model": "1", "precision_mode": "force_fp16", "device_id": "1"}
    options = dict(given)
    set_defaults(options, "Ascend910B1")
    assert options == given


def test_single_operators_need_no_options() -> None:
    options = {"enable_cann_graph": "0"}
    set_defaults(options, "Ascend910B1")
    assert options == {"enable_cann_graph": "0"}


def test_the_whole_graph_or_nothing_is_refused() -> None:
    with pytest.raises(SessionError, match="takes a whole graph or nothing"):
        set_defaults({"enable_cann_subgraph": "0"}, "Ascend910B1")


def test_one_precision_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolgrad_lowering.runtime.cann_provider._of_process", [])
    require_one_precision({"precision_mode": "force_fp16"})
    note_precision({"precision_mode": "force_fp16"})
    require_one_precision({"precision_mode": "force_fp16"})
    with pytest.raises(SessionError, match=r"precision_mode is force_fp16 in this process.*for must_keep"):
        require_one_precision(KEEPS)
