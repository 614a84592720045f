# SPDX-License-Identifier: Apache-2.0

"""The columns of nodes equal what the nodes hold."""

from __future__ import annotations

from onnx import NodeProto, helper

from poolgrad_lowering.model.ir.index import node_columns


def test_columns() -> None:
    columns = node_columns(
        [
            helper.make_node("Relu", ["x"], ["y"], name="relu"),
            NodeProto(),
            helper.make_node("Clip", ["x", "", "most"], ["", "y"]),
            helper.make_node("f", [], [], domain="l"),
            helper.make_node("Relu", ["x"], ["y", "i"], kernel_shape=[2, 2], auto_pad="VALID"),
        ]
    )
    assert columns.names == ["relu", "", "", "", ""]
    assert columns.operators == {("", "Relu"): [0, 4], ("", ""): [1], ("", "Clip"): [2], ("l", "f"): [3]}
    assert (columns.input_names, columns.consumers) == (["x", "x", "", "most", "x"], [0, 2, 2, 2, 4])
    assert (columns.output_names, columns.producers) == (["y", "", "y", "y", "i"], [0, 2, 2, 4, 4])
    [(position, attributes)] = columns.attributes
    assert (position, [attribute.name for attribute in attributes]) == (4, ["auto_pad", "kernel_shape"])
