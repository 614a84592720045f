# SPDX-License-Identifier: Apache-2.0

"""Runs the operators of training runtimes beside the nodes of standard ONNX that stand for them.

The lowered model is run once, in any onnxruntime, which gives the operands of each operator and its results. Each
operator is then run alone on these operands, by onnxruntime's own kernel where the onnxruntime that is installed has
one: that is onnxruntime-training. Its kernel of `AveragePoolGrad` is wrong for dilations, `auto_pad` and three axes, so
that operator runs in onnx's evaluator; that of `ConvGrad` ignores `auto_pad`, so the node gets pads. Operator and nodes
are run once more alone, on other operands: smaller numbers, for which an epsilon counts, opposite flags, and labels of
other classes. Where a result is 0 in the lowered model, they run alone both times, with random numbers for the elements
of operands that are 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import replace
from importlib.util import find_spec
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from onnx import ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper

from poolgrad_lowering.verification.arrays import AnyArray, NamedArrays
from poolgrad_lowering.verification.exports.decomposed import DecomposedNode
from poolgrad_lowering.verification.exports.node_rewrite import same_but
from poolgrad_lowering.verification.graph.input_roles import AVERAGE_POOL_GRADIENT
from poolgrad_lowering.verification.graph.protos import attribute_values
from poolgrad_lowering.verification.operators.pooling import WINDOWS, onnx_windows
from poolgrad_lowering.verification.result import OperatorResult
from poolgrad_lowering.verification.running.compare import ERRORS, largest, relative_error
from poolgrad_lowering.verification.running.evaluator import first_line, reference_runner
from poolgrad_lowering.verification.running.whole import DISABLED, RunError, drawn_inputs, run_model

_GAINS = (1.4, 1.0, 0.7, 0.5, 0.25)
"""Sizes of weights, from those that keep the size of values behind a ReLU to those for many residual connections."""

_SUMS = (
    *("AveragePoolGrad", "BatchNormalizationGrad", "ConvGrad", "ConvTransposeGrad", "DivGrad", "GatherGrad"),
    *("GRUGrad", "LayerNormalizationGrad", "LSTMGrad", "SimplifiedLayerNormalizationGrad"),
)
"""Operators that are linear in the gradient and add up its terms, which may cancel."""

_SECOND_OUTPUT = ("InPlaceAccumulatorV2",)
"""Operators whose second output is what the rewrite has as the first one: the new buffer, behind a flag."""

_SMALLER, _SMALLER_HALF = 2.0**-6, 0.5
"""By how much the operands are smaller in the second run: exact factors; products of halves must not underflow."""

_MASKED = ("DropoutGrad",)
"""Operators whose flags depend on each other: outside of training a mask is set everywhere."""

_UNORDERED = ("BroadcastGradientArgs",)
"""Operators whose results are sets of axes: onnxruntime's kernel returns the last one first."""

_LABELS: dict[str, tuple[int, int, int | None]] = {
    "SoftmaxCrossEntropyLoss": (0, 1, None),
    "SoftmaxCrossEntropyLossGrad": (1, 2, None),
    "SoftmaxCrossEntropyLossInternal": (0, 1, 3),
    "SoftmaxCrossEntropyLossInternalGrad": (1, 2, 4),
}
"""The positions of an operator's scores, its labels and, if it is an operand, of the label that does not count."""


class _Run(NamedTuple):
    """The values of the lowered model, or why there are none. `stored` are those of its initializers."""

    values: NamedArrays
    reason: str
    stored: NamedArrays = MappingProxyType({})


def compare_operators(
    original: ModelProto, lowered: ModelProto, operators: Sequence[DecomposedNode], seed: int
) -> tuple[OperatorResult, ...]:
    """Return a result for each kind of operator, which the lowered model has in standard ONNX."""
    if not operators:
        return ()
    run = _values(original, lowered, operators, seed)
    found: dict[str, OperatorResult] = {}
    for operator in operators:
        result = _Comparison(original, lowered, operator, run).result()
        before = found.get(result.operator)
        found[result.operator] = result if before is None else before.joined(result)
    return tuple(found[name] for name in sorted(found))


def _values(original: ModelProto, lowered: ModelProto, operators: Sequence[DecomposedNode], seed: int) -> _Run:
    """Run the lowered model, and return the operands and results of the operators, and what their bodies read.

    Of several sizes of weights the one is taken with which the fewest results are 0 everywhere.
    """
    results = {name for operator in operators for name in operator.node.output if name}
    wanted = results.union(*(operator.node.input for operator in operators), *map(_read, operators))
    model = ModelProto()
    model.CopyFrom(lowered)
    made = {name for node in model.graph.node for name in node.output}
    declared = {value.name for value in model.graph.output}
    model.graph.output.extend(ValueInfoProto(name=name) for name in sorted((wanted & made) - declared))
    names = [value.name for value in model.graph.output]
    stored = {t.name: numpy_helper.to_array(t) for each in (original, lowered) for t in each.graph.initializer}
    try:
        choices = drawn_inputs(original, lowered, seed)
    except Exception as error:  # numpy and onnx raise errors of many classes
        return _Run({}, f"no data can be generated for the inputs: {first_line(error)}")
    best, fewest = _Run({}, "the lowered model does not run with the inputs that verify drew"), len(results) + 1
    for drawn, gain in itertools.product(choices, _GAINS):
        feeds = _moderate(original, drawn(), gain)
        try:
            found = dict(zip(names, run_model(model, DISABLED, names, feeds), strict=True))
        except Exception as error:  # onnxruntime raises errors of many classes
            what = "with inputs whose symbolic sizes are all one number, " if isinstance(error, RunError) else ""
            reason = f"{what}onnxruntime does not run the lowered model: {first_line(error)}"
            best = best if best.values else _Run({}, reason)
            continue
        dead = sum(_is_dead(found[name]) for name in results)
        if dead < fewest:
            best, fewest = _Run({**stored, **feeds, **found}, "", stored), dead
        if not dead:
            break
    return best


def _moderate(model: ModelProto, feeds: NamedArrays, gain: float) -> dict[str, AnyArray]:
    """Return the inputs with weights of size gain / √terms, as networks begin their training with."""
    weights = {node.input[node.op_type != "Gather"] for node in model.graph.node if len(node.input) > 1}
    return {
        name: (array * (gain / np.sqrt(max(array[0].size, 1)))).astype(array.dtype)
        if name in weights and array.ndim > 1 and array.dtype.kind not in "biu"
        else array
        for name, array in feeds.items()
    }


def _is_dead(array: AnyArray) -> bool:
    """Whether an array of floats has no finite element that is not 0."""
    return array.dtype.kind not in "biu" and largest(array) == 0


def _is_half(array: AnyArray) -> bool:
    return array.dtype.itemsize == 2 and array.dtype.kind not in "biu"


def _read(operator: DecomposedNode) -> set[str]:
    """Return the values that the body of an operator reads from outside."""
    made = {name for node in operator.body for name in node.output}
    return {name for node in operator.body for name in node.input if name} - made


class _Comparison:
    """An operator and its body, which are run on the same operands."""

    def __init__(self, original: ModelProto, lowered: ModelProto, operator: DecomposedNode, run: _Run) -> None:
        self._original, self._lowered, self._operator, self._run = original, lowered, operator, run
        self._node = operator.node
        self._results = {value: np.asarray(run.values[value]) for value in self._node.output if value in run.values}

    def _verdict(self, status: str, reason: str | None = None, *, error: float = 0.0) -> OperatorResult:
        node = self._node
        return OperatorResult(".".join(filter(None, (node.domain, node.op_type))), status, 1, error, reason)

    def result(self) -> OperatorResult:
        """Return the result on the operands that the lowered model gives, and then on others."""
        if self._run.reason:
            return self._verdict("unproven", self._run.reason)
        read = _read(self._operator)
        operands = [value for value in self._node.input if value]
        missing = [value for value in (*operands, *read) if value not in self._run.values]
        if missing:
            return self._verdict("unproven", f"the value of '{missing[0]}' is not known")
        given = {value: np.asarray(self._run.values[value]) for value in {*read, *operands}}
        if (first := self._compare({value: given[value] for value in operands})) is None:
            random = np.random.default_rng(0)  # other numbers for each: a definition may take one operand for another
            for value in sorted(given.keys() - self._run.stored.keys()):
                array = given[value]
                if array.size > 1 and array.dtype.kind not in "biu":
                    drawn = random.standard_normal(array.shape).astype(array.dtype)
                    given[value] = drawn if _is_dead(array) else np.where(array == 0, drawn, array)
            first = self._compare_alone(read, given)
        if first is None:
            what = f"'{next(iter(self._results))}' is 0 or not finite with the inputs drawn"
            return self._verdict("unproven", what)
        if first.status != "proven":
            return first
        varied = {value: given[value] for value in read if value not in self._run.stored}
        others = _other_operands(self._node, varied, given)
        again = self._compare_alone(read, {**given, **others})
        return first if again is None else replace(first.joined(again), nodes=1)

    def _compare(self, feeds: NamedArrays) -> OperatorResult | None:
        """Compare the operator with what the lowered model has computed; None if that is 0 or not finite."""
        try:
            expected = self._kernel(feeds)
        except Exception as error:  # onnxruntime raises errors of many classes
            has_kernels = find_spec("onnxruntime.training") is not None
            what = "onnxruntime-training does not run it" if has_kernels else "it needs onnxruntime-training"
            return self._verdict("unproven", f"{what}: {first_line(error)}")
        return None if any(map(_is_dead, expected)) else self._judged(feeds, expected, self._results)

    def _compare_alone(self, read: Collection[str], given: NamedArrays) -> OperatorResult | None:
        """Compare operator and body, which both run alone; None if the results are 0 or not finite."""
        stored = self._run.stored
        try:
            body = _model(self._operator.body, {v: given[v] for v in read}, self._results, self._lowered, stored)
            feeds = {value: given[value] for value in read if value not in stored}
            names = list(self._results)
            found = dict(zip(names, run_model(body, DISABLED, names, feeds), strict=True))
            feeds = {value: given[value] for value in self._node.input if value}
            expected = self._kernel(feeds)
        except Exception as error:  # onnxruntime raises errors of many classes
            return self._verdict("unproven", f"it does not run on other operands: {first_line(error)}")
        return None if any(map(_is_dead, expected)) else self._judged(feeds, expected, found)

    def _judged(self, feeds: NamedArrays, expected: Sequence[AnyArray], found: NamedArrays) -> OperatorResult:
        """Compare the results of the operator and of its body, by name, on the same operands."""
        worst = 0.0
        if self._node.op_type in _UNORDERED:
            expected, found = [*map(np.sort, expected)], {name: np.sort(array) for name, array in found.items()}
        for value, before, error in zip(found, expected, self._errors(feeds, expected, found), strict=True):
            worst = max(worst, error)
            if not error <= ERRORS.get(str(before.dtype), 0.0):
                what = f"'{value}' differs by {error:.1e} of its largest element"
                return self._verdict("differs", what, error=worst)
        return self._verdict("proven", error=worst)

    def _errors(self, feeds: NamedArrays, expected: Sequence[AnyArray], found: NamedArrays) -> list[float]:
        """Return how much each result differs, relative to its largest element.

        Terms of a sum may cancel, to 0 for the bias before a normalization. The sum is then not more exact than its
        terms: the difference is relative to the sum of their absolutes, which is the result for absolute operands.
        """
        errors = [relative_error(*pair, pair[0]) for pair in zip(expected, found.values(), strict=True)]
        if self._node.op_type in _SUMS and any(not error <= ERRORS["float32"] for error in errors):
            absolute = {name: array if array.dtype.kind in "biu" else np.abs(array) for name, array in feeds.items()}
            triples = zip(expected, found.values(), self._kernel(absolute), strict=True)
            errors = [relative_error(before, after, scale) for before, after, scale in triples]
        return errors

    def _kernel(self, feeds: NamedArrays) -> list[AnyArray]:
        """Run the node alone; in float32, rounded once, where there is no kernel for 16-bit floats."""
        try:
            return self._run_alone(feeds, self._results)
        except Exception:  # onnxruntime raises errors of many classes
            if not any(map(_is_half, feeds.values())):
                raise
        wide_feeds, wide_results = (
            {name: array.astype(np.float32) if _is_half(array) else array for name, array in arrays.items()}
            for arrays in (feeds, self._results)
        )
        pairs = zip(self._run_alone(wide_feeds, wide_results), self._results.values(), strict=True)
        return [array.astype(like.dtype) for array, like in pairs]

    def _run_alone(self, feeds: NamedArrays, results: NamedArrays) -> list[AnyArray]:
        copy = same_but(self._node)
        if copy.op_type in _SECOND_OUTPUT:
            copy.output[:] = ["(updated)", copy.output[0]]
        if copy.op_type == "ConvGrad":
            held, (x, w) = attribute_values(copy), (feeds[name] for name in copy.input[1:3])
            given = {name: held[name] for name in WINDOWS if name in held}
            _, _, (begins, ends) = onnx_windows(x.shape[2:], w.shape[2:], **given)
            copy = same_but(copy, auto_pad=None, pads=[*begins, *ends])
        model = _model([copy], feeds, results, self._original, {})
        if copy.op_type == AVERAGE_POOL_GRADIENT:
            return [*reference_runner(model)(feeds).values()]
        return run_model(model, DISABLED, list(results), dict(feeds))


def _other_operands(node: NodeProto, varied: NamedArrays, given: NamedArrays) -> dict[str, AnyArray]:
    """Return other values for the operands that may vary: with them a body that takes one for a constant is wrong."""
    found = {}
    for name in (value for value in node.input if value in varied):
        array = varied[name]
        if array.dtype.kind == "b" and node.op_type not in _MASKED:
            found[name] = ~array
        elif array.dtype.kind not in "biu":
            factor = _SMALLER_HALF if _is_half(array) else _SMALLER
            found[name] = np.asarray(array * np.array(factor, array.dtype))
    if node.op_type in _LABELS:
        scores, labels, position = _LABELS[node.op_type]
        name = node.input[labels]
        if name in varied:
            found[name] = _other_labels(node, given[name], given[node.input[scores]].shape[1], position, given)
    return found


def _other_labels(
    node: NodeProto, labels: AnyArray, classes: int, position: int | None, given: NamedArrays
) -> AnyArray:
    """Return labels from the last class down; the last one does not count, if the operator has such a label."""
    found = -1 - np.arange(labels.size).reshape(labels.shape)
    found %= classes
    ignored = [attribute.i for attribute in node.attribute if attribute.name == "ignore_index"]
    if position is not None and position < len(node.input) and node.input[position]:
        ignored = [int(given[node.input[position]])]
    if ignored and labels.size > 1:
        found.flat[-1] = ignored[0]
    return found.astype(labels.dtype)


def _model(
    nodes: Sequence[NodeProto], feeds: NamedArrays, results: NamedArrays, like: ModelProto, stored: NamedArrays
) -> ModelProto:
    """Return a model of these nodes, with inputs for what is not stored. Kernels of pools read the declared shapes."""
    inputs, outputs = (
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in arrays.items()
        ]
        for arrays in ({name: array for name, array in feeds.items() if name not in stored}, results)
    )
    tensors = [numpy_helper.from_array(array, name) for name, array in feeds.items() if name in stored]
    graph = helper.make_graph(nodes, "operator", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=like.opset_import, ir_version=min(like.ir_version, 10))
