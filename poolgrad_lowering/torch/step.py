# SPDX-License-Identifier: Apache-2.0

"""Exports a training step of a PyTorch model: the public functions.

The optimizer may be a model of its own, for what has to happen between gradients and update, e.g. an average.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np
import onnx
import torch
from onnx import NodeProto, numpy_helper
from torch import Tensor, nn

from poolgrad_lowering.model.convolution_gradients import LARGEST_KERNEL, WeightGradient
from poolgrad_lowering.model.ir import step_names as names
from poolgrad_lowering.torch.arguments import Examples, find_arguments
from poolgrad_lowering.torch.arrays import to_array, to_tensor
from poolgrad_lowering.torch.checking.check import StepCheck, check_step
from poolgrad_lowering.torch.dynamic_shapes import DynamicShapes, SymbolicSizes
from poolgrad_lowering.torch.explanations import explained
from poolgrad_lowering.torch.exported_step import ExportedStep, GradientTransform, transformed
from poolgrad_lowering.torch.exporter import empty, finish, translated
from poolgrad_lowering.torch.groups import AnyOptimizer, Group, find_groups, state_of, update_names
from poolgrad_lowering.torch.internals.caches import caches_without_fakes
from poolgrad_lowering.torch.internals.graphs import run_annotated
from poolgrad_lowering.torch.internals.tracing import trace
from poolgrad_lowering.torch.internals.trees import has_gradient_hooks
from poolgrad_lowering.torch.joint import Joint, Loss, WithLoss, module_of, trace_joint
from poolgrad_lowering.torch.model_state import numbers_restored, random_numbers_restored
from poolgrad_lowering.torch.operators.decompositions import decompositions
from poolgrad_lowering.torch.operators.functions import Rewritten
from poolgrad_lowering.torch.operators.interpolation import INTERPOLATIONS
from poolgrad_lowering.torch.progress import Progress
from poolgrad_lowering.torch.updates import write_updates


@dataclass(frozen=True)
class TrainingStep(ExportedStep):
    """A training step as an ONNX model.

    Inputs of `model`: `weight.<parameter>` and `buffer.<name>`, by their names in the PyTorch model; with an optimizer
    `state.<slot>.<parameter>` and `learning_rate` (float32, a scalar; `learning_rate.<n>` of each of several groups);
    the parameters of the model's forward, and `target`. Outputs: `loss`; `grad.<parameter>`, or with an optimizer
    `new_weight.…` and `new_state.…`; `new_buffer.<name>` for each buffer that the step changes, e.g. the running
    statistics of BatchNorm; and `new_weight.<parameter>` for each parameter that the model's forward changes, e.g. in
    momentum encoders.

    `values` are the values of weights, buffers and state when the step was exported; `examples` those of the other
    inputs. `carried` has the input that each output is the next value of: {"new_weight.w": "weight.w"}. `groups` are
    the parameters that an optimizer of the step updates, with their settings.
    """

    def check(self, *, steps: int = 1, tolerance: float | None = None) -> StepCheck:
        """Compare steps on the example inputs with eager PyTorch, in onnxruntime on the CPU.

        Both begin with `values` and use the same random numbers, e.g. for masks of dropout layers; eager PyTorch runs
        in the `torch.autocast` of the export. Both are compared with eager PyTorch in float64, each output by itself.
        Its largest error may be 8 times that of eager PyTorch, which is the largest of four runs: three have weights or
        examples moved by a rounding, as have 16 further ones for an output that seems wrong. `tolerance` is added to
        that, as a part of the largest element, or of the largest change of a weight or a buffer: by default 16
        roundings of the shortest floating-point type in the model, 256 of float32, whose long sums cancel behind a
        BatchNorm. An element with the bits of eager PyTorch, e.g. a NaN or an infinity, is right.

        A wrong step is therefore found where the type has digits left: a gradient that is 1 % too large is found in
        float32 unless eager PyTorch itself is off by 0.1 %. A step in 16 bits is compared twice, since rounding to 16
        bits hides even signs: both compute in float32 in place of 16 bits (a constant of the model, such as 0.1, keeps
        its rounding, and adds 16 of its roundings to what is allowed), then each result is rounded as PyTorch does it.
        An output that there is no farther off eager PyTorch than is allowed in float32 is right in float32 too.
        No kernels of onnxruntime for 16 bits are tried. The model itself is opened first, by onnx's checker and, where
        it has the kernels, by onnxruntime. torch's random numbers go on as if nothing was compared.

        Raises:
            StepMismatchError: an output differs by more.
            TorchExportError: the model is not valid ONNX, or has random numbers that cannot be fed.
            OnnxRuntimeMissingError, SessionError: onnxruntime is missing, or cannot run the model.
        """
        with random_numbers_restored(), numbers_restored(self.module):
            return check_step(self, steps=steps, tolerance=tolerance)


def export_training_step(
    model: nn.Module,
    loss: Loss | None,
    example_inputs: Examples,
    *,
    optimizer: AnyOptimizer | None = None,
    gradient_transform: GradientTransform | None = None,
    dynamic_batch: bool = False,
    dynamic_shapes: DynamicShapes | None = None,
    opset: int = 18,
    weights: Literal["inputs", "initializers"] = "inputs",
    weight_gradient: WeightGradient = "by_shape",
) -> TrainingStep:
    """Return a training step of a model, forward and backward pass and optimizer, as an ONNX model.

    What the model does in train mode is exported: BatchNorm computes new running statistics, Dropout draws a mask in
    every run. Mixed precision is that of an active `torch.autocast`. The model itself does not change.

    Args:
        model: a model in train mode. Parameters without `requires_grad` get no gradient. Of `torch.compile`,
            `DataParallel` and `DistributedDataParallel` the module inside is taken, and its names.
        loss: the loss of the model's output against a target: `loss(output, target)`, a scalar. None: the model
            computes it, as its result or as `loss` in its result.
        example_inputs: the arguments of the model's forward, and the target as the last one; or a mapping with these
            arguments by name, and `target`. Each may be a tuple, a list or a dictionary with tensors, whose names are
            then `<argument>.<position or key>`. What is no tensor is a constant.
        optimizer: "sgd" (momentum 0.9), "adadelta", "adagrad", "adam", "adamax", "adamw", "lion", "nadam", "radam",
            "rmsprop" (torch's defaults), one with other settings, such as `SGD(…)`, or an object of these classes of
            `torch.optim`, with its groups and its state; torch has no Lion, `EagerLion` is one.
            The learning rate is an input in any case. None: the outputs are the gradients, for an optimizer elsewhere
            (`export_update`).
        gradient_transform: a function of the gradients, by parameter name, that returns them changed, e.g. clipped.
        dynamic_batch: the first size of every example input is symbolic. It must be 2 or more in the examples.
        dynamic_shapes: which other sizes of the example inputs are symbolic, as in `torch.export.export`: for each
            input a mapping from axes to names, e.g. {"x": {2: "height", 3: "16*width"}}, or to `torch.export.Dim`
            and multiples of it. Equal names are equal sizes; what a name stands for is 2 or more. The step is right for
            each value in the range, or the export is refused.
        opset: version of the default domain, 18 or newer.
        weights: weights and buffers as graph inputs or as initializers. An optimizer needs inputs.
        weight_gradient: how the gradient of a convolution's weight is written: as the fastest way on onnxruntime's CPU
            provider ("by_shape"), as the fastest without a convolution ("matmul"), or always as one ("convolution"),
            whose kernel is as large as the layer's output. A `UserWarning` names each one over the limits of Ascend,
            which "by_shape" keeps to.

    Raises:
        TorchExportError: torch cannot trace the step, or not translate an operator, which the message names.
        ValueError: an argument is not one of its values, or arguments do not fit each other.
        TypeError: an argument is something else than its type, e.g. a class in place of a model.
    """
    model = module_of(model)
    _check_arguments(model, loss, optimizer, weights=weights)
    arguments = find_arguments(model, example_inputs, has_target=loss is not None)
    sizes = arguments.symbolic_sizes(dynamic_shapes, dynamic_batch=dynamic_batch)
    module = WithLoss(model, loss, arguments)
    parameters, _ = module.in_model()
    if optimizer is not None:
        find_groups(optimizer, parameters, ())  # raises before the trace, which takes its time
    _check_gradients(parameters, gradient_transform)
    with Progress("export of a training step") as progress, _frozen_objects():
        progress.part("tracing forward and backward pass")
        joint = trace_joint(module, decompositions(weight_gradient), sizes)
        groups = () if optimizer is None else find_groups(optimizer, parameters, joint.trained)
        state = state_of(groups, optimizer, parameters)
        rates = {group.rate: torch.tensor(0.0) for group in groups}
        examples = {name: joint.inputs[name] for name in joint.examples}
        kept = {name: value for name, value in joint.inputs.items() if name not in examples} | state
        inputs = {**kept, **rates, **examples}
        progress.part("writing it in ONNX")
        exported = _exported(joint, groups, inputs, gradient_transform, opset=opset, sizes=sizes)
        progress.part("checking the model")
        finish(exported)
    if weight_gradient == "convolution":
        warn_of_large_kernels(exported)
    values = {name: to_array(value) for name, value in kept.items()}
    if weights == "initializers":
        _make_initializers(exported, values)
    return TrainingStep(
        exported,
        tuple(value.name for value in exported.graph.input),
        tuple(value.name for value in exported.graph.output),
        values,
        {name: to_array(value) for name, value in examples.items()},
        groups,
        module,
        gradient_transform,
    )


@dataclass(frozen=True)
class Update(ExportedStep):
    """A model that computes `new_weight.*` and `new_state.*` from `weight.*`, `grad.*`, `state.*`, `learning_rate`.

    `values` are those of the step, and of `state.*` before the first update.
    """


def export_update(step: TrainingStep, optimizer: AnyOptimizer, *, opset: int = 18) -> Update:
    """Return the optimizer of a training step that was exported without one. See `export_training_step`.

    Raises:
        ValueError: an optimizer of this name is unknown, or has settings that are not taken, or the step has one.
        TypeError: it is something else.
        TorchExportError: torch cannot export it.
    """
    if step.groups:
        raise ValueError("the step has an optimizer already: export it without one")
    trained = tuple(
        name.removeprefix(names.gradient("")) for name in step.outputs if name.startswith(names.gradient(""))
    )
    parameters, _ = step.module.in_model()
    groups = find_groups(optimizer, parameters, trained)
    weights = {name: to_tensor(step.values[names.weight(name)]) for name in trained}
    state = state_of(groups, optimizer, parameters)
    inputs = {
        **{names.weight(name): weight for name, weight in weights.items()},
        **{names.gradient(name): torch.zeros_like(weight) for name, weight in weights.items()},
        **state,
        **{group.rate: torch.tensor(0.0) for group in groups},
    }
    outputs = list(map(names.new, update_names(groups)))
    model = empty(opset)
    write_updates(model, groups, inputs, outputs)
    finish(model)
    return Update(
        model,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        values={**step.values, **{name: to_array(value) for name, value in state.items()}},
        examples={},
        groups=groups,
        module=step.module,
    )


@contextmanager
def _frozen_objects() -> Iterator[None]:
    """Leave what exists, torch above all, out of garbage collections, which take a tenth of the time of an export."""
    if gc.get_freeze_count():  # by others: gc can only release all frozen objects at once
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _check_arguments(model: nn.Module, loss: object, optimizer: object, *, weights: str) -> None:
    if isinstance(loss, type):
        raise TypeError(f"loss is the class {loss.__name__}; it takes an object of it: {loss.__name__}(…)")
    if loss is not None and not callable(loss):
        raise TypeError(
            f"loss is a {type(loss).__name__}; it takes a function of output and target, or None for a model that "
            "returns its loss. The arguments are model, loss, example_inputs"
        )
    if not model.training:
        raise ValueError("the model is in eval mode, in which it is not trained: call model.train()")
    if weights not in ("inputs", "initializers"):
        raise ValueError(f"weights is {weights!r}; it takes 'inputs' and 'initializers'")
    if optimizer is not None and weights != "inputs":
        raise ValueError("with an optimizer weights must be inputs, since they change with every step")


def _check_gradients(parameters: Mapping[str, nn.Parameter], transform: GradientTransform | None) -> None:
    trained = {name: parameter for name, parameter in parameters.items() if parameter.requires_grad}
    for name, parameter in trained.items():
        if has_gradient_hooks(parameter):
            raise ValueError(
                f"'{name}' has a hook on its gradient, which no step runs: pass gradient_transform instead"
            )
    with random_numbers_restored():
        transformed({name: torch.zeros_like(parameter) for name, parameter in trained.items()}, transform)


def _exported(
    joint: Joint,
    groups: Sequence[Group],
    inputs: Mapping[str, Tensor],
    transform: GradientTransform | None,
    *,
    opset: int,
    sizes: SymbolicSizes,
) -> onnx.ModelProto:
    """Return the model of a joint graph, of a transform of its gradients, and of the optimizer, with these inputs."""
    gradients = {names.gradient(name) for name in joint.trained}
    updated = {names.gradient(name) for group in groups for name in group.parameters}
    outputs = [name for name in joint.outputs if not groups or name not in gradients - updated]
    step = _with_transform(joint, transform, outputs)
    model = translated(step, joint.inputs, outputs, opset=opset, sizes=sizes)
    if groups:
        results = [*(name for name in outputs if name not in gradients), *map(names.new, update_names(groups))]
        write_updates(model, groups, inputs, list(dict.fromkeys(results)))
    return model


def _with_transform(
    joint: Joint, transform: GradientTransform | None, outputs: Sequence[str]
) -> Callable[..., Sequence[Tensor]]:
    """Return the function of a joint graph and of a transform of its gradients, with these outputs."""
    gradients = {names.gradient(name): name for name in joint.trained}
    change = _traced(transform, {name: joint.inputs[names.weight(name)] for name in joint.trained})

    def step(*values: Tensor) -> list[Tensor]:
        named = dict(zip(joint.inputs, values, strict=True))
        given = [named[name].clone() if name in joint.written else named[name] for name in joint.inputs]
        results = dict(zip(joint.outputs, run_annotated(joint.graph, given), strict=True))
        results |= dict(zip(gradients, change([results[output] for output in gradients]), strict=True))
        return [results[name] for name in outputs]

    return step


def _traced(
    transform: GradientTransform | None, gradients: Mapping[str, Tensor]
) -> Callable[[Sequence[Tensor]], Sequence[Tensor]]:
    """Return the function of the gradients that a transform is, with the operators of a joint graph.

    Raises `TorchExportError` if torch cannot trace it.
    """
    if transform is None:
        return list

    def run(*values: Tensor) -> list[Tensor]:
        with Rewritten():
            changed = transformed(dict(zip(gradients, values, strict=True)), transform)
        return [changed[name] for name in gradients]

    with explained("torch cannot trace gradient_transform"), caches_without_fakes():
        graph = trace(run, {**gradients}, {}, decompositions("by_shape"), INTERPOLATIONS)
    return lambda values: run_annotated(graph, [value.contiguous() for value in values])


def _make_initializers(model: onnx.ModelProto, values: Mapping[str, np.ndarray]) -> None:
    for value in [value for value in model.graph.input if value.name in values]:
        model.graph.input.remove(value)
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in values.items())


def warn_of_large_kernels(model: onnx.ModelProto) -> None:
    """Warn of each gradient of a weight that is a convolution with a larger kernel.

    These kernels are as large as what the layer gives, so they grow with the images.
    """
    for node in model.graph.node:
        kernels = (list(attribute.ints) for attribute in node.attribute if attribute.name == "kernel_shape")
        sizes = next(kernels, []) if node.op_type == "Conv" else []
        if sizes and max(sizes) > LARGEST_KERNEL[len(sizes)]:
            weight = _trained_by(model.graph, node)
            warnings.warn(
                f"the gradient of '{weight}' is a convolution with a kernel of {'x'.join(map(str, sizes))}, and those "
                f"of Ascend take {LARGEST_KERNEL[len(sizes)]} along an axis at most: "
                'export the step with weight_gradient="by_shape"',
                UserWarning,
                stacklevel=3,
            )


def _trained_by(graph: onnx.GraphProto, node: NodeProto) -> str:
    """Return the parameter whose gradient or new value depends on the node. The nodes are in topological order."""
    prefixes = (names.gradient(""), names.new(names.weight("")))
    outputs = {value.name for value in graph.output}
    reached = set(node.output)
    for user in graph.node:
        if not reached.isdisjoint(user.input):
            reached.update(user.output)
    found = [name.removeprefix(prefix) for name in reached & outputs for prefix in prefixes if name.startswith(prefix)]
    return ", ".join(sorted(found)) or node.name
