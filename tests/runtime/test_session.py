# SPDX-License-Identifier: Apache-2.0

"""The Python API: registration, sessions with the provider, and clear errors."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import onnx
import onnx.compose
import onnx.inliner
import onnx.version_converter
import onnxruntime
import pytest

from poolgrad_lowering import lower
from poolgrad_lowering.model.diagnostics.errors import PoolgradError
from poolgrad_lowering.runtime import (
    OnnxRuntimeMissingError,
    SessionError,
    assignment,
    create_session,
    crossings,
    get_backend,
    get_ep_name,
    get_ep_names,
    get_host_library_path,
    get_library_path,
    register,
)
from poolgrad_lowering.runtime.training import session_options
from tests.harness.sessions.ep_process import run_python
from tests.oracles import assert_same_bits
from tests.runtime.ep_models import Case, make_feeds, make_model, window

CASE = Case("MaxPoolGradWithArgmaxV3", (2, 3, 6, 6), window([2, 2], [2, 2], [0, 0], [1, 1]))


@pytest.fixture
def model() -> onnx.ModelProto:
    return make_model(CASE.op, CASE.attributes(), x=CASE.x_shape, grad=(2, 3, 3, 3))


def test_libraries_are_beside_each_other() -> None:
    assert Path(get_library_path()).is_file()
    assert Path(get_host_library_path()).parent == Path(get_library_path()).parent


def test_names() -> None:
    assert get_ep_name() == "AclnnExecutionProvider"
    assert get_ep_names() == [get_ep_name()]


def test_import_does_not_import_onnxruntime() -> None:
    assert run_python("import poolgrad_lowering.runtime\nanswer('onnxruntime' in sys.modules)") is False


def test_registering_twice_is_registering_once() -> None:
    register()
    register()
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == get_ep_name()]
    assert len(devices) == 1


@pytest.mark.parametrize("form", ["proto", "bytes", "str", "path", "result"])
def test_model_in_every_form(model: onnx.ModelProto, form: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    forms: dict[str, Any] = {
        "proto": model,
        "bytes": model.SerializeToString(),
        "str": str(path),
        "path": path,
        "result": lower(model),
    }
    feeds, expected = make_feeds(CASE)
    assert_same_bits(create_session(forms[form]).run(None, feeds)[0], expected)


def test_assignment_names_every_node(model: onnx.ModelProto) -> None:
    node = onnx.helper.make_node("Relu", ["y"], ["z"], name="relu")
    model.graph.node.append(node)
    model.graph.output[0].name = "z"
    assert sorted(assignment(create_session(model, backend="host"))) == [
        (get_ep_name(), "npu", CASE.op, "pool_grad"),
        ("CPUExecutionProvider", "", "Relu", "relu"),
    ]


def test_crossings(model: onnx.ModelProto) -> None:
    """x → first → pool_grad → last → end: the nodes beside the provider's, once each, in the model's order."""
    node = model.graph.node[0]
    node.input[0], node.output[0] = "a", "b"
    make = onnx.helper.make_node
    model.graph.node.insert(0, make("Abs", ["x"], ["a"], name="first"))
    model.graph.node.extend(
        [make("Neg", ["b"], ["c"], name="last"), make("Abs", ["c"], ["d"], name="end"), make("Add", ["d", "b"], ["y"])]
    )
    assert [node.name for node in crossings(create_session(model, backend="host"), model)] == ["first", "last"]


def test_assignment_of_a_session_that_did_not_record_it(model: onnx.ModelProto) -> None:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    with pytest.raises(SessionError, match="record_ep_graph_assignment_info"):
        assignment(session)


def test_backend_of_a_session(model: onnx.ModelProto) -> None:
    assert get_backend(create_session(model, backend="host")) == "host"
    assert get_backend(create_session(model)) == get_backend()


def test_unknown_backend(model: onnx.ModelProto) -> None:
    with pytest.raises(SessionError, match="backend is 'gpu'; it takes auto, cann or host"):
        create_session(model, backend="gpu")


def test_unknown_option(model: onnx.ModelProto) -> None:
    known = "backend, check_indices, deterministic, device_id, memory"
    with pytest.raises(SessionError, match=f"'bakend' is no provider option; there are: {known}"):
        create_session(model, bakend="host")


def test_missing_cann(model: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    with pytest.raises(SessionError, match="ASCEND_HOME_PATH is not set"):
        create_session(model, backend="cann")


def test_options_with_a_provider_are_refused(model: onnx.ModelProto) -> None:
    options = onnxruntime.SessionOptions()
    create_session(model, session_options=options)
    with pytest.raises(SessionError, match="has providers already"):
        create_session(model, session_options=options)


def test_missing_model(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match=r"none\.onnx"):
        create_session(tmp_path / "none.onnx")


def test_errors_are_of_one_family() -> None:
    assert issubclass(SessionError, PoolgradError)
    assert issubclass(SessionError, RuntimeError)


def test_onnxruntime_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "__version__", "1.23.2")
    with pytest.raises(OnnxRuntimeMissingError, match=r"onnxruntime 1\.23\.2.*pip install 'onnxruntime>=1\.24\.1'"):
        register()


def test_onnxruntime_that_is_not_there() -> None:
    code = """
sys.modules["onnxruntime"] = None
from poolgrad_lowering.runtime import OnnxRuntimeMissingError, register
try:
    register()
except OnnxRuntimeMissingError as error:
    answer(str(error))
"""
    assert "pip install 'onnxruntime>=1.24.1'" in run_python(code)


def test_session_of_plain_onnxruntime(model: onnx.ModelProto) -> None:
    """Registered once, the provider can be used without this package's create_session."""
    register()
    options = onnxruntime.SessionOptions()
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == get_ep_name()]
    options.add_provider_for_devices(devices, {})
    feeds, expected = make_feeds(CASE)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    assert get_backend(session) == get_backend()
    assert_same_bits(session.run(None, feeds)[0], expected)
    # onnxruntime's Python layer answers some status codes of a Run by running it on the CPU instead.
    with pytest.raises(Exception, match=f"{CASE.op} node 'pool_grad'.*outside"):
        session.run(None, {**feeds, "argmax": feeds["argmax"] + 36})
    assert session.get_providers()[0] == get_ep_name()


def test_a_session_without_a_node_on_the_provider(model: onnx.ModelProto, tmp_path: Path) -> None:
    """Each form of a model, and both causes."""
    inlined = onnx.inliner.inline_local_functions(model)
    onnx.save(inlined, tmp_path / "inlined.onnx")
    for form in (inlined, inlined.SerializeToString(), tmp_path / "inlined.onnx"):
        with pytest.warns(RuntimeWarning, match="1 npu gradient were inlined: no node of domain npu is left"):
            create_session(form, backend="host")
    with pytest.raises(SessionError, match="no node of the session runs on AclnnExecutionProvider: the fun"):
        create_session(inlined, backend="host", require_nodes=True)
    [node] = model.graph.node
    [pads] = [attribute for attribute in node.attribute if attribute.name == "pads"]
    pads.ints[0] = 5  # which aclnn does not take
    with pytest.warns(RuntimeWarning, match="it claimed none of the model's nodes of domain npu"):
        create_session(model, backend="host")


def test_a_model_that_a_tool_damaged(model: onnx.ModelProto) -> None:
    """onnxruntime's error is followed by the cause, and also a provider that claims no node has one."""
    converted = onnx.version_converter.convert_version(model, 21)
    with pytest.raises(SessionError, match=r"not a registered function.*; 1 npu node without a function body"):
        create_session(converted, backend="host")
    renamed = onnx.compose.add_prefix(model, "p_")
    with pytest.warns(RuntimeWarning, match=f"domain npu has no operator p_{CASE.op}"):
        create_session(renamed, backend="host")


def test_what_is_no_model() -> None:
    with pytest.raises(SessionError, match=r"cannot make a session on \w+: [^;]*$"):
        create_session(b"no model", backend="host")


def test_no_warning_where_a_node_runs_on_the_provider(model: onnx.ModelProto) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        create_session(model, backend="host", require_nodes=True)


def test_further_providers(model: onnx.ModelProto) -> None:
    session = create_session(model, backend="host", providers=[("CPUExecutionProvider", {})])
    assert session.get_providers() == [get_ep_name(), "CPUExecutionProvider"]
    assert create_session(model, backend="host", providers=None).get_providers()[0] == get_ep_name()


@pytest.mark.parametrize("providers", [["CANNExecutionProvider"], [("CANNExecutionProvider", {})]])
def test_a_provider_that_this_onnxruntime_lacks(model: onnx.ModelProto, providers: Any) -> None:
    with pytest.raises(SessionError, match=r"no provider 'CANNExecutionProvider': it has .*; pip install onnxruntime-"):
        create_session(model, providers=providers)


def test_a_provider_that_is_no_list(model: onnx.ModelProto) -> None:
    with pytest.raises(TypeError, match=r"providers is a str; it takes a list, e\.g\. \['CPUExecutionProvider'\]"):
        create_session(model, providers="CPUExecutionProvider")


def test_training_options_need_an_onnxruntime_that_trains() -> None:
    with pytest.raises(
        OnnxRuntimeMissingError, match=r"cannot train here \(No module named 'onnxruntime.training.*pip"
    ):
        session_options()
