# SPDX-License-Identifier: Apache-2.0

"""Names are UTF-8 and unique, and subgraphs do not shadow outer values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, KeysView, Sequence

from poolgrad_lowering.model.diagnostics.faults import Fault, Flaw, shown
from poolgrad_lowering.model.ir.scopes import Scope


def duplicate_flaw(names: Sequence[str]) -> Flaw | None:
    """The flaw of a list with a duplicate name, or None."""
    if len(set(names)) == len(names):
        return None
    [(name, _)] = Counter(names).most_common(1)
    return Flaw(Fault.NAME_TWICE, f"the name {shown(name)} is given twice")


def encoding_flaw(names: Collection[str]) -> Flaw | None:
    """The flaw of a name that is not UTF-8, or None. protobuf returns such a name as `bytes`."""
    try:
        "".join(names)  # raises for bytes, and is faster than a loop over the names
    except TypeError:
        bad = next(name for name in names if not isinstance(name, str))
        return Flaw(Fault.NAME_NOT_UTF8, f"the name {shown(bad)} is not UTF-8 text")
    return None


def scope_names(scope: Scope) -> Iterable[Collection[str]]:
    """All names of a scope, in groups. A name that a node uses and that no node defines is in `free_names`."""
    values = (scope.producers, scope.inputs, scope.outputs, scope.initializers, scope.value_infos)
    return (scope.free_names, *values, scope.node_names, *scope.by_op)


def shadowing_flaw(scope: Scope) -> tuple[int, Flaw] | None:
    """The position and flaw of the first node of a subgraph that redefines a name of an enclosing scope, or None.

    As in onnxruntime, a name that is defined after the node that holds the subgraph does not count, and inputs and
    initializers of a subgraph may shadow outer values.
    """
    if scope.holder < 0:
        return None
    hiding = [(scope.producers[name], name) for name in _defined_outside(scope, scope.producers.keys())]
    if not hiding:
        return None
    position, name = min(hiding)
    return position, Flaw(Fault.NAME_SHADOWED, f"the value {shown(name)} shadows a value outside the subgraph")


def _defined_outside(scope: Scope, names: KeysView[str]) -> Iterator[str]:
    """The names that are defined in an enclosing scope before the subgraph."""
    while scope.parent is not None:
        around, holder = scope.parent, scope.holder
        yield from names & around.inputs
        yield from names & around.initializers.keys()
        for name in names & around.producers.keys():
            if holder < 0 or around.producers[name] < holder:
                yield name
        scope = around
