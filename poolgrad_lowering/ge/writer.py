# SPDX-License-Identifier: Apache-2.0

"""Writes nodes for GE into a graph, and learns the types of the values that they make."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, helper

from poolgrad_lowering.ge.values import ValueTypes, folded
from poolgrad_lowering.model.facts.known import require
from poolgrad_lowering.model.ir.graph_writer import GraphWriter
from poolgrad_lowering.model.ir.graphs import names_read

LAST = (1 << 63) - 1
"""The end of a Slice that takes everything from its start on, or of a Shape that has all sizes."""

_AXES_INPUT_OPSETS = {"ReduceSum": 13, "Squeeze": 13, "Unsqueeze": 13}
"""The first opsets in which axes are an input; 18 for the other reductions."""


def _is_to_int64(cast: NodeProto) -> bool:
    return any(each.name == "to" and each.i == TensorProto.INT64 for each in cast.attribute)


class Writer(GraphWriter):
    """Makes the nodes that replace a node of `graph`.

    `opset` is the version of ONNX's operators, `types` what is known of values, to which new values are added. Equal
    vectors of integers are one initializer.
    """

    def __init__(self, graph: GraphProto, opset: int, types: ValueTypes, taken: set[str]) -> None:
        super().__init__(graph, taken)
        self.opset = opset
        self.types = types
        self.inputs = [value.name for value in graph.input]
        self.zeros: dict[tuple[str, int, int, int], str] = {}  # of `shape_operands`
        self.starts: dict[str, str] = {}  # of `kept_indices`, as `positions`
        self.positions: dict[str, str] = {}
        self.unread = set[str]()  # names that a rewrite reads no more
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

    def users(self, value: str) -> list[NodeProto] | None:
        """Return the graph's nodes that read a value before it is rewritten; None if an output or a subgraph has it."""
        users = [node for node in self._graph.node if value in names_read([node])]
        is_inner = any(value not in node.input for node in users)
        return None if is_inner or any(value == output.name for output in self._graph.output) else users

    @cached_property
    def read(self) -> set[str]:
        """The names that the graph's nodes read before it is rewritten, and those of its outputs."""
        return {*names_read(self._graph.node), *(value.name for value in self._graph.output)}

    @cached_property
    def read_with_type(self) -> set[str]:
        """The names of the graph's values whose element type matters: all that are read but by a Cast alone.

        onnxruntime removes a Cast of int64 to int64.
        """
        nodes = (node for node in self._graph.node if node.op_type != "Cast" or node.domain or _is_to_int64(node))
        return {*names_read(nodes), *(value.name for value in self._graph.output)}

    @cached_property
    def one_element(self) -> str | None:
        """The first element of an input of the graph, with one axis; it is added where it is first asked for."""
        whole = next((value.name for value in reversed(self._graph.input) if self.types.rank(value.name)), None)
        if whole is None:
            return None
        row = self.reshape(whole, [-1], self.name(f"{whole}/row"))
        element = self.slice(row, [0], [1], [0], self.name(f"{whole}/element"))
        self.types.learn(element, self.types.elements.get(whole), (1,))
        return element

    @cached_property
    def folded(self) -> frozenset[str]:
        """The values that onnxruntime computes when it makes the session, before the graph is rewritten."""
        return folded(self._graph, self.types)

    def change(
        self,
        node: NodeProto,
        attributes: Mapping[str, Any] = MappingProxyType({}),
        *,
        without: Collection[str] = (),
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
    ) -> None:
        """Add a copy of a node with other attributes, inputs or outputs. Raises `NotApplicableError` without any."""
        require(attributes or without or inputs or outputs)
        changed, replaced = deepcopy(node), {*attributes, *without}
        del changed.attribute[:]
        changed.attribute.extend(attribute for attribute in node.attribute if attribute.name not in replaced)
        changed.attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
        for names, wanted in ((changed.input, inputs), (changed.output, outputs)):
            names[:] = names if wanted is None else wanted
        self.keep(changed)

    def vector(self, numbers: Sequence[int]) -> str:
        """Return an initializer with these int64 numbers, of shape (len(numbers),)."""
        key = tuple(numbers)
        if key not in self._vectors:
            text = "x".join(map(str, key)) or "empty"
            self._vectors[key] = self.constant(f"ints_{text}"[:64], np.array(key, np.int64))
        return self._vectors[key]

    def tensor(self, tensor: TensorProto) -> str:
        """Return a new initializer with the values of a tensor, whose name may change."""
        name = super().tensor(tensor)
        self.types.constants[name] = tensor
        self.types.learn(name, tensor.data_type, tuple(tensor.dims))
        return name

    def reshape(self, value: str, shape: Sequence[int], output: str) -> str:
        """Add a Reshape to a shape of numbers, and return the output. −1 and 0 are no sizes."""
        sizes = [size if size > 0 else None for size in shape]
        is_known = None in sizes and output in self.types.shapes
        self.types.learn(output, self.types.elements.get(value), None if is_known else sizes)
        return self.add("Reshape", [value, self.vector(shape)], output)

    def slice(self, value: str, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], output: str) -> str:
        """Add a Slice, and return the output."""
        if self.opset < 10:
            return self.add("Slice", [value], output, starts=starts, ends=ends, axes=axes)
        return self.add("Slice", [value, *map(self.vector, (starts, ends, axes))], output)

    def along(self, op_type: str, value: str, axes: Sequence[int], output: str, **attributes: Any) -> str:
        """Add a node with axes, which are an input or an attribute by the opset, and return the output."""
        if self.opset < _AXES_INPUT_OPSETS.get(op_type, 18):
            return self.add(op_type, [value], output, axes=axes, **attributes)
        return self.add(op_type, [value, self.vector(axes)], output, **attributes)

    def reduce(self, op_type: str, value: str, axes: Sequence[int], output: str) -> str:
        """Add a reduction that keeps the axes with size 1, and return the output."""
        return self.along(op_type, value, axes, output, keepdims=1)
