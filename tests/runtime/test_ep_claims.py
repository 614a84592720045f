# SPDX-License-Identifier: Apache-2.0

"""Which nodes the provider claims, where they stand in a model, and that the others run their function bodies."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, parser

from poolgrad_lowering.dialect import function_body
from poolgrad_lowering.runtime import create_session
from tests.heads import head
from tests.oracles import assert_same_bits
from tests.runtime.ep_models import NODE, OPSET, Case, claimed, make_feeds, make_model, window

POOL = Case("MaxPool3DGradWithArgmax", (2, 3, 6, 6), window([1, 2, 2], [1, 2, 2], [0, 0, 0], [1, 1, 1]))
POOL_2D = Case("MaxPoolGradWithArgmaxV3", (2, 3, 6, 6), window([2, 2], [2, 2], [0, 0], [1, 1]))


def model_of(case: Case, **changed: Any) -> onnx.ModelProto:
    """A model of the case with other attributes; None removes one."""
    attributes = {**case.attributes(), **changed}
    kept = {name: value for name, value in attributes.items() if value is not None}
    grad = make_feeds(case)[0]["grad"].shape
    return make_model(case.op, kept, x=case.x_shape, grad=grad)


@pytest.mark.parametrize(
    ("case", "changed"),
    [
        (POOL, {"data_format": "NDHWC"}),
        (POOL, {"ksize": [2, 2]}),
        (POOL, {"ksize": [0, 2, 2]}),
        (POOL, {"strides": [1, 2, -2]}),
        (POOL, {"pads": [0, 0, 2]}),
        (POOL, {"pads": [0, 0, -1]}),
        (POOL, {"dilation": [1, 0, 1]}),
        (POOL, {"ksize": [1, 2, 2**40]}),
        (POOL, {"ksize": list(range(1, 20))}),
        (POOL, {"ksize": 2}),
        (POOL, {"ceil_mode": [1]}),
        (POOL, {"ksize": [1, 3, 2]}),  # gives another size than that of grad
        (Case("AdaptiveMaxPool3DGrad", (2, 3, 3, 4), out=(5, 4)), {}),
        (POOL_2D, {"dtype": 9}),
        (POOL_2D, {"dtype": 4}),
        (POOL_2D, {"data_format": "NHWC"}),
        (POOL_2D, {"data_format": "N" * 200}),
    ],
)
def test_node_that_aclnn_does_not_take_runs_its_body(case: Case, changed: dict[str, Any]) -> None:
    session = create_session(model_of(case, **changed), backend="host")
    assert claimed(session) == []
    feeds, expected = make_feeds(case)
    assert_same_bits(session.run(None, feeds)[0], expected)


@pytest.mark.parametrize("missing", ["ksize", "strides", "pads", "dilation", "ceil_mode", "data_format"])
def test_node_without_an_attribute_is_not_claimed(missing: str) -> None:
    model = model_of(POOL, **{missing: None})
    for function in model.functions:  # the body does not need it
        if missing in function.attribute:
            function.attribute.remove(missing)
    assert claimed(create_session(model, backend="host")) == []


def test_double_is_not_claimed() -> None:
    text = f"""{head(OPSET, "npu", ir=10)}
    g (double[1,1,4] x, double[1,1,2] grad, int32[1,1,2] argmax) => (double[1,1,4] y) {{
      y = npu.AdaptiveMaxPool3DGrad (x, grad, argmax)
    }}
    <domain: "npu", opset_import: ["": {OPSET}]>
    AdaptiveMaxPool3DGrad (x, grad, argmax) => (y) {{ y = Identity (x) }}"""
    assert claimed(create_session(parser.parse_model(text), backend="host")) == []


def test_second_version_of_the_domain_is_not_claimed() -> None:
    model = model_of(POOL)
    model.opset_import[1].version = 2
    assert claimed(create_session(model, backend="host")) == []


def test_unclaimed_node_is_logged_with_the_reason(capfd: pytest.CaptureFixture[str]) -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 1
    create_session(model_of(POOL, pads=[0, 0, 2]), backend="host", session_options=options)
    log = capfd.readouterr().err
    assert f"node '{NODE}' is left to its function body: pads holds 2, more than half of ksize 2" in log
    assert "the session runs on backend host" in log


@pytest.mark.parametrize("taken", [True, False])
def test_nodes_in_the_branches_of_if(taken: bool) -> None:
    attributes = 'ksize=[1,2,2], strides=[1,2,2], pads=[0,0,0], dilation=[1,1,1], ceil_mode=0, data_format="NCDHW"'
    model = parser.parse_model(f"""{head(OPSET, "npu", ir=10)}
    g (bool taken, float[2,3,6,6] x, float[2,3,3,3] grad, int32[2,3,3,3] argmax) => (float[2,3,6,6] y) {{
      y = If (taken) <
        then_branch = t () => (float[2,3,6,6] u) {{ u = npu.MaxPool3DGradWithArgmax <{attributes}> (x, grad, argmax) }},
        else_branch = e () => (float[2,3,6,6] v) {{ v = npu.AdaptiveMaxPool3DGrad (x, grad, argmax) }}
      >
    }}""")
    for op in ("MaxPool3DGradWithArgmax", "AdaptiveMaxPool3DGrad"):
        model.functions.append(function_body(op, OPSET, [TensorProto.FLOAT]))
    session = create_session(model, backend="host")
    assert sorted(claimed(session)) == ["AdaptiveMaxPool3DGrad", "MaxPool3DGradWithArgmax"]
    feeds, expected = make_feeds(POOL)
    assert_same_bits(session.run(None, {**feeds, "taken": np.array(taken)})[0], expected)


def test_node_inside_another_function() -> None:
    model = parser.parse_model(f"""{head(OPSET, "npu", "local", ir=10)}
    g (float[2,3,6,6] x, float[2,3,3,3] grad, int32[2,3,3,3] argmax) => (float[2,3,6,6] y) {{
      y = local.Outer (x, grad, argmax)
    }}
    <domain: "local", opset_import: ["": {OPSET}, "npu": 1]>
    Outer (x, grad, argmax) => (y) {{ half = npu.AdaptiveMaxPool3DGrad (x, grad, argmax)
      y = Add (half, half) }}""")
    model.functions.append(function_body("AdaptiveMaxPool3DGrad", OPSET, [TensorProto.FLOAT]))
    session = create_session(model, backend="host")
    assert claimed(session) == ["AdaptiveMaxPool3DGrad"]
    feeds, expected = make_feeds(POOL)
    assert_same_bits(session.run(None, feeds)[0], 2 * expected)


@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_ALL"])
def test_claimed_at_every_optimisation_level(level: str) -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    assert claimed(create_session(model_of(POOL), backend="host", session_options=options)) == [POOL.op]


def test_many_nodes_of_one_model_keep_their_attributes_apart() -> None:
    cases = [
        Case(POOL.op, (1, 2, 7, 9), window([1, k, k + 1], [1, 2, s], [0, k // 2, 0], [1, 1, 1]))
        for k, s in ((1, 1), (2, 3), (3, 2), (4, 1))
    ]
    models = [make_model(case.op, case.attributes(), x=[None] * 4, grad=[None] * 4) for case in cases]
    merged = onnx.ModelProto()
    merged.CopyFrom(models[0])
    merged.graph.Clear()
    for number, model in enumerate(models):
        merged.graph.MergeFrom(onnx.compose.add_prefix_graph(model.graph, f"{number}_"))
    feeds: dict[str, Any] = {}
    results = []
    for number, case in enumerate(cases):
        case_feeds, expected = make_feeds(case, seed=number)
        feeds |= {f"{number}_{name}": value for name, value in case_feeds.items()}
        results.append(expected)
    session = create_session(merged, backend="host")
    assert claimed(session) == [POOL.op] * 4
    for actual, expected in zip(session.run(None, feeds), results, strict=True):
        assert_same_bits(actual, expected)
