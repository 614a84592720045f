# SPDX-License-Identifier: Apache-2.0

"""Compares a training step in onnxruntime with the same step of eager PyTorch, each with eager PyTorch in float64.

Rounding decides what a difference of large terms gives: the gradient of a bias before a BatchNorm is 0, and both steps
find some other small number. So a step may have the error that eager PyTorch itself has, in its own type against
float64. How large that is depends on chance, above all in tensors of few elements. It is therefore the largest
of several runs: in some, the weights or the example inputs are moved by a rounding.

Where a ReLU's operand is near 0, or two elements of a max pool's window are near each other, rounding decides where a
gradient goes; where a gradient is near 0, it decides where Adam moves a weight. How far off such an element is says
nothing of how near to 0 it was. A step that seems wrong is therefore compared with more runs, in which everything is
moved as far as a step may be off, so that some elements go the other way: these elements may be off in the step too.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from poolgrad_lowering.model.diagnostics.errors import SessionError
from poolgrad_lowering.model.diagnostics.onnx_errors import ONNX_ERRORS
from poolgrad_lowering.model.io.onnxruntime import import_onnxruntime, quoted, type_without_kernel
from poolgrad_lowering.model.ir import step_names as names
from poolgrad_lowering.model.ir.graphs import opset_of
from poolgrad_lowering.torch.arrays import to_array, to_tensor
from poolgrad_lowering.torch.compositions import GROUPED
from poolgrad_lowering.torch.errors import StepMismatchError, TorchExportError
from poolgrad_lowering.torch.explanations import sentence
from poolgrad_lowering.torch.exported_step import ExportedStep, transformed
from poolgrad_lowering.torch.groups import in_torch, load_state, state_of
from poolgrad_lowering.torch.halves import element_types, has_halves, in_float32, rounded_like_torch
from poolgrad_lowering.torch.internals.modes import Draws, InFloat64, without_one_dnn
from poolgrad_lowering.torch.joint import WithLoss
from poolgrad_lowering.torch.model_state import attributes_restored, replace
from poolgrad_lowering.torch.quantization import QUANTIZATIONS
from poolgrad_lowering.torch.random_numbers import OF_RANDOM_NUMBERS

LEARNING_RATE = 0.01
"""That of the steps that are compared."""

FACTOR = 8
"""The error of a step may be this many times the error of eager PyTorch: its sums are in another order, and it has
another number of roundings."""

ROUNDINGS = 16
"""The error that a step may have in any case, in roundings of the largest element: kernels of onnxruntime approximate
exp, tanh and erf by some roundings where those of PyTorch are exact to one."""

ROUNDINGS_OF_SUMS = 256
"""The same in roundings of float32: onnxruntime adds thousands of rows one after the other, PyTorch in pairs. What they
add up to is less than the rows, as for a weight in front of a BatchNorm."""

LEAST_NORMAL = 2.0**-126
"""The least normal number of float32: processors may make 0 of what is less."""

FURTHER_RUNS = 16
"""At most, of eager PyTorch for a step that seems wrong, with inputs moved by roundings, and as many moved farther."""

MARGIN = 2
"""An element of a step may be off this many times what it is in one of the runs that are moved farther: these are a
sample of all that may happen."""

_ADVICE_FOR_HALVES = (
    "; the model computes in 16 bits, whose rounding a deep network can amplify this far: compare the step that is "
    "exported in float32, or pass a tolerance"
)

Arrays = dict[str, np.ndarray]
MovedGradient = Callable[[str, Tensor], Tensor]


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
        return max(self.errors, key=lambda name: _part(self.errors[name], self.allowed[name]))


def check_step(step: ExportedStep, *, steps: int, tolerance: float | None) -> StepCheck:
    """Return the comparison of `steps` steps. See `TrainingStep.check`."""
    if steps < 1 or (steps > 1 and not step.values.keys() <= set(step.inputs)):
        raise ValueError(f"steps is {steps}; it takes 1 or more, and 1 for a step with weights as initializers")
    _open(step.model)
    halves = has_halves(step.model)
    unit = _rounding(step.model)
    if tolerance is None:
        tolerance = max(ROUNDINGS * unit, ROUNDINGS_OF_SUMS * 2.0**-24 if unit >= 2.0**-24 else 0)
    model, random = _with_random_inputs(step.model)
    session = _session(_with_exact_sigmoids(rounded_like_torch(model) if halves else model))
    eager = partial(_eager_step, step)
    values = dict(step.values)
    kept = _kept(step)
    judged: dict[str, tuple[float, float]] = {}
    for _ in range(steps):
        before = {**values, **step.examples}
        expected, draws = eager(before)
        feeds = {name: value for name, value in before.items() if name in step.inputs} | _fed(random, draws)
        feeds |= {name: np.array(rate, np.float32) for name, rate in _rates(step).items()}
        found = _run(session, {name: in_float32(value) if halves else value for name, value in feeds.items()})
        results = dict(zip(step.outputs, found, strict=True))
        _check_all_changes(step, before, expected)
        truth, _ = eager(before, draws, in_float64=True)
        movable = {name: value for name, value in before.items() if name not in kept and _may_move(value)}
        eagers = [expected, *(eager({**before, **moved}, draws)[0] for moved in _moved(movable, step.values, unit))]
        moved_gradient = _MovedGradients(eagers, truth, tolerance) if step.groups else None
        further = (
            (eager({**before, **near}, draws)[0], eager({**before, **far}, draws, moved_gradient=moved_gradient)[0])
            for near, far in zip(_moved_at_random(movable, unit), _moved_at_random(movable, FACTOR * unit), strict=True)
        )
        starts = {output: before[name] for output, name in step.carried.items()}
        pairs = _judged(results, eagers, further, truth, starts=starts, tolerance=tolerance)
        for name, pair in pairs.items():
            judged[name] = max(pair, judged.get(name, pair), key=lambda each: _part(*each))
        values |= {name: expected[output] for output, name in step.carried.items()}
    compared = StepCheck(
        {name: error for name, (error, _) in judged.items()},
        {name: allowed for name, (_, allowed) in judged.items()},
        tolerance,
    )
    worst = compared.worst
    if not compared.errors[worst] <= compared.allowed[worst]:  # a NaN is no agreement
        raise StepMismatchError(
            f"{worst} differs from eager PyTorch in float64 by {compared.errors[worst]:.2g} times its largest element; "
            f"{compared.allowed[worst]:.2g} is allowed, by what eager PyTorch itself differs"
            + (_ADVICE_FOR_HALVES if halves else "")
        )
    return compared


def _check_all_changes(step: ExportedStep, before: Arrays, after: Arrays) -> None:
    """Raise `StepMismatchError` if eager PyTorch changes a tensor of the model that the step has no output for."""
    for name, value in before.items():
        output = names.new(name)
        if output not in step.outputs and output in after and after[output].tobytes() != value.tobytes():
            raise StepMismatchError(f"eager PyTorch changes {name}, for which the step has no output {output}")


def _part(error: float, allowed: float) -> float:
    """Return an error as a part of what is allowed; infinite for a NaN."""
    return 0.0 if error == 0 else float(np.nan_to_num(np.divide(error, allowed), nan=np.inf))


def _rounding(model: onnx.ModelProto) -> float:
    """Return the largest error of rounding 1 to the shortest floating-point type of the model."""
    held = set(element_types(model.graph).values())
    bits = {onnx.TensorProto.BFLOAT16: 8, onnx.TensorProto.FLOAT16: 11, onnx.TensorProto.FLOAT: 24}
    return 2.0 ** -min((count for kind, count in bits.items() if kind in held), default=53)


def _kept(step: ExportedStep) -> set[str]:
    """Return the inputs that no step changes, and that have no gradient: their numbers may decide what is computed."""
    others = step.values.keys() - step.carried.values()
    return {name for name in others if names.gradient(name.removeprefix(names.weight(""))) not in step.outputs}


def _moved(movable: Arrays, values: Collection[str], unit: float) -> Iterator[Arrays]:
    """Yield the example inputs, the weights and both, moved towards 0 by a rounding, or two.

    Equal elements stay equal, or other maxima would be chosen. A tensor of integers stays as it is: it may be a mask or
    an index, and sums of it may be exact.
    """
    moved = {name: (value.astype(np.float64) * (1 - 2 * unit)).astype(value.dtype) for name, value in movable.items()}
    yield {name: value for name, value in moved.items() if name not in values}
    yield {name: value for name, value in moved.items() if name in values}
    yield moved


def _moved_at_random(movable: Arrays, unit: float) -> Iterator[Arrays]:
    """Yield tensors with each element moved by up to two roundings, equal ones of a tensor alike.

    What is moved all alike, such as a weight before a BatchNorm, may change nothing.
    """
    generator = np.random.default_rng(0)
    for _ in range(FURTHER_RUNS):
        moved = {}
        for name, value in movable.items():
            elements, places = np.unique(value.astype(np.float64), return_inverse=True)
            elements *= 1 + generator.uniform(-2 * unit, 2 * unit, elements.size)
            moved[name] = elements[places].reshape(value.shape).astype(value.dtype)
        yield moved


class _MovedGradients:
    """Moves the gradients that an optimizer gets, by up to what those of a step may be off."""

    def __init__(self, eagers: Sequence[Arrays], exact: Arrays, tolerance: float) -> None:
        self._generator = np.random.default_rng(0)
        self._most = {
            name: FACTOR * max(_largest_finite(each[name] - value) for each in eagers)
            + tolerance * _largest_finite(value)
            for name, value in exact.items()
            if name.startswith(names.gradient(""))
        }

    def __call__(self, name: str, gradient: Tensor) -> Tensor:
        """Return the gradient of a parameter, moved."""
        most = self._most[names.gradient(name)]
        return gradient + to_tensor(self._generator.uniform(-most, most, gradient.shape)).to(gradient.dtype)


def _may_move(value: np.ndarray) -> bool:
    return not np.issubdtype(value.dtype, np.integer) and value.dtype != bool and bool(np.any(value != np.round(value)))


def _judged(
    results: Arrays,
    eagers: list[Arrays],
    further: Iterator[tuple[Arrays, Arrays]],
    exact: Arrays,
    *,
    starts: Arrays,
    tolerance: float,
) -> dict[str, tuple[float, float]]:
    """Return `_judged_output` of each output by name; of those that seem wrong, with further results of eager PyTorch.

    `further` are pairs, of which the second result is moved farther. `starts` are the values at which outputs begin,
    where that is not 0.
    """
    pairs: dict[str, tuple[float, float]] = {}
    left, farther = results.keys() & exact.keys(), list[Arrays]()
    while left:
        for name in left:
            own, moved = ([eager[name] for eager in runs] for runs in (eagers, farther))
            start = starts.get(name, np.zeros(()))
            pairs[name] = _judged_output(results[name], own, exact[name], start, tolerance, moved)
        left = {name for name in left if not _part(*pairs[name]) <= 1}
        found = next(further, None) if left else None
        if found is None:
            break
        eagers.append(found[0])
        farther.append(found[1])
    return pairs


def _judged_output(
    result: np.ndarray,
    eagers: Sequence[np.ndarray],
    exact: np.ndarray,
    start: np.ndarray,
    tolerance: float,
    farther: Sequence[np.ndarray] = (),
) -> tuple[float, float]:
    """Return how far a result is off the exact one, and how far it may be, as parts of the largest element.

    `eagers` are the results of eager PyTorch, of the same inputs and of moved ones. What begins at `start` may be off
    by a part of its change. An element with the bits of eager PyTorch, a NaN too, is right, and one that is not farther
    off than `MARGIN` times what it is in one of `farther`, the results of inputs that are moved farther.
    """
    result, exact, start, *eagers = (value.astype(np.float64) for value in (result, exact, start, *eagers))
    own = eagers[0]
    with np.errstate(all="ignore"):  # infinities and NaN are elements like others
        truth = np.where(np.isfinite(exact), exact, own)
        apart = np.abs(result - truth)
        right = (result == own) | (np.isnan(result) & np.isnan(own))
        for each in farther:
            right |= apart <= MARGIN * np.abs(each - truth)
        error = _largest(np.where(right, 0, apart))
        eager_error = max(_largest_finite(each - truth) for each in eagers)
        largest, change = _largest_finite(truth) or 1.0, _largest_finite(truth - start)
        factor = FACTOR if eager_error <= change else FACTOR**2  # no digit is right: a square of noise
        allowed = factor * eager_error + tolerance * change + LEAST_NORMAL
    return error / largest, allowed / largest


def _rates(step: ExportedStep) -> dict[str, float]:
    """Return the learning rates of the comparison by input, another one for each group."""
    return {group.rate: LEARNING_RATE / 2**number for number, group in enumerate(step.groups)}


def _eager_step(
    step: ExportedStep,
    inputs: Arrays,
    draws: Sequence[Tensor] | None = None,
    *,
    in_float64: bool = False,
    moved_gradient: MovedGradient | None = None,
) -> tuple[Arrays, list[Tensor]]:
    """Return the outputs of a step of eager PyTorch, in the types of the export or in float64, and its random numbers.

    These are drawn, or given. The optimizer gets what `moved_gradient` makes of each gradient. The module is afterwards
    what it was. Raises `TorchExportError` if eager PyTorch cannot run the step, of which a trace computes nothing.
    """
    values = {name: to_tensor(value) for name, value in inputs.items()}
    if in_float64:
        values = {name: value.double() if value.is_floating_point() else value for name, value in values.items()}
    drawn = Draws(OF_RANDOM_NUMBERS, draws)
    with attributes_restored(step.module):
        parameters = _set(step.module, values)
        is_short = step.module.is_mixed or any(p.dtype.itemsize == 2 for p in parameters.values())
        with (
            without_one_dnn() if is_short else nullcontext(),
            torch.autocast("cpu", enabled=False),  # but the module's own
            InFloat64({**QUANTIZATIONS, **GROUPED}) if in_float64 else nullcontext(),
        ):
            found = _found(step, values, parameters, drawn, moved_gradient, " in float64" if in_float64 else "")
    return {name: to_array(value) for name, value in found.items()}, drawn.values


def _set(module: WithLoss, values: Mapping[str, Tensor]) -> dict[str, nn.Parameter]:
    """Give the module copies of values as parameters and buffers, and return the parameters by name."""
    parameters, buffers = module.in_model()
    copies = {tensor: values[name].clone() for name, tensor in names.tensors(parameters, buffers).items()}
    copies |= {each: nn.Parameter(copies[each], each.requires_grad) for each in parameters.values()}
    replace(module, copies)
    return {name: copies[parameter] for name, parameter in parameters.items()}


def _found(
    step: ExportedStep,
    values: Mapping[str, Tensor],
    parameters: dict[str, nn.Parameter],
    drawn: Draws,
    moved_gradient: MovedGradient | None,
    where: str,
) -> dict[str, Tensor]:
    torch.clear_autocast_cache()  # of the weights before the last update
    try:
        with torch.enable_grad():
            with drawn:
                loss = step.module(*(values[name] for name in step.examples))
            loss.backward()
    except (RuntimeError, ValueError, TypeError, IndexError) as error:  # those of torch
        raise TorchExportError(
            f"the step cannot be compared, since eager PyTorch cannot run it{where}: {sentence(error)}"
        ) from error
    gradients = {name: p.grad.to_dense() for name, p in parameters.items() if p.grad is not None}
    with drawn:
        changed = transformed(gradients, step.gradient_transform)
    for name, gradient in changed.items():
        parameters[name].grad = gradient if moved_gradient is None else moved_gradient(name, gradient)
    found = {names.LOSS: loss}
    found |= {names.gradient(name): p.grad for name, p in parameters.items() if p.grad is not None}
    after = names.tensors(*step.module.in_model())
    if step.groups:
        optimizer = in_torch(step.groups, parameters, _rates(step))
        load_state(step.groups, values, optimizer, parameters)
        optimizer.step()
        after |= state_of(step.groups, optimizer, parameters)
        if isinstance(optimizer, torch.optim.SGD) and names.STEPS in after:
            after[names.STEPS] = values[names.STEPS] + 1  # SGD counts none
    return found | {names.new(name): value for name, value in after.items()}


def _with_random_inputs(model: onnx.ModelProto) -> tuple[onnx.ModelProto, dict[str, int]]:
    """Return a copy of the model in which random numbers are inputs, and of these inputs the number of their node.

    Raises `TorchExportError` for random numbers that cannot be fed.
    """
    copied = copy.deepcopy(model)
    for node in copied.graph.node:
        if node.op_type in ("Multinomial", "Bernoulli"):
            raise TorchExportError(f"a step with {node.op_type} cannot be compared: its random numbers cannot be fed")
    numbers, nodes, types = dict[str, int](), list[onnx.NodeProto](), element_types(copied.graph)
    for node in copied.graph.node:
        if node.op_type not in names.RANDOM:
            nodes.append(node)
            continue
        result = given = node.output[0]
        if node.input:  # whose axes the model itself may have joined
            given, sizes = f"{result}.drawn", f"{result}.sizes"
            nodes.append(onnx.helper.make_node("Shape", node.input, [sizes]))
            nodes.append(onnx.helper.make_node("Reshape", [given, sizes], [result]))
        copied.graph.input.append(onnx.helper.make_tensor_value_info(given, types[result], None))
        numbers[given] = names.random_number(node.name)
    del copied.graph.node[:]
    copied.graph.node.extend(nodes)
    return copied, numbers


def _with_exact_sigmoids(model: onnx.ModelProto) -> onnx.ModelProto:
    """Let a model compute each Sigmoid as 1 / (1 + exp(−x)) in float64, and return it.

    That of onnxruntime in float32 is off by 1e-8, whatever it is: by all of it below an operand of -18.
    """
    exact = f"""<domain: "exact", opset_import: ["" : {opset_of(model)}]> Sigmoid (x) => (y) {{
        wide = Cast <to = 11> (x)
        minus = Neg (wide)
        power = Exp (minus)
        one = Constant <value = double {{1.0}}> ()
        sum = Add (power, one)
        quotient = Reciprocal (sum)
        y = CastLike (quotient, x)
    }}"""
    for node in model.graph.node:
        node.domain = "exact" if node.op_type == "Sigmoid" else node.domain
    model.functions.append(onnx.parser.parse_function(exact))
    model.opset_import.append(onnx.helper.make_opsetid("exact", 1))
    return model


def _fed(numbers: Mapping[str, int], draws: Sequence[Tensor]) -> Arrays:
    """Return the drawn numbers by input. Raises `TorchExportError` if PyTorch draws fewer times."""
    if max(numbers.values(), default=-1) >= len(draws):
        raise TorchExportError(
            f"a step that draws random numbers {max(numbers.values()) + 1} times cannot be compared with PyTorch, "
            f"which draws {len(draws)} times"
        )
    return {name: to_array(draws[number]) for name, number in numbers.items()}


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


def _run(session: Any, feeds: Arrays) -> list[np.ndarray]:
    try:
        found: list[np.ndarray] = session.run(None, feeds)
    except Exception as error:
        raise SessionError(f"onnxruntime cannot run the training step: {quoted(error)}") from error
    return found


def _largest(value: np.ndarray) -> float:
    return float(np.abs(value).max(initial=0))


def _largest_finite(value: np.ndarray) -> float:
    return _largest(np.where(np.isfinite(value), value, 0))
