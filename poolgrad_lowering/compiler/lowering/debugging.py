# SPDX-License-Identifier: Apache-2.0

"""Environment variables that restrict or dump a lowering, for debugging.

They take effect however the compiler is called. `docs/command-line.md` describes them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import onnx
from onnx import GraphProto, NodeProto

from poolgrad_lowering.compiler.families.verdicts import Lowered
from poolgrad_lowering.compiler.rewriting.region import Region
from poolgrad_lowering.compiler.rewriting.rewrite import Replacement
from poolgrad_lowering.model.diagnostics.codes import Code, Refusal
from poolgrad_lowering.model.io.atomic_write import make_folder, write_bytes
from poolgrad_lowering.model.ir.scopes import Node, Value

ONLY = "POOLGRAD_ONLY"
DUMP = "POOLGRAD_DUMP"
_SHOWN = 64
"""Constants of more bytes than this are shown as inputs."""


def not_selected(site: Lowered[Any]) -> Refusal | None:
    """Why a site is not lowered whose identifier and form match no glob in POOLGRAD_ONLY; None if that is not set."""
    given = os.environ.get(ONLY, "")
    globs = [glob.strip() for glob in given.split(",") if glob.strip()]
    if not globs or any(fnmatchcase(text, glob) for glob in globs for text in (site.site, site.form)):
        return None
    return Refusal(Code.NOT_SELECTED, "{}={} does not name '{}'", (ONLY, given, site.site))


def dump(replaced: Sequence[Replacement]) -> None:
    """Write the removed and the new nodes of each replacement to the folder in POOLGRAD_DUMP, if it is set.

    They are a pair of numbered text files. Creates the folder if it does not exist. Raises `FileError`.
    """
    if not replaced or not os.environ.get(DUMP):
        return
    folder = Path(os.environ[DUMP])
    make_folder(folder)
    for number, one in enumerate(replaced, 1):
        stem = f"{number:03}-{re.sub(r'[^A-Za-z0-9_.-]+', '_', one.root.label)[-80:]}"
        for moment, graph in (("before", _before(one.root, one.region)), ("after", _after(one.root, one.nodes))):
            write_bytes(folder / f"{stem}.{moment}.txt", onnx.printer.to_text(graph).encode() + b"\n")


def _before(root: Node, region: Region) -> GraphProto:
    graph = _graph(root, region.frontier, [node.proto for node in region.nodes])
    for value in sorted(region.initializers, key=lambda value: value.name):
        tensor = value.scope.initializer(value.name)
        if tensor is not None and tensor.ByteSize() <= _SHOWN:
            graph.initializer.append(tensor)
        else:
            graph.input.append(_declaration(value))
    return graph


def _after(root: Node, written: Sequence[NodeProto]) -> GraphProto:
    made = {name for node in written for name in node.output}
    read = dict.fromkeys(name for node in written for name in node.input if name and name not in made)
    inputs = (root.scope.resolve(name) or Value(root.scope, name) for name in read)
    return _graph(root, inputs, written)


def _graph(root: Node, inputs: Iterable[Value], nodes: Iterable[NodeProto]) -> GraphProto:
    graph = GraphProto(name=root.scope.path, node=nodes)
    graph.input.extend(_declaration(value) for value in sorted(inputs, key=lambda value: value.name))
    graph.output.extend(_declaration(value) for value in root.outputs if value is not None)
    return graph


def _declaration(value: Value) -> onnx.ValueInfoProto:
    return value.scope.declared(value.name) or onnx.ValueInfoProto(name=value.name)
