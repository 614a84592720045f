# SPDX-License-Identifier: Apache-2.0

"""Every node of a scope has an op type and the domain of an imported operator set."""

from __future__ import annotations

from poolgrad_lowering.diagnostics.faults import Fault, Flaw, shown
from poolgrad_lowering.ir.scopes import LOCAL, Scope


def operator_flaw(scope: Scope) -> tuple[int, Flaw] | None:
    """The position of the first node with a faulty operator, and the flaw, or None. Checks each operator once."""
    for (domain, op_type), positions in scope.by_op.items():
        if not op_type:
            return positions[0], Flaw(Fault.NO_OPERATOR, "it has no op_type")
        imported = "" if domain == LOCAL else domain
        if imported not in scope.opsets:
            return positions[0], Flaw(Fault.DOMAIN_NOT_IMPORTED, f"domain {shown(imported)} is not imported")
    return None
