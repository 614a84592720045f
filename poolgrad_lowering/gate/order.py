"""Order: whether the nodes of a scope can be run at all, one after the other."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

from poolgrad_lowering.diagnostics.faults import Fault, Flaw, shown
from poolgrad_lowering.ir.scopes import Scope, Use


def cycle_flaw(scope: Scope) -> Flaw | None:
    """Whether nodes of the scope wait for each other, by their own inputs or by what their subgraphs read."""
    needs: dict[int, set[int]] = {}
    for name, maker in scope.producers.items():
        for use in scope.uses(name):
            needs.setdefault(_reader(scope, use), set()).add(maker)
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        cycle: list[int] = error.args[1]
        labels = " → ".join(shown(scope.node(position).label) for position in cycle[:4])
        return Flaw(Fault.CYCLE, f"its nodes wait for each other: {labels}{' → …' if len(cycle) > 4 else ''}")
    return None


def _reader(scope: Scope, use: Use) -> int:
    """The position in the scope of the node that reads, itself or by a subgraph that it holds."""
    reader, position = use
    while reader is not scope and reader.parent is not None:
        reader, position = reader.parent, reader.holder
    return position
