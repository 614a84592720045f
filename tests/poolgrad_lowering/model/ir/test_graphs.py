# SPDX-License-Identifier: Apache-2.0

"""Graphs as messages."""

from __future__ import annotations

from onnx import parser, printer

from poolgrad_lowering.model.ir.graphs import rename

GRAPH = """g (bool c, float[2] {w}, float[2] x) => (float[2] y) {{
    y = If (c) <
        then_branch = t () => (p) {{ p = Add ({w}, {w}) }},
        else_branch = e () => (q) <float[2] x = {{1, 2}}> {{ q = Neg (x) }}>
}}"""


def test_values_are_renamed_where_a_branch_reads_them_and_has_none_of_the_name() -> None:
    graph = parser.parse_graph(GRAPH.format(w="w"))
    rename(graph, {"w": "weight", "q": "r"})
    assert printer.to_text(graph) == printer.to_text(parser.parse_graph(GRAPH.format(w="weight")))
    rename(graph, {"x": "input"})
    assert [value.name for value in graph.input] == ["c", "weight", "input"]
    assert graph.node[0].attribute[1].g.node[0].input == ["x"]
