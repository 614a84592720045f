# SPDX-License-Identifier: Apache-2.0

"""Training graphs are what their recipes say; training steps: what is compared, and which nodes are the pools'."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from benchmarks import question_training_step as question
from benchmarks.training_graphs import Recipe, build
from benchmarks.training_sessions import node_seconds, pooling_seconds
from poolgrad_lowering import lower, lower_file

RECIPES = [
    Recipe.of_size(500),
    Recipe(300, sites=3, decoys=2, subgraphs=4, functions=3),
    Recipe(50, declared=0.0),
]


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_graph_has_what_its_recipe_says(recipe: Recipe) -> None:
    model = build(recipe)
    subgraphs = [attribute.g for node in model.graph.node if node.op_type == "If" for attribute in node.attribute]
    holders: list[onnx.GraphProto | onnx.FunctionProto] = [model.graph, *model.functions, *subgraphs]
    assert sum(len(holder.node) for holder in holders) == recipe.nodes
    assert (len(subgraphs), len(model.functions)) == (recipe.subgraphs, recipe.functions)
    report = lower(model).report
    assert (len(report.lowered), len(report.refused)) == (recipe.sites, recipe.decoys)


def test_too_little_room_is_said() -> None:
    with pytest.raises(ValueError, match="no room"):
        build(Recipe(20, sites=4))


BUILT = Path(__file__).parents[2] / "models" / "built" / "torch"


def test_the_variants_of_a_step_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question, "ROUNDS", 1)
    files = {"original": BUILT / "lenet.onnx", "lowered": tmp_path / "lowered.onnx"}
    lower_file(files["original"], files["lowered"])
    feeds = tmp_path / "feeds.npz"
    with np.load(BUILT / "lenet.npz") as archive:
        np.savez(feeds, **{key.removeprefix("in:"): archive[key] for key in archive.files if key.startswith("in:")})
    rows = {row["name"]: row for row in question.compare(files, feeds, tmp_path)}
    assert list(rows) == list(question.VARIANTS)
    assert rows["original"]["ratio"] == rows["original"]["pools_ratio"] == 1
    for row in rows.values():
        assert row["pools"] > 0
        assert row["memory"]["peak"] > row["memory"]["imported"]
    assert rows["provider"]["bytes"] == files["lowered"].stat().st_size


def test_other_bits_are_an_error(tmp_path: Path) -> None:
    models = {
        "original": "<ir_version: 10, opset_import: ['': 20]> m (float[1] x) => (float[1] y) { y = Relu (x) }",
        "lowered": "<ir_version: 10, opset_import: ['': 20]> m (float[1] x) => (float[1] y) { y = Neg (x) }",
    }
    files = {kind: tmp_path / f"{kind}.onnx" for kind in models}
    for kind, text in models.items():
        onnx.save(parser.parse_model(text.replace("'", '"')), files[kind])
    np.savez(tmp_path / "feeds.npz", x=np.ones(1, np.float32))
    with pytest.raises(ValueError, match=r"lowered.onnx does not compute the bits of .*original.onnx"):
        question.compare(files, tmp_path / "feeds.npz", tmp_path)


def test_the_pools_are_what_one_model_has_and_the_other_has_not() -> None:
    original, lowered = onnx.ModelProto(), onnx.ModelProto()
    for name in ("conv", "scatter"):
        original.graph.node.add(name=name)
    for name in ("conv", "npu_node"):
        lowered.graph.node.add(name=name)
    inlined = {"_inlfunc_MaxPool3DGradWithArgmax_dx": 8.0, "_if_then_branch_Pad_token_1": 16.0}
    seconds = {"conv": 1.0, "scatter": 2.0, "npu_node": 4.0, **inlined}
    assert pooling_seconds(seconds, original, lowered) == 2.0 + 8.0 + 16.0
    assert pooling_seconds(seconds, lowered, original) == 4.0 + 8.0 + 16.0


def test_the_first_run_of_a_profile_does_not_count() -> None:
    durations = {"a": [100, 2, 4, 3], "b": [7]}
    events: list[dict[str, object]] = [
        {"cat": "Node", "name": f"{name}_kernel_time", "dur": duration}
        for name, times in durations.items()
        for duration in times
    ]
    events += [{"cat": "Session", "name": "model_run", "dur": 9}, {"cat": "Node", "name": "a_fence_before", "dur": 9}]
    assert node_seconds(events) == pytest.approx({"a": 3e-6, "b": 7e-6})
