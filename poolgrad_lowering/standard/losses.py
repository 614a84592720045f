# SPDX-License-Identifier: Apache-2.0

"""Losses: cross entropy over axis 1, forward as onnxruntime's own operator, and its gradients."""

from __future__ import annotations

from poolgrad_lowering.standard.definition import (
    Call,
    Definition,
    cast,
    converted,
    integer,
    reduce,
    reshape,
    transpose,
    unsqueeze,
)

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
    ignored = call.attribute("ignore_index")
    if call.has("ignore_index"):
        text = converted(call, "ignored", "ignore_index", element_type)
    elif ignored is not None:
        text = integer("ignored", ignored, element_type)
    else:
        return "index = Identity(label)\n"
    return (
        text
        + integer("first", 0, element_type)
        + "skipped = Equal(label, ignored)\nused = Not(skipped)\nindex = Where(skipped, first, label)\n"
    )


def _has_ignored(call: Call) -> bool:
    return call.has("ignore_index") or call.attribute("ignore_index") is not None


def _weights(call: Call, scores: str) -> str:
    """The weight of each label, 0 for those that do not count, as `weights`; empty if all are 1."""
    element_type = call.element_type(scores)
    text = ""
    if call.has("weight"):
        text += "weights_of_classes = Gather<axis = 0>(weight, index)\n"
        if not _has_ignored(call):
            return text + "weights = Identity(weights_of_classes)\n"
        return text + cast("counted", "used", element_type) + "weights = Mul(weights_of_classes, counted)\n"
    return cast("weights", "used", element_type) if _has_ignored(call) else ""


def _one_hot(call: Call, scores: str) -> str:
    """1 at the label's class, as `hot` of the shape of the scores."""
    shape, element_type = call.shape(scores), call.element_type("label")
    classes = call.count(scores, 1)
    column = [1, classes, *[1] * (len(shape) - 2)]
    text = f"numbers = Constant<value = int64[{classes}] {{{', '.join(map(str, range(classes)))}}}>()\n"
    text += reshape("of_axis", "numbers", column) + cast("class_numbers", "of_axis", element_type)
    text += unsqueeze("index_column", "index", [1]) + "is_class = Equal(index_column, class_numbers)\n"
    return text + cast("hot", "is_class", call.element_type(scores))


def _loss_grad(call: Call) -> str:
    reduction, element_type = _reduction(call), call.element_type("log_prob")
    weights = _weights(call, "log_prob")
    text = _ignored(call) + weights + _one_hot(call, "log_prob")
    text += "odds = Exp(log_prob)\ndifference = Sub(odds, hot)\n"
    if reduction == "mean":
        if weights:
            text += "count = ReduceSum<keepdims = 0>(weights)\n"
        else:
            text += "labels = Size(label)\n" + cast("count", "labels", element_type)
        text += "unit = Div(dY, count)\n"
    else:
        text += "unit = Identity(dY)\n"
    if weights:
        text += "factor = Mul(unit, weights)\n"
    if weights or reduction == "none":
        text += unsqueeze("factor_column", "factor" if weights else "unit", [1])
    else:
        text += "factor_column = Identity(unit)\n"
    text += "gradient = Mul(difference, factor_column)\n"
    return text + ("dX = Add(gradient, bias)\n" if call.has("bias") else "dX = Identity(gradient)\n")


def _log_softmax(call: Call) -> str:
    """The logarithms of a softmax over axis 1. Before opset 13 it was one over all axes from an axis on."""
    rank = call.rank("X")
    if rank == 2 or call.opset >= LOG_SOFTMAX_OF_ONE_AXIS:
        return "log_prob = LogSoftmax<axis = 1>(X)\n"
    return (
        transpose("classes_last", "X", [0, *range(2, rank), 1])
        + f"logarithms = LogSoftmax<axis = {rank - 1}>(classes_last)\n"
        + transpose("log_prob", "logarithms", [0, rank - 1, *range(1, rank - 1)])
    )


def _loss(call: Call) -> str:
    reduction, element_type = _reduction(call), call.element_type("X")
    weights = _weights(call, "X")
    text = _log_softmax(call) + _ignored(call) + weights + _one_hot(call, "X")
    text += "chosen = Mul(log_prob, hot)\n" + reduce("ReduceSum", "likelihood", "chosen", [1])
    text += "losses = Neg(likelihood)\n"
    text += "weighted = Mul(losses, weights)\n" if weights else "weighted = Identity(losses)\n"
    if reduction == "none":
        return text + "Y = Identity(weighted)\n"
    text += "total = ReduceSum<keepdims = 0>(weighted)\n"
    if reduction == "sum":
        return text + "Y = Identity(total)\n"
    if weights:
        return text + "count = ReduceSum<keepdims = 0>(weights)\nY = Div(total, count)\n"
    return text + "labels = Size(label)\n" + cast("count", "labels", element_type) + "Y = Div(total, count)\n"


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
