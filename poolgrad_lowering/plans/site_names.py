# SPDX-License-Identifier: Apache-2.0

"""The identifiers of a model's anchors: scope and first output. They are unique and the same at every lowering."""

from __future__ import annotations

from collections.abc import Iterable

from poolgrad_lowering.ir.scopes import Node
from poolgrad_lowering.rewriting.node_writer import new_name


def site_names(anchors: Iterable[Node]) -> list[str]:
    """`SCOPE:OUTPUT` for each anchor, with a number appended if two scopes have the same path."""
    taken: set[str] = set()
    return [new_name(f"{anchor.scope.path}:{_first_output(anchor)}", taken) for anchor in anchors]


def _first_output(anchor: Node) -> str:
    return next((value.name for value in anchor.outputs if value is not None), anchor.label)
