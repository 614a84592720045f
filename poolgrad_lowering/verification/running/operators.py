# SPDX-License-Identifier: Apache-2.0

"""Runs the operators of training runtimes beside the nodes of standard ONNX that stand for them.

The lowered model is run once, in any onnxruntime, which gives the operands of each operator and its results. Each
operator is then run alone on these operands, by onnxruntime's own kernel where the onnxruntime that is installed has
one: that is onnxruntime-training.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper

from poolgrad_lowering.verification.arrays import AnyArray
from poolgrad_lowering.verification.result import OperatorResult
from poolgrad_lowering.verification.running.evaluator import first_line
from poolgrad_lowering.verification.running.whole import drawn_inputs, run_model

ERRORS = {"float64": 1e-10, "float32": 2e-5, "float16": 1e-2, "bfloat16": 8e-2}
"""The largest difference of two results, relative to the largest element that the operator reads or writes.

Sums are added up in other orders: n terms of this size differ by at most n/2 units in the last place, and by about √n
of them as a rule. The bounds are those of some 10,000 terms, about 100 units.
"""

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


def _values(original: ModelProto, lowered: ModelProto, nodes: Iterable[NodeProto], seed: int) -> _Run:
    """Run the lowered model, and return the operands and results of the nodes."""
    wanted = {name for node in nodes for name in (*node.input, *node.output) if name}
    model = ModelProto()
    model.CopyFrom(lowered)
    made = {name for node in model.graph.node for name in node.output}
    declared = {value.name for value in model.graph.output}
    model.graph.output.extend(ValueInfoProto(name=name) for name in sorted((wanted & made) - declared))
    names = [value.name for value in model.graph.output]
    reason = "the lowered model does not run with the inputs that verify drew"
    try:
        choices = drawn_inputs(original, lowered, seed)
    except Exception as error:  # numpy and onnx raise errors of many classes
        return _Run({}, f"no data can be generated for the inputs: {first_line(error)}")
    for feeds in choices:
        try:
            results = run_model(model, names, feeds)
        except Exception as error:  # onnxruntime raises errors of many classes
            reason = f"onnxruntime does not run the lowered model: {first_line(error)}"
            continue
        return _Run({**_stored(original), **feeds, **dict(zip(names, results, strict=True))}, "")
    return _Run({}, reason)


def _stored(model: ModelProto) -> dict[str, AnyArray]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def _compare(original: ModelProto, node: NodeProto, run: _Run, name: str) -> OperatorResult:
    if run.reason:
        return OperatorResult(name, "unproven", 1, reason=run.reason)
    missing = [value for value in node.input if value and value not in run.values]
    if missing:
        return OperatorResult(name, "unproven", 1, reason=f"the value of '{missing[0]}' is not known")
    feeds = {value: np.asarray(run.values[value]) for value in node.input if value}
    outputs = [value for value in node.output if value]
    try:
        expected = run_model(_alone(original, node, feeds), _results(node), feeds)
    except Exception as error:  # onnxruntime raises errors of many classes
        what = f"this onnxruntime does not run it, which onnxruntime-training may: {first_line(error)}"
        return OperatorResult(name, "unproven", 1, reason=what)
    scale = max([_largest(array) for array in feeds.values()] + [_largest(array) for array in expected] + [0.0])
    worst = 0.0
    for value, before in zip(outputs, expected, strict=True):
        after = np.asarray(run.values[value])
        if after.shape != before.shape or after.dtype != before.dtype:
            what = f"'{value}' is {after.dtype}{list(after.shape)}, expected {before.dtype}{list(before.shape)}"
            return OperatorResult(name, "differs", 1, reason=what)
        error = _difference(before, after) / scale if scale else _difference(before, after)
        worst = max(worst, error)
        if not error <= ERRORS.get(str(before.dtype), 0.0):
            return OperatorResult(name, "differs", 1, worst, f"'{value}' differs by {error:.1e} of the largest element")
    return OperatorResult(name, "proven", 1, worst)


def _alone(original: ModelProto, node: NodeProto, feeds: Mapping[str, AnyArray]) -> ModelProto:
    """Return a model with the node alone."""
    copy = NodeProto()
    copy.CopyFrom(node)
    if node.op_type in _SECOND_OUTPUT:
        copy.output[:] = ["(updated)", node.output[0]]
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in feeds.items()
    ]
    outputs = [ValueInfoProto(name=name) for name in _results(node)]
    graph = helper.make_graph([copy], "operator", inputs, outputs)
    return helper.make_model(graph, opset_imports=original.opset_import, ir_version=min(original.ir_version, 10))


def _results(node: NodeProto) -> list[str]:
    return [name for name in node.output if name]


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
