# SPDX-License-Identifier: Apache-2.0

"""The order of nodes is the one in which onnxruntime runs them, and exports are in topological order."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from models import catalogue
from poolgrad_lowering import export_atc, export_cann, verify
from poolgrad_lowering.model.ir.graphs import graphs
from poolgrad_lowering.model.ir.order import operands, session_order
from tests.harness.ge.checking import parse_and_run
from tests.harness.ge.python_plugin import PythonPlugin
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


BRANCHES = """m (bool c, float[2,3] x) => (float[2,3] y) {
    y = If (c) <
        then_branch = t () => (p) { q = Shape <start = 1> (b) p = Expand (x, s) s = Concat <axis = 0> (two, q)
            two = Constant <value = int64[1] {2}> () b = Neg (a) },
        else_branch = e () => (z) { z = Transpose (w) w = Transpose (a) }>
    a = Exp (x) }"""


def reversed_nodes(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the nodes of its main graph from the last one to the first."""
    turned = onnx.ModelProto()
    turned.CopyFrom(model)
    del turned.graph.node[:]
    turned.graph.node.extend(reversed(model.graph.node))
    return turned


def is_sorted(model: onnx.ModelProto) -> bool:
    reads = (enumerate(operands(graph.node)) for graph in graphs(model.graph))
    return all(max(read, default=-1) < position for nodes in reads for position, read in nodes)


@pytest.mark.parametrize("name", ["torch/lenet", "torch_legacy/adaptive", "torch/unet_level"])
def test_an_export_of_nodes_in_another_order_is_in_order_and_proven(name: str) -> None:
    entry = next(entry for entry in catalogue.entries() if entry.name == name)
    original = onnx.load(entry.file)
    turned = reversed_nodes(original)
    for_atc, for_cann = export_atc(turned, target="Ascend910B3"), export_cann(turned, target="ascend950")
    assert for_atc.report.converts
    assert is_sorted(for_atc.model)
    assert is_sorted(for_cann.model)
    parse_and_run(original, for_atc.model, entry.feeds(), PythonPlugin(), "ascend910b", release="9.1.0")
    assert verify(turned, for_atc.model).proven
    assert verify(turned, for_cann.model).proven


def test_branches_are_sorted_too() -> None:
    model = onnx.parser.parse_model(f"{head(15)} {BRANCHES}")
    export = export_atc(model)
    assert is_sorted(export.model)
    onnx.checker.check_model(export.model, full_check=True)
    assert verify(model, export.model).differences == ()


def test_a_branch_may_name_its_values_as_those_behind_it_are_named() -> None:
    model = onnx.parser.parse_model(
        f"""{head(17)} m (bool c, float[2] x) => (float[2] y) {{
            r = If (c) <
                then_branch = t () => (p) {{ y = Exp (x) p = Neg (y) }},
                else_branch = e () => (q) {{ q = Abs (x) }}>
            y = Exp (r) }}"""
    )
    assert operands(model.graph.node) == [[], [0]]
