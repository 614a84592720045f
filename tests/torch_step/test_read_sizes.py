# SPDX-License-Identifier: Apache-2.0

"""Sizes that a graph reads of tensors, or computes, under the names by which nodes and subgraphs read them."""

from __future__ import annotations

import onnx
import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx

from poolgrad_lowering.torch.read_sizes import read_sizes

GRAPH = """
g (float[n] x, bool b) => (float[m] y, int64 z) {
    sym_size_int = Size(x)
    add = Add(sym_size_int, one)
    cat = Concat<axis = 0>(x, last)
    z = If(b) <then_branch = t () => (int64 u) { u = Identity(add) }, else_branch = e () => (int64 v) { v = Neg(add) }>
    y = Expand(cat, add)
}
"""


def traced() -> fx.Graph:
    def appended(x: Tensor) -> Tensor:
        return torch.cat([x, x.new_ones(1)]).expand(x.shape[0] + 1)

    return make_fx(appended, tracing_mode="symbolic")(torch.ones(3)).graph


def test_a_node_reads_the_size_of_a_tensor_and_a_subgraph_the_one_that_is_computed() -> None:
    graph = onnx.parser.parse_graph(GRAPH)
    read_sizes(graph, traced())
    nodes = [(node.op_type, *node.input) for node in graph.node]
    assert nodes == [
        ("Size", "x"),
        ("Concat", "x", "last"),
        ("Add", "sym_size_int", "one"),
        ("If", "b"),
        ("Shape", "cat"),
        ("Squeeze", "add.shape"),
        ("Expand", "cat", "add.read"),
    ]
