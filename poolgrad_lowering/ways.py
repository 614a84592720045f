# SPDX-License-Identifier: Apache-2.0

"""The three ways to run a lowered model, and whether a model is good for each: the last lines of `poolgrad inspect`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import onnx.defs
from onnx import ModelProto, NodeProto

from poolgrad_lowering.atc.export import export_lowered
from poolgrad_lowering.dialect import DOMAIN, OPS
from poolgrad_lowering.gate.gate import Gate
from poolgrad_lowering.ge.graphs import graphs, inner_graphs
from poolgrad_lowering.legality.targets import Target
from poolgrad_lowering.report import Way

_SHOWN = 3
"""Operators or obstacles that a reason names."""


def ways(lowered: ModelProto, target: Target, gate: Gate) -> tuple[Way, ...]:
    """Return for which of the three ways a lowered model is good; the model is modified.

    onnxruntime is examined by a table of the operators that its packages have, from 1.18 to the newest; the package
    itself is not loaded.
    """
    unknown = _shown(_unknown_to_onnxruntime(lowered))
    has_nodes = any(node.domain == DOMAIN for node in _nodes(lowered))
    names = {(function.domain, function.name) for function in lowered.functions}
    bare = sorted({n.op_type for n in _nodes(lowered) if n.domain == DOMAIN and (DOMAIN, n.op_type) not in names})
    runs = f"onnxruntime has no {unknown}" if unknown else ""
    if "com.microsoft" in unknown:
        runs += "; its training package may have them"
    bodies = runs or (f"{bare[0]} has no function body" if bare else "")
    provider = bodies or ("" if has_nodes else f"no node of domain {DOMAIN}, which the provider runs")
    atc = _atc(lowered, target, gate)
    return (
        Way("provider", not provider, provider),
        Way("bodies", not bodies, bodies),
        Way("atc", not atc, atc),
    )


def _atc(model: ModelProto, target: Target, gate: Gate) -> str:
    _, obstacles = export_lowered(model, target, (), gate)
    return _shown(f"{found.code} ({found.operator or 'the model'})" for found in obstacles)


def _unknown_to_onnxruntime(model: ModelProto) -> Iterator[str]:
    """Yield the operators of a model that no package of onnxruntime has, each as often as it occurs."""
    functions = {(function.domain, function.name) for function in model.functions}
    versions = {entry.domain: entry.version for entry in model.opset_import}
    for node in _nodes(model):
        domain = "" if node.domain == "ai.onnx" else node.domain
        if (node.domain, node.op_type) in functions or (domain == DOMAIN and node.op_type in OPS):
            continue
        if not _is_known(domain, node.op_type, versions.get(node.domain, 1)):
            yield f"{domain}.{node.op_type}" if domain else node.op_type


def _is_known(domain: str, op_type: str, version: int) -> bool:
    if domain in ("", "ai.onnx.ml"):
        return bool(onnx.defs.has(op_type, max_inclusive_version=version, domain=domain))
    return domain == "com.microsoft" and op_type in _contributed()


@lru_cache
def _contributed() -> frozenset[str]:
    """Return the operators of domain com.microsoft in onnxruntime's packages."""
    table = json.loads((Path(__file__).parent / "onnxruntime_operators.json").read_text(encoding="utf-8"))
    return frozenset(table["com.microsoft"])


def _nodes(model: ModelProto) -> Iterator[NodeProto]:
    """Yield all nodes of a model, also those of subgraphs and of functions that are not the dialect's."""
    for graph in graphs(model.graph):
        yield from graph.node
    for function in model.functions:
        if function.domain != DOMAIN:
            for node in function.node:
                yield node
                for inner in inner_graphs(node):
                    for graph in graphs(inner):
                        yield from graph.node


def _shown(names: Iterator[str]) -> str:
    """Return distinct names, the most frequent first, as text; empty if there are none."""
    counted = [name for name, _ in Counter(names).most_common()]
    more = f" and {len(counted) - _SHOWN} more" if len(counted) > _SHOWN else ""
    return ", ".join(counted[:_SHOWN]) + more
