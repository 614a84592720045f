# SPDX-License-Identifier: Apache-2.0

"""What lowering costs, not in time: in calls, Python's and C's, as the profiler counts them, and in copied names."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import onnx
import pytest
from onnx import ModelProto, NodeProto

from benchmarks.training_graphs import Recipe, build
from poolgrad_lowering import lower
from poolgrad_lowering.model.ir.graphs import subgraphs

CALLS_PER_NODE = 14
"""At most, for a node that no site is near. Reading protobuf's fields is no call; a walk with one a node adds two."""


def calls(model: ModelProto) -> int:
    """The calls of one lowering; what is only made once, like the table of patterns, is made before."""
    lower(model)
    counted = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        lower(model)
    finally:
        sys.setprofile(None)
    return counted


def test_nodes_far_from_any_site_are_cheap() -> None:
    few, many = (calls(build(Recipe(nodes, sites=4))) for nodes in (500, 1_500))
    assert many - few <= CALLS_PER_NODE * 1_000


@pytest.mark.parametrize("what", ["sites", "decoys", "subgraphs", "functions"])
def test_cost_is_linear(what: str) -> None:
    """As many again cost as much again, though all sites read the same constants."""
    none, some, more = (calls(build(Recipe(2_500, **{what: count}))) for count in (0, 40, 80))
    assert more - none <= 2.2 * (some - none)


def copied_names(nodes: Sequence[NodeProto], visible: int) -> int:
    """The names that ONNX's inference copies: for each subgraph those of all values that it can see."""
    copied = 0
    for node in nodes:
        for graph in (graph for _, graph in subgraphs(node.attribute)):
            copied += visible + copied_names(graph.node, visible + len(graph.input) + len(graph.initializer))
        visible += len(node.output)
    return copied


def test_inference_copies_no_scope(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many subgraphs cost as much in a larger graph."""
    copied: list[int] = []

    def watched(data: bytes) -> ModelProto:
        model = ModelProto.FromString(data)
        copied[-1] += copied_names(model.graph.node, len(model.graph.input) + len(model.graph.initializer))
        copied[-1] += sum(copied_names(function.node, len(function.input)) for function in model.functions)
        return infer(data)

    infer = onnx.shape_inference.infer_shapes
    monkeypatch.setattr(onnx.shape_inference, "infer_shapes", watched)
    for nodes in (1_500, 3_000):
        copied.append(0)
        lower(build(Recipe(nodes, sites=4, subgraphs=40)))
    few, many = copied
    assert 0 < few == many
