# SPDX-License-Identifier: Apache-2.0

"""Writes the body of a definition into a graph. Values get new names, constants become initializers, dead nodes go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy.typing as npt
from onnx import GraphProto, NodeProto, helper, numpy_helper, parser

from poolgrad_lowering.model.diagnostics.codes import Refuse
from poolgrad_lowering.model.diagnostics.definition_codes import DefinitionCode
from poolgrad_lowering.model.ir.graphs import fresh
from poolgrad_lowering.standard.definition import Body
from poolgrad_lowering.standard.spelling import OPSET, spelled

Array = npt.NDArray[Any]


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
        self.constants: dict[tuple[object, ...], str] = {}
        """The names of the initializers that were added, by type, shape and bytes."""
        self._arrays: dict[str, Array] = {}
        self._graph = graph
        self._integers_of = integers
        self._opset = opset
        self._taken = taken

    def nodes(self, body: Body, prefix: str, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> list[NodeProto]:
        """Return the nodes of a body that reads `inputs` and writes `outputs`, by their names in the body.

        New names begin with `prefix`. Raises `Refuse` if the opset lacks an operator.
        """
        folded = _Folded(parsed(body.text), body.tensors)
        results = {folded.alias(name): actual for name, actual in reversed([*outputs.items()])}
        names = {**inputs, **{name: value.name for name, value in body.values.items()}}
        needed, kept = folded.needed(outputs)
        computed = {name for node in kept for name in node.output}
        names |= {name: actual for name, actual in results.items() if name in computed}

        def named(local: str) -> str:
            name = folded.alias(local)
            if name in folded.constants:
                return self._constant(f"{prefix}/{name}", folded.constants[name])
            if name and name not in names:
                names[name] = fresh(f"{prefix}/{name}", self._taken)
            return str(names.get(name, ""))

        written = []
        for node in kept:
            new = NodeProto(op_type=node.op_type, name=fresh(f"{prefix}/{node.output[0]}", self._taken))
            new.attribute.extend(node.attribute)
            new.input.extend(map(named, node.input))
            # onnxruntime's Split writes all of its results, wanted or not.
            new.output.extend(named(name) if name in needed or node.op_type == "Split" else "" for name in node.output)
            written.append(spelled(new, self._opset, self._integers))
        for name, actual in outputs.items():
            if (source := named(name)) != actual:
                label = fresh(f"{prefix}/{name}", self._taken)
                written.append(NodeProto(op_type="Identity", name=label, input=[source], output=[actual]))
        return written

    def _constant(self, wanted: str, values: Array) -> str:
        """Return the initializer with these values, which is added under the wanted name if there is none."""
        key = values.dtype.str, values.dtype.name, values.shape, values.tobytes()
        if key not in self.constants:
            name = self.constants[key] = fresh(wanted, self._taken)
            self._graph.initializer.append(numpy_helper.from_array(values, name))
            self._arrays[name] = values
        return self.constants[key]

    def _integers(self, operand: str) -> Sequence[int] | None:
        found = self._arrays.get(operand)
        return self._integers_of(operand) if found is None else [int(number) for number in found.flat]


class _Folded:
    """A body in which each value is an array, if it follows from constants alone, an alias of a value, or computed."""

    def __init__(self, nodes: Iterable[NodeProto], tensors: Mapping[str, Array]) -> None:
        self.constants: dict[str, Array] = dict(tensors)
        self.nodes: list[NodeProto] = []
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

    def alias(self, name: str) -> str:
        """Return the value that a name stands for."""
        return self._aliases.get(name, name)

    def needed(self, outputs: Iterable[str]) -> tuple[set[str], list[NodeProto]]:
        """Return the values on which these outputs depend, and the nodes that compute them."""
        needed, kept = set(map(self.alias, outputs)), []
        for node in reversed(self.nodes):
            if needed.intersection(node.output):
                kept.append(node)
                needed.update(map(self.alias, node.input))
        return needed, kept[::-1]

    def _value(self, node: NodeProto) -> Array | None:
        """Return the result of a conversion or a view of a constant, else None."""
        operands = [self.constants.get(self.alias(name)) for name in node.input]
        source = operands[0] if operands else None
        if source is None:
            return None
        if node.op_type == "Cast":
            return source.astype(helper.tensor_dtype_to_np_dtype(node.attribute[0].i))
        if node.op_type == "Reshape" and operands[1] is not None:
            return source.reshape([int(size) for size in operands[1]])
        return None


@lru_cache(maxsize=4096)
def parsed(text: str) -> tuple[NodeProto, ...]:
    """Return the nodes of a body's text; raises `Refuse` for numbers of the node that ONNX's text cannot have."""
    function = f'<domain: "body", opset_import: ["": {OPSET}]> body () => () {{\n{text}}}'
    try:
        return tuple(parser.parse_function(function).node)
    except (parser.ParseError, IndexError, RuntimeError) as error:
        raise Refuse(DefinitionCode.UNCOVERED_OPERAND, "an attribute of the node: {}", str(error).strip()) from error
