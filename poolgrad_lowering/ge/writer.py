# SPDX-License-Identifier: Apache-2.0

"""Writes nodes and constants into a graph that is being rewritten, under names that nothing else has."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from poolgrad_lowering.ge.values import ValueTypes
from poolgrad_lowering.model.ir.graphs import fresh, names_read

_AXES_INPUT_OPSETS = {"ReduceSum": 13}
"""The first opsets in which axes are an input; 18 for the other reductions."""


class Writer:
    """Makes the nodes that replace a node of `graph`.

    `opset` is the version of ONNX's operators, `types` what is known of values, to which new values are added, and
    `taken` the names in the model. Equal vectors of integers are one initializer.
    """

    def __init__(self, graph: GraphProto, opset: int, types: ValueTypes, taken: set[str]) -> None:
        self.opset = opset
        self.types = types
        self.nodes: list[NodeProto] = []
        self._graph = graph
        self._taken = taken
        self._vectors: dict[tuple[int, ...], str] = {}

    @cached_property
    def producers(self) -> dict[str, NodeProto]:
        """The graph's nodes before it is rewritten, by their outputs."""
        return {name: node for node in self._graph.node for name in node.output}

    @cached_property
    def readers(self) -> dict[str, list[NodeProto]]:
        """The graph's nodes before it is rewritten, by their first inputs."""
        found: dict[str, list[NodeProto]] = {}
        for node in self._graph.node:
            for name in node.input[:1]:
                found.setdefault(name, []).append(node)
        return found

    @cached_property
    def read_with_type(self) -> set[str]:
        """The names of the graph's values whose element type matters: all that are read but by a Cast alone."""
        nodes = (node for node in self._graph.node if node.op_type != "Cast" or node.domain)
        return {*names_read(nodes), *(value.name for value in self._graph.output)}

    def vector(self, numbers: Sequence[int]) -> str:
        """Return an initializer with these int64 numbers, of shape (len(numbers),)."""
        key = tuple(numbers)
        if key not in self._vectors:
            text = "x".join(map(str, key)) or "empty"
            self._vectors[key] = self.constant(f"ints_{text}"[:64], np.array(key, np.int64))
        return self._vectors[key]

    def constant(self, name: str, values: npt.NDArray[Any]) -> str:
        """Return a new initializer with these values."""
        return self.tensor(numpy_helper.from_array(values, name))

    def tensor(self, tensor: TensorProto) -> str:
        """Return a new initializer with the values of a tensor, whose name may change."""
        tensor.name = fresh(tensor.name, self._taken)
        self._graph.initializer.append(tensor)
        self.types.constants[tensor.name] = tensor
        self.types.learn(tensor.name, tensor.data_type, tuple(tensor.dims))
        return tensor.name

    def name(self, wanted: str) -> str:
        """Return a name for a new value: the wanted one, or that with a number."""
        return fresh(wanted, self._taken)

    def add(self, op_type: str, inputs: Sequence[str], output: str, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output, and return the output."""
        name = fresh(f"{output}/{op_type}", self._taken)
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=name, domain=domain, **attributes))
        return output

    def reshape(self, value: str, shape: Sequence[int], output: str) -> str:
        """Add a Reshape to a shape of numbers, and return the output."""
        if -1 not in shape:
            self.types.learn(output, self.types.elements.get(value), tuple(shape))
        return self.add("Reshape", [value, self.vector(shape)], output)

    def slice(self, value: str, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], output: str) -> str:
        """Add a Slice, and return the output."""
        if self.opset < 10:
            return self.add("Slice", [value], output, starts=starts, ends=ends, axes=axes)
        return self.add("Slice", [value, *map(self.vector, (starts, ends, axes))], output)

    def reduce(self, op_type: str, value: str, axes: Sequence[int], output: str) -> str:
        """Add a reduction that keeps the axes with size 1, and return the output."""
        if self.opset < _AXES_INPUT_OPSETS.get(op_type, 18):
            return self.add(op_type, [value], output, axes=axes, keepdims=1)
        return self.add(op_type, [value, self.vector(axes)], output, keepdims=1)

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
