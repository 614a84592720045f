# SPDX-License-Identifier: Apache-2.0

"""Finds gradients of the dialect that were expanded to the standard nodes of their function body.

The nodes may differ from those of the body in names, and have initializers for its Constant nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import onnx
from onnx import TensorProto

from poolgrad_lowering.dialect import OPS
from poolgrad_lowering.dialect.op import Part
from poolgrad_lowering.verification.graph.flat import FlatNode
from poolgrad_lowering.verification.graph.matching import Match
from poolgrad_lowering.verification.sites.declared import own_bodies

_EXPANDED = tuple(name for name, op in OPS.items() if op.is_gradient and op.prototype is None)
"""The gradients that no graph of CANN can have."""


@dataclass(frozen=True)
class ExpandedGradient:
    """A gradient as the nodes of its function body: its result, the incoming gradient, and the keys of the nodes."""

    result: str
    grad: str
    nodes: frozenset[bytes]


def expanded_gradients(
    nodes: Iterable[FlatNode], constants: Mapping[str, TensorProto], opset: int
) -> list[ExpandedGradient]:
    """Return the expanded gradients among the nodes.

    `constants` are the initializers that the nodes can read; `opset` is the version of the default domain.
    """
    scopes: dict[str, list[FlatNode]] = {}
    for node in (node for node in nodes if node.outputs):
        scopes.setdefault(node.scope, []).append(node)
    found = []
    for body in [body for name in _EXPANDED for body in own_bodies(name, opset).values()] if scopes else ():
        grad = next(operand.name for operand in OPS[body.name].inputs if operand.part is Part.GRAD)
        given = [node for node in body.node if node.op_type == "Constant"]
        numbers = {node.output[0]: onnx.numpy_helper.to_array(node.attribute[0].t) for node in given}
        for own in scopes.values():
            values = {name: value for node in own for name, value in zip(node.proto.input, node.inputs, strict=True)}
            stored = {name: constants[value] for name, value in values.items() if value in constants}
            producers = {name: node.proto for node in own for name in node.proto.output if name}
            keys = {name: node.key for node in own for name in node.proto.output}
            for node in own:
                match = Match(body.node, numbers, producers, stored)
                result = match.computes(body.output[0], node.proto.output[0])
                if result and match.bound.keys() >= set(body.input):
                    laid_onto = frozenset(keys[next(filter(None, each.output))] for each in match.nodes)
                    found.append(ExpandedGradient(node.outputs[0], values[match.bound[grad]], laid_onto))
    return found
