# SPDX-License-Identifier: Apache-2.0

"""Models with gradients of average pools as `export-atc` writes them."""

from __future__ import annotations

from copy import deepcopy

import onnx
from onnx import ModelProto, TensorProto, helper

from poolgrad_lowering.dialect.targets import Target, find_target
from poolgrad_lowering.ge.atc.prepare import Edits, prepare_for_atc
from poolgrad_lowering.model.diagnostics.obstacles import NodeObstacle
from poolgrad_lowering.model.gate.gate import Gate
from tests.average_models import ADAPTIVE_2D, ADAPTIVE_3D, AVERAGE_2D, AVERAGE_3D
from tests.harness.ge.prototypes import Soc
from tests.poolgrad_lowering.verification.average_pairs import site_node

OPERATORS = {
    "atlas-a2": (AVERAGE_3D, ADAPTIVE_3D),
    "ascend950": (AVERAGE_3D, AVERAGE_2D, ADAPTIVE_3D, ADAPTIVE_2D),
}
SOCS: dict[str, Soc] = {"atlas-a2": "ascend910b", "ascend950": "ascend950"}


def target_of(name: str) -> Target:
    """The target of this name."""
    return find_target(name)


def exported(model: ModelProto, target: str) -> tuple[ModelProto, Edits, tuple[NodeObstacle, ...]]:
    """A copy of the model as `export-atc` writes it, what was edited, and what is in the way."""
    copied = deepcopy(model)
    edits, obstacles = prepare_for_atc(copied, target_of(target), [], Gate())
    return copied, edits, obstacles


def with_computed_sizes(model: ModelProto, *, declared: bool) -> ModelProto:
    """The model of a node whose shape operand is a Cast of a Shape of a new input x."""
    edited = deepcopy(model)
    graph = edited.graph
    [sizes] = graph.initializer
    shape = onnx.numpy_helper.to_array(sizes).tolist()
    del graph.initializer[:]
    graph.input.append(
        helper.make_tensor_value_info("x", TensorProto.FLOAT, shape if declared else [None] * len(shape))
    )
    nodes = [
        helper.make_node("Shape", ["x"], ["x_shape"], name="x_shape"),
        helper.make_node("Cast", ["x_shape"], ["sizes"], name="x_sizes", to=TensorProto.INT32),
    ]
    for node in reversed(nodes):
        graph.node.insert(0, node)
    if declared:
        result = helper.make_tensor_value_info(site_node(edited).output[0], TensorProto.FLOAT, shape)
        graph.value_info.append(result)
    return edited
