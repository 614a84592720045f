# SPDX-License-Identifier: Apache-2.0

"""Forward pools that move: with Indices that are only measured, and to names that are free."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper

from poolgrad_lowering import lower
from tests.oracles import assert_same_bits, run_ort, run_reference
from tests.patterns.lowering_checks import check_well_formed
from tests.pool_graphs import ort_gradient, random_feeds, torch_gradient

OP_3D = "MaxPool3DWithArgmaxV2"


def measured_in_the_graph(model: ModelProto, op_type: str) -> None:
    model.graph.node.append(helper.make_node(op_type, ["I"], ["n"]))
    model.graph.output.append(helper.make_tensor_value_info("n", TensorProto.INT64, [4] if op_type == "Shape" else []))


def measured_in_a_branch(model: ModelProto, op_type: str) -> None:
    output = helper.make_tensor_value_info("m", TensorProto.INT64, [4] if op_type == "Shape" else [])
    branch = helper.make_graph([helper.make_node(op_type, ["I"], ["m"])], "b", [], [output])
    model.graph.node.append(helper.make_node("If", ["c"], ["n"], then_branch=branch, else_branch=branch))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(True), "c"))
    model.graph.output.append(helper.make_tensor_value_info("n", TensorProto.INT64, [4] if op_type == "Shape" else []))


@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("op_type", ["Shape", "Size"])
@pytest.mark.parametrize("measured", [measured_in_the_graph, measured_in_a_branch])
def test_indices_that_are_measured(measured: Callable[[ModelProto, str], None], op_type: str, declared: bool) -> None:
    """Their shape is that of the argmax, which takes their name; their declared type goes with them."""
    model = torch_gradient([2, 3, 8, 8], kernel_shape=[2, 2], strides=[2, 2])
    measured(model, op_type)
    if declared:
        model.graph.value_info.append(helper.make_tensor_value_info("I", TensorProto.INT64, [2, 3, 4, 4]))
    result = lower(model)
    [anchor] = result.report.anchors
    assert anchor.forward_op == "MaxPool3DWithArgmaxV2"
    assert "MaxPool" not in {node.op_type for node in result.model.graph.node}
    assert [value.name for value in result.model.graph.value_info] == []
    check_well_formed(model, result.model, "atlas-a2")
    feeds = random_feeds(model)
    for run in (run_reference, run_ort):
        found = run(result.model, feeds)
        for name, value in run(model, feeds).items():
            assert_same_bits(found[name], value)


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
    feeds = random_feeds(model)
    assert_same_bits(run_ort(moved, feeds)["dX"], run_reference(model, feeds)["dX"])
