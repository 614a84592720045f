# SPDX-License-Identifier: Apache-2.0

"""Subgraph isomorphism as an independent matcher: it must find the anchors that the compiler finds, and no others.

networkx's VF2 matches the cores of the forms by operator types and by which output goes to which input, on a graph
in which views and casts are contracted. It sees neither values nor shapes: that the base is all zero, that the
companion is 1×1 and its Slice takes each plane's first index, that rows are planes, that the element type is one of
Ascend's. So it finds what the compiler lowers, and what the compiler refuses for one of those reasons. It knows only
the spellings of these cores: whole-tensor Indices, say, are not among the built graphs, and a remainder in place of Sub
only among the random ones.
"""

from __future__ import annotations

from typing import Any

import networkx as nx
import onnx
import pytest
from hypothesis import given, settings
from networkx.algorithms.isomorphism import DiGraphMatcher
from onnx import GraphProto, NodeProto

from models import catalogue
from models.catalogue import Entry
from poolgrad_lowering import inspect
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.generators.models import build
from tests.generators.plans import Plan, plans

CONTRACTED = ("Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")
SYMBOLIC = (Code.AUTO_PAD_SYMBOLIC.value, Code.SYMBOLIC_CANVAS.value, Code.SYMBOLIC_CEIL.value)
BEHIND_THE_STRUCTURE = (Code.DTYPE.value, Code.STORAGE_ORDER.value, Code.UNKNOWN_SHAPE.value)


def core(edges: list[tuple[str, str, int, int]], kinds: dict[str, str]) -> nx.DiGraph[str]:
    """A pattern: edges from node to node with output and input numbers.

    A node has its `kind`, an edge its `ports`, the set of (output number, input number) that it stands for.
    """
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from((name, {"kind": kind}) for name, kind in kinds.items())
    graph.add_edges_from((start, end, {"ports": {(out, to)}}) for start, end, out, to in edges)
    return graph


def plane_local(anchor: str, position: int) -> nx.DiGraph[str]:
    """An anchor that takes a MaxPool's Indices, less each plane's first, at an input."""
    kinds = {"pool": "MaxPool", "companion": "MaxPool", "first": "Slice", "local": "Sub", "anchor": anchor}
    return core(
        [
            ("pool", "local", 1, 0),
            ("companion", "first", 1, 0),
            ("first", "local", 0, 1),
            ("local", "anchor", 0, position),
        ],
        kinds,
    )


def recorded(forward: str, output: int, anchor: str, position: int) -> nx.DiGraph[str]:
    """An anchor that takes the indices of its own forward operator as they are."""
    return core([("pool", "anchor", output, position)], {"pool": forward, "anchor": anchor})


MAX_POOL_GRAD = recorded("MaxPool", 1, "MaxPoolGrad", 1)
SCATTER_ADD = plane_local("ScatterElements(add)", 1)
REMAINDER = core(
    [("pool", "local", 1, 0), ("local", "anchor", 0, 1)],
    {"pool": "MaxPool", "local": "Mod", "anchor": "ScatterElements(add)"},
)
OPERATORS = (
    recorded("max_pool2d_with_indices", 1, "max_pool2d_with_indices_backward", 7),
    recorded("adaptive_max_pool2d", 1, "adaptive_max_pool2d_backward", 2),
    recorded("max", 1, "value_selecting_reduction_backward", 2),
    recorded("ArgMax", 0, "value_selecting_reduction_backward", 2),
    plane_local("NPUMaxPool2dWithIndicesBackward", 2),
)
BY_ARG_MAX = [
    core([("maximum", "anchor", 0, 1)], {"maximum": "ArgMax", "anchor": f"ScatterElements({reduction})"})
    for reduction in ("add", "none")
]
OVERWRITING = plane_local("ScatterElements(none)", 1)
MAX_UNPOOL = recorded("MaxPool", 1, "MaxUnpool", 1)
FORMS = (MAX_POOL_GRAD, MAX_UNPOOL, SCATTER_ADD, OVERWRITING, *BY_ARG_MAX, *OPERATORS)


def contracted(graph: GraphProto) -> nx.DiGraph[str]:
    """The nodes of a graph by label, joined where one reads another through nothing but views and casts."""
    producers = {name: (node, number) for node in graph.node for number, name in enumerate(node.output)}
    result: nx.DiGraph[str] = nx.DiGraph()
    for node in graph.node:
        result.add_node(label(node), kind=kind(node))
    for node in graph.node:
        for position, name in enumerate(node.input):
            maker = producers.get(name)
            while maker is not None and maker[0].op_type in CONTRACTED:
                maker = producers.get(maker[0].input[0])
            if maker is not None:
                join(result, label(maker[0]), label(node), (maker[1], position))
    return result


def join(graph: nx.DiGraph[str], start: str, end: str, ports: tuple[int, int]) -> None:
    if not graph.has_edge(start, end):
        graph.add_edge(start, end, ports=set())
    graph.edges[start, end]["ports"].add(ports)


def label(node: NodeProto) -> str:
    return node.name or node.output[0]


def kind(node: NodeProto) -> str:
    texts = {attribute.name: attribute.s.decode() for attribute in node.attribute}
    if node.op_type == "ScatterElements" and "reduction" in texts:
        return f"{node.op_type}({texts['reduction']})"
    return texts["operator"] if node.op_type == "ATen" else node.op_type


def anchors(graph: nx.DiGraph[str], pattern: nx.DiGraph[str]) -> set[str]:
    """The nodes that play the anchor's part in some match."""

    def same_kind(found: dict[str, Any], wanted: dict[str, Any]) -> bool:
        return bool(found["kind"] == wanted["kind"])

    def has_ports(found: dict[str, Any], wanted: dict[str, Any]) -> bool:
        return bool(wanted["ports"] <= found["ports"])

    matcher = DiGraphMatcher(graph, pattern, node_match=same_kind, edge_match=has_ports)
    matches = matcher.subgraph_monomorphisms_iter()
    return {found for match in matches for found, role in match.items() if role == "anchor"}


@pytest.mark.parametrize("entry", [pytest.param(entry, id=entry.name) for entry in catalogue.entries()])
def test_same_anchors_as_by_isomorphism(entry: Entry) -> None:
    model = onnx.load(entry.file)
    graph = contracted(model.graph)
    by_isomorphism = {name for form in FORMS for name in anchors(graph, form)}
    by_compiler = {
        anchor.name
        for anchor in inspect(model).anchors
        if anchor.status == "lowered" or anchor.code in BEHIND_THE_STRUCTURE
    }
    assert by_isomorphism == by_compiler


@settings(max_examples=100, derandomize=True, deadline=None, database=None)
@given(plans(forms=("F1", "F4"), decoys=False))
def test_same_anchors_in_random_graphs(plan: Plan) -> None:
    model = build(plan)
    graph = contracted(model.graph)
    by_isomorphism = {name for form in (MAX_POOL_GRAD, SCATTER_ADD, REMAINDER) for name in anchors(graph, form)}
    by_compiler = {
        anchor.name
        for anchor in inspect(model, target=plan.target).anchors
        if anchor.status == "lowered" or anchor.code in (*BEHIND_THE_STRUCTURE, *SYMBOLIC)
    }
    assert by_isomorphism == by_compiler
