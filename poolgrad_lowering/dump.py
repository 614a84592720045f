"""Every rewrite as text, before and after, in the folder that POOLGRAD_DUMP names: to look at."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import onnx
from onnx import GraphProto, NodeProto

from poolgrad_lowering.errors import FileError
from poolgrad_lowering.placing import write_bytes
from poolgrad_lowering.region import Region
from poolgrad_lowering.scopes import Node, Value

_SHOWN = 64
"""Constants of more bytes than this are named, not shown."""


class Dump:
    """Writes into a folder, made where it is missing: a pair of files per rewrite, numbered in their order."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def __call__(self, root: Node, region: Region, written: Sequence[NodeProto]) -> None:
        """Write what dies with `root`, and what stands in its place. Raises `FileError`."""
        self._count += 1
        stem = f"{self._count:03}-{re.sub(r'[^A-Za-z0-9_.-]+', '_', root.label)[-80:]}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"cannot make '{self._folder}': {error.strerror or error}") from error
        for moment, graph in (("before", _before(root, region)), ("after", _after(root, written))):
            write_bytes(self._folder / f"{stem}.{moment}.txt", onnx.printer.to_text(graph).encode() + b"\n")


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
