# SPDX-License-Identifier: Apache-2.0

"""Joins the training model and the optimizer model of onnxruntime's artifacts to one model of a step.

The step has the inputs `weight.<parameter>`, `state.<slot>.<parameter>`, `state.steps` and `learning_rate` beside those
of the batch, and the outputs `loss`, `new_weight.<parameter>` and `new_state.<…>`, as the steps that
`poolgrad_lowering.torch` exports.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

from poolgrad_lowering.model.diagnostics.errors import FileError
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.known import is_opaque
from poolgrad_lowering.model.ir import step_names as names
from poolgrad_lowering.model.ir.dims import Dim, Shape, Shown, differ, is_static, size, static_dims
from poolgrad_lowering.model.ir.graphs import names_read, opset_of, remove_entries
from poolgrad_lowering.model.ir.index import ModelIndex, subgraphs
from poolgrad_lowering.model.ir.scopes import Scope, Value
from poolgrad_lowering.model.joint_updates import side_by_side
from poolgrad_lowering.standard.inline import Inliner
from poolgrad_lowering.standard.nodes import BodyNode, Tensor, joined, where
from poolgrad_lowering.standard.optimizers import SGD, AdamW, Optimizer, Tensors, clipped

Array = npt.NDArray[Any]

NEWEST_IR_VERSION = 10
"""The newest IR version that onnxruntime 1.18 loads, the first release that runs steps."""
ACCUMULATOR = "InPlaceAccumulatorV2"
_BUFFER = "_grad.accumulation.buffer"
_CLIPS = ("ClipGradNormV2", "InplaceClipGradNorm")
_CLIP_ATTRIBUTES = {"max_norm": AttributeProto.FLOAT, "norm_type": AttributeProto.STRING}
_ATTRIBUTES = {
    "AdamWOptimizer": {
        **dict.fromkeys(("alpha", "beta", "epsilon", "weight_decay"), AttributeProto.FLOAT),
        **dict.fromkeys(("adam_mode", "correct_bias"), AttributeProto.INT),
    },
    **dict.fromkeys(_CLIPS, _CLIP_ATTRIBUTES),
}
"""The attributes of the operators of an optimizer model, with their types."""
_GRADIENT = re.compile(r"(.+)_grad(?:_\d+)?")
"""The name of a value's gradient, or of one that is added to others."""
_IMAGES = 3
"""The least rank of scores with classes on axis 1 and one class for each place."""


class Update(NamedTuple):
    """What an optimizer model does: the optimizer, and the largest norm of the gradients if it clips them."""

    optimizer: Optimizer
    most: float | None = None


def read_update(model: ModelProto, file: Path) -> Update:
    """Return what the optimizer model in a file does. Raises `FileError` if it has other operators."""
    update: Optimizer | None = None
    most: float | None = None
    for node in model.graph.node:
        if node.op_type == "AdamWOptimizer" and update is None:
            update = AdamW(**_attributes(node, file))
        elif node.op_type == "SGDOptimizerV2" and update is None:
            update = SGD()
        elif node.op_type in _CLIPS and most is None and _attributes(node, file).get("norm_type", b"fro") == b"fro":
            most = _attributes(node, file).get("max_norm", 1.0)
        elif node.op_type not in ("SequenceConstruct", "SequenceAt", "Identity"):
            known = "a step is written for AdamW, SGD and clipping by the norm of gradients"
            what = f"it has a node {node.op_type}; {known}"
            raise FileError(f"'{file}' is no optimizer model that a step can have: {what}")
    if update is None:
        raise FileError(f"'{file}' is no optimizer model: it has neither AdamWOptimizer nor SGDOptimizerV2")
    return Update(update, most)


def _attributes(node: NodeProto, file: Path) -> dict[str, Any]:
    """Return the attributes of a node of an optimizer model; raises `FileError` for one that it does not take."""
    known, found = _ATTRIBUTES.get(node.op_type, {}), {}
    for attribute in node.attribute:
        numbers: dict[int, Any] = {AttributeProto.FLOAT: attribute.f, AttributeProto.INT: attribute.i}
        value = numbers.get(attribute.type, attribute.s)
        is_finite = isinstance(value, bytes) or math.isfinite(value)
        if known.get(attribute.name) != attribute.type or not is_finite:
            what = f"its {node.op_type} has an attribute {attribute.name} that the operator does not take"
            raise FileError(f"'{file}' is no optimizer model that a step can have: {what}")
        found[attribute.name] = value
    return found


class Accumulator(NamedTuple):
    """How a training model accumulates the gradient of a parameter: the names of the values that this takes."""

    parameter: str
    gradient: str
    buffer: str
    output: str
    reset: str


def read_accumulators(graph: GraphProto, file: Path) -> list[Accumulator]:
    """Return the accumulators of the training model in a file; raises `FileError` if it has none, or a strange one."""
    inputs = {value.name for value in graph.input}
    found = []
    for node in graph.node:
        if node.op_type != ACCUMULATOR:
            continue
        buffer, gradient, reset, *more = (*node.input, *[""] * 3)
        parameter = buffer.removesuffix(_BUFFER)
        if parameter == buffer or not {buffer, parameter} <= inputs or not gradient or any(more):
            what = f"'{node.name}' accumulates in '{buffer}', which is no buffer of a parameter's gradient"
            raise FileError(f"'{file}' is no training model of generate_artifacts: {what}")
        found.append(Accumulator(parameter, gradient, buffer, node.output[0], reset))
    if not found or graph.output[0].name in {each.output for each in found}:
        what = f"it has no {ACCUMULATOR}" if not found else "its first output is no loss"
        raise FileError(f"'{file}' is no training model of generate_artifacts: {what}")
    return found


def cut_accumulators(graph: GraphProto, accumulators: Sequence[Accumulator]) -> None:
    """Remove accumulators that are written in standard ONNX: their outputs and inputs, and what only they need."""
    outputs = {each.output for each in accumulators}
    inputs = {name for each in accumulators for name in (each.buffer, each.reset)}
    remove_entries(graph.output, lambda value: value.name in outputs)
    needed = {value.name for value in graph.output} | {each.gradient for each in accumulators}
    for position in reversed(range(len(graph.node))):
        node = graph.node[position]
        if needed.isdisjoint(node.output):
            del graph.node[position]
        else:
            needed.update(names_read([node]))
    remove_entries(graph.input, lambda value: value.name in inputs)
    made = {name for node in graph.node for name in node.output} | {value.name for value in graph.input}
    remove_entries(graph.value_info, lambda value: value.name not in made)
    remove_entries(graph.initializer, lambda tensor: tensor.name not in needed)


def correct_labels(index: ModelIndex) -> bool:
    """Declare the labels of a cross entropy with the sizes of the scores without their classes; return if any were not.

    `generate_artifacts` declares those of a segmentation as the scores without the last size. The model is changed in
    place, and `index` is not valid afterwards if it was.
    """
    facts, scope, found = Facts(index), index.scopes[0], False
    for position in scope.by_op.get(("", "SoftmaxCrossEntropyLoss"), ()):
        scores, labels = (scope.node(position).input(number) for number in range(2))
        shape, stated = facts.shape(scores), None if labels is None else facts.declared_shape(labels)
        if labels is None or shape is None or stated is None or len(stated) != len(shape) - 1 or len(shape) < _IMAGES:
            continue
        wanted = (shape[0], *shape[2:])
        given = next((value for value in index.model.graph.input if value.name == labels.name), None)
        if given is not None and stated != wanted and (stated == shape[:-1] or differ(stated, wanted)):
            sizes = [None if is_opaque(dim) else dim.static if dim.static is not None else str(dim) for dim in wanted]
            kind = given.type.tensor_type.elem_type
            given.CopyFrom(helper.make_tensor_value_info(given.name, kind, sizes))
            found = True
    return found


def join_step(
    index: ModelIndex,
    gradients: Mapping[str, str],
    frozen: Collection[str],
    update: Update | None,
    *,
    accumulate: bool = False,
) -> dict[str, Array]:
    """Append the updates to a training model without accumulators, and name its inputs and outputs; in place.

    `index` is the model's, and not valid afterwards. Returns the first values of the state. Without an `update` the
    outputs are the gradients. With `accumulate` the step has an input `update`: where it is false, the gradients are
    only added to those of the steps before.
    """
    model, taken = index.model, index.names()
    facts, scope, graph = Facts(index), index.scopes[0], model.graph
    _require_shapes(facts, scope, graph)
    of_gradients = {name: facts.shape(Value(scope, gradient)) for name, gradient in gradients.items()}
    model.ir_version = min(model.ir_version, NEWEST_IR_VERSION)
    declared = {value.name: value for value in graph.input}
    renamed = {name: names.weight(name) for name in (*gradients, *frozen) if name in declared}
    renamed[graph.output[0].name] = names.LOSS
    reserved = {name for name in taken if name not in renamed}
    for name in renamed.values():
        _claim(name, reserved)
    rename(graph, renamed)
    found = {name: renamed.get(gradient, gradient) for name, gradient in gradients.items()}
    for name in found:
        tensor = declared[name].type.tensor_type
        if tensor.elem_type != TensorProto.FLOAT or not all(dim.HasField("dim_value") for dim in tensor.shape.dim):
            raise FileError(
                f"the parameter '{name}' is no float32 tensor of known sizes, which a step needs: keep weights in "
                "float32, and let the model cast them to 16 bits"
            )
    shapes = {name: [dim.dim_value for dim in declared[name].type.tensor_type.shape.dim] for name in found}
    inliner = Inliner(graph, opset_of(model), taken)
    for name, known in of_gradients.items():
        if known is not None and _has_other_shape(known, static_dims(shapes[name])):
            why = "generate_artifacts leaves out the parts of a Split that nothing reads: use Slice, or read them all"
            raise FileError(f"the gradient of '{name}' has shape {Shown(known)}, its weight {shapes[name]}; {why}")
        if known is None or not is_static(known):  # a graph engine has to know the ranks of operands
            gradient, found[name] = _tensors({"": found[name]})[""], f"update/{name}/known"
            graph.node.extend(inliner.nodes(f"update/{name}", {found[name]: gradient.reshape(shapes[name])}))
    if update is None:
        for name, shape in shapes.items():
            result = names.gradient(name)
            _claim(result, reserved)
            graph.node.append(helper.make_node("Identity", [found[name]], [result], name=f"grad/{name}"))
            graph.output.append(helper.make_tensor_value_info(result, TensorProto.FLOAT, shape))
        return {}
    writer = _Writer(graph, inliner, update, reserved, accumulate=accumulate)
    writer.write(shapes, found)
    return writer.state


def _require_shapes(facts: Facts, scope: Scope, graph: GraphProto) -> None:
    """Raise `FileError` if a value of the forward graph has a gradient of another shape, by what is known of both."""
    for name in (name for node in graph.node for name in node.output):
        if (gradient := _GRADIENT.fullmatch(name)) is None:
            continue
        own, known = (facts.shape(Value(scope, each)) for each in (gradient[1], name))
        if own is not None and known is not None and _has_other_shape(known, own):
            why = (
                "leaves out the parts of a Split that nothing reads: use Slice, or read them all"
                if size(known).coefficient < size(own).coefficient
                else "sums no gradient of what a Where broadcasts, nor of other operands whose sizes it does not know: "
                "give them the shape of the result by Expand, and sizes as numbers"
            )
            shapes = f"has shape {_shown(known)}, the value {_shown(own)}"
            raise FileError(f"the gradient of '{gradient[1]}' {shapes}; generate_artifacts {why}")


def _shown(shape: Shape) -> Shown:
    """Return the shape as text, with a question mark for each size that is not known."""
    return Shown(tuple(Dim(1, ("?",)) if is_opaque(dim) else dim for dim in shape))


def _has_other_shape(gradient: Shape, own: Shape) -> bool:
    """Whether a gradient has another number of elements than its value, by what is known of their sizes."""
    elements, own_elements = size(gradient), size(own)
    if elements.symbols == own_elements.symbols:
        return elements.coefficient != own_elements.coefficient
    sizes = zip(reversed(gradient), itertools.chain(reversed(own), itertools.repeat(Dim(1))), strict=False)
    return any(one.static == 1 and dim.static is None and not is_opaque(dim) for dim, one in sizes)


def _tensors(given: Mapping[str, str]) -> dict[str, Tensor]:
    """Return float32 tensors of the graph as those of one body."""
    nodes: list[BodyNode] = []
    return {name: Tensor(nodes, actual, TensorProto.FLOAT) for name, actual in given.items()}


class _Writer:
    """Appends the updates of all weights to a graph."""

    def __init__(
        self, graph: GraphProto, inliner: Inliner, update: Update, reserved: Collection[str], *, accumulate: bool
    ) -> None:
        self.state: dict[str, Array] = {}
        self._reserved = reserved
        self._graph = graph
        self._inliner = inliner
        self._update = update
        self._accumulate = accumulate

    def write(self, shapes: Mapping[str, list[int]], gradients: Mapping[str, str]) -> None:
        """Write the updates of the weights with these shapes and gradients."""
        self._input(names.LEARNING_RATE, [])
        if self._accumulate:
            self._input(names.UPDATE, [], TensorProto.BOOL)
            gradients = {name: self._summed(name, shapes[name], gradient) for name, gradient in gradients.items()}
        if self._update.most is not None:
            gradients = self._clipped(gradients, self._update.most)
        factors = self._factors()
        for name, shape in shapes.items():
            for value in self._of(name).values():
                if value != names.weight(name):
                    self._state(value, np.zeros(shape, np.float32))
                self._output(names.new(value), shape)
        for together in side_by_side(shapes):
            self._write_update(together, [math.prod(shapes[name]) for name in together], gradients, factors)

    def _of(self, name: str) -> dict[str, str]:
        """Return the inputs of a weight that its update changes, by the names that the optimizer has for them."""
        return {
            "weight": names.weight(name),
            **{slot: names.state(slot, name) for slot in self._update.optimizer.slots},
        }

    def _write_update(
        self,
        together: Sequence[str],
        counts: Sequence[int],
        gradients: Mapping[str, str],
        factors: Mapping[str, str],
    ) -> None:
        """Write the update of a weight, or of several vectors side by side, of which `counts` are the elements."""
        each = [{**self._of(name), "gradient": gradients[name]} for name in together]
        read = {actual for own in (*each, factors) for actual in own.values()} | {names.UPDATE}
        tensors = _tensors({actual: actual for actual in read})
        given = {name: tensors[actual] for name, actual in (*factors.items(), ("update", names.UPDATE))}
        for name in each[0]:
            parts = [tensors[own[name]] for own in each]
            given[name] = parts[0] if len(parts) == 1 else joined(parts, 0)
        results = self._chosen(given, self._update.optimizer.update(given))
        outputs = {
            names.new(own[name]): part
            for name in self._of("")
            for own, part in zip(each, results[f"new_{name}"].split(0, counts), strict=True)
        }
        self._write_nodes(f"update/{together[0]}", outputs)

    def _summed(self, name: str, shape: list[int], gradient: str) -> str:
        """Add a gradient to those that are kept; return the sum. After an update the kept ones are zeros."""
        kept, total = names.state(names.ACCUMULATED, name), f"update/{name}/gradient"
        self._state(kept, np.zeros(shape, np.float32))
        given = _tensors({"kept": kept, "gradient": gradient, "update": names.UPDATE})
        new = given["kept"] + given["gradient"]
        self._write_nodes(f"update/{name}", {total: new, names.new(kept): where(given["update"], 0, new)})
        self._output(names.new(kept), shape)
        return total

    def _clipped(self, gradients: Mapping[str, str], most: float) -> dict[str, str]:
        outputs = {name: f"update/{name}/clipped" for name in gradients}
        results = clipped([*_tensors(gradients).values()], most)
        self._write_nodes("update/clip", dict(zip(outputs.values(), results, strict=True)))
        return outputs

    def _factors(self) -> dict[str, str]:
        """Write what all updates share; return its names by those in the body of an update."""
        optimizer, inputs = self._update.optimizer, {"rate": names.LEARNING_RATE}
        if optimizer.slots:
            self._state(names.STEPS, np.array(0, np.float32))
            inputs["steps"] = "update/steps"
            given = _tensors({"steps": names.STEPS})
            self._write_nodes("update/count", {inputs["steps"]: given["steps"] + 1})
            given = _tensors({"counted": inputs["steps"], "steps": names.STEPS, "update": names.UPDATE})
            results = self._chosen(given, {"new_steps": given["counted"]})
            self._write_nodes("update/kept", {names.new(names.STEPS): results["new_steps"]})
            self._output(names.new(names.STEPS), [])
        factors = optimizer.factors(_tensors(inputs))
        self._write_nodes("update", {f"update/{name}": factor for name, factor in factors.items()})
        return {name: f"update/{name}" for name in factors}

    def _chosen(self, given: Tensors, results: Tensors) -> Tensors:
        """Return the new values of inputs, `new_<input>`; with accumulation, the old ones where `update` is false."""
        if not self._accumulate:
            return results
        return {new: where(given["update"], result, given[new.removeprefix("new_")]) for new, result in results.items()}

    def _write_nodes(self, prefix: str, results: Mapping[str, Tensor]) -> None:
        self._graph.node.extend(self._inliner.nodes(prefix, results))

    def _state(self, name: str, first: Array) -> None:
        self._input(name, list(first.shape))
        self.state[name] = first

    def _input(self, name: str, shape: list[int], element_type: int = TensorProto.FLOAT) -> None:
        _claim(name, self._reserved)
        self._graph.input.append(helper.make_tensor_value_info(name, element_type, shape))

    def _output(self, name: str, shape: list[int]) -> None:
        _claim(name, self._reserved)
        self._graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))


def _claim(name: str, reserved: Collection[str]) -> None:
    """Raise `FileError` if the training model has a name that a step has for itself."""
    if name in reserved:
        raise FileError(f"the training model has the name '{name}', which a step has for itself: give it another one")


def rename(graph: GraphProto, renamed: Mapping[str, str]) -> None:
    """Rename values of a graph, also where its subgraphs read them."""
    for entries in (graph.input, graph.output, graph.value_info, graph.initializer):
        for entry in entries:
            entry.name = renamed.get(entry.name, entry.name)
    _rename_nodes(graph.node, renamed)


def _rename_nodes(nodes: Iterable[NodeProto], renamed: Mapping[str, str]) -> None:
    for node in nodes:
        for listed in (node.input, node.output):
            if any(name in renamed for name in listed):
                listed[:] = [renamed.get(name, name) for name in listed]
        for attribute in node.attribute:
            for _, inner in subgraphs(attribute):
                own = {value.name for value in inner.input} | {name for each in inner.node for name in each.output}
                _rename_nodes(inner.node, {name: new for name, new in renamed.items() if name not in own})
                for value in inner.output:
                    value.name = renamed.get(value.name, value.name) if value.name not in own else value.name
