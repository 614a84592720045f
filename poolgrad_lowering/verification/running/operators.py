# SPDX-License-Identifier: Apache-2.0

"""Runs the operators of training runtimes beside the nodes of standard ONNX that stand for them.

The lowered model is run once, in any onnxruntime, which gives the operands of each operator and its results. Each
operator is then run alone on these operands, by onnxruntime's own kernel where the onnxruntime that is installed has
one: that is onnxruntime-training.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper

from poolgrad_lowering.verification.arrays import AnyArray
from poolgrad_lowering.verification.result import OperatorResult
from poolgrad_lowering.verification.running.evaluator import first_line
from poolgrad_lowering.verification.running.whole import LEVELS, drawn_inputs, run_model

ERRORS = {"float64": 1e-10, "float32": 2e-5, "float16": 1e-2, "bfloat16": 8e-2}
"""The largest difference of two results, relative to the largest element.

Sums are added up in other orders: those of n terms differ by about √n units in the last place. These are some hundred
units, for sums of 10,000 terms; a half is also rounded in between by one of the two.
"""

_GAINS = (1.4, 1.0, 0.7, 0.5, 0.25)
"""Sizes of weights, from those that keep the size of values behind a ReLU to those for many residual connections."""

_SUMS = (
    *("AveragePoolGrad", "BatchNormalizationGrad", "ConvGrad", "ConvTransposeGrad", "DivGrad", "GatherGrad"),
    *("LayerNormalizationGrad", "SimplifiedLayerNormalizationGrad"),
)
"""Operators that are linear in the gradient and add up its terms, which may cancel."""

_SECOND_OUTPUT = ("InPlaceAccumulatorV2",)
"""Operators whose second output is what the rewrite has as the first one: the new buffer, behind a flag."""


@dataclass(frozen=True)
class _Run:
    values: Mapping[str, AnyArray]
    reason: str


def compare_operators(
    original: ModelProto, lowered: ModelProto, nodes: Sequence[NodeProto], seed: int
) -> tuple[OperatorResult, ...]:
    """Return a result for each kind of operator among the nodes, which the lowered model has in standard ONNX."""
    if not nodes:
        return ()
    run = _values(original, lowered, nodes, seed)
    found: dict[str, OperatorResult] = {}
    for node in nodes:
        name = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        result = _compare(original, node, run, name)
        before = found.get(name)
        found[name] = result if before is None else before.joined(result)
    return tuple(found[name] for name in sorted(found))


def _values(original: ModelProto, lowered: ModelProto, nodes: Sequence[NodeProto], seed: int) -> _Run:
    """Run the lowered model, and return the operands and results of the nodes.

    Of several sizes of weights the one is taken with which the fewest results are 0 everywhere.
    """
    results = {name for node in nodes for name in node.output if name}
    wanted = results.union(*(node.input for node in nodes))
    model = ModelProto()
    model.CopyFrom(lowered)
    made = {name for node in model.graph.node for name in node.output}
    declared = {value.name for value in model.graph.output}
    model.graph.output.extend(ValueInfoProto(name=name) for name in sorted((wanted & made) - declared))
    names = [value.name for value in model.graph.output]
    try:
        choices = drawn_inputs(original, lowered, seed)
    except Exception as error:  # numpy and onnx raise errors of many classes
        return _Run({}, f"no data can be generated for the inputs: {first_line(error)}")
    best, fewest = _Run({}, "the lowered model does not run with the inputs that verify drew"), len(results) + 1
    for drawn, gain in itertools.product(choices, _GAINS):
        feeds = _moderate(original, drawn, gain)
        try:
            found = dict(zip(names, run_model(model, LEVELS[0], names, feeds), strict=True))
        except Exception as error:  # onnxruntime raises errors of many classes
            best = best if best.values else _Run({}, f"onnxruntime does not run the lowered model: {first_line(error)}")
            continue
        dead = sum(_is_dead(found[name]) for name in results)
        if dead < fewest:
            best, fewest = _Run({**_stored(original), **feeds, **found}, ""), dead
        if not dead:
            break
    return best


def _moderate(model: ModelProto, feeds: Mapping[str, AnyArray], gain: float) -> dict[str, AnyArray]:
    """Return the inputs with weights of size gain / √terms, as networks begin their training with."""
    weights = {node.input[1] for node in model.graph.node if len(node.input) > 1}
    return {
        name: (array * (gain / np.sqrt(max(array[0].size, 1)))).astype(array.dtype)
        if name in weights and array.ndim > 1
        else array
        for name, array in feeds.items()
    }


def _is_dead(array: AnyArray) -> bool:
    """Whether an array of floats has no finite element that is not 0."""
    return array.dtype.kind not in "biu" and _largest(array) == 0


def _stored(model: ModelProto) -> dict[str, AnyArray]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def _compare(original: ModelProto, node: NodeProto, run: _Run, name: str) -> OperatorResult:
    if run.reason:
        return OperatorResult(name, "unproven", 1, reason=run.reason)
    missing = [value for value in node.input if value and value not in run.values]
    if missing:
        return OperatorResult(name, "unproven", 1, reason=f"the value of '{missing[0]}' is not known")
    feeds = {value: np.asarray(run.values[value]) for value in node.input if value}
    results = {value: np.asarray(run.values[value]) for value in node.output if value}
    outputs = list(results)
    try:
        expected = _kernel(original, node, feeds, results)
    except Exception as error:  # onnxruntime raises errors of many classes
        what = f"this onnxruntime does not run it, which onnxruntime-training may: {first_line(error)}"
        return OperatorResult(name, "unproven", 1, reason=what)
    if any(map(_is_dead, expected)):
        return OperatorResult(name, "unproven", 1, reason=f"'{outputs[0]}' is 0 or not finite with the inputs drawn")
    errors = _errors(node, expected, results, lambda: _kernel(original, node, _absolute(feeds), results))
    worst = 0.0
    for value, before, found in zip(outputs, expected, errors, strict=True):
        worst = max(worst, found)
        if not found <= ERRORS.get(str(before.dtype), 0.0):
            return OperatorResult(name, "differs", 1, worst, f"'{value}' differs by {found:.1e} of its largest element")
    return OperatorResult(name, "proven", 1, worst)


def _errors(
    node: NodeProto,
    expected: Sequence[AnyArray],
    results: Mapping[str, AnyArray],
    of_absolutes: Callable[[], list[AnyArray]],
) -> list[float]:
    """Return how much each result differs, relative to its largest element.

    Terms of a sum may cancel, to 0 for the bias before a normalization. The sum is then not more exact than its terms:
    the difference is relative to the sum of their absolutes, which is the operator's result for absolute operands.
    """
    found = [_relative(before, results[name], before) for name, before in zip(results, expected, strict=True)]
    if node.op_type in _SUMS and any(not error <= ERRORS["float32"] for error in found):
        whole = of_absolutes()
        pairs = zip(results.values(), expected, whole, strict=True)
        found = [_relative(before, after, scale) for after, before, scale in pairs]
    return found


def _relative(before: AnyArray, after: AnyArray, scale: AnyArray) -> float:
    if after.shape != before.shape or after.dtype != before.dtype:
        return float("inf")
    return _difference(before, after) / (_largest(scale) or 1.0)


def _absolute(feeds: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    return {name: array if array.dtype.kind in "biu" else np.abs(array) for name, array in feeds.items()}


def _kernel(
    original: ModelProto, node: NodeProto, feeds: Mapping[str, AnyArray], results: Mapping[str, AnyArray]
) -> list[AnyArray]:
    """Run a node alone; in float32, rounded once, where there is no kernel for 16-bit floats."""
    try:
        return run_model(_alone(original, node, feeds, results), LEVELS[0], list(results), dict(feeds))
    except Exception:  # onnxruntime raises errors of many classes
        if not any(map(_is_half, feeds.values())):
            raise
    wide_feeds, wide_results = (
        {name: array.astype(np.float32) if _is_half(array) else array for name, array in arrays.items()}
        for arrays in (feeds, results)
    )
    expected = run_model(_alone(original, node, wide_feeds, wide_results), LEVELS[0], list(results), wide_feeds)
    return [array.astype(like.dtype) for array, like in zip(expected, results.values(), strict=True)]


def _is_half(array: AnyArray) -> bool:
    return array.dtype.itemsize == 2 and array.dtype.kind not in "biu"


def _alone(
    original: ModelProto, node: NodeProto, feeds: Mapping[str, AnyArray], results: Mapping[str, AnyArray]
) -> ModelProto:
    """Return a model with the node alone. Kernels of pools read the declared shape of their result."""
    copy = NodeProto()
    copy.CopyFrom(node)
    if node.op_type in _SECOND_OUTPUT:
        copy.output[:] = ["(updated)", node.output[0]]
    inputs, outputs = (
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in arrays.items()
        ]
        for arrays in (feeds, results)
    )
    graph = helper.make_graph([copy], "operator", inputs, outputs)
    return helper.make_model(graph, opset_imports=original.opset_import, ir_version=min(original.ir_version, 10))


def _largest(array: AnyArray) -> float:
    wide = np.abs(np.asarray(array, np.float64)) if array.dtype.kind not in "biu" else np.zeros(0)
    finite = wide[np.isfinite(wide)]
    return float(finite.max()) if finite.size else 0.0


def _difference(before: AnyArray, after: AnyArray) -> float:
    """Return the largest difference; NaNs and infinities have to be in the same places."""
    one, other = np.asarray(before, np.float64), np.asarray(after, np.float64)
    if not one.size:
        return 0.0
    odd = ~np.isfinite(one) | ~np.isfinite(other)
    if not np.array_equal(one[odd], other[odd], equal_nan=True):
        return float("inf")
    return float(np.abs(np.where(odd, 0, one) - np.where(odd, 0, other)).max())
