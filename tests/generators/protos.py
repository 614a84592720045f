# SPDX-License-Identifier: Apache-2.0

"""Functions on protobuf models: copies, replaced nodes, other names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onnx import ModelProto, NodeProto, ValueInfoProto

Choices = Sequence[int]
"""Small numbers, by which a change of a model chooses."""


def copied(model: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy


def with_nodes(model: ModelProto, nodes: Iterable[NodeProto]) -> ModelProto:
    """The model with copies of these nodes instead of its own."""
    copy = copied(model)
    del copy.graph.node[:]
    copy.graph.node.extend(nodes)
    return copy


def renamed(value: ValueInfoProto, name: str) -> ValueInfoProto:
    copy = ValueInfoProto()
    copy.CopyFrom(value)
    copy.name = name
    return copy
