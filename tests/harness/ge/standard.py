# SPDX-License-Identifier: Apache-2.0

"""ATC's plugins of standard operators: which keys they take, what they refuse, and what GE computes of the rest.

`registered.json` was collected from the sources of ops-nn, ops-math and ops-cv, `plugin_table.py` written from those of
ops-nn and ops-math.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from onnx import AttributeProto, GraphProto, NodeProto

from tests.harness.ge.plugin_rules import Context, Node, Rule
from tests.harness.ge.plugin_table import PLUGINS

TABLE = Path(__file__).parent / "registered.json"


@functools.cache
def registered() -> dict[str, frozenset[int]]:
    """Return the registered versions of each `<domain>::<operator>`."""
    rows: dict[str, str] = json.loads(TABLE.read_text(encoding="utf-8"))["operators"]
    return {name: frozenset(_versions(text)) for name, text in rows.items()}


def _versions(text: str) -> list[int]:
    """Return the numbers of a text like 8-9,11-16."""
    ends = [list(map(int, part.split("-"))) for part in text.split(",")]
    return [number for each in ends for number in range(each[0], each[-1] + 1)]


def is_registered(key: str) -> bool:
    """Return whether one of ATC's own plugins takes `<domain>::<version>::<operator>`."""
    domain, version, operator = key.split("::")
    return int(version) in registered().get(f"{domain}::{operator}", ())


def lacks_prototype(node: NodeProto, context: Context) -> bool:
    """Return whether the plugin of a standard operator names an operator of GE without an open prototype."""
    plugin = PLUGINS.get(node.op_type)
    opsets = plugin.without_prototype if plugin else None
    return opsets is not None and opsets[0] <= context.opset <= opsets[1]


def _rules(node: NodeProto) -> tuple[Rule, ...]:
    plugin = PLUGINS.get(node.op_type)
    return plugin.rules if plugin else ()


def plugin_refusal(node: NodeProto, context: Context) -> str:
    """Return why the plugin of a standard operator fails; empty if it does not."""
    outcomes = (rule(Node(node), context) for rule in _rules(node))
    return next((outcome for outcome in outcomes if isinstance(outcome, str)), "")


def input_count(node: NodeProto) -> int | None:
    """Return how many inputs GE's operator for a standard one has; None if as many as the node."""
    plugin = PLUGINS.get(node.op_type)
    return plugin.inputs if plugin else None


def computed(nodes: Iterable[NodeProto], context: Context) -> Iterator[NodeProto]:
    """Yield standard nodes that compute what GE computes of the nodes that it has taken."""
    for node in nodes:
        yield from [node] if node.domain else _computed(_without_lost_attributes(node), context)


def is_computed_as_said(node: NodeProto, context: Context) -> bool:
    """Return whether GE computes what the node says, as far as the table knows."""
    return list(computed([node], context)) == [node]


def _without_lost_attributes(node: NodeProto) -> NodeProto:
    """Return the node without the attributes that its plugin does not read."""
    plugin = PLUGINS.get(node.op_type)
    lost = {attribute.name for attribute in node.attribute} - plugin.reads if plugin else frozenset()
    # The attributes of a Constant decide what it becomes; see its rule.
    return Node(node).replaced(**dict.fromkeys(lost)) if lost and node.op_type != "Constant" else node


def _computed(node: NodeProto, context: Context) -> list[NodeProto]:
    for rule in _rules(node):
        changed = rule(Node(node), context)
        if isinstance(changed, list):
            if [each.op_type for each in changed] != [node.op_type]:
                return changed
            [node] = changed
    return [_with_branches(node, context)]


def _with_branches(node: NodeProto, context: Context) -> NodeProto:
    """Return a node whose subgraphs have computed nodes."""
    if not any(attribute.type == AttributeProto.GRAPH for attribute in node.attribute):
        return node
    replaced = NodeProto()
    replaced.CopyFrom(node)
    for attribute in replaced.attribute:
        if attribute.type == AttributeProto.GRAPH:
            replace_nodes(attribute.g, context)
    return replaced


def replace_nodes(graph: GraphProto, context: Context) -> None:
    """Replace the nodes of a graph by those that compute what GE computes."""
    nodes = list(computed(graph.node, context))
    del graph.node[:]
    graph.node.extend(nodes)
