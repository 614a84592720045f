# SPDX-License-Identifier: Apache-2.0

"""Calls of functions: calls must not be recursive, and the nodes of all inlined calls must stay within the limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter

import onnx

from poolgrad_lowering.model.diagnostics.faults import Fault, Flaw, shown_path
from poolgrad_lowering.model.io.limits import Limits
from poolgrad_lowering.model.ir.scopes import LOCAL, Scope, canonical_domain

_Key = tuple[str, str, str]


def calls_flaw(scopes: Sequence[Scope], limits: Limits) -> Flaw | None:
    """The flaw of recursive calls, of too deep nesting, or of too many nodes when all calls are inlined, or None.

    `scopes` are all scopes of a model.
    """
    functions = {
        (canonical_domain(proto.domain) or LOCAL, proto.name, proto.overload): scope
        for scope in scopes
        if isinstance(proto := scope.proto, onnx.FunctionProto)
    }
    operators = {key[:2] for key in functions}
    calls: dict[Scope, Counter[tuple[Scope, int]]] = {scope: Counter() for scope in scopes if scope.parent is None}
    for scope in scopes:
        calls[scope.root].update((function, scope.depth) for function in _callees(scope, operators, functions))
    try:
        order = list(TopologicalSorter({root: [f for f, _ in called] for root, called in calls.items()}).static_order())
    except CycleError as error:
        return Flaw(Fault.RECURSION, " calls ".join(shown_path(scope.path) for scope in reversed(error.args[1])))
    return _size_flaw(order, scopes, calls, limits)


def _size_flaw(
    order: Iterable[Scope], scopes: Iterable[Scope], calls: dict[Scope, Counter[tuple[Scope, int]]], limits: Limits
) -> Flaw | None:
    nodes: Counter[Scope] = Counter()
    depths: dict[Scope, int] = {}
    for scope in scopes:
        nodes[scope.root] += len(scope.proto.node)
        depths[scope.root] = max(depths.get(scope.root, 0), scope.depth)
    for root in order:
        nodes[root] += sum(nodes[function] * count for (function, _), count in calls[root].items())
        depths[root] = max([depths[root], *(depth + 1 + depths[function] for function, depth in calls[root])])
        if depths[root] > limits.max_nesting:
            return Flaw(Fault.NESTING, f"{root.path} nests {depths[root]} levels, more than {limits.max_nesting}")
        if nodes[root] > limits.max_nodes:
            return Flaw(Fault.TOO_MANY_NODES, f"{root.path} has {nodes[root]} nodes, more than {limits.max_nodes}")
    return None


def _callees(scope: Scope, operators: set[tuple[str, str]], functions: dict[_Key, Scope]) -> Iterable[Scope]:
    for operator in operators.intersection(scope.by_op):
        for position in scope.by_op[operator]:
            function = functions.get((*operator, scope.proto.node[position].overload))
            if function is not None:
                yield function
