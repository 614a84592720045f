# SPDX-License-Identifier: Apache-2.0

"""Creates ONNX nodes whose names, and the names of whose values, nothing else in the model has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import AttributeProto, NodeProto, helper

from poolgrad_lowering.model.ir.graphs import fresh


class NodeWriter:
    """Collects new nodes in `nodes`, in their order. `taken` are the names in the model, and get the new names."""

    def __init__(self, taken: set[str]) -> None:
        self.nodes: list[NodeProto] = []
        self._taken = taken

    def name(self, wanted: str) -> str:
        """Return a name for a new node or value: the wanted one, or that with a number."""
        return fresh(wanted, self._taken)

    def add(
        self,
        op_type: str,
        inputs: Sequence[str],
        output: str,
        domain: str = "",
        *,
        node_name: str | None = None,
        stored: Sequence[AttributeProto] = (),
        **attributes: Any,
    ) -> str:
        """Add a node with one output, and return the output. Its attributes are the `stored` ones and `attributes`.

        The node has `node_name`, or a new name made of the output and the operator.
        """
        name = self.name(f"{output}/{op_type}") if node_name is None else node_name
        node = helper.make_node(op_type, inputs, [output], name=name, domain=domain)
        node.attribute.extend(stored)
        node.attribute.extend(helper.make_attribute(*each) for each in sorted(attributes.items()))
        self.nodes.append(node)
        return output
