# SPDX-License-Identifier: Apache-2.0

"""Forward pools that move with their gradients: text in, text out, the same bits. `test_forward_stays`: the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, parser

from poolgrad_lowering import lower
from tests.graphs import Written
from tests.oracles import assert_same_bits, run_ort, run_reference
from tests.patterns import aten_graphs
from tests.patterns.lookalikes import maxpoolgrad, scatter
from tests.patterns.lowering_checks import TARGETS, check_same_results, check_well_formed, random_feeds
from tests.pool_graphs import ort_gradient
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
