# SPDX-License-Identifier: Apache-2.0

"""The nodes that take a gradient's place compute its bits, at every opset and for every plane and canvas.

The forward pools stay here; `test_forward_lowering` moves them.
"""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnx import ModelProto

from poolgrad_lowering import lower
from poolgrad_lowering.dialect import registered_schemas
from tests.oracles import assert_same_bits, run_ort, run_reference
from tests.pool_graphs import ort_gradient, parse, random_feeds, torch_gradient

OPSETS = range(9, 24)

CANVASES: list[tuple[list[int], dict[str, Any]]] = [
    ([1, 2, 5], {"kernel_shape": [3], "pads": [2, 2]}),
    ([2, 1, 7], {"kernel_shape": [4], "pads": [3, 3], "strides": [2]}),
    ([2, 3, 5], {"kernel_shape": [4], "pads": [3, 2], "strides": [3]}),
    ([2, 3, 4, 5], {"kernel_shape": [3, 3], "pads": [2, 2, 2, 2]}),
    ([2, 3, 4, 5], {"kernel_shape": [3, 3], "pads": [2, 1, 2, 1]}),
    ([2, 3, 4, 5], {"kernel_shape": [3, 3], "pads": [1, 2, 1, 2], "strides": [1, 2]}),
    ([1, 2, 6, 5], {"kernel_shape": [2, 4], "pads": [1, 3, 0, 2], "strides": [3, 1]}),
    ([1, 1, 3, 4, 5], {"kernel_shape": [3, 3, 3], "pads": [2, 2, 2, 2, 2, 2]}),
    ([2, 1, 3, 4, 5], {"kernel_shape": [2, 3, 2], "pads": [0, 2, 1, 0, 2, 0], "strides": [1, 2, 1]}),
    ([1, 2, 4, 3, 3], {"kernel_shape": [3, 1, 2], "pads": [2, 0, 1, 2, 0, 1], "strides": [2, 2, 1]}),
    ([2, 2, 5, 5], {"kernel_shape": [3, 3], "pads": [2, 2, 2, 2], "strides": [2, 2], "ceil_mode": 1}),
]
DIRECT: list[tuple[list[int], dict[str, Any]]] = [
    ([2, 3, 8], {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}),
    ([2, 3, 6, 7], {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 0]}),
    ([1, 2, 4, 5, 6], {"kernel_shape": [2, 2, 2], "strides": [2, 1, 2]}),
]


def lowered_once(model: ModelProto, target: str = "atlas-a2") -> ModelProto:
    result = lower(model, target=target, forward=False)
    assert [anchor.status for anchor in result.report.anchors] == ["lowered"], result.report.anchors
    with registered_schemas():
        onnx.checker.check_model(result.model, full_check=True)
        onnx.shape_inference.infer_shapes(result.model, check_type=True, strict_mode=True, data_prop=True)
    return result.model


def written(model: ModelProto) -> str:
    """The names of the nodes in the gradient's place, in order and without their prefix."""
    return " ".join(node.name.removeprefix("dX/") for node in model.graph.node if node.name.startswith("dX/"))


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize(("x_shape", "attributes"), [DIRECT[1], CANVASES[3], CANVASES[8]])
def test_every_opset(opset: int, x_shape: list[int], attributes: dict[str, Any]) -> None:
    model = ort_gradient(x_shape, opset=opset, **attributes)
    lowered = lowered_once(model)
    feeds = random_feeds(model)
    expected = run_reference(model, feeds)["dX"]
    assert_same_bits(run_ort(lowered, feeds)["dX"], expected)
    assert ("Mod" in [node.op_type for node in lowered.graph.node]) == (opset >= 10)
    off_canvas = "plane_of_canvas" if opset < 10 else "starts ends axes plane_of_canvas"
    assert written(lowered).endswith(off_canvas) == ("canvas" in str(lowered.graph))


def test_a_canvas_that_begins_with_its_plane_moves_no_row() -> None:
    model = torch_gradient([2, 3, 4], kernel_shape=[2], pads=[0, 3], strides=[3])
    lowered = lower(model, forward=False).model
    assert [node.op_type for node in lowered.graph.node].count("Pad") == 1
    assert "canvas_index" not in str(lowered.graph)


def test_channels_last() -> None:
    """An incoming gradient with channels last is put into the operator's order, and the result back."""
    model = parse(
        """g (float[2,5,7,3] X, float[2,3,4,3] dY) => (float[2,5,7,3] dX) {
            second = Transpose<perm = [0, 3, 1, 2]>(X)
            pooled = MaxPool<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>(second)
            Y = Transpose<perm = [0, 2, 3, 1]>(pooled)
            dX = MaxPoolGrad<ksize = [1, 3, 3, 1], strides = [1, 2, 2, 1], padding = "SAME">(X, Y, dY)
        }"""
    )
    result = lower(model, forward=False)
    assert [anchor.status for anchor in result.report.anchors] == ["lowered"]
    feeds = random_feeds(model)
    assert_same_bits(run_ort(result.model, feeds)["dX"], run_reference(model, feeds)["dX"])
    names = [node.name for node in result.model.graph.node][-3:]
    assert names == ["dX/grad", "dX/MaxPool3DGradWithArgmax", "dX/channels_last"]
