# SPDX-License-Identifier: Apache-2.0

"""The operators as onnxruntime's custom operators, in a session without the execution provider.

Runs on every onnxruntime from 1.19 on: these tests ask for nothing that the training releases lack.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from poolgrad_lowering.runtime import get_library_path
from tests.average_models import AVERAGE_2D, AverageCase, average_feeds, average_model
from tests.average_models import CASES as AVERAGE_CASES
from tests.oracles import assert_same_bits
from tests.pool_models import CASES, PoolCase, pool_model, values_with_ties
from tests.runtime.average_calls import AverageCall
from tests.runtime.ep_models import INDEX_TYPES, VALUE_TYPES, Case, make_feeds, make_model, window

OPSET = 20
ENTRY = "ep.aclnnexecutionprovider."
GRADIENTS = {
    case.op: case
    for case in (
        Case("MaxPool3DGradWithArgmax", (2, 2, 5, 6, 7), window([2, 3, 2], [1, 2, 2], [1, 1, 0], [1, 1, 1])),
        Case("MaxPoolGradWithArgmaxV3", (2, 3, 10, 7), window([3, 3], [3, 2], [1, 0], [1, 1]), ceil_mode=1),
        Case("AdaptiveMaxPool3DGrad", (2, 3, 7, 8), out=(3, 4)),
    )
}
POOLS = {case.op: case for case in (CASES["3d ceil"], CASES["2d"], CASES["adaptive 3d"])}
GRADIENT = GRADIENTS["MaxPool3DGradWithArgmax"]
POOL = CASES["2d in 3d"]


def session_of(model: onnx.ModelProto, **entries: str) -> Any:
    options = onnxruntime.SessionOptions()
    for key, value in entries.items():
        options.add_session_config_entry(ENTRY + key, value)
    options.register_custom_ops_library(get_library_path())
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def gradient_model(case: Case, values: str = "float32", indices: str = "int32", **changed: Any) -> onnx.ModelProto:
    """A model that only an implementation of the operator can run: it has no body."""
    attributes = {name: value for name, value in {**case.attributes(indices), **changed}.items() if value is not None}
    grad = make_feeds(case)[0]["grad"].shape
    return make_model(case.op, attributes, x=case.x_shape, grad=grad, values=values, indices=indices, with_body=False)


def bare_pool_model(case: PoolCase, x_shape: Any = None, **changed: Any) -> onnx.ModelProto:
    """A pool without its body."""
    model = pool_model(case.op, {**case.attributes(), **changed}, OPSET, case.x_shape if x_shape is None else x_shape)
    del model.functions[:]
    return model


@pytest.mark.parametrize("op", GRADIENTS)
@pytest.mark.parametrize("values", VALUE_TYPES)
@pytest.mark.parametrize("indices", INDEX_TYPES)
def test_gradient_is_that_of_the_definition(op: str, values: str, indices: str) -> None:
    feeds, expected = make_feeds(GRADIENTS[op], values, indices)
    session = session_of(gradient_model(GRADIENTS[op], values, indices), backend="host")
    assert_same_bits(session.run(None, feeds)[0], expected)


@pytest.mark.parametrize("op", POOLS)
@pytest.mark.parametrize("values", VALUE_TYPES)
def test_pool_is_that_of_the_definition(op: str, values: str) -> None:
    case = POOLS[op]
    element_type = VALUE_TYPES[values][0]
    dtype = np.float16 if values == "float16" else np.float32
    model = pool_model(case.op, case.attributes(), OPSET, case.x_shape, element_type=element_type)
    del model.functions[:]
    x = values_with_ties(case.x_shape, dtype)
    y, argmax = case.expected(x)
    results = session_of(model, backend="host").run(["y", "argmax"], {"x": x})
    assert_same_bits(results[0], y)
    assert_same_bits(results[1], argmax.astype(np.int32))


def test_operator_wins_over_a_body_of_its_name() -> None:
    model = gradient_model(GRADIENT)
    model.functions.append(
        helper.make_function(
            "npu",
            GRADIENT.op,
            ["x", "grad", "argmax"],
            ["y"],
            [helper.make_node("Neg", ["x"], ["y"])],
            [helper.make_opsetid("", OPSET)],
            list(GRADIENT.attributes()),
        )
    )
    feeds, expected = make_feeds(GRADIENT)
    assert_same_bits(session_of(model).run(None, feeds)[0], expected)


@pytest.mark.parametrize(
    ("x_shape", "inferred"),
    [
        ((2, 3, 9, 8), [2, 3, 5, 7]),
        (("N", "C", 9, 8), ["N", "C", 5, 7]),
        ((None, 3, 9, 8), []),  # an open size without a name cannot be said
        (("N", 3, "H", 8), []),
    ],
)
def test_shapes_after_a_pool_are_known(x_shape: Any, inferred: list[Any]) -> None:
    model = bare_pool_model(POOL, x_shape)
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    session = session_of(model)
    assert [output.shape for output in session.get_outputs()] == [inferred, inferred]
    x = values_with_ties(POOL.x_shape)
    assert_same_bits(session.run(["y"], {"x": x})[0], POOL.expected(x)[0])


@pytest.mark.parametrize("shape", [[2, 2, 5, 6, 7], ["N", 2, 5, "H", 7]])
def test_shapes_after_a_gradient_are_known(shape: list[Any]) -> None:
    model = gradient_model(GRADIENT)
    for axis, size in enumerate(shape):
        if isinstance(size, str):
            model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = size
    model.graph.output[0].type.tensor_type.ClearField("shape")
    assert session_of(model).get_outputs()[0].shape == shape


def test_input_of_unknown_rank() -> None:
    model = gradient_model(GRADIENT)
    model.graph.input[0].type.tensor_type.ClearField("shape")
    feeds, expected = make_feeds(GRADIENT)
    assert_same_bits(session_of(model).run(None, feeds)[0], expected)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"pads": [0, 2, 0]}, "pads holds 2, more than half of ksize 3"),
        ({"ksize": [1, 3]}, "ksize has 2 values, not 3"),
        ({"ksize": [2, 3, 9]}, "along W the window gives"),
        ({"dilation": None}, "attribute dilation: "),
        ({"ceil_mode": [1]}, "attribute ceil_mode: "),
        ({"data_format": "NDHWC"}, "data_format is not NCDHW"),
    ],
)
def test_node_that_aclnn_does_not_take_fails_the_session(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=f"{GRADIENT.op} node 'pool_grad': .*{message}"):
        session_of(gradient_model(GRADIENT, **changed))


def test_run_with_a_shape_that_does_not_fit() -> None:
    session = session_of(bare_pool_model(POOL, ("N", "C", "H", "W")))
    with pytest.raises(Exception, match=f"{POOL.op} node 'site': x .* has planes without elements"):
        session.run(None, {"x": np.zeros((1, 1, 0, 8), np.float32)})


def test_types_that_no_operator_takes() -> None:
    model = gradient_model(GRADIENT)
    for value in (*model.graph.input[:2], model.graph.output[0]):
        value.type.tensor_type.elem_type = TensorProto.DOUBLE
    with pytest.raises(Exception, match=r"tensor\(double\).*pool_grad"):
        session_of(model)


def test_pool_with_int64_argmax_is_refused() -> None:
    """onnxruntime infers types from types: an attribute cannot choose argmax's."""
    model = bare_pool_model(POOL, dtype=9)
    with pytest.raises(Exception, match=f"{POOL.op} node 'site': argmax is not of the type that the attribute dtype"):
        session_of(model)


def test_sessions_share_options() -> None:
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(get_library_path())
    feeds, expected = make_feeds(GRADIENT)
    model = gradient_model(GRADIENT).SerializeToString()
    sessions = [onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]) for _ in range(3)]
    del options, sessions[0]
    for session in sessions:
        assert_same_bits(session.run(None, feeds)[0], expected)


@pytest.mark.parametrize(
    ("backend", "message"),
    [
        ("gpu", "backend is 'gpu'; it takes auto, cann or host"),
        ("cann", "ASCEND_HOME_PATH is not set"),
    ],
)
def test_backend_that_is_not_there(backend: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry(ENTRY + "backend", backend)
    with pytest.raises(Exception, match=message):
        options.register_custom_ops_library(get_library_path())


def test_backend_is_logged_for_every_node(capfd: pytest.CaptureFixture[str]) -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 1
    options.register_custom_ops_library(get_library_path())
    onnxruntime.InferenceSession(
        gradient_model(GRADIENT).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    assert f"{GRADIENT.op} node 'pool_grad' runs on backend host (" in capfd.readouterr().err


def bare_average_model(case: AverageCase, values: str = "float32", *, symbolic: bool = False) -> onnx.ModelProto:
    """The gradient of an average pool without its body."""
    model = average_model(case, OPSET, VALUE_TYPES[values][0], symbolic=symbolic)
    del model.functions[:]
    return model


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("values", VALUE_TYPES)
@pytest.mark.parametrize(
    "name", ["1d", "2d", "3d, ceil, padding counts", "adaptive 2d", "adaptive 3d", "adaptive, shape"]
)
def test_gradients_of_average_pools(name: str, values: str, symbolic: bool) -> None:
    case = AVERAGE_CASES[name]
    model = bare_average_model(case, values, symbolic=symbolic)
    dtype = VALUE_TYPES[values][1]
    grad = np.random.default_rng(0).standard_normal(case.grad_shape).astype(dtype)
    fed = grad.astype(np.float32) if values == "bfloat16" else grad
    (y,) = session_of(model, backend="host").run(None, average_feeds(case, model, fed))
    assert_same_bits(y.astype(dtype), AverageCall(case).expected(grad))


def test_shape_after_a_gradient_with_the_shape_of_x() -> None:
    case = AVERAGE_CASES["adaptive, shape"]
    model = bare_average_model(case)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    assert session_of(model).get_outputs()[0].shape == list(case.x_shape)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"pads": [1, 1, 2, 2]}, "pads holds 2, more than half of ksize 2"),
        ({"ksize": [3, 2]}, "ksize has 2 values, not 4"),
        ({"onnx_divisor": 3.0}, "onnx_divisor is not divisor_override"),
        ({"onnx_divisor": None}, "attribute onnx_divisor: "),
        ({"exclusive": None}, "attribute exclusive: "),
    ],
)
def test_average_that_aclnn_does_not_take_fails_the_session(changed: dict[str, Any], message: str) -> None:
    model = bare_average_model(AVERAGE_CASES["2d"])
    [node] = [node for node in model.graph.node if node.op_type == AVERAGE_2D]
    for attribute in [attribute for attribute in node.attribute if attribute.name in changed]:
        node.attribute.remove(attribute)
    node.attribute.extend(helper.make_attribute(name, value) for name, value in changed.items() if value is not None)
    with pytest.raises(Exception, match=f"{AVERAGE_2D} node 'site': .*{message}"):
        session_of(model)
