# SPDX-License-Identifier: Apache-2.0

"""Writes the body of a definition into a graph. Values get new names, constants become initializers, dead nodes go.

Nodes of opset 18 are written as older opsets have them: numbers that are operands today were attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, helper, numpy_helper

from poolgrad_lowering.model.diagnostics.codes import Refuse
from poolgrad_lowering.model.diagnostics.definition_codes import DefinitionCode
from poolgrad_lowering.model.ir.bodies import Array, BodyNode, Tensor
from poolgrad_lowering.model.ir.graphs import fresh, remove_entries

OPSET = 18
"""The opset of bodies."""

_NEWER_ATTRIBUTES = ("allowzero", "noop_with_empty_axes", "num_outputs")
"""Attributes that say nothing for the nodes of bodies, or only for tensors without elements."""

_FIRST_OPSET = 11
"""The first opset for which bodies are written: below it, Pad and others have other operands."""


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

    def nodes(self, prefix: str, results: Mapping[str, Tensor]) -> list[NodeProto]:
        """Return the nodes of a body that compute these results, by their names in the graph.

        New names begin with `prefix`. Raises `Refuse` if the opset lacks an operator.
        """
        needed = set(results.values())
        kept: list[BodyNode] = []
        for node in reversed(next(iter(results.values())).nodes if results else ()):
            if needed.intersection(node.outputs):
                kept.append(node)
                needed.update(node.inputs)
        names = {tensor: actual for actual, tensor in reversed([*results.items()]) if tensor.source is None}

        def named(tensor: Tensor, label: str = "") -> str:
            if isinstance(tensor.source, np.ndarray):
                return self._constant(f"{prefix}/constant", tensor.source)
            if tensor.source is None and tensor not in names:
                names[tensor] = fresh(label, self._taken)
            return tensor.source or names[tensor]

        written = []
        for number, node in enumerate(reversed(kept)):
            label = f"{prefix}/{node.op_type}_{number}"
            new = NodeProto(op_type=node.op_type, name=fresh(label, self._taken), attribute=node.attributes)
            new.input.extend(map(named, node.inputs))
            # onnxruntime's Split writes all of its results, wanted or not.
            wanted = (each in needed or node.op_type == "Split" for each in node.outputs)
            new.output.extend(
                named(each, label) if is_wanted else "" for each, is_wanted in zip(node.outputs, wanted, strict=True)
            )
            written.append(_spelled(new, self._opset, self._integers))
        return written + [
            self._same(prefix, actual, names[tensor] if tensor.source is None else tensor.source)
            for actual, tensor in results.items()
            if names.get(tensor) != actual
        ]

    def _same(self, prefix: str, actual: str, source: str | Array) -> NodeProto:
        """Return the node that gives a value or a constant a name: onnx infers nothing from a constant's Identity."""
        if isinstance(source, str):
            label = fresh(f"{prefix}/Identity", self._taken)
            return NodeProto(op_type="Identity", name=label, input=[source], output=[actual])
        label = fresh(f"{prefix}/Constant", self._taken)
        return helper.make_node("Constant", [], [actual], label, value=numpy_helper.from_array(source))

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


def _spelled(node: NodeProto, opset: int, numbers: Callable[[str], Sequence[int] | None]) -> NodeProto:
    """Return a node of a body as `opset` has it. `numbers` returns the integers of a constant operand, or None.

    Operands that were attributes in `opset` have their names. Raises `Refuse` if the opset has no such node.
    """
    if opset >= OPSET:
        return node
    try:
        schema = onnx.defs.get_schema(node.op_type, opset)
    except onnx.defs.SchemaError:
        raise Refuse(DefinitionCode.OLD_OPSET, "opset {} has no {}", opset, node.op_type) from None
    operands = zip(onnx.defs.get_schema(node.op_type, OPSET).inputs, node.input, strict=False)
    newer = [(formal.name, operand) for formal, operand in operands][schema.max_input :]
    remove_entries(node.attribute, lambda held: held.name in _NEWER_ATTRIBUTES and held.name not in schema.attributes)
    strange = [held.name for held in node.attribute if held.name not in schema.attributes]
    if strange or opset < _FIRST_OPSET or not {name for name, _ in newer} <= schema.attributes.keys():
        what = "{} of opset {} has no {}"
        raise Refuse(DefinitionCode.OLD_OPSET, what, node.op_type, opset, *(strange or ["such operands"]))
    for name, operand in newer:
        values = numbers(operand)
        if values is None:
            raise Refuse(DefinitionCode.OLD_OPSET, "{} of {} is no constant", name, node.op_type)
        node.attribute.append(helper.make_attribute(name, list(values)))
    del node.input[schema.max_input :]
    return node
