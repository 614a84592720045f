# SPDX-License-Identifier: Apache-2.0

"""Compares a training step in onnxruntime with the same step of eager PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from poolgrad_lowering.diagnostics.onnx_errors import ONNX_ERRORS
from poolgrad_lowering.diagnostics.onnxruntime_errors import quoted, type_without_kernel
from poolgrad_lowering.runtime.errors import SessionError
from poolgrad_lowering.runtime.registration import import_onnxruntime
from poolgrad_lowering.torch import names
from poolgrad_lowering.torch.arrays import to_array, to_tensor
from poolgrad_lowering.torch.errors import StepMismatchError, TorchExportError
from poolgrad_lowering.torch.exported_step import ExportedStep, transformed
from poolgrad_lowering.torch.groups import in_torch, load_state, state_of
from poolgrad_lowering.torch.halves import has_halves, in_float32, rounded_like_torch
from poolgrad_lowering.torch.internals import RecordedMasks, without_one_dnn
from poolgrad_lowering.torch.model_state import numbers_restored, restored
from poolgrad_lowering.torch.optimizers import Adam

LEARNING_RATE = 0.01
"""That of the steps that are compared."""

_TOLERANCE, _HALF_TOLERANCE = 1e-3, 5e-2
_SMALL, _SMALL_HALF = 1e-3, 0.1
"""An output below this part of the largest element of its kind is a sum that cancels, and what both compute is
rounding: the gradient of a bias before a BatchNorm is 0, and so is the mean behind one. The second is for models in
16 bits, whose rounding is larger."""

_ADVICE_FOR_HALVES = (
    "; the model computes in 16 bits, whose rounding a deep network can amplify this far: compare the step that is "
    "exported in float32, or pass a tolerance"
)

_RANDOM = {"RandomUniform", "RandomNormal", "RandomNormalLike", "Multinomial", "Bernoulli"}

_HALVES = (torch.float16, torch.bfloat16)

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class StepCheck:
    """The result of a comparison: the largest error of each output over all steps, as a part of its largest element."""

    errors: Mapping[str, float]
    tolerance: float

    @property
    def worst(self) -> str:
        """The output with the largest error, or one with a NaN."""
        return max(self.errors, key=lambda name: np.nan_to_num(self.errors[name], nan=np.inf))


def check_step(step: ExportedStep, *, steps: int, tolerance: float | None) -> StepCheck:
    """Return the comparison of `steps` steps. See `TrainingStep.check`."""
    # A copy runs, but its hooks may hold the module itself; and masks are drawn.
    with restored(step.module), numbers_restored(step.module):
        return _compared(step, steps=steps, tolerance=tolerance)


def _compared(step: ExportedStep, *, steps: int, tolerance: float | None) -> StepCheck:
    if steps < 1 or (steps > 1 and not step.values.keys() <= set(step.inputs)):
        raise ValueError(f"steps is {steps}; it takes 1 or more, and 1 for a step with weights as initializers")
    _open(step.model)
    model, mask_names = _with_masks_as_inputs(step.model)
    halves = has_halves(model)
    usual, small = (_HALF_TOLERANCE, _SMALL_HALF) if halves else (_TOLERANCE, _SMALL)
    allowed = usual if tolerance is None else tolerance
    session = _session(rounded_like_torch(model) if halves else model)
    eager = _Eager(step)
    values = {name: value for name, value in step.values.items() if name in step.inputs}
    errors: dict[str, float] = {}
    for _ in range(steps):
        expected, masks = eager.step()
        if len(masks) != len(mask_names):
            raise TorchExportError(
                f"a step that draws {len(mask_names)} times random numbers cannot be compared: only the {len(masks)} "
                "masks of dropout layers can be fed"
            )
        # Numbers that are below the probability of 1 exactly where the mask is 1.
        uniform = {name: 1 - to_array(mask.float()) for name, mask in zip(mask_names, masks, strict=True)}
        feeds = {**values, **step.examples, **uniform}
        feeds |= {name: np.array(rate, np.float32) for name, rate in _rates(step).items()}
        feeds = {name: in_float32(value) for name, value in feeds.items()}
        results = dict(zip(step.outputs, session.run(None, feeds), strict=True))
        undetermined = _undetermined(step, expected, small)
        for name, error in _errors(results, expected, small, undetermined).items():
            errors[name] = max(error, errors.get(name, 0.0))
        values |= {name: expected[output] for output, name in names.carried(step.outputs).items() if name in values}
    found = StepCheck(errors, allowed)
    if not found.errors[found.worst] <= allowed:  # a NaN is no agreement
        raise StepMismatchError(
            f"{found.worst} differs from eager PyTorch by {found.errors[found.worst]:.2g} of its largest element; "
            f"{allowed:g} is allowed" + (_ADVICE_FOR_HALVES if halves else "")
        )
    return found


def _rates(step: ExportedStep) -> dict[str, float]:
    """Return the learning rates of the comparison by input, another one for each group."""
    return {group.rate: LEARNING_RATE / 2**number for number, group in enumerate(step.groups)}


def _copied(module: nn.Module) -> Any:
    """Return a copy, also of a module that keeps results as attributes, as torch's older weight_norm does."""
    held = (value for part in module.modules() for value in vars(part).values() if isinstance(value, Tensor))
    return copy.deepcopy(module, {id(value): value.detach() for value in held if not value.is_leaf})


class _Eager:
    """Steps of eager PyTorch on a copy of the module, with the weights that it had when it was exported."""

    def __init__(self, step: ExportedStep) -> None:
        self._module = _copied(step.module)
        self._examples = list(map(to_tensor, step.examples.values()))
        self._groups, self._transform = step.groups, step.gradient_transform
        self._parameters, buffers = self._module.in_model()
        first = {name: to_tensor(value) for name, value in step.values.items()}
        with torch.no_grad():
            for name, tensor in names.tensors(self._parameters, buffers).items():
                tensor.copy_(first[name])
        self._torch = in_torch(step.groups, self._parameters, _rates(step)) if step.groups else None
        if self._torch is not None:
            load_state(self._groups, first, self._torch, self._parameters)

    def step(self) -> tuple[Arrays, list[Tensor]]:
        """Return the outputs of the next step by name, and the masks that were drawn."""
        self._module.zero_grad()
        torch.clear_autocast_cache()  # of the weights before the last update
        is_short = self._module.is_mixed or any(p.dtype in _HALVES for p in self._parameters.values())
        kernels = without_one_dnn() if is_short else nullcontext()
        with kernels, torch.autocast("cpu", enabled=False), torch.enable_grad():  # but the module's own
            with RecordedMasks() as recorded:
                loss = self._module(*self._examples)
            loss.backward()
        gradients = {name: p.grad for name, p in self._parameters.items() if p.grad is not None}
        for name, gradient in transformed(gradients, self._transform).items():
            self._parameters[name].grad = gradient
        found = {names.LOSS: loss}
        found |= {names.gradient(name): p.grad for name, p in self._parameters.items() if p.grad is not None}
        after = names.tensors(*self._module.in_model())
        if self._torch is not None:
            self._torch.step()
            after |= state_of(self._groups, self._torch, self._parameters)
        found |= {names.new(name): value for name, value in after.items()}
        return {name: to_array(value) for name, value in found.items()}, recorded.masks


def _with_masks_as_inputs(model: onnx.ModelProto) -> tuple[onnx.ModelProto, list[str]]:
    """Return a copy of the model in which uniform random numbers are inputs, and the names of these inputs.

    Raises `TorchExportError` for random numbers that do not come from a dropout layer.
    """
    copied = copy.deepcopy(model)
    drawn = [node for node in copied.graph.node if node.op_type == "RandomUniformLike"]
    drawn.sort(key=lambda node: names.random_number(node.output[0]))  # the order of PyTorch, not that of the file
    for node in copied.graph.node:
        if node.op_type in _RANDOM:
            raise TorchExportError(f"a step with {node.op_type} cannot be compared: only dropout masks can be fed")
    for node in drawn:
        copied.graph.node.remove(node)
        copied.graph.input.append(onnx.helper.make_tensor_value_info(node.output[0], onnx.TensorProto.FLOAT, None))
    return copied, [node.output[0] for node in drawn]


def _open(model: onnx.ModelProto) -> None:
    """Open the model as it was exported, of which the comparison runs a copy without masks and 16-bit types.

    Raises `TorchExportError` if the model is invalid, `SessionError` if onnxruntime cannot open it for another reason
    than a kernel for bfloat16.
    """
    try:
        onnx.checker.check_model(model, full_check=True)
    except ONNX_ERRORS as error:
        raise TorchExportError(f"the exported step is not valid ONNX: {error}") from error
    try:
        _session(model)
    except SessionError as error:
        has_no_kernel = isinstance(error.__cause__, import_onnxruntime().capi.onnxruntime_pybind11_state.NotImplemented)
        if not (has_no_kernel and has_halves(model)):
            raise


def _session(model: onnx.ModelProto) -> Any:
    ort = import_onnxruntime()
    options = ort.SessionOptions()
    options.log_severity_level = 4  # what is wrong is raised
    try:
        return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        reason = type_without_kernel(error, model)
        raise SessionError(f"onnxruntime cannot run the training step: {quoted(error)}{reason}") from error


def _undetermined(step: ExportedStep, expected: Arrays, small: float) -> Arrays:
    """Return for each output the elements that rounding decides, as a mask.

    Adam divides each gradient by its own size: the weight of a gradient that is rounding moves by the learning rate,
    up or down. Rounding is what is below the part `small` of the largest gradient. Gradients have no such elements.
    """
    if not any(isinstance(group.optimizer, Adam) for group in step.groups):
        return {}
    gradients = {name: value for name, value in expected.items() if name.startswith(names.gradient(""))}
    smallest = small * max(map(_largest, gradients.values()), default=0.0)
    return {
        names.new(names.weight(name.removeprefix(names.gradient("")))): np.abs(value.astype(np.float64)) < smallest
        for name, value in gradients.items()
    }


def _errors(results: Arrays, expected: Arrays, small: float, undetermined: Arrays) -> dict[str, float]:
    """Return the largest error of every output that PyTorch has too, as a part of its largest element.

    An output whose largest element is below the part `small` of the largest of its kind counts as if it reached that.
    Elements that are `undetermined` do not count.
    """
    found = {}
    for name, result in results.items():
        if name in expected:
            wanted = expected[name].astype(np.float64)
            distance = result.astype(np.float64) - wanted
            difference = _largest(np.where(undetermined[name], 0, distance) if name in undetermined else distance)
            found[name] = (
                difference / max(_largest(wanted), small * _largest_of_kind(name, expected)) if difference else 0.0
            )
    return found


def _largest_of_kind(name: str, expected: Arrays) -> float:
    """Return the largest element of all floating-point outputs of this kind, e.g. of all gradients."""
    values = [value for other, value in expected.items() if names.kind(other) == names.kind(name)]
    return max((_largest(value) for value in values if not np.issubdtype(value.dtype, np.integer)), default=0.0)


def _largest(value: np.ndarray) -> float:
    return float(np.abs(value).max(initial=0))
