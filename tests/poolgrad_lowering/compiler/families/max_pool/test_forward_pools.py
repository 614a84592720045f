# SPDX-License-Identifier: Apache-2.0

"""Forward pools that move with their gradients: text in, text out, the same bits. `test_forward_stays`: the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, parser

from poolgrad_lowering import lower
from tests.graphs import Written
from tests.heads import head
from tests.oracles import assert_same_bits, run_ort, run_reference
from tests.patterns import aten_graphs
from tests.patterns.lookalikes import maxpoolgrad, scatter
from tests.patterns.lowering_checks import TARGETS, check_same_results, check_well_formed, random_feeds
from tests.pool_graphs import ort_gradient, parse, torch_gradient
from tests.pool_graphs import random_feeds as small_feeds

OP_3D, OP_2D = "MaxPool3DWithArgmaxV2", "MaxPoolWithArgmaxV3"


def check_moved(
    source: str | ModelProto, written: Written, *, target: str = "atlas-a2", feeds: dict[str, Any] | None = None
) -> None:
    """Assert that every pool moves, that the recorded nodes are left, and that the bits are the same."""
    model = parser.parse_model(source) if isinstance(source, str) else source
    result = lower(model, target=target)
    assert all(anchor.forward_op and anchor.forward_code is None for anchor in result.report.lowered)
    written(model, result.model)
    check_same_results(model, result.model, feeds)
    check_well_formed(model, result.model, target)


# -- what moves


OVER_HALVES = maxpoolgrad.gradient(
    inputs="float16[2,3,9,12] x, float16[2,3,5,6] dy", outputs="float16[2,3,5,6] y, float16[2,3,9,12] dx"
)
SYMBOLIC = maxpoolgrad.gradient(
    inputs="float[N,C,H,W] x, float[N,C,OH,OW] dy", outputs="float[N,C,OH,OW] y, float[N,C,H,W] dx"
)
MOVED = {
    "scattered": scatter.gradient(),
    "max_pool_grad": maxpoolgrad.gradient(),
    # Nodes that only compute arguments of the forward node are removed with it.
    "pytorch_operators_and_their_arguments": aten_graphs.max_pool_gradient(),
    "adaptive": aten_graphs.adaptive_gradient(),
    "adaptive_dividing": aten_graphs.adaptive_gradient("3,3"),
    "adaptive_with_more_windows_than_elements": aten_graphs.adaptive_gradient("11,5"),
    "float16": OVER_HALVES,
    "bfloat16": OVER_HALVES.replace("float16", "bfloat16"),
    "symbolic_sizes": SYMBOLIC,
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", MOVED.values(), ids=MOVED)
def test_moved(source: str, target: str, written: Written) -> None:
    check_moved(source, written, target=target)


def test_symbolic_sizes_rounded_up(written: Written) -> None:
    ceil = parser.parse_model(SYMBOLIC.replace("strides", "ceil_mode=1, strides"))
    feeds = {"x": random_feeds(ceil)["x"], "dy": np.arange(210, dtype=np.float32).reshape(2, 3, 5, 7)}
    check_moved(ceil, written, feeds=feeds)


def test_unequal_pads_whose_windows_the_target_has() -> None:
    """Windows of 3 with stride 2 and pads (0, 1) over 8 and 12 elements are those without padding, rounded up."""
    source = (
        head(17)
        + """
        g (float[2,3,8,12] x, float[2,3,4,6] dy) => (float[2,3,4,6] y, float[2,3,8,12] dx) {
            y, i = MaxPool <kernel_shape=[3,3], strides=[2,2], auto_pad="SAME_UPPER"> (x)
            dx = MaxPoolGrad (dy, i)
        }"""
    )
    [anchor] = lower(parser.parse_model(source)).report.anchors
    assert anchor.attributes is not None
    assert anchor.attributes["ksize"] == [1, 4, 4]  # the gradient's windows are wider, the pool's are not
    moved = lower(parser.parse_model(source)).model
    [pool] = [node for node in moved.graph.node if node.op_type == OP_3D]
    values = {attribute.name: helper.get_attribute_value(attribute) for attribute in pool.attribute}
    assert (values["ksize"], values["pads"], values["ceil_mode"]) == ([1, 3, 3], [0, 0, 0], 1)
    assert (values["onnx_pads"], values["onnx_ceil_mode"]) == ([0, 0, 1, 1], 0)  # as the body pools
    check_same_results(parser.parse_model(source), moved)


@pytest.mark.parametrize("opset", range(10, 24))
def test_every_opset_with_a_body(opset: int) -> None:
    for x_shape, attributes in (
        ([2, 3, 6, 7], {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 0]}),
        ([2, 3, 8], {"kernel_shape": [3], "strides": [2], "pads": [1, 1], "ceil_mode": 1}),
        ([1, 2, 4, 5, 6], {"kernel_shape": [2, 2, 2], "strides": [2, 1, 2]}),
    ):
        model = ort_gradient(x_shape, opset=opset, **attributes)
        feeds = small_feeds(model)
        expected = run_reference(model, feeds)["dX"]
        for target in ("atlas-a2", "ascend950"):
            result = lower(model, target=target)
            assert [anchor.forward_code for anchor in result.report.anchors] == [None]
            assert [node.domain for node in result.model.graph.node] == ["npu", "npu"]
            assert_same_bits(run_ort(result.model, feeds)["dX"], expected)


def test_not_a_number_and_infinities() -> None:
    """The bodies follow ONNX; what the NPU makes of them is in docs/proofs.md."""
    pytest.importorskip("onnxruntime")
    model = parser.parse_model(scatter.gradient())
    feeds = random_feeds(model)
    x = feeds["x"].reshape(-1)
    x[::7], x[3::11], x[: 2 * 12] = np.nan, np.inf, -np.inf
    for target in TARGETS:
        check_same_results(model, lower(model, target=target).model, feeds, runners=[run_ort])


# -- scopes and names

IN_BRANCH = """g (float[2,3,8,8] X, float[2,3,4,4] dY, bool c) => (float[2,3,8,8] dX) {
    Y, I = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(X)
    dX = If(c) <
        then_branch = yes () => (float[2,3,8,8] T) { T = MaxPoolGrad(dY, I) },
        else_branch = no () => (float[2,3,8,8] E) { E = %s }
    >
}"""
BRANCHES = """g (float[2,3,8,8] X, float[2,3,4,4] dY, bool c) => (float[2,3,8,8] dX) {
    dX = If(c) <
        then_branch = yes () => (float[2,3,8,8] T) {
            Y, I = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(X)
            T = MaxPoolGrad(dY, I)
        },
        else_branch = no () => (float[2,3,8,8] E) { E = Identity(X) }
    >
}"""
IN_FUNCTION = """<domain: "l", opset_import: ["": 16]>
f (P, dQ) => (Q, dP) {
    Z = Cast<to = 1>(P)
    Q, I = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(Z)
    dP = MaxPoolGrad(dQ, I)
}"""
CALL = "g (float[2,3,8,8] X, float[2,3,4,4] dY) => (float[2,3,4,4] Y, float[2,3,8,8] dX) { Y, dX = l.f(X, dY) }"


def expected_feeds() -> tuple[dict[str, Any], Any]:
    model = ort_gradient([2, 3, 8, 8], kernel_shape=[2, 2], strides=[2, 2])
    feeds = small_feeds(model)
    return feeds, run_reference(model, feeds)["dX"]


def branch_of(model: ModelProto, name: str) -> onnx.GraphProto:
    [graph] = [attribute.g for attribute in model.graph.node[-1].attribute if attribute.name == name]
    return graph


@pytest.mark.parametrize("other", ["Identity(X)", "MaxPoolGrad(dY, I)"])
def test_a_gradient_in_a_branch_of_a_captured_pool(other: str) -> None:
    model = parse(IN_BRANCH % other)
    moved = lower(model).model
    pool, _ = moved.graph.node
    assert (pool.op_type, list(pool.output)) == (OP_3D, ["Y", "Y/argmax"])
    [gradient] = branch_of(moved, "then_branch").node
    assert list(gradient.input) == ["X", "dY", "Y/argmax"]
    check_well_formed(model, moved, "atlas-a2")
    feeds, expected = expected_feeds()
    assert_same_bits(run_ort(moved, {**feeds, "c": np.array(True)})["dX"], expected)


def test_a_pool_in_a_branch() -> None:
    model = parse(BRANCHES)
    moved = lower(model).model
    assert [node.op_type for node in branch_of(moved, "then_branch").node] == [OP_3D, "MaxPool3DGradWithArgmax"]
    check_well_formed(model, moved, "atlas-a2")
    feeds, expected = expected_feeds()
    assert_same_bits(run_ort(moved, {**feeds, "c": np.array(True)})["dX"], expected)


def test_a_pool_in_a_function() -> None:
    moved = lower(parse(CALL, imports='"l": 1', functions=IN_FUNCTION)).model
    onnx.checker.check_model(moved)
    assert [node.op_type for node in moved.functions[0].node] == ["Cast", OP_3D, "MaxPool3DGradWithArgmax"]
    assert [entry.domain for entry in moved.functions[0].opset_import] == ["", "npu"]
    feeds, expected = expected_feeds()
    assert_same_bits(run_ort(moved, feeds)["dX"], expected)


def test_new_names_are_new() -> None:
    """Every name of the model is taken, also one in a branch; the declaration of the Indices goes, the rest stays."""
    model = ort_gradient([2, 3, 4, 4], kernel_shape=[2, 2], strides=[2, 2])
    model.graph.node.add(op_type="Relu", input=["X"], output=["Y/argmax"], name=f"Y/{OP_3D}")
    for name, kind in (("Y", TensorProto.FLOAT), ("I", TensorProto.INT64), ("Y/argmax_2", TensorProto.FLOAT)):
        model.graph.value_info.append(helper.make_tensor_value_info(name, kind, [2, 3, 2, 2]))
    moved = lower(model).model
    pool = moved.graph.node[0]
    assert (pool.name, list(pool.output)) == (f"Y/{OP_3D}_2", ["Y", "Y/argmax_3"])
    assert [value.name for value in moved.graph.value_info] == ["Y", "Y/argmax_2"]
    feeds = small_feeds(model)
    assert_same_bits(run_ort(moved, feeds)["dX"], run_reference(model, feeds)["dX"])


def test_provenance() -> None:
    model = torch_gradient([2, 3, 4, 4], kernel_shape=[2, 2], strides=[2, 2])
    model.graph.node[0].name = "pool"
    pool, gradient = lower(model).model.graph.node
    entries = [{entry.key: entry.value for entry in node.metadata_props} for node in (pool, gradient)]
    assert entries == [
        {"poolgrad.pattern": "forward", "poolgrad.replaced": '["pool"]'},
        {
            "poolgrad.pattern": "torch_scatter_add",
            "poolgrad.site": "main:sums",
            "poolgrad.replaced": '["Y1", "base", "local", "index", "updates", "zeros", "sums", "dX"]',
        },
    ]
