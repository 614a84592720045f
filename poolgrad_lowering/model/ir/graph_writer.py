# SPDX-License-Identifier: Apache-2.0

"""Writes nodes and constants into a graph that is being rewritten, under names that nothing else has."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from types import MappingProxyType
from typing import Any

import numpy.typing as npt
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from poolgrad_lowering.model.ir.node_writer import NodeWriter


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

    def change(
        self,
        node: NodeProto,
        attributes: Mapping[str, Any] = MappingProxyType({}),
        *,
        without: Collection[str] = (),
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
    ) -> bool:
        """Add a copy of a node with other attributes, inputs or outputs, if any are given; return whether it did."""
        if not (attributes or without or inputs or outputs):
            return False
        changed, replaced = deepcopy(node), {*attributes, *without}
        del changed.attribute[:]
        changed.attribute.extend(attribute for attribute in node.attribute if attribute.name not in replaced)
        changed.attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
        for names, wanted in ((changed.input, inputs), (changed.output, outputs)):
            names[:] = names if wanted is None else wanted
        self.keep(changed)
        return True

    def replace_nodes(self) -> None:
        """Put the collected nodes in the place of the graph's."""
        del self._graph.node[:]
        self._graph.node.extend(self.nodes)
