# SPDX-License-Identifier: Apache-2.0

"""The provider computes every pool of the dialect at every rank and type, bit for bit as the definition says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from poolgrad_lowering.dialect import function_body
from poolgrad_lowering.dialect.op import Maximum
from poolgrad_lowering.runtime import create_session
from tests.oracles import assert_same_bits, pool_gradient, run_ort
from tests.pool_models import ADAPTIVE, CASES, POOL_2D, POOL_3D, PoolCase, pool_model, values_with_ties
from tests.runtime.ep_models import claimed

OPSET = 20
VALUES = {
    "float32": (TensorProto.FLOAT, np.float32),
    "float16": (TensorProto.FLOAT16, np.float16),
    "bfloat16": (TensorProto.BFLOAT16, np.float32),  # of the graph's edges; the values drawn are exact in both
}
INDICES = {"int32": TensorProto.INT32, "int64": TensorProto.INT64}
PLAIN = PoolCase(POOL_2D, (2, 3, 6, 6), (2, 2), (2, 2), (0, 0), (1, 1))
EVEN = PoolCase(ADAPTIVE, (2, 3, 6, 6), output_size=(3, 2))


def open_session(case: PoolCase, x_shape: Any = None, **changed: Any) -> Any:
    attributes = {name: value for name, value in {**case.attributes(), **changed}.items() if value is not None}
    shape = [None] * len(case.x_shape) if x_shape is None else x_shape
    return create_session(pool_model(case.op, attributes, OPSET, shape), backend="host")


def assert_pools(session: Any, case: PoolCase, x: Any, index_type: Any = np.int32) -> None:
    y, argmax = case.expected(x)
    results = session.run(["y", "argmax"], {"x": x})
    assert_same_bits(results[0], y)
    assert_same_bits(results[1], argmax.astype(index_type))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("indices", INDICES)
def test_pool_is_that_of_the_definition(case: PoolCase, values: str, indices: str) -> None:
    element_type, dtype = VALUES[values]
    index_type = INDICES[indices]
    model = pool_model(
        case.op, case.attributes(index_type), OPSET, case.x_shape, element_type=element_type, index_type=index_type
    )
    session = create_session(model, backend="host")
    assert claimed(session) == [case.op]
    assert_pools(session, case, values_with_ties(case.x_shape, dtype), indices)


@pytest.mark.parametrize("case", [PLAIN, CASES["2d in 3d"], EVEN], ids=lambda case: case.op)
def test_nan_outranks_all_and_the_last_wins(case: PoolCase) -> None:
    x = values_with_ties(case.x_shape)
    x[np.random.default_rng(0).random(x.shape) < 0.2] = np.nan
    session = open_session(case)
    assert claimed(session) == [case.op]
    assert_pools(session, case, x)


def test_sizes_may_change_from_run_to_run() -> None:
    for case in (PLAIN, EVEN):
        session = open_session(case, ["N", "C", "H", "W"])
        for x_shape in [(1, 2, 8, 9), (3, 1, 17, 6), (0, 3, 6, 6), (2, 0, 6, 6), (2, 2, 3, 3)]:
            x = values_with_ties(x_shape)
            assert_pools(session, case, x)


@pytest.mark.parametrize(
    ("case", "changed"),
    [
        (PLAIN, {"data_format": "NHWC"}),
        (PLAIN, {"pads": [2, 0]}),
        (PLAIN, {"ksize": [2]}),
        (PLAIN, {"ksize": [0, 2]}),
        (PLAIN, {"ksize": [9, 2]}),
        (PLAIN, {"dilation": [7, 1], "pads": [1, 0], "ksize": [2, 2]}),
        (PLAIN, {"dtype": 9}),  # while the body makes int32
        (PLAIN, {"dtype": 4}),
        (EVEN, {"indices_dtype": 9}),
        (EVEN, {"output_size": [3, 2]}),
        (EVEN, {"output_size": [1, 0, 2]}),
        (EVEN, {"output_size": [2, 3, 2]}),
        (EVEN, {"output_size": [1, 7, 2]}),
        (CASES["2d in 3d"], {"ksize": [2, 3, 2], "pads": [1, 1, 0]}),  # pools an axis that x lacks
        (PLAIN, {"onnx_kernel_shape": [3, 2]}),  # the body would pool by other windows
        (PLAIN, {"onnx_strides": [1, 1]}),
        (PLAIN, {"onnx_pads": [1, 1, 0, 0]}),
        (PLAIN, {"onnx_pads": [0, 0, 2, 2]}),  # more windows
        (PLAIN, {"onnx_pads": [1, 1]}),
        (PLAIN, {"onnx_dilations": [1]}),
        (PLAIN, {"onnx_kernel_shape": [3]}),
        (PLAIN, {"onnx_ceil_mode": None}),
        (PLAIN, {"ksize": None}),
        (EVEN, {"indices_dtype": None}),
    ],
)
def test_node_that_aclnn_does_not_take_is_not_claimed(case: PoolCase, changed: dict[str, Any]) -> None:
    attributes = {name: value for name, value in {**case.attributes(), **changed}.items() if value is not None}
    model = pool_model(case.op, attributes, OPSET, case.x_shape)
    # A body that loads whatever the attributes say.
    [body] = model.functions
    del body.node[:], body.attribute[:], body.attribute_proto[:]
    body.node.append(helper.make_node("Identity", ["x"], ["y"]))
    body.node.append(helper.make_node("Cast", ["x"], ["argmax"], to=TensorProto.INT32))
    assert claimed(create_session(model, backend="host")) == []


@pytest.mark.parametrize(
    ("case", "x_shape", "message"),
    [
        (PLAIN, (2, 3, 1, 6), r"the window along H does not fit into x \(2, 3, 1, 6\)"),
        (PLAIN, (2, 3, 0, 6), r"x \(2, 3, 0, 6\) has planes without elements"),
        (EVEN, (2, 3, 2, 6), r"output_size holds 3, more positions along an axis than x \(2, 3, 2, 6\)"),
        (
            PoolCase(POOL_3D, (1, 1, 8), (2,), (1,), (1,), (2,)),
            (1, 1, 1),
            r"a window along W may lie in the padding of x \(1, 1, 1\)",
        ),
    ],
)
def test_run_with_a_shape_that_does_not_fit(case: PoolCase, x_shape: tuple[int, ...], message: str) -> None:
    session = open_session(case)
    assert claimed(session) == [case.op]
    with pytest.raises(Exception, match=f"{case.op} node 'site': {message}"):
        session.run(None, {"x": np.zeros(x_shape, np.float32)})


def test_pool_and_gradient_in_one_session() -> None:
    """The gradient accepts the argmax of the pool."""
    model = pool_model(PLAIN.op, PLAIN.attributes(), OPSET, PLAIN.x_shape)
    gradient = "MaxPoolGradWithArgmaxV3"
    model.graph.node.append(
        helper.make_node(gradient, ["x", "grad", "argmax"], ["dx"], domain="npu", **PLAIN.attributes())
    )
    model.graph.input.append(helper.make_tensor_value_info("grad", TensorProto.FLOAT, [None] * 4))
    model.graph.output.append(helper.make_tensor_value_info("dx", TensorProto.FLOAT, [None] * 4))
    model.functions.append(function_body(gradient, OPSET, [TensorProto.FLOAT]))
    session = create_session(model, backend="host")
    assert sorted(claimed(session)) == [gradient, PLAIN.op]
    x = values_with_ties(PLAIN.x_shape)
    _, argmax = PLAIN.expected(x)
    grad = np.random.default_rng(0).standard_normal(argmax.shape, np.float32)
    planes = np.arange(6).reshape(2, 3, 1, 1)
    (dx,) = session.run(["dx"], {"x": x, "grad": grad})
    assert_same_bits(dx, pool_gradient(x.shape, grad, planes * 36 + argmax))


def test_a_body_before_a_reshape() -> None:
    """onnxruntime 1.24 fails if it joins the last Reshape of a body, whose sizes are computed, to the model's."""
    case = PoolCase(ADAPTIVE, (2, 3, 6, 6), output_size=(1, 1))
    shape = (2, 3, "height", "width")
    model = pool_model(case.op, case.attributes(), 18, shape, maximum=Maximum.WHOLE)
    model.graph.node[-1].CopyFrom(helper.make_node("Reshape", ["y_cast", "sizes"], ["rows"]))
    model.graph.value_info.append(helper.make_tensor_value_info("y_cast", TensorProto.FLOAT, [2, 3, 1, 1]))
    model.graph.initializer.append(numpy_helper.from_array(np.array([2, 3]), "sizes"))
    model.graph.output[0].name = "rows"
    x = values_with_ties(case.x_shape)
    assert_same_bits(run_ort(model, {"x": x})["rows"], case.expected(x)[0].reshape(2, 3))
