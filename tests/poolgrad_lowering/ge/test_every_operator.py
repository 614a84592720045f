# SPDX-License-Identifier: Apache-2.0

"""Every operator that ONNX has at an opset of GE, as a model of one node: after an export GE takes what is there.

What GE does not take has an obstacle, at its node. What GE and the CANN provider take is as the tests' stand-ins have
it, whose tables are not the compiler's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx
import pytest
from onnx import ModelProto, TensorProto, helper
from onnx.defs import OpSchema

from poolgrad_lowering import export_atc, export_cann
from poolgrad_lowering.model.diagnostics.obstacles import NodeObstacle, Obstacle
from tests.harness.ge.plugin_table import NEWEST, OLDEST, PLUGINS
from tests.harness.ge.standard import is_registered
from tests.torch_step.graph_mode import OPERATORS

SIZES = [2, 3, 4, 4]
ATTRIBUTES: dict[Any, Any] = {
    OpSchema.AttrType.FLOAT: 1.0,
    OpSchema.AttrType.FLOATS: [1.0],
    OpSchema.AttrType.GRAPH: helper.make_graph(
        [helper.make_node("Constant", [], ["c"], value=helper.make_tensor("c", TensorProto.FLOAT, [1], [1.0]))],
        "branch",
        [],
        [helper.make_tensor_value_info("c", TensorProto.FLOAT, [1])],
    ),
    OpSchema.AttrType.INT: 1,
    OpSchema.AttrType.INTS: [1, 1],
    OpSchema.AttrType.STRING: "ij",
    OpSchema.AttrType.STRINGS: ["a"],
    OpSchema.AttrType.TENSOR: helper.make_tensor("t", TensorProto.FLOAT, [1], [1.0]),
}
GAPS = {Obstacle.NO_OPEN_PROTOTYPE.value, Obstacle.ON_THE_CPU.value, Obstacle.UNREGISTERED_OPERATOR.value}


def schemas(opset: int) -> Iterator[OpSchema]:
    for name in sorted({schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}):
        if onnx.defs.has(name, max_inclusive_version=opset):
            schema = onnx.defs.get_schema(name, opset)
            if not schema.deprecated:
                yield schema


def one_node(schema: OpSchema, opset: int) -> ModelProto:
    """A model with a node that has what its schema demands; its operands are float tensors where they may be."""
    allowed = {each.type_param_str: list(each.allowed_type_strs) for each in schema.type_constraints}
    count = max(schema.min_input, 1) if schema.inputs else 0
    inputs = []
    for position in range(count):
        kinds = allowed.get(schema.inputs[min(position, len(schema.inputs) - 1)].type_str, ["tensor(int64)"])
        kind = next((kind for kind in ("tensor(float)", "seq(tensor(float))") if kind in kinds), kinds[0])
        inputs.append(onnx.parser.parse_graph(f"g ({text(kind)} x{position}) => () {{}}").input[0])
    attributes = {name: ATTRIBUTES[each.type] for name, each in schema.attributes.items() if each.required}
    node = helper.make_node(
        schema.name,
        [value.name for value in inputs],
        [f"y{n}" for n in range(max(schema.min_output, 1))],
        "n",
        **attributes,
    )
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
    unread = helper.make_tensor_value_info("unread", TensorProto.FLOAT, SIZES)  # a model of constants alone is another
    graph = helper.make_graph([node], "g", [*inputs, unread], outputs)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", opset)])


def text(kind: str) -> str:
    """A type of ONNX's schemas in ONNX's text syntax."""
    if kind.startswith("tensor"):
        return f"{kind[7:-1]}[{','.join(map(str, SIZES))}]"
    wrapper, inner = kind[:-1].split("(", 1)
    return f"{wrapper}({text(inner)})"


WITHOUT_PROTOTYPE = {"Det", "Dropout", "HardSwish", "ReduceLogSum"}
"""What the provider takes and `OPERATORS` leaves out."""


def gap(op_type: str, opset: int, *, is_cut: bool) -> set[str]:
    """What a node of an operator must be named for, by the tables of the stand-ins."""
    if is_cut and op_type not in OPERATORS | WITHOUT_PROTOTYPE:
        return {Obstacle.ON_THE_CPU.value}
    if op_type != "Constant" and not is_registered(f"ai.onnx::{opset}::{op_type}"):
        return {Obstacle.UNREGISTERED_OPERATOR.value}
    row = PLUGINS.get(op_type)
    missing = row.without_prototype if row is not None else None
    return {Obstacle.NO_OPEN_PROTOTYPE.value} if missing and missing[0] <= opset <= missing[1] else set()


def named(node: str, obstacles: tuple[NodeObstacle, ...]) -> set[str]:
    return {found.code for found in obstacles if found.node == node} & GAPS


@pytest.mark.parametrize("is_cut", [False, True], ids=["atc", "graph mode"])
@pytest.mark.parametrize("opset", range(OLDEST, NEWEST + 1))
def test_what_ge_does_not_take_is_written_otherwise_or_named(opset: int, is_cut: bool) -> None:
    wrong = {}
    for schema in schemas(opset):
        model = one_node(schema, opset)
        export = export_cann(model) if is_cut else export_atc(model)
        for node in export.model.graph.node:
            expected = gap(node.op_type, opset, is_cut=is_cut)
            if (found := named(node.name, export.report.obstacles)) != expected:
                wrong[f"{schema.name}: {node.op_type}"] = found, expected
    assert wrong == {}
