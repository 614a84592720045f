# SPDX-License-Identifier: Apache-2.0

"""Hides from ONNX's shape inference what makes it infer sizes that a run does not have."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from poolgrad_lowering.analysis.pool import COUNTED, may_drop_windows
from poolgrad_lowering.ir.index import subgraphs
from poolgrad_lowering.ir.scopes import LOCAL, canonical_domain

Op = tuple[str, str]
_UNKNOWN = "?"
"""The name of no operator."""


class Hiding:
    """Hides the bounds of Slices, pools whose windows are miscounted, and what subgraphs declare.

    Of a Slice, inference then propagates only type and rank; the rules derive more. With known bounds, its inference
    ends the process if a window larger than its input made a size negative. Of such a pool, and of a call whose
    attributes make one, it infers nothing.
    """

    def __init__(self, functions: Iterable[onnx.FunctionProto]) -> None:
        """Take the model's functions: the attributes of a call may be those of a pool in one."""
        self._called: dict[Op, tuple[onnx.FunctionProto, list[onnx.NodeProto]]] = {}
        for function in functions:
            pools = [node for node in function.node if node.op_type in COUNTED and _refers(node)]
            if pools:
                self._called[canonical_domain(function.domain) or LOCAL, function.name] = function, pools

    def concerns(self, op: Op) -> bool:
        """Whether nodes of an operator may have something to hide, besides subgraphs."""
        return op[1] in ("Slice", *COUNTED) or op in self._called

    def hide(self, nodes: Iterable[onnx.NodeProto]) -> None:
        """Change nodes, and those in their subgraphs."""
        for node in nodes:
            if node.op_type == "Slice":
                node.input[1:] = [""] * (len(node.input) - 1)
            elif (may_drop_windows(node) and not _refers(node)) or self._may_drop_inside(node):
                node.op_type = _UNKNOWN
            for attribute in node.attribute:
                for _, graph in subgraphs(attribute):
                    del graph.value_info[:]
                    for value in (*graph.input, *graph.output):
                        hide_shapes(value.type)
                    self.hide(graph.node)

    def _may_drop_inside(self, call: onnx.NodeProto) -> bool:
        op = canonical_domain(call.domain) or LOCAL, call.op_type
        if op not in self._called:
            return False
        function, pools = self._called[op]
        given = {attribute.name: attribute for attribute in (*function.attribute_proto, *call.attribute)}
        return any(may_drop_windows(pool, given) for pool in pools)


def _refers(node: onnx.NodeProto) -> bool:
    return any(attribute.ref_attr_name for attribute in node.attribute)


def hide_shapes(declared: onnx.TypeProto) -> None:
    """Remove the shape from the type of a tensor, or of the tensors in a sequence, an optional or a map."""
    kind = declared.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        getattr(declared, kind).ClearField("shape")
    elif kind in ("sequence_type", "optional_type"):
        hide_shapes(getattr(declared, kind).elem_type)
    elif kind == "map_type":
        hide_shapes(declared.map_type.value_type)
