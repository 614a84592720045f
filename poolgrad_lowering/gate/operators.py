"""Operators of a scope: named, of an imported domain, and pools with windows that can be meant."""

from __future__ import annotations

from poolgrad_lowering.gate.attributes import POOLS, window_flaw
from poolgrad_lowering.gate.faults import Fault, Flaw, shown
from poolgrad_lowering.scopes import LOCAL, Scope


def operator_flaw(scope: Scope) -> tuple[int, Flaw] | None:
    """The first node at fault by its position, asked per operator and not per node."""
    for (domain, op_type), positions in scope.by_op.items():
        if not op_type:
            return positions[0], Flaw(Fault.NO_OPERATOR, "it has no op_type")
        imported = "" if domain == LOCAL else domain
        if imported not in scope.opsets:
            return positions[0], Flaw(Fault.DOMAIN_NOT_IMPORTED, f"domain {shown(imported)} is not imported")
        if (domain, op_type) in POOLS:
            for position in positions:
                if (flaw := window_flaw(scope.proto.node[position].attribute[:])) is not None:
                    return position, flaw
    return None
