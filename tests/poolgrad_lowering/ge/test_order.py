# SPDX-License-Identifier: Apache-2.0

"""The order of nodes is the one in which onnxruntime runs them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from poolgrad_lowering.ge.order import operands, session_order
from tests.harness.ge.runs import count_runs
from tests.heads import head

MODELS = {
    "several leaves": """m (float[2] x) => (float[2] p, float[2] q, float[2] s) {
        [a] a = Exp (x) [b] b = Neg (x) [p] p = Add (a, b) [c] c = Abs (b) [q] q = Sub (c, a) [s] s = Tanh (x) }""",
    "operands in another order than their nodes": """m (float[2] x) => (float[2] y) {
        [a] a = Exp (x) [b] b = Neg (x) [c] c = Abs (x) [d] d = Mul (b, a)
        [e] e = Sub (c, d) [y] y = Sum (c, e, a) }""",
    "a file that is not sorted by depth": """m (float[2] x) => (float[2] y, float[2] z) {
        [a] a = Exp (x) [z] z = Tanh (a) [b] b = Neg (x) [y] y = Mul (b, a) [unread] w = Abs (b) }""",
}


def run_order(model: onnx.ModelProto, folder: Path) -> list[str]:
    """The names of the nodes in the order in which onnxruntime ran them."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "run")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    session.run(None, {"x": np.ones(2, np.float32)})
    events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    ran = [event for event in events if event["name"].endswith("_kernel_time")]
    return [event["name"].removesuffix("_kernel_time") for event in sorted(ran, key=lambda event: event["ts"])]


@pytest.mark.parametrize("name", MODELS)
def test_onnxruntime_runs_nodes_in_this_order(name: str, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(f"{head(17)} {MODELS[name]}")
    nodes = model.graph.node
    assert [nodes[position].name for position in session_order(operands(nodes))] == run_order(model, tmp_path)


def test_runs_of_nodes_between_others() -> None:
    assert count_runs([0, 1, 2, 3, 4], [True, False, False, True, False]) == 2
    assert count_runs([0, 3, 1, 4, 2], [True, False, False, True, False]) == 1
    assert count_runs([], []) == 0
