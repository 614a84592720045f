# SPDX-License-Identifier: Apache-2.0

"""Losses: cross entropy over axis 1, forward as onnxruntime's own operator, and its gradients."""

from __future__ import annotations

from collections.abc import Sequence

from poolgrad_lowering.standard.definition import Call, Definition, converted
from poolgrad_lowering.standard.nodes import cast, integer, reduce, reshape, transpose, unsqueeze

LOG_SOFTMAX_OF_ONE_AXIS = 13
"""The first opset whose LogSoftmax is over one axis."""
_REDUCTIONS = ("mean", "sum", "none")


def _reduction(call: Call) -> str:
    reduction = call.attribute("reduction", "mean")
    if reduction not in _REDUCTIONS:
        raise call.refuse(f"reduction {reduction}")
    return str(reduction)


def _ignored(call: Call) -> str:
    """Whether labels are left out: `used` is set for those that count, `index` has class 0 in place of the others."""
    element_type = call.element_type("label")
    if call.has("ignore_index"):
        text = converted(call, "ignored", "ignore_index", element_type)
    elif _has_ignored(call):
        text = integer("ignored", call.attribute("ignore_index", 0), element_type)
    else:
        return "index = Identity(label)\n"
    return (
        text
        + integer("first", 0, element_type)
        + "skipped = Equal(label, ignored)\nused = Not(skipped)\nindex = Where(skipped, first, label)\n"
    )


def _has_ignored(call: Call) -> bool:
    return call.has("ignore_index") or call.attribute("ignore_index") is not None


def _widened(call: Call, names: Sequence[str], kind: int) -> str:
    """The operands that are there in the element type of the computation, with `_wide` behind their names."""
    return "".join(converted(call, f"{name}_wide", name, kind) for name in names if call.has(name))


def _weights(call: Call, kind: int) -> str:
    """The weight of each label, 0 for those that do not count, as `weights`; empty if all are 1."""
    text = ""
    if call.has("weight"):
        text += "weights_of_classes = Gather<axis = 0>(weight_wide, index)\n"
        if not _has_ignored(call):
            return text + "weights = Identity(weights_of_classes)\n"
        return text + cast("counted", "used", kind) + "weights = Mul(weights_of_classes, counted)\n"
    return cast("weights", "used", kind) if _has_ignored(call) else ""


def _one_hot(call: Call, scores: str, kind: int) -> str:
    """1 at the label's class, as `hot` of the shape of the scores."""
    shape, element_type = call.shape(scores), call.element_type("label")
    classes = call.count(scores, 1)
    call.require_few(classes)
    column = [1, classes, *[1] * (len(shape) - 2)]
    text = f"numbers = Constant<value = int64[{classes}] {{{', '.join(map(str, range(classes)))}}}>()\n"
    text += reshape("of_axis", "numbers", column) + cast("class_numbers", "of_axis", element_type)
    text += unsqueeze("index_column", "index", [1]) + "is_class = Equal(index_column, class_numbers)\n"
    return text + cast("hot", "is_class", kind)


def _result(call: Call, name: str, source: str, scores: str, kind: int) -> str:
    """A result, in the type of the scores or in the one that the node names."""
    wanted = call.attribute("output_type", 0) or call.element_type(scores)
    return f"{name} = Identity({source})\n" if wanted == kind else cast(name, source, wanted)


def _loss_grad(call: Call) -> str:
    reduction, kind = _reduction(call), call.computed_type("log_prob")
    weights = _weights(call, kind)
    text = _widened(call, ("dY", "log_prob", "weight", "bias"), kind)
    text += _ignored(call) + weights + _one_hot(call, "log_prob", kind)
    text += "odds = Exp(log_prob_wide)\ndifference = Sub(odds, hot)\n"
    if reduction == "mean":
        if weights:
            text += "count = ReduceSum<keepdims = 0>(weights)\n"
        else:
            text += "labels = Size(label)\n" + cast("count", "labels", kind)
        text += "unit = Div(dY_wide, count)\n"
    else:
        text += "unit = Identity(dY_wide)\n"
    if weights:
        text += "factor = Mul(unit, weights)\n"
    if weights or reduction == "none":
        text += unsqueeze("factor_column", "factor" if weights else "unit", [1])
    else:
        text += "factor_column = Identity(unit)\n"
    text += "gradient = Mul(difference, factor_column)\n"
    text += "whole = Add(gradient, bias_wide)\n" if call.has("bias") else "whole = Identity(gradient)\n"
    return text + _result(call, "dX", "whole", "log_prob", kind)


def _log_softmax(call: Call) -> str:
    """The logarithms of a softmax over axis 1. Before opset 13 it was one over all axes from an axis on."""
    rank = call.rank("X")
    if rank == 2 or call.node.scope.opset >= LOG_SOFTMAX_OF_ONE_AXIS:
        return "logarithms = LogSoftmax<axis = 1>(X_wide)\n"
    return (
        transpose("classes_last", "X_wide", [0, *range(2, rank), 1])
        + f"of_last = LogSoftmax<axis = {rank - 1}>(classes_last)\n"
        + transpose("logarithms", "of_last", [0, rank - 1, *range(1, rank - 1)])
    )


def _loss(call: Call) -> str:
    reduction, kind = _reduction(call), call.computed_type("X")
    weights = _weights(call, kind)
    text = _widened(call, ("X", "weight"), kind)
    text += _log_softmax(call) + _ignored(call) + weights + _one_hot(call, "X", kind)
    text += "chosen = Mul(logarithms, hot)\n" + reduce("ReduceSum", "likelihood", "chosen", [1])
    text += "losses = Neg(likelihood)\n"
    text += "weighted = Mul(losses, weights)\n" if weights else "weighted = Identity(losses)\n"
    if reduction == "none":
        text += "loss = Identity(weighted)\n"
    else:
        text += f"{'loss' if reduction == 'sum' else 'total'} = ReduceSum<keepdims = 0>(weighted)\n"
    if reduction == "mean" and weights:
        text += "count = ReduceSum<keepdims = 0>(weights)\nloss = Div(total, count)\n"
    elif reduction == "mean":
        text += "labels = Size(label)\n" + cast("count", "labels", kind) + "loss = Div(total, count)\n"
    return text + _result(call, "Y", "loss", "X", kind) + _result(call, "log_prob", "logarithms", "X", kind)


_LOSS = "−log softmax(X)[label], weighted, and reduced over the labels that count"
_LOSS_GRADIENT = "(exp(log_prob) − onehot(label)) · weight · dY / Σ weight"

DEFINITIONS = (
    Definition("SoftmaxCrossEntropyLossGrad", "dY log_prob label weight bias", "dX", _loss_grad, _LOSS_GRADIENT),
    Definition("SoftmaxCrossEntropyLossInternal", "X label weight ignore_index", "Y log_prob", _loss, _LOSS),
    Definition(
        "SoftmaxCrossEntropyLossInternalGrad",
        "dY log_prob label weight ignore_index bias",
        "dX",
        _loss_grad,
        _LOSS_GRADIENT,
    ),
)
