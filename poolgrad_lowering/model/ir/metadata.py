# SPDX-License-Identifier: Apache-2.0

"""The metadata of a node that tells people what it belongs to: a site of the lowering, a layer of a PyTorch model.

Anybody can write metadata, so it decides nothing, and what has another form is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from onnx import NodeProto

SITE = "poolgrad.site"
"""The identifier of the site whose gradient a lowered node computes."""

PATTERN = "poolgrad.pattern"
"""The form that recognised what a lowered node replaces."""

REPLACED = "poolgrad.replaced"
"""The names of the nodes that a lowered node replaces, as a JSON list."""

NAME_SCOPES = "pkg.torch.onnx.name_scopes"
"""The paths of the modules that a node is in, outermost first, and the node's own name; as a list in Python's syntax.

`torch.onnx.export` writes it: `['', 'features', 'features.3', 'max_pool2d']`.
"""

_MAX_TEXT = 4096
"""Characters of metadata that are read; a longer text is ignored."""

_TEXT = r"""(?:'[^'\\\n]*'|"[^"\\\n]*")"""
_LIST = re.compile(rf"\[(?:{_TEXT}(?:, ?{_TEXT})*)?\]")
_ITEM = re.compile(_TEXT)


def site_of(node: NodeProto) -> str | None:
    """Return the identifier of the site whose gradient a node computes, or None."""
    return next(_texts(node, SITE), None)


def layer_of(node: NodeProto) -> str | None:
    """Return the path of the innermost module that a node is in, `features.3`; None if the node names none.

    The model itself, whose path is empty, is no layer.
    """
    return next(filter(None, map(_innermost, _texts(node, NAME_SCOPES))), None) if node.metadata_props else None


def _innermost(scopes: str) -> str:
    """The last but one text of a list; empty for another text or a shorter list."""
    names = [item[1:-1] for item in _ITEM.findall(scopes)] if _LIST.fullmatch(scopes) else []
    return names[-2] if len(names) > 1 else ""


def _texts(node: NodeProto, key: str) -> Iterator[str]:
    """Yield the entries of a key; a node should have one."""
    return (entry.value for entry in node.metadata_props if entry.key == key and len(entry.value) <= _MAX_TEXT)
