# SPDX-License-Identifier: Apache-2.0

"""Writes the body of a definition into a graph: under new names, with constants as initializers, without dead nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import GraphProto, NodeProto, helper, numpy_helper, parser

from poolgrad_lowering.rewriting.node_writer import new_name
from poolgrad_lowering.standard.definition import Body
from poolgrad_lowering.standard.spelling import OPSET, spelled

Array = npt.NDArray[Any]


class Constants:
    """The constants of bodies as initializers of one graph: equal ones are one."""

    def __init__(self, graph: GraphProto, taken: set[str]) -> None:
        self._graph = graph
        self._taken = taken
        self._names: dict[tuple[object, ...], str] = {}

    def name(self, wanted: str, values: Array) -> str:
        """Return the initializer with these values, which is added under the wanted name if there is none."""
        key = values.dtype.str, values.dtype.name, values.shape, values.tobytes()
        if key not in self._names:
            name = self._names[key] = new_name(wanted, self._taken)
            self._graph.initializer.append(
                numpy_helper.from_array(np.ascontiguousarray(values).reshape(values.shape), name)
            )
        return self._names[key]


class Inliner:
    """Writes bodies into one graph.

    `opset` is that of ONNX's operators there, `taken` the names of the model. `integers` returns the elements of a
    constant of the graph, or None.
    """

    def __init__(
        self,
        graph: GraphProto,
        opset: int,
        taken: set[str],
        integers: Callable[[str], Sequence[int] | None] = lambda _: None,
    ) -> None:
        self._integers_of = integers
        self._opset = opset
        self._taken = taken
        self._constants = Constants(graph, taken)

    def nodes(self, body: Body, prefix: str, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> list[NodeProto]:
        """Return the nodes of a body that reads `inputs` and writes `outputs`, by their names in the body.

        New names begin with `prefix`. Raises `Refuse` if the opset lacks an operator.
        """
        given = {**inputs, **{name: value.name for name, value in body.values.items()}}
        written = parsed(body.text)
        folded = _Folded(written, body.tensors, set(given))
        alias = folded.alias
        names: dict[str, str] = {}
        for name, actual in outputs.items():
            if alias(name) in folded.computed and alias(name) not in names:
                names[alias(name)] = actual
        needed = {alias(name) for name in outputs}
        kept = []
        for node in reversed(folded.nodes):
            if needed.intersection(node.output):
                kept.append(node)
                needed.update(map(alias, node.input))

        def named(name: str) -> str:
            found = alias(name)
            if not found:
                return ""
            if found in folded.constants:
                return self._constants.name(f"{prefix}/{found}", folded.constants[found])
            if found in given:
                return given[found]
            if found not in names:
                names[found] = new_name(f"{prefix}/{found}", self._taken)
            return names[found]

        result = []
        for node in reversed(kept):
            new = NodeProto()
            new.CopyFrom(node)
            new.name = new_name(f"{prefix}/{node.output[0]}", self._taken)
            read = [named(name) for name in node.input]
            new.input[:] = read
            values = dict(zip(read, (folded.constants.get(alias(name)) for name in node.input), strict=True))
            new.output[:] = [named(name) if name in needed else "" for name in node.output]
            result.append(spelled(new, self._opset, lambda operand, values=values: self._integers(operand, values)))
        for name, actual in outputs.items():
            if names.get(alias(name)) != actual:
                result.append(
                    helper.make_node(
                        "Identity", [named(name)], [actual], name=new_name(f"{prefix}/{name}", self._taken)
                    )
                )
        return result

    def _integers(self, operand: str, constants: Mapping[str, Array | None]) -> Sequence[int] | None:
        found = constants.get(operand)
        return self._integers_of(operand) if found is None else [int(number) for number in found.flat]


class _Folded:
    """A body whose constants, and what follows from constants alone, are arrays, and whose copies are aliases."""

    def __init__(self, nodes: Iterable[NodeProto], tensors: Mapping[str, Array], given: set[str]) -> None:
        self.constants: dict[str, Array] = dict(tensors)
        self.nodes: list[NodeProto] = []
        self.computed: set[str] = set()
        self._aliases: dict[str, str] = {}
        for node in nodes:
            if node.op_type == "Constant":
                self.constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
            elif node.op_type == "Identity":
                self._aliases[node.output[0]] = self.alias(node.input[0])
            elif (value := self._value(node)) is not None:
                self.constants[node.output[0]] = value
            else:
                self.nodes.append(node)
                self.computed.update(node.output)
        self.computed -= given

    def alias(self, name: str) -> str:
        """Return the value that a name stands for."""
        return self._aliases.get(name, name)

    def _value(self, node: NodeProto) -> Array | None:
        """Return the result of a conversion or a view of a constant, else None."""
        operands = [self.constants.get(self.alias(name)) for name in node.input]
        source = operands[0] if operands else None
        if source is None or None in [type(each) if each is not None else None for each in operands]:
            return None
        if node.op_type == "Cast":
            return source.astype(helper.tensor_dtype_to_np_dtype(node.attribute[0].i))
        if node.op_type == "Reshape" and operands[1] is not None:
            return source.reshape([int(size) for size in operands[1]])
        return None


@lru_cache(maxsize=4096)
def parsed(text: str) -> tuple[NodeProto, ...]:
    """Return the nodes of a body's text."""
    return tuple(
        parser.parse_function(f'<domain: "body", opset_import: ["": {OPSET}]> body () => () {{\n{text}}}').node
    )
