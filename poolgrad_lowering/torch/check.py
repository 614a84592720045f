# SPDX-License-Identifier: Apache-2.0

"""Compares a training step in onnxruntime with the same step of eager PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import torch
from torch import Tensor

from poolgrad_lowering.runtime.errors import SessionError
from poolgrad_lowering.runtime.registration import import_onnxruntime
from poolgrad_lowering.torch import names
from poolgrad_lowering.torch.arrays import to_array, to_tensor
from poolgrad_lowering.torch.errors import StepMismatchError, TorchExportError
from poolgrad_lowering.torch.internals import RecordedMasks

if TYPE_CHECKING:
    from poolgrad_lowering.torch.step import TrainingStep

LEARNING_RATE = 0.01
"""That of the steps that are compared."""

_TOLERANCE, _HALF_TOLERANCE = 1e-3, 5e-2
_SMALL = 1e-3
"""An output below this part of the largest element of its kind is a sum that cancels, and what both compute is
rounding: the gradient of a bias before a BatchNorm is 0, and so is the mean behind one."""

_RANDOM = {"RandomUniform", "RandomNormal", "RandomNormalLike", "Multinomial", "Bernoulli"}
_HALVES = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class StepCheck:
    """The result of a comparison: the largest error of each output over all steps, as a part of its largest element."""

    errors: Mapping[str, float]
    tolerance: float

    @property
    def worst(self) -> str:
        """The output with the largest error."""
        return max(self.errors, key=self.errors.__getitem__)


def check_step(step: TrainingStep, *, steps: int, tolerance: float | None) -> StepCheck:
    """Return the comparison of `steps` steps. See `TrainingStep.check`."""
    model, mask_names = _with_masks_as_inputs(step.model)
    allowed = tolerance if tolerance is not None else _HALF_TOLERANCE if _has_halves(model) else _TOLERANCE
    session = _session(model)
    eager = _Eager(step)
    values = {name: value for name, value in step.values.items() if name in step.inputs}
    errors: dict[str, float] = {}
    for _ in range(steps):
        expected, masks = eager.step()
        if len(masks) != len(mask_names):
            raise TorchExportError(f"PyTorch draws {len(masks)} masks in a step, and the model {len(mask_names)}")
        feeds = {**values, **step.examples, **_uniform(mask_names, masks)}
        if step.optimizer is not None:
            feeds[names.LEARNING_RATE] = np.array(LEARNING_RATE, np.float32)
        results = dict(zip(step.outputs, session.run(None, feeds), strict=True))
        for name, error in _errors(results, expected).items():
            errors[name] = max(error, errors.get(name, 0.0))
        values |= {name: results[output] for output, name in step.carried.items() if name in values}
    found = StepCheck(errors, allowed)
    if not found.errors[found.worst] <= allowed:  # a NaN is no agreement
        raise StepMismatchError(
            f"{found.worst} differs from eager PyTorch by {found.errors[found.worst]:.2g} of its largest element; "
            f"{allowed:g} is allowed"
        )
    return found


class _Eager:
    """Steps of eager PyTorch on a copy of the module, with the weights that it had when it was exported."""

    def __init__(self, step: TrainingStep) -> None:
        self._module = copy.deepcopy(step.module)
        self._examples = list(map(to_tensor, step.examples.values()))
        self._parameters = {name.removeprefix("model."): p for name, p in self._module.named_parameters()}
        self._buffers = lambda: {name.removeprefix("model."): b for name, b in self._module.named_buffers()}
        with torch.no_grad():
            for prefix, tensors in ((names.weight(""), self._parameters), (names.buffer(""), self._buffers())):
                for name, tensor in tensors.items():
                    tensor.copy_(to_tensor(step.values[prefix + name]))
        trained = [p for p in self._parameters.values() if p.requires_grad]
        self._torch = step.optimizer.in_torch(trained, LEARNING_RATE) if step.optimizer else None

    def step(self) -> tuple[Arrays, list[Tensor]]:
        """Return the outputs of the next step by name, and the masks that were drawn."""
        self._module.zero_grad()
        with RecordedMasks() as recorded, torch.enable_grad():
            loss = self._module(*self._examples)
        loss.backward()
        found = {names.LOSS: loss}
        found |= {names.gradient(name): p.grad for name, p in self._parameters.items() if p.grad is not None}
        if self._torch is not None:
            self._torch.step()
        found |= {names.new(names.weight(name)): p for name, p in self._parameters.items()}
        found |= {names.new(names.buffer(name)): b for name, b in self._buffers().items()}
        return {name: to_array(value) for name, value in found.items()}, recorded.masks


def _with_masks_as_inputs(model: onnx.ModelProto) -> tuple[onnx.ModelProto, list[str]]:
    """Return a copy of the model in which uniform random numbers are inputs, and the names of these inputs.

    Raises `TorchExportError` for random numbers that do not come from a dropout layer.
    """
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    drawn = [node for node in copied.graph.node if node.op_type == "RandomUniformLike"]
    for node in copied.graph.node:
        if node.op_type in _RANDOM:
            raise TorchExportError(f"a step with {node.op_type} cannot be compared: only dropout masks can be fed")
    for node in drawn:
        copied.graph.node.remove(node)
        copied.graph.input.append(onnx.helper.make_tensor_value_info(node.output[0], onnx.TensorProto.FLOAT, None))
    return copied, [node.output[0] for node in drawn]


def _uniform(inputs: list[str], masks: list[Tensor]) -> Arrays:
    """Return numbers that are below the probability of 1 exactly where the mask is 1."""
    return {name: 1 - to_array(mask.float()) for name, mask in zip(inputs, masks, strict=True)}


def _has_halves(model: onnx.ModelProto) -> bool:
    """Whether a value of the model is of a 16-bit type."""
    graph = model.graph
    types = {value.type.tensor_type.elem_type for value in (*graph.input, *graph.value_info)}
    return not types.isdisjoint(_HALVES)


def _session(model: onnx.ModelProto) -> Any:
    ort = import_onnxruntime()
    options = ort.SessionOptions()
    options.log_severity_level = 3
    try:
        return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise SessionError(f"onnxruntime cannot run the training step: {error}") from error


def _errors(results: Arrays, expected: Arrays) -> dict[str, float]:
    """Return the largest error of every output that PyTorch has too, as a part of its largest element."""
    found = {}
    for name, result in results.items():
        if name in expected:
            wanted = expected[name].astype(np.float64)
            difference = _largest(result.astype(np.float64) - wanted)
            found[name] = (
                difference / max(_largest(wanted), _SMALL * _largest_of_kind(name, expected)) if difference else 0.0
            )
    return found


def _largest_of_kind(name: str, expected: Arrays) -> float:
    """Return the largest element of all floating-point outputs of this kind, e.g. of all gradients."""
    kind = name.partition(".")[0]
    values = [value for other, value in expected.items() if other.partition(".")[0] == kind]
    return max((_largest(value) for value in values if not np.issubdtype(value.dtype, np.integer)), default=0.0)


def _largest(value: np.ndarray) -> float:
    return float(np.abs(value).max(initial=0))
