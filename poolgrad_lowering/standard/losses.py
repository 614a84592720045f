# SPDX-License-Identifier: Apache-2.0

"""Losses: cross entropy over axis 1, forward as ONNX's and as onnxruntime's own operator, and its gradients.

ONNX's operator has a definition too: by its function body, which runtimes without a kernel run, the mean over no label
is NaN, with which a step would update all weights. onnxruntime-training's kernel gives 0.
"""

from __future__ import annotations

import numpy as np
from onnx import helper

from poolgrad_lowering.model.ir.bodies import Tensor, where
from poolgrad_lowering.standard.definition import Call, defines

LOG_SOFTMAX_OF_ONE_AXIS = 13
"""The first opset whose LogSoftmax is over one axis."""
IGNORED = -1
"""The label that onnxruntime's kernels do not count if a node names none."""
_REDUCTIONS = ("mean", "sum", "none")
_LOSS = "−log softmax(X)[label], weighted, and reduced over the labels that count; a mean over none is 0"
_LOSS_GRADIENT = "(exp(log_prob) − onehot(label)) · weight · dY / Σ weight; 0 for labels that do not count"


def _reduction(call: Call) -> str:
    reduction = call.attribute("reduction", "mean")
    if reduction not in _REDUCTIONS:
        raise call.refuse(f"reduction {reduction}")
    return str(reduction)


class _Labels:
    """What the labels choose: `skipped` are those that do not count, `index` has class 0 in their place.

    The attribute is -1 where it is absent, as in onnxruntime's kernels. `weights` are those of the labels, in the type
    of `one`.
    """

    def __init__(self, call: Call, one: Tensor, weight: Tensor | None) -> None:
        label = call.typed("label")
        ignored = (
            call.converted("ignore_index", label.element_type)
            if call.has("ignore_index")
            else label.constant(call.attribute("ignore_index", IGNORED))
        )
        self.one = one
        self.skipped = label.op("Equal", ignored)
        self.index = where(self.skipped, 0, label)
        self.weights = one if weight is None else weight.op("Gather", self.index, axis=0)

    def mean(self, total: Tensor) -> Tensor:
        """A total over the sum of the weights that count; 1 where this is 0, as in onnxruntime's kernels."""
        zero = self.one.constant(0)
        count = where(self.skipped, zero, self.weights).total()
        return total / where(count.op("Equal", zero), self.one, count)


def _widened(call: Call, name: str, kind: int) -> Tensor | None:
    return call.converted(name, kind) if call.has(name) else None


def _one_hot(call: Call, scores: str, index: Tensor, kind: int) -> Tensor:
    """1 at the label's class, in the shape of the scores."""
    classes = call.count(scores, 1)
    call.require_few(classes)
    dtype = helper.tensor_dtype_to_np_dtype(call.element_type("label"))
    numbers = np.arange(classes).reshape([1, classes, *[1] * (call.rank(scores) - 2)]).astype(dtype)
    return index.unsqueeze([1]).op("Equal", numbers).cast(kind)


def _result(call: Call, source: Tensor, scores: str) -> Tensor:
    """A result, in the type of the scores or in the one that the node names."""
    wanted = call.attribute("output_type", 0) or call.element_type(scores)
    return source if wanted == source.element_type else source.cast(wanted)


@defines("SoftmaxCrossEntropyLossGrad", _LOSS_GRADIENT)
@defines("SoftmaxCrossEntropyLossInternalGrad", _LOSS_GRADIENT)
def _loss_grad(call: Call) -> Tensor:
    reduction, [log_prob] = _reduction(call), call.widened("log_prob")
    kind = log_prob.element_type
    unit = call.converted("dY", kind)
    weight, bias = _widened(call, "weight", kind), _widened(call, "bias", kind)
    labels = _Labels(call, log_prob.constant(1), weight)
    hot = _one_hot(call, "log_prob", labels.index, kind)
    difference = log_prob.op("Exp") - hot
    if reduction == "mean":
        unit = labels.mean(unit)
    if weight is not None:
        unit = unit * labels.weights
    if weight is not None or reduction == "none":
        unit = unit.unsqueeze([1])
    product = difference * unit
    whole = where(labels.skipped.unsqueeze([1]), 0, product)
    return _result(call, whole if bias is None else whole + bias, "log_prob")


def _log_softmax(call: Call, x: Tensor) -> Tensor:
    """The logarithms of a softmax over axis 1. Before opset 13 it was one over all axes from an axis on."""
    rank = call.rank("X")
    if rank == 2 or call.node.scope.opset >= LOG_SOFTMAX_OF_ONE_AXIS:
        return x.op("LogSoftmax", axis=1)
    of_last = x.transpose([0, *range(2, rank), 1]).op("LogSoftmax", axis=rank - 1)
    return of_last.transpose([0, rank - 1, *range(1, rank - 1)])


@defines("SoftmaxCrossEntropyLoss", _LOSS, domain="")
@defines("SoftmaxCrossEntropyLossInternal", _LOSS)
def _loss(call: Call) -> dict[str, Tensor]:
    reduction, [x] = _reduction(call), call.widened("X")
    weight = _widened(call, "weight", x.element_type)
    logarithms = _log_softmax(call, x)
    labels = _Labels(call, logarithms.constant(1), weight)
    chosen = logarithms.op("GatherElements", labels.index.unsqueeze([1]), axis=1)
    losses = -chosen.reduced("ReduceSum", [1])
    loss = where(labels.skipped, 0, losses if weight is None else losses * labels.weights)
    if reduction != "none":
        loss = loss.total()
    if reduction == "mean":
        loss = labels.mean(loss)
    return {"Y": _result(call, loss, "X"), "log_prob": _result(call, logarithms, "X")}
