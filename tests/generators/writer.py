# SPDX-License-Identifier: Apache-2.0

"""Writes nodes and constants into one graph, each operator in the version of its opset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

Array = npt.NDArray[Any]
Operand = str | int | Sequence[int] | Array
"""A value's name, or numbers that become a constant: int64, unless they are an array of another type."""


class Writer:
    """Collects nodes and initializers, whose names begin with its prefix."""

    def __init__(self, opset: int, *, constant_nodes: bool) -> None:
        self.opset = opset
        self.nodes: list[NodeProto] = []
        self.initializers: list[TensorProto] = []
        self._constant_nodes = constant_nodes
        self._prefix = ""

    def under(self, prefix: str) -> Writer:
        """A writer to the same graph, whose names begin with `prefix`."""
        other = Writer(self.opset, constant_nodes=self._constant_nodes)
        other.nodes, other.initializers, other._prefix = self.nodes, self.initializers, prefix
        return other

    def __call__(self, op_type: str, *inputs: Operand, domain: str = "", **attributes: Any) -> str:
        """Write a node with one output; returns the output's name."""
        return self.several(op_type, 1, *inputs, domain=domain, **attributes)[0]

    def several(self, op_type: str, outputs: int, *inputs: Operand, domain: str = "", **attributes: Any) -> list[str]:
        """Write a node with several outputs; returns their names."""
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        label = self._new(op_type)
        results = [label, *(f"{label}_{number}" for number in range(1, outputs))]
        self.nodes.append(helper.make_node(op_type, names, results, name=label, domain=domain, **attributes))
        return results

    def constant(self, value: Operand) -> str:
        """Write a constant as an initializer or a Constant node; returns its name."""
        array = value if isinstance(value, np.ndarray) else np.array(value, np.int64)
        if self._constant_nodes:
            name = self._new("Constant")
            tensor = numpy_helper.from_array(array, name)
            self.nodes.append(helper.make_node("Constant", [], [name], name=name, value=tensor))
            return name
        name = self._new("constant")
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def unsqueeze(self, x: str, *axes: int) -> str:
        return self("Unsqueeze", x, list(axes)) if self.opset >= 13 else self("Unsqueeze", x, axes=list(axes))

    def squeeze(self, x: str, *axes: int) -> str:
        return self("Squeeze", x, list(axes)) if self.opset >= 13 else self("Squeeze", x, axes=list(axes))

    def reduce_max(self, x: str, axes: Sequence[int], *, keepdims: bool) -> str:
        if self.opset >= 18:
            return self("ReduceMax", x, list(axes), keepdims=int(keepdims))
        return self("ReduceMax", x, axes=list(axes), keepdims=int(keepdims))

    def slice(self, x: str, starts: list[int], ends: list[int], axes: list[int]) -> str:
        if self.opset >= 10:
            return self("Slice", x, starts, ends, axes)
        return self("Slice", x, starts=starts, ends=ends, axes=axes)

    def splice(self, model: ModelProto, inputs: Sequence[str]) -> list[str]:
        """Write another model's graph over these inputs; returns the names of its outputs."""
        names = dict(zip((value.name for value in model.graph.input), inputs, strict=True))
        for tensor in model.graph.initializer:
            names[tensor.name] = self.constant(numpy_helper.to_array(tensor))
        for node in model.graph.node:
            label = self._new(node.op_type)
            made = {old: f"{label}_{old}" for old in node.output}
            copied = NodeProto()
            copied.CopyFrom(node)
            copied.name = label
            copied.input[:] = [names[name] for name in node.input]
            copied.output[:] = [made[name] for name in node.output]
            names |= made
            self.nodes.append(copied)
        return [names[value.name] for value in model.graph.output]

    def _new(self, stem: str) -> str:
        return f"{self._prefix}{stem}{len(self.nodes) + len(self.initializers)}"
