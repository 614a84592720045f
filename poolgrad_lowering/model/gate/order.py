# SPDX-License-Identifier: Apache-2.0

"""The nodes of a scope have a topological order."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

from poolgrad_lowering.model.diagnostics.faults import Fault, Flaw, shown
from poolgrad_lowering.model.ir.scopes import Scope, Use


def cycle_flaw(scope: Scope) -> Flaw | None:
    """The flaw of a dependency cycle between nodes of the scope, or None. Captures of subgraphs count as uses."""
    needs: dict[int, set[int]] = {}
    for name, producer in scope.producers.items():
        for use in scope.uses(name):
            needs.setdefault(_consumer(scope, use), set()).add(producer)
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        cycle: list[int] = error.args[1]
        labels = " → ".join(shown(scope.node(position).label) for position in cycle[:4])
        return Flaw(Fault.CYCLE, f"its nodes depend on each other: {labels}{' → …' if len(cycle) > 4 else ''}")
    return None


def _consumer(scope: Scope, use: Use) -> int:
    """The position in `scope` of the node that has the use, itself or in a subgraph that it holds."""
    inner, position = use
    while inner is not scope and inner.parent is not None:
        inner, position = inner.parent, inner.holder
    return position
