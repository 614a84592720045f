# SPDX-License-Identifier: Apache-2.0

"""What a step takes from the graphs of generate_artifacts: the optimizer, and how gradients are accumulated."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorShapeProto

from poolgrad_lowering.model.diagnostics.errors import FileError
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.known import is_opaque
from poolgrad_lowering.model.ir.dims import Dim, Shape, differ
from poolgrad_lowering.model.ir.graphs import names_read, remove_entries
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.ir.scopes import Node
from poolgrad_lowering.standard.optimizers import SGD, AdamW, Optimizer

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
_OF_AN_OUTPUT = re.compile(r"(.+)_dim_(\d{1,2})")
"""How torch's exporter names the size of an output: its operator, its name, and the axis."""


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


def correct_targets(index: ModelIndex) -> bool:
    """Declare the targets of losses with the sizes that they have; return if any had others.

    The model is changed in place, and `index` is not valid afterwards if it was.
    """
    facts = Facts(index)
    is_named = _name_sizes(facts, index)
    return _correct_labels(facts, index) or is_named


def _name_sizes(facts: Facts, index: ModelIndex) -> bool:
    """Replace sizes of inputs that have the name of an output's size, such as `Gemmscores_dim_0`, by what these are.

    torch's exporter gives such names where its caller gives none, and `generate_artifacts` declares targets as scores.
    """
    graph, found = index.model.graph, False
    operators = ((node.op_type.removesuffix("Training"), node.output) for node in graph.node)
    producers = {f"{operator}{name}": name for operator, outputs in operators for name in outputs}
    for size in (size for value in graph.input for size in value.type.tensor_type.shape.dim):
        named = _OF_AN_OUTPUT.fullmatch(size.dim_param)
        if named is None or (name := producers.get(named[1])) is None:
            continue
        shape, axis = facts.shape(index.scopes[0].resolve(name)), int(named[2])
        if shape is not None and axis < len(shape) and not is_opaque(shape[axis]):
            declare(size, shape[axis])
            found = True
    return found


def _correct_labels(facts: Facts, index: ModelIndex) -> bool:
    """Declare the labels of a cross entropy with the sizes of the scores without their classes; return if any were not.

    `generate_artifacts` declares those of a segmentation as the scores without the last size, and names sizes that
    onnxruntime does not infer.
    """
    scope, found = index.scopes[0], False
    for position in scope.by_op.get(("", "SoftmaxCrossEntropyLoss"), ()):
        node = scope.node(position)
        labels, shapes = node.input(1), _shapes_of_scores(facts, node)
        given = next((value for value in index.model.graph.input if labels and value.name == labels.name), None)
        stated = None if labels is None else facts.declared_shape(labels)
        if given is None or stated is None or not shapes or len(stated) + 1 != len(shapes[0]):
            continue
        sizes = zip(*shapes, strict=True)
        batch, _, *places = (min(known, key=lambda dim: (dim.static is None, is_opaque(dim))) for known in sizes)
        wanted = (batch, *places)
        is_cut = stated != wanted and stated in [shape[:-1] for shape in shapes]
        if not (is_cut or differ(stated, wanted)):
            wanted = tuple(own if is_opaque(dim) else dim for own, dim in zip(stated, wanted, strict=True))
        if stated != wanted:
            declared = given.type.tensor_type.shape
            declared.Clear()
            for dim in wanted:
                declare(declared.dim.add(), dim)
            found = True
    return found


def declare(size: TensorShapeProto.Dimension, dim: Dim) -> None:
    """Write a size where a model declares it; one without a name is not declared."""
    size.Clear()
    if dim.static is not None:
        size.dim_value = dim.static
    elif not is_opaque(dim):
        size.dim_param = str(dim)


def _shapes_of_scores(facts: Facts, loss: Node) -> list[Shape]:
    """Return what is known of the shape of a loss's scores: theirs, and what is declared for their logarithms."""
    scores, logarithms = loss.input(0), loss.output(1)
    own, declared = facts.shape(scores), None if logarithms is None else facts.declared_shape(logarithms)
    shapes = [shape for shape in (own, declared) if shape is not None]
    return [shape for shape in shapes if len(shape) == len(shapes[0])]
