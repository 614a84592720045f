# SPDX-License-Identifier: Apache-2.0

"""The graphs that are measured are what their recipes say."""

from __future__ import annotations

import onnx
import pytest

from benchmarks.training_graphs import Recipe, build
from poolgrad_lowering import lower

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


def test_the_same_recipe_gives_the_same_bytes() -> None:
    first, second = (build(Recipe.of_size(300)).SerializeToString() for _ in range(2))
    assert first == second


def test_the_graph_is_valid() -> None:
    """Apart from onnxruntime's MaxPoolGrad, which onnx does not know: in a domain of its own nothing is checked."""
    model = build(RECIPES[1])
    for node in model.graph.node:
        node.domain = "onnxruntime" if node.op_type == "MaxPoolGrad" else node.domain
    model.opset_import.add(domain="onnxruntime", version=1)
    onnx.checker.check_model(model, full_check=True)


def test_too_little_room_is_said() -> None:
    with pytest.raises(ValueError, match="no room"):
        build(Recipe(20, sites=4))
