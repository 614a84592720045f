# SPDX-License-Identifier: Apache-2.0

"""What lowering costs, in calls and not in time: Python's and C's, as the profiler counts them."""

from __future__ import annotations

import sys

import pytest
from onnx import ModelProto

from benchmarks.training_graphs import Recipe, build
from poolgrad_lowering import lower

CALLS_PER_NODE = 12
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
