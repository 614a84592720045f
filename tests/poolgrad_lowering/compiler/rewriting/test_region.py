# SPDX-License-Identifier: Apache-2.0

"""The dead region of a site: everything that only the site used, and nothing else."""

from __future__ import annotations

import networkx as nx
import pytest
from onnx import ModelProto

from poolgrad_lowering.compiler.rewriting.region import Region, UseCounts, dead_region
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.ir.scopes import Node, Value
from tests.pool_graphs import parse


def producer_of(index: ModelIndex, name: str) -> Node:
    node = next(node for scope in index.scopes if (node := Value(scope, name).producer) is not None)
    return node


def taken(model: ModelProto, *roots: str, added: tuple[str, ...] = ()) -> list[Region]:
    """The regions of roots that die one after the other, while added nodes read some values of the main graph."""
    index = ModelIndex(model)
    use_counts = UseCounts(Value(index.scopes[0], name) for name in added)
    return [dead_region(producer_of(index, root), use_counts) for root in roots]


def labels(region: Region) -> list[str]:
    return [node.label for node in region.nodes]


DIAMOND = "A = Relu(X) B = Neg(A) C = Exp(A) D = Mul(B, C)"


@pytest.mark.parametrize(
    ("output", "last", "added", "dead", "frontier"),
    [
        pytest.param("Y", "Y = Relu(X)", (), "ABCD", "X", id="what only the root used"),
        pytest.param("Y", "Y = Relu(B)", (), "CD", "AB", id="what others read is the frontier"),
        pytest.param("C", "", (), "BD", "AC", id="outputs are readers"),
        pytest.param("Y", "Y = Relu(X)", ("B",), "CD", "AB", id="added nodes are readers"),
    ],
)
def test_a_diamond(output: str, last: str, added: tuple[str, ...], dead: str, frontier: str) -> None:
    [region] = taken(parse(f"g (float[2] X) => (float[2] {output}) {{ {DIAMOND} {last} }}"), "D", added=added)
    assert labels(region) == [*dead]
    assert {value.name for value in region.frontier} == {*frontier}
    assert not region.initializers


def test_effects_and_unknown_operators_live() -> None:
    """Dead random numbers still advance their generator; what a custom operator does is not known."""
    model = parse(
        """g (float[2] X, bool c) => (Z) {
            A = RandomNormalLike(X) B, M = Dropout(A) C = other.Relu(X)
            E = If(c) <then_branch = yes () => (T) { T = Relu(X) }, else_branch = no () => (F) { F = Neg(X) }>
            D = Sum(A, B, C, E)  Z = Neg(X)
        }""",
        imports='"other": 1',
    )
    [region] = taken(model, "D")
    assert labels(region) == ["D"]
    assert {value.name for value in region.frontier} == {"A", "B", "C", "E"}


@pytest.mark.parametrize(
    "node",
    [
        "A = Bernoulli(X)",
        "A = Multinomial(X)",
        "A = RandomNormal<shape = [2]>()",
        "A = RandomNormalLike(X)",
        "A = RandomUniform<shape = [2]>()",
        "A = RandomUniformLike(X)",
        "A = Loop(, c, X)<body = b (int64 i, bool go, T) => (again, V) { again = Identity(go) V = Neg(T) }>",
        "A = Scan<num_scan_inputs = 1, body = b (T) => (V) { V = Neg(T) }>(X)",
        "A = SequenceMap(S)<body = b (T) => (V) { V = Neg(T) }>",
    ],
)
def test_an_effect_lives(node: str) -> None:
    """Random numbers advance their generator, and a subgraph may hold a node that does."""
    model = parse(f"g (float[2, 2] X, bool c, seq(float[2]) S) => (Z) {{ {node} D = Identity(A) Z = Neg(X) }}")
    [region] = taken(model, "D")
    assert labels(region) == ["D"]
    assert {value.name for value in region.frontier} == {"A"}


def test_the_region_is_convex() -> None:
    """No path leaves it and comes back: networkx finds none over the whole graph."""
    model = parse(
        f"g (float[2] X) => (float[2] Y, float[2] H) {{ {DIAMOND} G = Relu(B) H = Neg(G) F = Add(D, C) Y = Relu(X) }}"
    )
    index = ModelIndex(model)
    whole = nx.DiGraph()
    for value in (Value(index.scopes[0], name) for name in index.scopes[0].producers):
        assert value.producer is not None
        whole.add_edges_from((value.producer, use.scope.node(use.position)) for use in value.uses)
    region = dead_region(producer_of(index, "F"), UseCounts(()))
    inside = set(region.producers)
    assert labels(region) == ["C", "D", "F"]
    for outside in set(whole.nodes) - inside:
        before = bool(nx.ancestors(whole, outside) & inside)
        after = bool(nx.descendants(whole, outside) & inside)
        assert not (before and after)
