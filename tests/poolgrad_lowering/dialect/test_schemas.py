# SPDX-License-Identifier: Apache-2.0

"""The schemas say what the table says, live only while they are needed, and refuse broken nodes with a reason."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import onnx
import onnx.defs
import pytest
from onnx import TensorProto, helper
from onnx.defs import OpSchema
from onnx.shape_inference import InferenceError, infer_shapes

from poolgrad_lowering.dialect import DOMAIN, OPS, TYPES, VERSION, DialectError, registered_schemas, schema
from poolgrad_lowering.model.diagnostics.errors import PoolgradError
from tests.poolgrad_lowering.dialect.dialect_models import (
    gradient_model,
    gradient_node,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


def bare_model(
    node: onnx.NodeProto,
    x: Sequence[str | int] | None = None,
    grad: Sequence[str | int] | None = None,
    argmax: Sequence[str | int] | None = None,
    types: tuple[int, int, int] = (TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.INT64),
) -> onnx.ModelProto:
    """The node without a body, and a consumer of y, so that y's shape has to be inferred."""
    shapes = (x or [2, 3, 8, 8], grad or [2, 3, 4, 4], argmax or [2, 3, 4, 4])
    inputs = [
        helper.make_tensor_value_info(name, element_type, shape)
        for name, element_type, shape in zip(("x", "grad", "argmax"), types, shapes, strict=True)
    ]
    consumer = helper.make_node("Identity", ["y"], ["z"])
    graph = helper.make_graph([node, consumer], "g", inputs, [helper.make_empty_tensor_value_info("z")])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, VERSION)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def inferred_y(model: onnx.ModelProto) -> onnx.TypeProto.Tensor:
    with registered_schemas():
        graph = infer_shapes(model, check_type=True, strict_mode=True).graph
    return next(value.type.tensor_type for value in graph.value_info if value.name == "y")


def registered() -> set[str]:
    return {s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == DOMAIN}


@pytest.mark.parametrize("op", OPS)
def test_schema_is_the_table(op: str) -> None:
    built, described = schema(OPS[op]), OPS[op]
    assert (built.name, built.domain, built.since_version) == (op, DOMAIN, VERSION)
    for parameters, operands in ((built.inputs, described.inputs), (built.outputs, described.outputs)):
        assert [(p.name, p.type_str) for p in parameters] == [(o.name, o.type_variable) for o in operands]
    allowed = {c.type_param_str: set(c.allowed_type_strs) for c in built.type_constraints}
    names = {t: f"tensor({TensorProto.DataType.Name(t).lower()})" for types in TYPES.values() for t in types}
    assert allowed == {variable: {names[t] for t in types} for variable, types in TYPES.items()}
    assert {name: a.required for name, a in built.attributes.items()} == {
        a.name: a.required for a in described.attributes
    }


def test_unknown_x_is_left_unknown() -> None:
    model = bare_model(gradient_node("AdaptiveMaxPool3DGrad"))
    model.graph.node[0].input[0] = "mystery"
    model.graph.node.insert(0, helper.make_node("Mystery", ["x"], ["mystery"], domain="elsewhere"))
    model.opset_import.append(helper.make_opsetid("elsewhere", 1))
    with registered_schemas():
        assert [value.name for value in infer_shapes(model).graph.value_info] == []


def test_absent_optional_attributes_take_their_defaults() -> None:
    node = gradient_node("MaxPool3DGradWithArgmax", dilation=None, ceil_mode=None, data_format=None)
    assert len(inferred_y(bare_model(node)).shape.dim) == 4


WINDOWED = "MaxPool3DGradWithArgmax"
PLANAR = "MaxPoolGradWithArgmaxV3"
ADAPTIVE = "AdaptiveMaxPool3DGrad"
FLOAT, HALF, DOUBLE = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE
INT64, INT32, UINT8 = TensorProto.INT64, TensorProto.INT32, TensorProto.UINT8

BROKEN: dict[str, tuple[str, dict[str, Any], dict[str, Any], str]] = {
    "two sizes for three axes": (WINDOWED, {"ksize": [2, 2]}, {}, "ksize is .2, 2., expected 3 values"),
    "three sizes for two axes": (PLANAR, {"pads": [0, 0, 0]}, {}, "pads is .0, 0, 0., expected 2 values"),
    "zero step": (WINDOWED, {"strides": [1, 0, 1]}, {}, "strides is .1, 0, 1., expected at least 1"),
    "negative padding": (WINDOWED, {"pads": [0, -1, 0]}, {}, "pads .*expected at least 0"),
    "required attribute missing": (WINDOWED, {"ksize": None}, {}, "ksize is missing"),
    "number for a list": (WINDOWED, {"ksize": 2}, {}, "ksize has type INT, expected INTS"),
    "unknown rounding": (WINDOWED, {"ceil_mode": 2}, {}, "ceil_mode is 2, expected one of"),
    "other layout": (PLANAR, {"data_format": "NHWC"}, {}, "data_format is 'NHWC', expected one of"),
    "layout that is no text": (PLANAR, {"data_format": b"\xff"}, {}, "data_format is '\ufffd', expected one of"),
    "unknown index type": (PLANAR, {"dtype": 7}, {}, "dtype is 7, expected one of"),
    "index type of another argmax": (PLANAR, {"dtype": 3}, {}, "dtype .*INT32 and INT64"),
    "x of rank 2": (ADAPTIVE, {}, {"x": [2, 3]}, "x has rank 2"),
    "planar x of rank 5": (PLANAR, {}, {"x": [2, 3, 1, 8, 8]}, "x has rank 5"),
    "ranks of x and grad": (ADAPTIVE, {}, {"grad": [2, 3, 4], "argmax": [2, 3, 4]}, "x and grad.* differ"),
    "channels of x and grad": (ADAPTIVE, {}, {"grad": [2, 4, 4, 4], "argmax": [2, 4, 4, 4]}, "x and grad.* differ"),
    "batch of x and argmax": (ADAPTIVE, {}, {"grad": ["N", 3, 4, 4], "argmax": [1, 3, 4, 4]}, "x and argmax.* differ"),
    "sizes of grad and argmax": (ADAPTIVE, {}, {"argmax": [2, 3, 4, 5]}, "grad and argmax differ: .2, 3, 4, 4. and"),
    "sizes beside a symbol": (
        ADAPTIVE,
        {},
        {"grad": ["N", 3, 4, 4], "argmax": [2, 3, 4, 5]},
        r"grad and argmax differ: \(\?, 3, 4, 4\) and \(2, 3, 4, 5\)\.",
    ),
    "types of x and grad": (ADAPTIVE, {}, {"types": (FLOAT, HALF, INT64)}, "FLOAT and FLOAT16"),
    "double": (ADAPTIVE, {}, {"types": (DOUBLE, DOUBLE, INT64)}, "x has element type DOUBLE, expected one of FLOAT, "),
    "byte indices": (ADAPTIVE, {}, {"types": (FLOAT, FLOAT, UINT8)}, "argmax has element type UINT8"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_nodes_are_refused(case: str) -> None:
    op, changed, operands, message = BROKEN[case]
    node = gradient_node(op, **changed)
    with registered_schemas(), pytest.raises(DialectError, match=message) as caught:
        infer_shapes(bare_model(node, **operands), strict_mode=True)
    assert str(caught.value).startswith(f"{DOMAIN}.{op} ")
    assert str(caught.value).endswith(".")
    assert isinstance(caught.value, PoolgradError)
    assert isinstance(caught.value, InferenceError)


def test_an_operand_that_is_no_tensor() -> None:
    model = bare_model(gradient_node(ADAPTIVE))
    model.graph.input[0].CopyFrom(helper.make_tensor_sequence_value_info("x", FLOAT, [2, 3, 8, 8]))
    with registered_schemas(), pytest.raises(DialectError, match=r"x is not a tensor\.$"):
        infer_shapes(model, strict_mode=True)


def test_checker_refuses_attributes_of_no_op() -> None:
    model = gradient_model(ADAPTIVE, 17)
    model.graph.node[2].attribute.append(helper.make_attribute("kernel_shape", [2, 2]))
    with registered_schemas(), pytest.raises(onnx.checker.ValidationError, match="kernel_shape"):
        onnx.checker.check_model(model)


def test_registry_is_left_as_it_was() -> None:
    before = {(s.domain, s.name, s.since_version) for s in onnx.defs.get_all_schemas_with_history()}
    with registered_schemas():
        assert registered() == set(OPS)
        with registered_schemas():
            assert registered() == set(OPS)
        assert registered() == set(OPS)
    assert {(s.domain, s.name, s.since_version) for s in onnx.defs.get_all_schemas_with_history()} == before


def test_registry_is_restored_after_an_error() -> None:
    with pytest.raises(KeyError), registered_schemas():
        raise KeyError
    assert registered() == set()


def test_schemas_of_others_are_left_alone() -> None:
    onnx.defs.register_schema(schema(OPS[PLANAR]))
    try:
        with registered_schemas():
            assert registered() == set(OPS)
        assert registered() == {PLANAR}
    finally:
        onnx.defs.deregister_schema(PLANAR, VERSION, DOMAIN)


def test_schemas_that_others_took_away_are_no_error() -> None:
    with registered_schemas():
        onnx.defs.deregister_schema(PLANAR, VERSION, DOMAIN)
    assert registered() == set()


def test_a_failing_registration_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    register = onnx.defs.register_schema

    def fail_on_second(built: OpSchema) -> None:
        if registered():
            raise RuntimeError("full")
        register(built)

    monkeypatch.setattr(onnx.defs, "register_schema", fail_on_second)
    with pytest.raises(RuntimeError, match="full"), registered_schemas():
        pass
    assert registered() == set()


def test_threads_share_the_registration() -> None:
    missing: list[int] = []

    def use() -> None:
        for round_number in range(200):
            with registered_schemas():
                if not all(onnx.defs.has(op, DOMAIN) for op in OPS):
                    missing.append(round_number)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert missing == []
    assert registered() == set()
