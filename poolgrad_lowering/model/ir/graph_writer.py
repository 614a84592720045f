# SPDX-License-Identifier: Apache-2.0

"""Writes nodes under names that nothing else in the model has, and constants into a graph that is being rewritten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, helper, numpy_helper

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


class GraphWriter(NodeWriter):
    """Collects the nodes that a graph is to have, new ones and its own."""

    def __init__(self, graph: GraphProto, taken: set[str]) -> None:
        super().__init__(taken)
        self._graph = graph

    def constant(self, name: str, values: npt.NDArray[Any]) -> str:
        """Return a new initializer with these values."""
        return self.tensor(numpy_helper.from_array(values, name))

    def tensor(self, tensor: TensorProto) -> str:
        """Return a new initializer with the values of a tensor, whose name may change."""
        tensor.name = self.name(tensor.name)
        self._graph.initializer.append(tensor)
        return tensor.name

    def keep(self, node: NodeProto) -> None:
        """Add a node that is there already."""
        self.nodes.append(node)

    def replace_nodes(self) -> None:
        """Put the collected nodes in the place of the graph's."""
        del self._graph.node[:]
        self._graph.node.extend(self.nodes)
