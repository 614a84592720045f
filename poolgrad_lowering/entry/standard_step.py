# SPDX-License-Identifier: Apache-2.0

"""The artifacts of onnxruntime as a step in standard ONNX, and their checkpoints as named arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto

from poolgrad_lowering.entry.file_io import FileOptions, OnProven, SourceFile
from poolgrad_lowering.entry.lower import is_changed, lower_in_place
from poolgrad_lowering.model.diagnostics.codes import Refuse
from poolgrad_lowering.model.diagnostics.errors import FileError
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.gate.gate import Gate
from poolgrad_lowering.model.io.atomic_write import PathLike
from poolgrad_lowering.model.io.checkpoint import (
    Checkpoint,
    OptimizerGroup,
    read_checkpoint_file,
    write_checkpoint_file,
)
from poolgrad_lowering.model.io.model_file import errors_name
from poolgrad_lowering.model.ir import step_names as names
from poolgrad_lowering.model.ir.graphs import rename
from poolgrad_lowering.report.report import Report
from poolgrad_lowering.standard import artifact_graphs, step
from poolgrad_lowering.standard.opset import use_older_opset

Array = npt.NDArray[Any]

_SLOTS = ("mean", "square")
"""The slots of AdamW, in the order in which a checkpoint has them as momentums."""


def training_step(
    training: Path,
    optimizer: Path,
    checkpoint: Checkpoint,
    options: FileOptions,
    on_proven: OnProven | None,
    *,
    accumulate: bool,
) -> tuple[ModelProto, Gate, dict[str, Array], Report]:
    """Return a step in standard ONNX: its model and gate, the first values of its inputs, the training model's report.

    It is that of a training model and an optimizer model, without an update if there is no optimizer model.
    """
    update = None
    if optimizer.exists():
        with errors_name(optimizer):
            update = artifact_graphs.read_update(SourceFile(optimizer, options.limits).open()[0], optimizer)
    source = SourceFile(training, options.limits)
    model, gate = source.open()
    with errors_name(training):
        is_older = use_older_opset(model)
        if artifact_graphs.correct_targets(gate.index(model)) or is_older:
            source.data = gate.serialised(model)
        accumulators = artifact_graphs.read_accumulators(model.graph, training)
        report = lower_in_place(model, options, gate, standard=options.standard)
        lowered = gate.serialised(model)
        if options.verify and is_changed(report):
            source.require_proven(lowered, on_proven)
        artifact_graphs.cut_accumulators(model.graph, accumulators)
        gradients = {each.parameter: each.gradient for each in accumulators}
        index = gate.index(model)
        _require_parameters(checkpoint, gradients, model, training)
        try:
            state = step.join_step(index, gradients, [*checkpoint.frozen], update, accumulate=accumulate)
        except Refuse as refused:
            what = f"{refused.refusal.reason}: export the forward graph at opset 18, and make the artifacts again"
            raise FileError(f"the optimizer cannot be written beside '{training}': {what}") from None
        index = gate.index(model)
        facts = Facts(index)
        step.declare_sizes(index, facts)
        step.give_axes(index, facts)
    values = {**names.tensors(checkpoint.parameters, {}), **state}
    report = report._replace(bytes_before=len(source.data), bytes_after=len(lowered))
    return model, gate, values, report


def renamed_evaluation(path: Path, checkpoint: Checkpoint, options: FileOptions) -> tuple[ModelProto, Gate]:
    """Return the evaluation model, lowered, with the names that the step has for weights and loss, and its gate."""
    model, gate = SourceFile(path, options.limits).open()
    with errors_name(path):
        use_older_opset(model)
        artifact_graphs.correct_targets(gate.index(model))
        lower_in_place(model, options, gate, standard=options.standard)
        index = gate.index(model)
        step.declare_sizes(index, Facts(index))
    renamed = {name: names.weight(name) for name in checkpoint.parameters}
    renamed[model.graph.output[0].name] = names.LOSS
    rename(model.graph, renamed)
    return model, gate


def read_checkpoint(path: PathLike) -> dict[str, Array]:
    """Read a checkpoint of onnxruntime's training API as arrays with the names of a step's inputs.

    These are `weight.<parameter>`, and if the checkpoint has the state of an AdamW `state.mean.<parameter>`,
    `state.square.<parameter>` and `state.steps`. `runtime.TrainingLoop` takes them, also by its `load`.

    Raises `FileError` if the file cannot be read, or is no such checkpoint.
    """
    checkpoint = read_checkpoint_file(path)
    values = names.tensors(checkpoint.parameters, {})
    group = checkpoint.group
    if group is not None and all(len(held) == len(_SLOTS) for held in group.momentums.values()):
        for name, held in group.momentums.items():
            values |= {names.state(slot, name): array for slot, array in zip(_SLOTS, held, strict=True)}
        values[names.STEPS] = np.array(group.step, np.float32)
    return values


def write_checkpoint(path: PathLike, values: Mapping[str, Array], *, like: PathLike) -> None:
    """Write the values of a step as a checkpoint that onnxruntime's training API loads.

    `values` are named as those of `read_checkpoint`, e.g. what `TrainingLoop.values` returns; gradients that are kept
    for an update are left out. `like` is a checkpoint of the same artifacts, which says which parameters are trained.

    Raises `FileError` if a parameter is missing, is none of the checkpoint or has another shape, or a file cannot be
    read or written; then `path` has not changed.
    """
    kept = read_checkpoint_file(like)
    of_parameters = set(map(names.weight, kept.parameters))
    of_state = {names.state(slot, name) for slot in _SLOTS for name in kept.trainable} | {names.STEPS}
    for name in sorted(values.keys() - of_parameters - of_state):
        if names.is_of_checkpoint(name):
            raise FileError(f"the values have '{name}', which the checkpoint '{like}' has not")
    group = kept.group
    if names.STEPS in values:
        momentums = {
            name: tuple(_fitting(values, names.state(slot, name), array) for slot in _SLOTS)
            for name, array in kept.trainable.items()
        }
        steps = int(np.asarray(values[names.STEPS]).reshape(()))
        group = replace(group or OptimizerGroup(), step=steps, momentums=momentums)
    trainable = {name: _fitting(values, names.weight(name), array) for name, array in kept.trainable.items()}
    frozen = {
        name: _fitting(values, names.weight(name), array) if names.weight(name) in values else array
        for name, array in kept.frozen.items()
    }
    write_checkpoint_file(path, Checkpoint(trainable, frozen, group))


def _fitting(values: Mapping[str, Array], name: str, like: Array) -> Array:
    """Return a value; raises `FileError` if it is missing or of another shape or type than an array."""
    if (found := values.get(name)) is None:
        raise FileError(f"the values lack '{name}', which the checkpoint has")
    array = np.asarray(found)
    if array.shape != like.shape or array.dtype != like.dtype:
        raise FileError(
            f"'{name}' is {array.dtype}{list(array.shape)}, the checkpoint has {like.dtype}{list(like.shape)}"
        )
    return array


def _require_parameters(checkpoint: Checkpoint, gradients: Mapping[str, str], model: ModelProto, file: Path) -> None:
    """Raise `FileError` unless the checkpoint has each trained parameter, with the sizes that the model declares."""
    declared = {value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in model.graph.input}
    for name in sorted(gradients):
        if (array := checkpoint.parameters.get(name)) is None:
            raise FileError(f"the checkpoint beside '{file}' lacks the parameter '{name}'")
        if [*array.shape] != declared[name]:
            what = f"'{name}' as {[*array.shape]}, the training model as {declared[name]}"
            raise FileError(f"the checkpoint beside '{file}' has {what}")
