# SPDX-License-Identifier: Apache-2.0

"""Shape inference of the pools: sizes by the formula, symbols kept where they can be, broken nodes refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper
from onnx.shape_inference import infer_shapes

from poolgrad_lowering.dialect import DOMAIN, VERSION, DialectError, registered_schemas
from tests.pool_models import ADAPTIVE, POOL_2D, POOL_3D, PoolCase, pool_node

STEM = PoolCase(POOL_3D, (2, 3, 8, 9), (3, 2), (2, 1), (1, 0), (1, 1))
FLAT = PoolCase(POOL_2D, (2, 3, 8, 9), (3, 2), (2, 1), (1, 0), (1, 1))
LINE = PoolCase(POOL_3D, (2, 3, 9), (3,), (2,), (1,), (1,))
EVEN = PoolCase(ADAPTIVE, (2, 3, 8, 9), output_size=(4, 3))


def inferred(
    op: str, attributes: dict[str, Any], x: Sequence[int | str] | None, element_type: int = TensorProto.FLOAT
) -> dict[str, onnx.TypeProto.Tensor]:
    """The types of y and argmax, of a node without a body; their consumers say nothing of them."""
    names = ("y", "argmax")
    consumers = [helper.make_node("Identity", [name], [f"{name}_out"]) for name in names]
    graph = helper.make_graph(
        [pool_node(op, attributes), *consumers],
        "g",
        [helper.make_tensor_value_info("x", element_type, x)],
        [helper.make_empty_tensor_value_info(f"{name}_out") for name in names],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, VERSION)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    with registered_schemas():
        found = infer_shapes(model, check_type=True, strict_mode=True).graph.value_info
    return {value.name: value.type.tensor_type for value in found if value.name in names}


def sizes(tensor: onnx.TypeProto.Tensor) -> list[int | str | None]:
    return [size.dim_param or (size.dim_value if size.HasField("dim_value") else None) for size in tensor.shape.dim]


def test_symbols_are_kept_where_the_size_is() -> None:
    case = PoolCase(POOL_3D, (2, 3, 8, 9), (3, 2), (1, 1), (1, 0), (1, 1))
    types = inferred(POOL_3D, case.attributes(), ["N", "C", "H", "W"])
    for name in ("y", "argmax"):
        *kept, pooled = sizes(types[name])
        assert kept == ["N", "C", "H"]
        assert pooled not in ("W", 9)  # onnx makes a symbol of its own where a size is not known
    assert sizes(inferred(ADAPTIVE, EVEN.attributes(), ["N", 3, "H", "W"])["y"]) == ["N", 3, 4, 3]


def test_unknown_rank() -> None:
    types = inferred(POOL_3D, STEM.attributes(), None)
    assert not types["argmax"].HasField("shape")
    assert types["y"].elem_type == TensorProto.FLOAT


def test_unknown_type() -> None:
    """Of an x without a type nothing is said of y, and its argmax still has one."""
    unknown = helper.make_node("Unknown", ["a"], ["x"], domain="other")
    nodes = [unknown, pool_node(POOL_3D, STEM.attributes()), helper.make_node("Identity", ["y"], ["z"])]
    outputs = [helper.make_empty_tensor_value_info("z")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("a", TensorProto.FLOAT, [1])], outputs)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, VERSION), helper.make_opsetid("other", 1)]
    with registered_schemas():
        found = infer_shapes(helper.make_model(graph, opset_imports=opsets, ir_version=8), strict_mode=True)
    types = {value.name: value.type.tensor_type.elem_type for value in found.graph.value_info}
    assert types == {"argmax": TensorProto.INT32}


def test_one_output() -> None:
    node = pool_node(POOL_3D, STEM.attributes())
    del node.output[1:]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, STEM.x_shape)
    graph = helper.make_graph([node], "g", [x], [helper.make_empty_tensor_value_info("y")])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, VERSION)]
    with registered_schemas():
        found = infer_shapes(helper.make_model(graph, opset_imports=opsets, ir_version=8), strict_mode=True)
    assert sizes(found.graph.output[0].type.tensor_type) == [2, 3, 4, 8]


def test_absent_attributes_take_their_defaults() -> None:
    attributes = STEM.attributes() | dict.fromkeys(("dilation", "ceil_mode", "data_format", "dtype"))
    types = inferred(POOL_3D, attributes, STEM.x_shape)
    assert types["argmax"].elem_type == TensorProto.INT32
    assert sizes(types["y"]) == [2, 3, 4, 8]


BROKEN: dict[str, tuple[PoolCase, dict[str, Any], list[int], str]] = {
    "pads over half": (STEM, {"pads": [0, 2, 0]}, [2, 3, 8, 9], "pads is .0, 2, 0., more than half of ksize"),
    "window over plane": (FLAT, {}, [2, 3, 8, 1], "no window of 2 elements fits into 1 elements with padding 0"),
    "axis that x lacks": (STEM, {"ksize": [2, 3, 2], "pads": [1, 1, 0]}, [2, 3, 8, 9], "pool axis 0.*rank 4"),
    "output of an axis that x lacks": (EVEN, {"output_size": [2, 4, 3]}, [2, 3, 8, 9], "pool axis 0.*rank 4"),
    "rank of the 2-D op": (FLAT, {}, [3, 8, 9], "x has rank 3, expected one of .4,"),
    "another window in ONNX": (FLAT, {"onnx_strides": [1, 1]}, [2, 3, 8, 9], "each other: strides is .2, 1."),
    "rank in ONNX": (STEM, {"onnx_kernel_shape": [3]}, [2, 3, 8, 9], "each other: .* have 1, 2 and 2 values"),
    "strides in ONNX": (STEM, {"onnx_strides": [2, 1, 1]}, [2, 3, 8, 9], "each other: .* have 2, 3 and 2 values"),
    "pads in ONNX of one axis": (LINE, {"onnx_pads": [1]}, [2, 3, 9], "onnx_pads has 1 values, expected 2"),
    "pads in ONNX": (STEM, {"onnx_pads": [1, 0, 1]}, [2, 3, 8, 9], "onnx_pads has 3 values, expected 4"),
    "rank of x": (STEM, {}, [2, 3, 9], "onnx_kernel_shape has 2 values, and x has rank 3"),
    "count in ONNX": (STEM, {"onnx_pads": [1, 0, 9, 0]}, [2, 3, 8, 9], "Ascend's attributes give 4 windows, ONNX's 8"),
    "ceil_mode in ONNX": (STEM, {"onnx_ceil_mode": 2}, [2, 3, 8, 9], "onnx_ceil_mode is 2, expected one of .0, 1."),
    "dtype": (STEM, {"dtype": 4}, [2, 3, 8, 9], "dtype is 4, expected one of .3, 9."),
    "no ksize": (FLAT, {"ksize": None}, [2, 3, 8, 9], "attribute ksize is missing"),
    "length": (STEM, {"ksize": [3, 2]}, [2, 3, 8, 9], "ksize is .3, 2., expected 3 values"),
    "output size 0": (EVEN, {"output_size": [1, 0, 3]}, [2, 3, 8, 9], "is .1, 0, 3., expected at least 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_nodes_are_refused(name: str) -> None:
    case, changed, x, message = BROKEN[name]
    with pytest.raises(DialectError, match=message) as caught:
        inferred(case.op, case.attributes() | changed, x)
    assert str(caught.value).startswith(f"{DOMAIN}.{case.op} ")
    assert str(caught.value).endswith(".")


def test_double_is_refused() -> None:
    with pytest.raises(DialectError, match="x has element type DOUBLE"):
        inferred(POOL_3D, STEM.attributes(), [2, 3, 8, 9], TensorProto.DOUBLE)
