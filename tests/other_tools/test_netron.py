# SPDX-License-Identifier: Apache-2.0

"""How Netron shows a lowered model: by its own loader, which needs node."""

from __future__ import annotations

import json
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import onnx
import pytest

from poolgrad_lowering.dialect import OPS
from tests.other_tools.after_lowering import models

pytestmark = pytest.mark.tools


def shown(model: onnx.ModelProto, folder: Path) -> Any:
    onnx.save(model, folder / "model.onnx")
    package = find_spec("netron")
    assert package is not None
    assert package.submodule_search_locations is not None
    script = Path(__file__).parents[1] / "harness" / "other_tools" / "netron.mjs"
    command = ["node", script, package.submodule_search_locations[0], folder / "model.onnx"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize("name", models())
def test_nodes_are_functions_with_named_inputs_and_bodies(name: str, tmp_path: Path) -> None:
    _, lowered = models()[name]
    page = shown(lowered, tmp_path)
    nodes = [node for node in lowered.graph.node if node.domain == "npu"]
    boxes = [box for box in page["nodes"] if box["operator"].startswith("npu.")]
    bodies = {body.name: body for body in lowered.functions}
    assert "npu v1" in page["imports"]
    for node, box in zip(nodes, boxes, strict=True):
        op = OPS[node.op_type]
        assert (box["operator"], box["kind"]) == (f"npu.{op.name}", "function")
        assert box["inputs"] == [operand.name for operand in op.inputs]
        assert sorted(box["attributes"]) == sorted(attribute.name for attribute in op.attributes)
        inner = [each.op_type for each in bodies[op.name].node]
        assert without_constants(box["body"]) == without_constants(inner)


def without_constants(operators: list[str]) -> list[str]:
    """Netron shows most constants as attributes of the nodes that read them."""
    return [operator for operator in operators if operator != "Constant"]
