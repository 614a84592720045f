# SPDX-License-Identifier: Apache-2.0

"""How often each operator occurs in a model, before and after its lowering."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from onnx import FunctionProto, NodeProto

from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.ir.index import ModelIndex
from poolgrad_lowering.ir.scopes import Node, canonical_domain

Operators = Counter[tuple[str, str]]
"""The number of nodes of each operator, a domain and an op type; ONNX's own domain is the empty string."""


def count_operators(index: ModelIndex) -> Operators:
    """Return the counts of an indexed model, without function bodies of the dialect."""
    found: Operators = Counter()
    for scope in index.scopes:
        root = scope.root.proto
        if not (isinstance(root, FunctionProto) and root.domain == DOMAIN):
            found.update({op: len(positions) for op, positions in scope.by_op.items()})
    return found


def edited(before: Operators, removed: Iterable[Node], added: Iterable[NodeProto]) -> Operators:
    """Return the counts of a model after an edit; operators that are gone have the count 0."""
    after = before.copy()
    after.subtract(Counter([node.op for node in set(removed)]))
    after.update((canonical_domain(node.domain), node.op_type) for node in added)
    return after
