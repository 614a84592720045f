# SPDX-License-Identifier: Apache-2.0

"""PyTorch's operators in ONNX graphs: which one a node of domain org.pytorch.aten calls, and the windows of pools."""

from __future__ import annotations

from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.aten_pools import pool_windows
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.producers import ATEN_DOMAIN, ATEN_GENERIC, aten_name
from poolgrad_lowering.model.ir.scopes import Node, Value
from poolgrad_lowering.model.windows.adaptive import Windows


def aten_anchors(*operators: str) -> tuple[tuple[str, str], ...]:
    """The operators (domain, op type) of nodes that can call one of PyTorch's."""
    return ((ATEN_DOMAIN, ATEN_GENERIC), *((ATEN_DOMAIN, name) for name in operators))


def aten_operator(facts: Facts, node: Node) -> str | None:
    """The operator that a node calls, with its overload as in `max.dim` where one is named; None if it is no such node.

    One whose operator the model defines itself, as a function, is none.
    """
    return None if facts.is_function(node) else aten_name(node)


def out_of_range(node: Node) -> Refuse:
    """Return the refusal of a node with an argument that is not constant, or is none of its operator's."""
    return Refuse(Code.POOL_ATTRIBUTES, "'{}' has arguments that are not constant or out of range", node.label)


def pool_arguments(facts: Facts, node: Node, x: Value, first: int, rank: int, *, dilated: bool = True) -> Windows:
    """As `pool_windows`; raises `Refuse` where an argument is out of range or not constant."""
    windows = pool_windows(facts, node, x, first, rank, dilated=dilated)
    if windows is None:
        raise out_of_range(node)
    return windows
