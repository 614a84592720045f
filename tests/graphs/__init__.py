# SPDX-License-Identifier: Apache-2.0

"""What lowerings write in place of gradients, in ONNX's text syntax, as recorded beside this module.

A file for each module of tests: the tests with the same graph, each behind a `#`, and the nodes of this graph in order.
Of nodes that the lowering leaves as they are a line behind a `=` names the outputs.
The fixture `written` compares a graph with the one recorded for the test, or records it if pytest has `--accept`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from pathlib import Path

from onnx import GraphProto, ModelProto, NodeProto, printer

from tests import texts

Written = Callable[[ModelProto, ModelProto], None]
"""Compares what became of a model with what is recorded for the test."""


def compare(test: str, accept: bool, model: ModelProto, lowered: ModelProto) -> None:
    """Assert that a model became the lowered one as it is recorded for the test, or record it."""
    module, name = test.split("::", 1)
    file = Path(__file__).with_name(f"{Path(module).stem}.txt")
    graphs = _read(file)
    found = _changes(model.graph, lowered.graph)
    if accept:
        _write(file, graphs | {name: found})
    else:
        assert found == graphs.get(name), texts.HOW_TO_ACCEPT


def node_text(node: NodeProto) -> str:
    """Return a node as text: without its own name, its attributes in order, slashes in value names as `_`."""
    [_, *lines, _] = str(printer.to_text(GraphProto(name="g", node=[_plain(node)]))).splitlines()
    return "\n".join(line.removeprefix("   ") for line in lines)


def _plain(node: NodeProto) -> NodeProto:
    plain = NodeProto(op_type=node.op_type, domain=node.domain)
    plain.input.extend(name.replace("/", "_") for name in node.input)
    plain.output.extend(name.replace("/", "_") for name in node.output)
    for attribute in sorted(node.attribute, key=lambda candidate: candidate.name):
        copied = plain.attribute.add()
        copied.CopyFrom(attribute)
        if attribute.HasField("g"):
            nodes = [_plain(inner) for inner in attribute.g.node]
            del copied.g.node[:]
            copied.g.node.extend(nodes)
    return plain


def _changes(before: GraphProto, after: GraphProto) -> str:
    old = set(map(node_text, before.node))
    lines = []
    for is_kept, nodes in groupby(after.node, key=lambda node: node_text(node) in old):
        if is_kept:
            lines.append("= " + ", ".join(name for node in nodes for name in node.output))
        else:
            lines += map(node_text, nodes)
    return "\n".join(lines)


def _read(file: Path) -> dict[str, str]:
    """Return the graph by test."""
    held: dict[str, str] = {}
    for entry in file.read_text(encoding="utf-8").split("\n\n") if file.exists() else ():
        lines = entry.rstrip().split("\n")
        names = [line[2:] for line in lines if line.startswith("# ")]
        held |= dict.fromkeys(names, "\n".join(lines[len(names) :]))
    return held


def _write(file: Path, graphs: dict[str, str]) -> None:
    """Write the tests of each graph in the order of their names."""
    tests: dict[str, list[str]] = {}
    for name, text in sorted(graphs.items()):
        tests.setdefault(text, []).append(name)
    entries = ("".join(f"# {name}\n" for name in names) + text for text, names in tests.items())
    file.write_text("\n\n".join(entries) + "\n", encoding="utf-8")
