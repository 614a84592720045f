# SPDX-License-Identifier: Apache-2.0

"""The order of nodes is the one in which onnxruntime runs them, and the pools of a step divide it into few parts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

from poolgrad_lowering import lower
from poolgrad_lowering.model.ir.order import operands, session_order
from poolgrad_lowering.torch import TrainingStep
from poolgrad_lowering.torch.exporter import arrange
from tests.harness.ge.runs import count_runs
from tests.heads import head
from tests.torch_step.networks import NETWORKS


def run_order(model: onnx.ModelProto, feeds: dict[str, np.ndarray], folder: Path) -> list[str]:
    """The names of the nodes in the order in which onnxruntime ran them."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "run")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    session.run(None, feeds)
    events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    ran = [event for event in events if event["name"].endswith("_kernel_time")]
    return [event["name"].removesuffix("_kernel_time") for event in sorted(ran, key=lambda event: event["ts"])]


def exported(name: str) -> TrainingStep:
    return NETWORKS[name].export(optimizer="sgd")


def test_the_order_of_onnxruntime(tmp_path: Path) -> None:
    step = exported("inception")
    nodes = list(step.model.graph.node)
    expected = [nodes[position].name for position in session_order(operands(nodes))]
    assert expected != [node.name for node in nodes]
    feeds = {**step.values, **step.examples, "learning_rate": np.array(0.1, np.float32)}
    assert run_order(step.model, feeds, tmp_path) == expected


FEWEST = {"lenet": 5, "inception": 7, "attention": 5, "dropped": 3}
"""One part before each group of pools that can run one after the other, and one after the last.

The second pool of the first Inception module reads what the pool before the module gives, so two pools run there at
once, and their gradients too.
"""


@pytest.mark.parametrize("name", FEWEST)
def test_a_lowered_step_has_few_parts(name: str) -> None:
    nodes = list(lower(exported(name).model, keep_onnx=True).model.graph.node)
    is_pool = [node.domain == "npu" for node in nodes]
    assert sum(is_pool) == 2 * NETWORKS[name].pools
    assert count_runs(session_order(operands(nodes)), is_pool) == FEWEST[name]


def test_the_branch_with_a_pool_runs_first() -> None:
    """Written last, since onnxruntime visits the last operand first; without that there would be one part more."""
    model = parser.parse_model(
        head(18, ir=10)
        + """
        agraph (float[1, 1, 8, 8] x) => (float[1, 2, 4, 4] y) {
            a = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
            b = MaxPool <kernel_shape = [1, 1]> (a)
            c = Relu (b)
            d = Relu (a)
            y = Concat <axis = 1> (c, d)
        }"""
    )

    def parts() -> int:
        nodes = list(model.graph.node)
        return count_runs(session_order(operands(nodes)), [node.op_type == "MaxPool" for node in nodes])

    assert parts() == 2
    arrange(model.graph)
    onnx.checker.check_model(model)
    assert [node.output[0] for node in model.graph.node] == ["a", "d", "b", "c", "y"]
    assert parts() == 1
