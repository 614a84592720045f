# SPDX-License-Identifier: Apache-2.0

"""Compares a training step in onnxruntime with the same step of eager PyTorch, each with eager PyTorch in float64.

A step in 16 bits is compared twice. Rounding to 16 bits hides wrong signs in networks with many layers, so the model
and eager PyTorch also compute in float32 wherever the step computes in 16 bits. Constants of the model keep the values
that they have in 16 bits, such as an epsilon that is 0 there, or angles of large positions. So an output is right too
if it is near that of eager PyTorch where both round as the step does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnx
import torch
from torch import Tensor

from poolgrad_lowering.model.ir import step_names as names
from poolgrad_lowering.torch.arrays import Arrays
from poolgrad_lowering.torch.checking.eager import eager_step, rates
from poolgrad_lowering.torch.checking.judgement import FACTOR, Judgement, is_near, judged, part
from poolgrad_lowering.torch.checking.moved import MovedGradients, may_move, moved, moved_at_random
from poolgrad_lowering.torch.checking.session import Session, open_as_exported
from poolgrad_lowering.torch.errors import StepMismatchError
from poolgrad_lowering.torch.exported_step import ExportedStep
from poolgrad_lowering.torch.halves import element_types, has_halves, in_float32, rounded_like_torch, without_halves

ROUNDINGS = 16
"""The error that a step may have in any case, in roundings of the largest element: kernels of onnxruntime approximate
exp, tanh and erf by some roundings where those of PyTorch are exact to one."""

ROUNDINGS_OF_SUMS = 256
"""The same in roundings of float32: onnxruntime adds thousands of rows one after the other, PyTorch in pairs. What they
add up to is less than the rows, as for a weight in front of a BatchNorm."""


@dataclass(frozen=True)
class StepCheck:
    """The result of a comparison: what each output is off float64, and what it may be, as parts of its largest element.

    An output with the bits of eager PyTorch is off by 0. Of several steps, it is the one with the largest part of what
    is allowed. `tolerance` is the part of what is allowed that does not depend on eager PyTorch's own error.
    """

    errors: Mapping[str, float]
    allowed: Mapping[str, float]
    tolerance: float

    @property
    def worst(self) -> str:
        """The output with the largest error for what is allowed, or one with a NaN."""
        return max(self.errors, key=lambda name: part(self.errors[name], self.allowed[name]))


def check_step(step: ExportedStep, *, steps: int, tolerance: float | None) -> StepCheck:
    """Return the comparison of `steps` steps. See `TrainingStep.check`."""
    if steps < 1 or (steps > 1 and not step.values.keys() <= set(step.inputs)):
        raise ValueError(f"steps is {steps}; it takes 1 or more, and 1 for a step with weights as initializers")
    open_as_exported(step.model)
    if has_halves(step.model):
        comparisons = [
            _ComparedModel(step, rounded_like_torch(step.model), None, tolerance),
            _ComparedModel(step, without_halves(step.model), torch.float32, tolerance),
        ]
    else:
        comparisons = [_ComparedModel(step, step.model, None, tolerance)]
    values = dict(step.values)
    for _ in range(steps):
        before = {**values, **step.examples}
        expected, draws = eager_step(step, before)
        _check_all_changes(step, before, expected)
        truth, _ = eager_step(step, before, draws, wide=torch.float64)
        rounded: Arrays = {}
        for comparison in comparisons:
            rounded = comparison.compare(before, draws, expected, truth, rounded)
        values |= {name: expected[output] for output, name in step.carried.items()}
    return [comparison.result() for comparison in reversed(comparisons)][-1]


class _ComparedModel:
    """A model that computes a step, without 16-bit types, beside eager PyTorch.

    `wide` is float32 if both compute in float32 in place of the 16-bit types of the step.
    """

    def __init__(
        self, step: ExportedStep, model: onnx.ModelProto, wide: torch.dtype | None, tolerance: float | None
    ) -> None:
        self._step, self._wide = step, wide
        self._eager = partial(eager_step, step, wide=wide)
        self._session = Session(model)
        self._unit = _rounding(element_types(step.model.graph).values()) if wide is None else 2.0**-24
        if tolerance is None:
            least = ROUNDINGS_OF_SUMS * 2.0**-24 if self._unit >= 2.0**-24 else 0
            tolerance = max(ROUNDINGS * _rounding_of_constants(step) if wide else ROUNDINGS * self._unit, least)
        self._tolerance = tolerance
        self._judged: dict[str, Judgement] = {}

    def compare(
        self, before: Arrays, draws: Sequence[Tensor], expected: Arrays, truth: Arrays, rounded: Arrays
    ) -> Arrays:
        """Compare one step, and return its results.

        Eager PyTorch gives `expected` in the types of the step, and `truth` in float64. `rounded` are the results of
        the comparison before, which rounds: what is near `expected` there is right here too.
        """
        if self._wide is not None:
            before = {name: in_float32(value) for name, value in before.items()}
        step, unit = self._step, self._unit
        learning_rates = {name: np.array(rate, np.float32) for name, rate in rates(step).items()}
        results = self._session.run(
            {name: value for name, value in before.items() if name in step.inputs} | learning_rates, draws
        )
        kept = _kept(step)
        movable = {name: value for name, value in before.items() if name not in kept and may_move(value)}
        own = expected if self._wide is None else self._eager(before, draws)[0]
        eagers = [own, *(self._eager({**before, **each}, draws)[0] for each in moved(movable, step.values, unit))]
        moved_gradient = MovedGradients(eagers, truth, self._tolerance) if step.groups else None
        further = (
            (
                self._eager({**before, **near}, draws)[0],
                self._eager({**before, **far}, draws, moved_gradient=moved_gradient)[0],
            )
            for near, far in zip(moved_at_random(movable, unit), moved_at_random(movable, FACTOR * unit), strict=True)
        )
        starts = {output: before[name] for output, name in step.carried.items()}
        near = (
            name
            for name in rounded.keys() & expected.keys()
            if is_near(rounded[name], expected[name], starts.get(name, np.zeros(())), self._tolerance)
        )
        compared = results | {name: own[name] for name in near}
        found = judged(compared, eagers, further, truth, starts=starts, tolerance=self._tolerance)
        for name, pair in found.items():
            self._judged[name] = max(pair, self._judged.get(name, pair), key=lambda each: part(*each))
        return results

    def result(self) -> StepCheck:
        """Return the result of all steps. Raises `StepMismatchError` if an output is off by more than is allowed."""
        compared = StepCheck(
            {name: error for name, (error, _) in self._judged.items()},
            {name: allowed for name, (_, allowed) in self._judged.items()},
            self._tolerance,
        )
        worst = compared.worst
        if not compared.errors[worst] <= compared.allowed[worst]:  # a NaN is no agreement
            where = "" if self._wide is None else ", where both compute in float32 in place of 16 bits"
            advice = _ADVICE_FOR_HALVES if self._unit > 2.0**-24 else ""
            raise StepMismatchError(
                f"{worst} differs from eager PyTorch in float64 by {compared.errors[worst]:.2g} times its largest "
                f"element{where}; {compared.allowed[worst]:.2g} is allowed, by what eager PyTorch itself differs"
                f"{advice}"
            )
        return compared


_ADVICE_FOR_HALVES = (
    "; the model computes in 16 bits, whose rounding a deep network can amplify this far, and in float32 in their "
    "place it agrees: pass a tolerance"
)


def _check_all_changes(step: ExportedStep, before: Arrays, after: Arrays) -> None:
    """Raise `StepMismatchError` if eager PyTorch changes a tensor of the model that the step has no output for."""
    for name, value in before.items():
        output = names.new(name)
        if output not in step.outputs and output in after and after[output].tobytes() != value.tobytes():
            raise StepMismatchError(f"eager PyTorch changes {name}, for which the step has no output {output}")


def _rounding(held: Iterable[int]) -> float:
    """Return the largest error of rounding 1 to the shortest of floating-point element types."""
    bits: dict[int, int] = {onnx.TensorProto.BFLOAT16: 8, onnx.TensorProto.FLOAT16: 11, onnx.TensorProto.FLOAT: 24}
    return 2.0 ** -min((bits[kind] for kind in held if kind in bits), default=53)


def _rounding_of_constants(step: ExportedStep) -> float:
    """Return the rounding of the shortest constant of a step: torch's exporter rounds a factor of 0.1 to bfloat16."""
    return _rounding(each.data_type for each in step.model.graph.initializer if each.name not in step.values)


def _kept(step: ExportedStep) -> set[str]:
    """Return the inputs that no step changes, and that have no gradient: their numbers may decide what is computed."""
    others = step.values.keys() - step.carried.values()
    return {name for name in others if names.gradient(name.removeprefix(names.weight(""))) not in step.outputs}
