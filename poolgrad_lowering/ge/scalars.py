# SPDX-License-Identifier: Apache-2.0

"""Gives one axis to each input and to each computed value of the main graph that has rank 0.

In graph mode the CANN provider tells GE the shapes of a sub-model's inputs, and GE refuses rank 0. Any value may become
such an input, because onnxruntime decides where the graph is cut; so no value keeps rank 0. Most operators compute the
same with one axis. One node of the dialect, `UnsqueezeScalars`, gives an axis to the inputs of the graph; its outputs
lose theirs, since GE is not told their shapes. Names and shapes of the graph's inputs and outputs stay.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from copy import deepcopy

from onnx import ModelProto, NodeProto, TensorProto, helper

from poolgrad_lowering.dialect.op import DOMAIN, VERSION
from poolgrad_lowering.dialect.scalars import UNSQUEEZE_SCALARS, unsqueeze_scalars_body
from poolgrad_lowering.ge.values import ValueTypes
from poolgrad_lowering.ge.writer import Writer
from poolgrad_lowering.model.ir.graphs import is_standard, names_captured, names_of, names_read

_ELEMENTWISE = frozenset(
    """
    Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift Cast Ceil Celu Cos Cosh Div Elu Equal Erf Exp Floor
    Greater GreaterOrEqual HardSigmoid Identity IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mod Mul Neg
    Not Or Pow RandomNormalLike RandomUniformLike Reciprocal Relu Round Selu Sigmoid Sign Sin Sinh Softplus Softsign
    Sqrt Sub Sum Tan Tanh ThresholdedRelu Where Xor
    """.split()  # noqa: SIM905 - as a list it has many lines
)
"""Operators that compute the same for one element with and without an axis, with ONNX's broadcasting."""

_VIEWS = frozenset(("Reshape", "Squeeze", "Unsqueeze"))
"""Operators that only change the shape. Each is replaced by a Reshape to constant sizes."""


def give_scalars_an_axis(model: ModelProto, opset: int, types: ValueTypes) -> int:
    """Give one axis to the values of rank 0 of the main graph; return how many there were.

    Values of unknown rank stay as they are, and those of constants. `types` learns the new values.
    """
    graph = model.graph
    made = {name for node in graph.node if node.op_type != "Constant" for name in node.output if name}
    readers = defaultdict[str, list[NodeProto]](list)
    for node in graph.node:
        for name in names_read([node]):
            readers[name].append(node)
    results = {value.name for value in graph.output}
    found = {name for name in made if types.rank(name) == 0}
    found -= {
        name
        for node in graph.node
        for name in found.intersection(node.output)
        if _is_done(node, name, readers[name], results, types)
    }
    inputs = [value.name for value in graph.input if types.rank(value.name) == 0]
    inputs = [name for name in inputs if any(name in node.input for node in readers.get(name, []))]
    if any((function.domain, function.name) == (DOMAIN, UNSQUEEZE_SCALARS) for function in model.functions):
        inputs = []  # they have their axis already
    scalars = {*inputs, *found}
    if scalars:
        _Graph(model, scalars, inputs, opset, types).write()
    return len(scalars)


def _is_done(
    node: NodeProto, name: str, readers: Sequence[NodeProto], results: Collection[str], types: ValueTypes
) -> bool:
    """Whether a value needs no axis: a result alone, or what a view makes from one with an axis, or the reverse."""
    if name in results and not readers:
        return node.op_type == "Reshape" or not (_takes_axis(node) or _reduces(node))
    if node.op_type == "Reshape" and types.shapes.get(node.input[0]) == (1,):
        return not any(map(_takes_axis, readers))
    return (
        not _takes_axis(node)
        and name not in results
        and bool(readers)
        and all(each.op_type == "Reshape" and types.shapes.get(each.output[0]) == (1,) for each in readers)
    )


def _takes_axis(node: NodeProto) -> bool:
    """Whether a node may compute with operands that have one axis in place of rank 0."""
    return is_standard(node) and (node.op_type in _ELEMENTWISE or node.op_type in _VIEWS or node.op_type == "Expand")


def _reduces(node: NodeProto) -> bool:
    return is_standard(node) and (node.op_type.startswith("Reduce") or node.op_type in ("ArgMax", "ArgMin"))


def _parted(nodes: Iterable[NodeProto], names: Iterable[str]) -> tuple[list[NodeProto], list[NodeProto]]:
    """Return the nodes that do not depend on values with these names, and those that do."""
    reached, without, dependent = set(names), list[NodeProto](), list[NodeProto]()
    for node in nodes:
        if reached.isdisjoint(names_read([node])):
            without.append(node)
        else:
            dependent.append(node)
            reached.update(node.output)
    return without, dependent


class _Graph:
    """The main graph while its scalars get an axis. `_with_axis` are the values with one, by the scalar's name."""

    def __init__(
        self, model: ModelProto, scalars: set[str], inputs: Sequence[str], opset: int, types: ValueTypes
    ) -> None:
        self._model, self._scalars, self._inputs, self._types = model, scalars, inputs, types
        self._results = {value.name for value in model.graph.output}
        self._there = {*self._results, *inputs}  # the scalars that are values under their own names too
        self._only_results = self._results.difference(names_read(model.graph.node))
        self._writer = Writer(model.graph, opset, types, names_of(model.graph))
        self._with_axis: dict[str, str] = {}
        self._constants: dict[str, str] = {}
        for name in sorted(scalars):
            self._with_axis[name] = self._writer.name(f"{name}/1d")
            types.learn(self._with_axis[name], types.elements.get(name), (1,))

    def write(self) -> None:
        without, dependent = _parted(self._model.graph.node, self._inputs)
        for node in without:
            self._write(node)
        if self._inputs:
            self._unsqueeze_inputs()
        for node in dependent:
            self._write(node)
        self._writer.replace_nodes()

    def _unsqueeze_inputs(self) -> None:
        """Add the node of the dialect, behind all nodes that do not need it: onnxruntime then runs it before them.

        Run between them, it would cut a sub-model in two.
        """
        outputs = [self._with_axis[name] for name in self._inputs]
        name = self._writer.name(UNSQUEEZE_SCALARS)
        self._writer.keep(helper.make_node(UNSQUEEZE_SCALARS, self._inputs, outputs, name=name, domain=DOMAIN))
        self._model.functions.append(unsqueeze_scalars_body(len(outputs), self._writer.opset))
        if all(entry.domain != DOMAIN for entry in self._model.opset_import):
            self._model.opset_import.append(helper.make_opsetid(DOMAIN, VERSION))

    def _write(self, node: NodeProto) -> None:
        reads = [name for name in node.input if name in self._scalars]
        results = [name for name in node.output if name in self._scalars]
        for name in sorted(self._scalars.intersection(names_captured(node)) - self._there):
            self._there.add(self._writer.reshape(self._with_axis[name], [], name))
        if not reads and not results:
            self._writer.keep(node)
            return
        node = deepcopy(node)
        changes_rank = results or (node.input[0] in self._scalars and node.output[0] in self._types.shapes)
        if is_standard(node) and self._computes_alike(node):
            self._one_axis(node, results)
        elif is_standard(node) and node.op_type in _VIEWS and changes_rank:
            value = self._with_axis.get(node.input[0], node.input[0])
            if results:
                self._make(results[0], value)
            else:
                self._writer.reshape(value, [1] * len(self._types.shapes[node.output[0]]), node.output[0])
        else:
            self._between_views(node, results)

    def _make(self, name: str, value: str) -> None:
        """Add a scalar with one axis from a value of one element, and the scalar itself if it is a result."""
        if name not in self._only_results:
            value = self._writer.reshape(value, [1], self._with_axis[name])
        if name in self._results:
            self._writer.reshape(value, [], name)

    def _computes_alike(self, node: NodeProto) -> bool:
        """Whether a node computes the same results, with one axis, from operands with one axis."""
        if node.op_type not in _ELEMENTWISE and not (node.op_type == "Expand" and node.input[1] not in self._scalars):
            return False
        return all(name in self._types.shapes for name in node.output)

    def _one_axis(self, node: NodeProto, results: Sequence[str]) -> None:
        """Add the node with operands and results of one axis. If all operands are constants, one gets the axis."""
        if results and not any(name in self._scalars for name in node.input):
            node.input[0] = self._constant(node.input[0])
        for names in (node.input, node.output):
            names[:] = [self._with_axis.get(name, name) for name in names]
        self._writer.keep(node)
        for name in self._results.intersection(results):
            self._writer.reshape(self._with_axis[name], [], name)

    def _constant(self, name: str) -> str:
        """Return the value with one axis: an initializer for a constant, else the result of a Reshape."""
        if name not in self._constants:
            tensor = self._types.constants.get(name)
            wanted = f"{name}/1d"
            if tensor is None or tensor.data_location == TensorProto.EXTERNAL:
                self._constants[name] = self._writer.reshape(name, [1], self._writer.name(wanted))
            else:
                copied = deepcopy(tensor)
                copied.name, copied.dims[:] = wanted, [1]
                self._constants[name] = self._writer.tensor(copied)
        return self._constants[name]

    def _between_views(self, node: NodeProto, results: Sequence[str]) -> None:
        """Add a node between Reshapes that drop and add the axis. A reduction keeps its axes, with size 1."""
        reduces = _reduces(node)
        for position, name in enumerate(node.input):
            if name in self._scalars:
                one = self._with_axis[name]
                node.input[position] = (
                    one if reduces else self._writer.reshape(one, [], self._writer.name(f"{name}/0d"))
                )
        kept = {name: self._writer.name(f"{name}/kept") for name in results}
        attributes = {"keepdims": 1} if reduces and results else {}
        self._writer.change(node, attributes, outputs=[kept.get(name, name) for name in node.output])
        for name, value in kept.items():
            self._make(name, value)
