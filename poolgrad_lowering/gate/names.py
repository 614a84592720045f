"""Names: text, and given once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, KeysView, Sequence

from poolgrad_lowering.diagnostics.faults import Fault, Flaw, shown
from poolgrad_lowering.ir.scopes import Scope


def twice(names: Sequence[str]) -> Flaw | None:
    """Whether a scope gives one of its names twice."""
    if len(set(names)) == len(names):
        return None
    [(name, _)] = Counter(names).most_common(1)
    return Flaw(Fault.NAME_TWICE, f"the name {shown(name)} is given twice")


def not_text(names: Collection[str]) -> Flaw | None:
    """Whether a name is not UTF-8. protobuf hands out such a name as bytes, whatever its type says."""
    try:
        "".join(names)  # many names at the speed of one
    except TypeError:
        bad = next(name for name in names if not isinstance(name, str))
        return Flaw(Fault.NAME_NOT_UTF8, f"the name {shown(bad)} is not UTF-8 text")
    return None


def scope_names(scope: Scope) -> Iterable[Collection[str]]:
    """All names of a scope, in groups."""
    values = (scope.producers, scope.inputs, scope.outputs, scope.initializers, scope.value_infos)
    return (scope.use_lists.names, *values, scope.node_names, *scope.by_op)


def shadowing(scope: Scope) -> tuple[int, Flaw] | None:
    """The first node of a subgraph, by its position, that makes a value of a name that is taken around the subgraph.

    A name that is given after the node that holds the subgraph does not count, as for onnxruntime, which also takes
    inputs and initializers that hide outer values.
    """
    if scope.holder < 0:
        return None
    hiding = [(scope.producers[name], name) for name in _taken_around(scope, scope.producers.keys())]
    if not hiding:
        return None
    position, name = min(hiding)
    return position, Flaw(Fault.NAME_SHADOWED, f"the value {shown(name)} has the name of one around the subgraph")


def _taken_around(scope: Scope, names: KeysView[str]) -> Iterator[str]:
    """Which of some names mean something where a subgraph stands."""
    while scope.parent is not None:
        around, holder = scope.parent, scope.holder
        yield from names & around.inputs
        yield from names & around.initializers.keys()
        for name in names & around.producers.keys():
            if holder < 0 or around.producers[name] < holder:
                yield name
        scope = around
