# SPDX-License-Identifier: Apache-2.0

"""The nodes that take a gradient's place compute its bits, at every opset and for every plane and canvas.

The forward pools stay here; `test_forward_lowering` moves them.
"""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnx import ModelProto, TensorProto

from poolgrad_lowering import lower
from poolgrad_lowering.compiler.families.shared.emission import SiteWriter
from poolgrad_lowering.dialect import DOMAIN, registered_schemas
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


def dialect_nodes(model: ModelProto) -> list[onnx.NodeProto]:
    return [node for node in model.graph.node if node.domain == DOMAIN]


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


@pytest.mark.parametrize(("x_shape", "attributes"), CANVASES)
@pytest.mark.parametrize("target", ["atlas-a2", "ascend950"])
def test_canvas(x_shape: list[int], attributes: dict[str, Any], target: str) -> None:
    for model, run in (
        (torch_gradient(x_shape, **attributes), run_ort),
        (ort_gradient(x_shape, **attributes), run_reference),
    ):
        lowered = lowered_once(model, target)
        assert "Pad" in [node.op_type for node in lowered.graph.node]
        for seed in range(3):
            feeds = random_feeds(model, seed)
            assert_same_bits(run_ort(lowered, feeds)["dX"], run(model, feeds)["dX"])


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


@pytest.mark.parametrize(("x_shape", "attributes"), DIRECT)
def test_planes_of_symbolic_size(x_shape: list[int], attributes: dict[str, Any]) -> None:
    model = ort_gradient(x_shape, **attributes)
    feeds = random_feeds(model)
    expected = run_reference(model, feeds)["dX"]
    for value in (*model.graph.input, *model.graph.output):
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            dim.dim_param = f"{value.name}_{axis}"
    assert_same_bits(run_ort(lowered_once(model), feeds)["dX"], expected)


def test_plane_local_int32_indices_are_taken_as_they_are() -> None:
    lowered = lowered_once(narrowed_indices("[2], strides = [2]", 8, 4))
    assert "Cast" not in [node.op_type for node in lowered.graph.node if node.name]
    assert dialect_nodes(lowered)[0].input[2] == "narrow"


def test_a_canvas_that_begins_with_its_plane_moves_no_row() -> None:
    model = torch_gradient([2, 3, 4], kernel_shape=[2], pads=[0, 3], strides=[3])
    lowered = lower(model, forward=False).model
    assert [node.op_type for node in lowered.graph.node].count("Pad") == 1
    assert "canvas_index" not in str(lowered.graph)


def test_plane_local_int32_indices_on_a_canvas() -> None:
    """The index arithmetic is int64, whatever the indices are."""
    model = narrowed_indices("[3], pads = [2, 2]", 5, 7)
    lowered = lowered_once(model)
    feeds = random_feeds(model)
    assert_same_bits(run_ort(lowered, feeds)["dX"], run_ort(model, feeds)["dX"])
    assert written(lowered).startswith("wide_argmax origin canvas_index argmax")


def narrowed_indices(pool: str, size: int, count: int) -> ModelProto:
    return parse(
        f"""g (float[2,1,{size}] X, float[2,1,{count}] dY) => (float[2,1,{size}] dX) <
            float zero = {{0.0}}, int64[1] plane = {{{size}}}, int64[2] canvas = {{2, {size}}},
            int64[2] rows = {{2, {count}}}, int64[3] whole = {{2, 1, {size}}}
        > {{
            Y, I = MaxPool<kernel_shape = {pool}>(X)
            local = Mod(I, plane)
            narrow = Cast<to = 6>(local)
            index = Reshape(narrow, rows)
            updates = Reshape(dY, rows)
            zeros = Expand(zero, canvas)
            sums = ScatterElements<axis = 1, reduction = "add">(zeros, index, updates)
            dX = Reshape(sums, whole)
        }}""",
        opset=18,
    )


def test_rows_of_two_symbolic_sizes() -> None:
    """A shape with two symbolic sizes cannot be named to Reshape: it is taken from the Indices."""
    model = parse(
        """g (float[N,3,L] X, float[R,L] dY) => (float[N,3,L] dX) <
            float zero = {0.0}, int64[1] three = {3}, int64[1] at0 = {0}, int64[1] at2 = {2}
        > {
            Y, I = MaxPool<kernel_shape = [3], pads = [1, 1]>(X)
            shape = Shape(X)
            n = Gather(shape, at0)
            l = Gather(shape, at2)
            planes = Mul(n, three)
            rows = Concat<axis = 0>(planes, l)
            local = Mod(I, l)
            index = Reshape(local, rows)
            zeros = Expand(zero, rows)
            sums = ScatterElements<axis = 1, reduction = "add">(zeros, index, dY)
            dX = Reshape(sums, shape)
        }""",
        opset=18,
    )
    lowered = lowered_once(model)
    static = ort_gradient([2, 3, 7], kernel_shape=[3], pads=[1, 1])
    feeds = random_feeds(static)
    feeds["dY"] = feeds["dY"].reshape(6, 7)
    assert_same_bits(run_ort(lowered, feeds)["dX"], run_ort(model, feeds)["dX"])
    assert written(lowered) == "argmax pooled_shape grad MaxPool3DGradWithArgmax"


def test_a_result_of_two_symbolic_sizes_in_another_shape_is_refused() -> None:
    model = parse(
        """g (float[N,3,L] X, float[N,3,L] dY) => (float[N,3,L] dX) <
            float zero = {0.0}, int64[1] three = {3}, int64[1] at0 = {0}, int64[1] at2 = {2}, int64[1] two = {2}
        > {
            X4 = Unsqueeze(X, two)
            Y, I = MaxPool<kernel_shape = [1, 3], pads = [0, 1, 0, 1]>(X4)
            shape = Shape(X)
            n = Gather(shape, at0)
            l = Gather(shape, at2)
            planes = Mul(n, three)
            rows = Concat<axis = 0>(planes, l)
            local = Mod(I, l)
            index = Reshape(local, rows)
            updates = Reshape(dY, rows)
            zeros = Expand(zero, rows)
            sums = ScatterElements<axis = 1, reduction = "add">(zeros, index, updates)
            dX = Reshape(sums, shape)
        }""",
        opset=18,
    )
    [anchor] = lower(model).report.anchors
    assert anchor.code == "dx-shape"


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


def test_provenance() -> None:
    lowered = lowered_once(torch_gradient([2, 3, 4, 4], kernel_shape=[2, 2], strides=[2, 2]))
    [node] = dialect_nodes(lowered)
    properties = {entry.key: entry.value for entry in node.metadata_props}
    assert properties == {
        "poolgrad.pattern": "torch_scatter_add",
        "poolgrad.site": "main:sums",
        "poolgrad.replaced": '["index", "updates", "zeros", "sums", "dX"]',
    }
    assert [entry for other in lowered.graph.node if other is not node for entry in other.metadata_props] == []


def test_new_names_are_new() -> None:
    """Names of values, nodes, subgraphs and stale declarations are all taken."""
    model = ort_gradient([2, 3, 4, 4], kernel_shape=[2, 2], strides=[2, 2])
    model.graph.node.add(op_type="Relu", input=["X"], output=["dX/argmax"], name="dX/plane")
    model.graph.node[0].name = "dX/plane_index"
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("dX/argmax_2", TensorProto.STRING, None))
    model.graph.initializer.append(onnx.helper.make_tensor("dX/argmax_3", TensorProto.FLOAT, [1], [1.0]))
    lowered = lowered_once(model)
    names = [node.name for node in lowered.graph.node if node.name]
    outputs = [name for node in lowered.graph.node for name in node.output]
    assert len(names) == len(set(names))
    assert len(outputs) == len(set(outputs))
    assert dialect_nodes(lowered)[0].input[2] == "dX/argmax_4"
    feeds = random_feeds(model)
    assert_same_bits(run_ort(lowered, feeds)["dX"], run_reference(model, feeds)["dX"])


def test_writer() -> None:
    writer = SiteWriter("p", {"p/a"}, 16)
    assert [
        writer.write("Relu", ["x"], "a"),
        writer.write("Relu", ["x"], "a", output="y"),
        writer.constant(3, "c"),
    ] == [
        "p/a_2",
        "y",
        "p/c",
    ]
    assert [node.name for node in writer.nodes] == ["p/a_2", "p/a_3", "p/c"]
