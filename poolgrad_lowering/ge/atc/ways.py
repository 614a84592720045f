# SPDX-License-Identifier: Apache-2.0

"""The four ways to run a lowered model, whether a model is good for each, and where nodes run beside the CANN provider.

These are the last lines of `poolgrad inspect`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import chain
from pathlib import Path

import onnx.defs
from onnx import ModelProto, NodeProto

from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.dialect.ops import PROVIDER_OPERATORS
from poolgrad_lowering.dialect.targets import Target
from poolgrad_lowering.ge.atc.prepare import expand_operators, remaining_obstacles, value_type
from poolgrad_lowering.ge.graph_mode import inline_functions, rewrite_nodes
from poolgrad_lowering.ge.placement import Placement
from poolgrad_lowering.ge.records import Way
from poolgrad_lowering.ge.values import ValueTypes, value_types
from poolgrad_lowering.model.diagnostics.obstacles import NodeObstacle
from poolgrad_lowering.model.diagnostics.text import first_of, operator_text
from poolgrad_lowering.model.gate.gate import Gate
from poolgrad_lowering.model.io.external_data import ExternalData
from poolgrad_lowering.model.ir.graphs import with_inner
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.ir.scopes import canonical_domain


def find_places(lowered: ModelProto, gate: Gate) -> Placement:
    """Return where the nodes of a lowered model run beside the CANN provider; the model is modified."""
    inline_functions(lowered)
    return rewrite_nodes(lowered, _types(lowered, gate))[1]


def examine(lowered: ModelProto, for_atc: ModelProto, target: Target, gate: Gate) -> tuple[tuple[Way, ...], Placement]:
    """Return for which of the four ways a lowered model is good, and where its nodes run; the models are modified.

    `for_atc` is the model as the export for ATC lowers it, which may leave gradients that are lowered otherwise.
    onnxruntime is examined by a table of the operators that its packages have, from 1.18 to the newest; the package
    itself is not loaded. A node of domain `npu` counts only if the provider has a kernel for it and the target has its
    operator for its element type.
    """
    operators = Counter((canonical_domain(node.domain), node.op_type) for node in _nodes(lowered))
    bodies = _bodies(lowered, operators)
    own = {op_type for domain, op_type in operators if domain == DOMAIN}
    is_other, in_parts = for_atc is not lowered, ModelProto()
    in_parts.CopyFrom(lowered)
    is_inlined, expanded = inline_functions(in_parts), expand_operators(for_atc)
    types = _types(in_parts, gate)
    provider = bodies or _without_kernel(lowered, own, target, types)
    atc_types = _types(for_atc, gate) if is_other or is_inlined or expanded else types.copy()
    atc = remaining_obstacles(for_atc, target, atc_types)
    cann, placement = rewrite_nodes(in_parts, types)
    ways = (
        Way("provider", not provider, provider),
        Way("bodies", not bodies, bodies),
        _way("atc", "", atc),
        _way("cann", provider if own else bodies, cann),
    )
    return ways, placement


def _types(model: ModelProto, gate: Gate) -> ValueTypes:
    """Return what is known of the values of a model that was validated."""
    return value_types(model, ModelIndex(model), ExternalData(gate.folder, gate.limits))


def _way(name: str, reason: str, obstacles: Sequence[NodeObstacle]) -> Way:
    """Return a way that CANN's graph engine is on. `reason` is why it does not work apart from the obstacles."""
    strong, weak = (
        _shown(
            Counter(f"{each.code} ({each.operator or 'the model'})" for each in obstacles if each.is_weak is is_weak)
        )
        for is_weak in (False, True)
    )
    reason = reason or strong
    return Way(name, not reason, reason, "" if reason else weak)


def _bodies(model: ModelProto, operators: Mapping[tuple[str, str], int]) -> str:
    """Return why onnxruntime cannot run a model by its function bodies; empty if it can.

    `operators` are the numbers of nodes by domain and operator.
    """
    functions = {(function.domain, function.name) for function in model.functions}
    versions = {canonical_domain(entry.domain): entry.version for entry in model.opset_import}
    unknown = Counter[str]()
    for (domain, op_type), count in operators.items():
        if (domain, op_type) not in functions and not _is_known(domain, op_type, versions.get(domain, 1)):
            unknown[operator_text(domain, op_type)] += count
    if unknown:
        shown = _shown(unknown)
        advice = "; its training package may have them, and --standard may write them in ONNX's operators"
        return f"onnxruntime has no {shown}{advice if 'com.microsoft' in shown else ''}"
    bare = sorted(name for domain, name in operators if domain == DOMAIN and (domain, name) not in functions)
    return f"{bare[0]} has no function body" if bare else ""


def _without_kernel(model: ModelProto, own: Set[str], target: Target, types: ValueTypes) -> str:
    """Return why the provider runs no node of a model with these operators of domain `npu`; empty if it runs one."""
    nodes = (node for node in _nodes(model) if node.domain == DOMAIN and node.op_type in PROVIDER_OPERATORS)
    if any(target.supports(node.op_type, value_type(node, types)) for node in nodes):
        return ""
    place = f" for {target.name}" if own & PROVIDER_OPERATORS else ""
    missing = f": it has no {_shown(Counter(sorted(own)))}{place}" if own else ""
    return f"no node of domain {DOMAIN}, which the provider runs{missing}"


def _is_known(domain: str, op_type: str, version: int) -> bool:
    if domain == DOMAIN:
        return op_type in PROVIDER_OPERATORS
    if domain in ("", "ai.onnx.ml"):
        return bool(onnx.defs.has(op_type, max_inclusive_version=version, domain=domain))
    return domain == "com.microsoft" and op_type in _contributed()


@lru_cache
def _contributed() -> frozenset[str]:
    table = json.loads((Path(__file__).parent / "onnxruntime_operators.json").read_text(encoding="utf-8"))
    return frozenset(table["com.microsoft"])


def _nodes(model: ModelProto) -> Iterator[NodeProto]:
    """Yield all nodes of a model, also those of subgraphs and of functions that are not the dialect's."""
    functions = (function.node for function in model.functions if function.domain != DOMAIN)
    return with_inner(chain(model.graph.node, *functions))


def _shown(counts: Counter[str]) -> str:
    """Return the three most frequent names as text; empty if there are none."""
    return first_of([name for name, _ in counts.most_common()], 3)
