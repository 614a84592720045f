# SPDX-License-Identifier: Apache-2.0

"""onnxruntime-training trains a lowered graph exactly as it trains the original."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import poolgrad_lowering
from models.ort_nets import forward
from poolgrad_lowering.dialect.body_windows import onnx_window
from poolgrad_lowering.runtime import SessionError, get_library_path
from poolgrad_lowering.runtime.training import session_options
from tests.training.training_runs import NET, SEED, make_artifacts, train

pytestmark = pytest.mark.training

GRADIENT = "MaxPool3DGradWithArgmax"
POOL = "MaxPool3DWithArgmaxV2"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The artifacts, and the training model lowered: whole, without its bodies, and with its pools left alone."""
    folder = tmp_path_factory.mktemp("artifacts")
    make_artifacts(folder)
    original = onnx.load(folder / "training_model.onnx")
    lowered = poolgrad_lowering.lower(original).model
    onnx.save(lowered, folder / "lowered.onnx")
    del lowered.functions[:]
    onnx.save(lowered, folder / "bare.onnx")
    onnx.save(poolgrad_lowering.lower(original, forward=False).model, folder / "gradients.onnx")
    return folder


def operators(path: Path) -> list[str]:
    return sorted(node.op_type for node in onnx.load(path).graph.node if node.domain == "npu")


def test_both_pools_are_lowered(folder: Path) -> None:
    assert operators(folder / "lowered.onnx") == [GRADIENT, GRADIENT, POOL, POOL]
    assert operators(folder / "gradients.onnx") == [GRADIENT, GRADIENT]


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("lowered.onnx", session_options),
        ("gradients.onnx", session_options),
        ("bare.onnx", session_options),  # nothing but the custom operators can run it
        ("lowered.onnx", onnxruntime.SessionOptions),  # nothing but the bodies
        ("gradients.onnx", onnxruntime.SessionOptions),
    ],
)
def test_losses_and_weights_are_those_of_the_original(folder: Path, model: str, options: Any) -> None:
    original = train(folder, "training_model.onnx", onnxruntime.SessionOptions())
    assert len(set(original.losses)) == len(original.losses)
    assert train(folder, model, options()) == original


@pytest.mark.parametrize("stated", [None, 13])
def test_lowered_artifacts_train(folder: Path, tmp_path: Path, stated: int | None) -> None:
    """As they are, and as a newer onnx would write them: in an IR version that onnxruntime-training does not load."""
    source = tmp_path / "artifacts"
    source.mkdir()
    for name in ("training_model.onnx", "eval_model.onnx", "optimizer_model.onnx"):
        model = onnx.load(folder / name)
        model.ir_version = model.ir_version if stated is None else stated
        onnx.save(model, source / name)
    (source / "checkpoint").write_bytes((folder / "checkpoint").read_bytes())
    poolgrad_lowering.lower_artifacts(source, tmp_path / "lowered")
    assert operators(tmp_path / "lowered" / "training_model.onnx") == [GRADIENT, GRADIENT, POOL, POOL]
    original = train(folder, "training_model.onnx", onnxruntime.SessionOptions())
    assert train(tmp_path / "lowered", "training_model.onnx", session_options()) == original


def test_without_bodies_and_without_operators_nothing_trains(folder: Path) -> None:
    with pytest.raises(Exception, match=rf"npu.{POOL}|{POOL}.*is not a registered"):
        train(folder, "bare.onnx", onnxruntime.SessionOptions())


LARGE = (4, 1, 32, 32)
POOL_ATTRIBUTES = {
    "ksize": [1, 2, 2],
    "strides": [1, 2, 2],
    "pads": [0, 0, 0],
    "dilation": [1, 1, 1],
    "ceil_mode": 0,
    "data_format": "NCDHW",
    "dtype": 3,
    **onnx_window([2, 2], [2, 2], ([0, 0], [0, 0]), [1, 1], ceil=False),
}
FIRST_POOLS = {
    "onnx": helper.make_node("MaxPool", ["image"], ["x"], kernel_shape=[2, 2], strides=[2, 2]),
    "npu": helper.make_node(POOL, ["image"], ["x", "argmax"], domain="npu", **POOL_ATTRIBUTES),
}


def with_pool_first(pool: onnx.NodeProto) -> onnx.ModelProto:
    """NET behind a pool of twice as large images, which needs no gradient."""
    model = forward(NET, SEED)
    model.graph.node.insert(0, pool)
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", *LARGE[1:]]))
    model.opset_import.append(helper.make_opsetid("npu", 1))
    return model


def test_artifacts_of_a_model_that_holds_an_operator(tmp_path: Path) -> None:
    outcomes = []
    for name, pool in FIRST_POOLS.items():
        folder = tmp_path / name
        make_artifacts(folder, with_pool_first(pool), custom_op_library=get_library_path())
        outcomes.append(train(folder, "training_model.onnx", session_options(), LARGE))
    assert outcomes[0] == outcomes[1]
    assert (
        operators(tmp_path / "npu" / "training_model.onnx") == operators(tmp_path / "npu" / "eval_model.onnx") == [POOL]
    )


def test_options_are_extended() -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    assert session_options(backend="host", options=options) is options
    assert options.get_session_config_entry("ep.aclnnexecutionprovider.backend") == "host"


@pytest.mark.parametrize(
    ("backend", "message"),
    [("gpu", "backend is 'gpu'; it takes auto, cann or host"), ("cann", "ASCEND_HOME_PATH is not set")],
)
def test_backend_that_is_not_there(backend: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    with pytest.raises(SessionError, match=message):
        session_options(backend=backend)
