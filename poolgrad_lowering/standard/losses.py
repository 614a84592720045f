# SPDX-License-Identifier: Apache-2.0

"""Losses: cross entropy over axis 1, forward as ONNX's and as onnxruntime's own operator, and its gradients.

ONNX's operator has a definition too: by its function body, which runtimes without a kernel run, the mean over no label
is NaN, with which a step would update all weights. onnxruntime-training's kernel gives 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from poolgrad_lowering.standard.definition import Call, Definition, converted
from poolgrad_lowering.standard.nodes import cast, integer, reduce, reshape, scalar, scalars, transpose, unsqueeze

LOG_SOFTMAX_OF_ONE_AXIS = 13
"""The first opset whose LogSoftmax is over one axis."""
IGNORED = -1
"""The label that onnxruntime's kernels do not count if a node names none."""
_REDUCTIONS = ("mean", "sum", "none")


def _reduction(call: Call) -> str:
    reduction = call.attribute("reduction", "mean")
    if reduction not in _REDUCTIONS:
        raise call.refuse(f"reduction {reduction}")
    return str(reduction)


def _counted(call: Call, kind: int) -> str:
    """`skipped` is set for labels that do not count, `index` has class 0 in their place, `weights` those of the labels.

    The attribute is -1 where it is absent, as in onnxruntime's kernels. `weight_wide` and `zero` are read.
    """
    element_type = call.element_type("label")
    text = (
        converted(call, "ignored", "ignore_index", element_type)
        if call.has("ignore_index")
        else integer("ignored", call.attribute("ignore_index", IGNORED), element_type)
    )
    text += integer("first", 0, element_type)
    text += "skipped = Equal(label, ignored)\nindex = Where(skipped, first, label)\n"
    if call.has("weight"):
        return text + "weights = Gather<axis = 0>(weight_wide, index)\n"
    return text + scalar("weights", 1, kind)


def _mean_of(result: str, total: str) -> str:
    """A total over the sum of the weights that count, which is 1 where it would be 0, as in onnxruntime's kernels."""
    return (
        "counting = Where(skipped, zero, weights)\ncount = ReduceSum<keepdims = 0>(counting)\n"
        f"is_zero = Equal(count, zero)\ndivisor = Where(is_zero, one, count)\n{result} = Div({total}, divisor)\n"
    )


def _widened(call: Call, names: Sequence[str], kind: int) -> str:
    """The operands that are there in the element type of the computation, with `_wide` behind their names."""
    return "".join(converted(call, f"{name}_wide", name, kind) for name in names if call.has(name))


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
    text = scalars(kind, zero=0, one=1) + _widened(call, ("dY", "log_prob", "weight", "bias"), kind)
    text += _counted(call, kind) + _one_hot(call, "log_prob", kind)
    text += "odds = Exp(log_prob_wide)\ndifference = Sub(odds, hot)\n"
    text += _mean_of("unit", "dY_wide") if reduction == "mean" else "unit = Identity(dY_wide)\n"
    if call.has("weight") or reduction == "none":
        text += "factor = Mul(unit, weights)\n" if call.has("weight") else "factor = Identity(unit)\n"
        text += unsqueeze("factor_column", "factor", [1])
    else:
        text += "factor_column = Identity(unit)\n"
    text += "product_ = Mul(difference, factor_column)\n" + unsqueeze("skipped_column", "skipped", [1])
    text += "gradient = Where(skipped_column, zero, product_)\n"
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
    text = scalars(kind, zero=0, one=1) + _widened(call, ("X", "weight"), kind)
    text += _log_softmax(call) + _counted(call, kind) + unsqueeze("index_column", "index", [1])
    text += "chosen = GatherElements<axis = 1>(logarithms, index_column)\n"
    text += reduce("ReduceSum", "likelihood", "chosen", [1]) + "losses = Neg(likelihood)\n"
    text += "weighted = Mul(losses, weights)\n" if call.has("weight") else "weighted = Identity(losses)\n"
    text += "each = Where(skipped, zero, weighted)\n"
    if reduction == "none":
        text += "loss = Identity(each)\n"
    else:
        text += f"{'loss' if reduction == 'sum' else 'total'} = ReduceSum<keepdims = 0>(each)\n"
    if reduction == "mean":
        text += _mean_of("loss", "total")
    return text + _result(call, "Y", "loss", "X", kind) + _result(call, "log_prob", "logarithms", "X", kind)


_LOSS = "−log softmax(X)[label], weighted, and reduced over the labels that count; a mean over none is 0"
_LOSS_GRADIENT = "(exp(log_prob) − onehot(label)) · weight · dY / Σ weight; 0 for labels that do not count"

DEFINITIONS = (
    Definition("SoftmaxCrossEntropyLoss", _loss, _LOSS, domain=""),
    Definition("SoftmaxCrossEntropyLossGrad", _loss_grad, _LOSS_GRADIENT),
    Definition("SoftmaxCrossEntropyLossInternal", _loss, _LOSS),
    Definition("SoftmaxCrossEntropyLossInternalGrad", _loss_grad, _LOSS_GRADIENT),
)
