# SPDX-License-Identifier: Apache-2.0

"""Forward pools that move with their gradients have free names. `test_forward_pools_that_stay`: the others."""

from __future__ import annotations

from onnx import TensorProto, helper

from poolgrad_lowering import lower
from tests.oracles import assert_same_bits, run_ort, run_reference
from tests.pool_graphs import ort_gradient
from tests.pool_graphs import random_feeds as small_feeds

OP_3D, OP_2D = "MaxPool3DWithArgmaxV2", "MaxPoolWithArgmaxV3"


# -- scopes and names


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
