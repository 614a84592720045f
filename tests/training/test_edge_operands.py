# SPDX-License-Identifier: Apache-2.0

"""Each definition on operands at the edges against the kernel of onnxruntime-training: empty ones, single elements,
labels that do not count, and floats that are NaN, infinite, zero, huge or tiny.

Where that build has no kernel the results are held against the definition in float64. NaN equals NaN, whatever its
payload; the signs of zeros are not compared, since onnxruntime's Where makes +0 of -0.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto

from models.training_operators import OPERATORS, example
from tests.oracles import training_operators as oracle
from tests.poolgrad_lowering.standard.operator_definitions.examples import BATCH, EXAMPLES, operands
from tests.poolgrad_lowering.standard.standard_models import TOLERANCES, Array, one_node, standardised

pytestmark = pytest.mark.training

F32, F64 = np.float32, np.float64
LOSSES = ("SoftmaxCrossEntropyLoss", "SoftmaxCrossEntropyLossInternal")
LOSS_GRADIENTS = ("SoftmaxCrossEntropyLossGrad", "SoftmaxCrossEntropyLossInternalGrad")
Run = Callable[[Mapping[str, Array]], dict[str, Array]]

VALUES = {
    "NaN": np.nan,
    "inf": np.inf,
    "-inf": -np.inf,
    "zero": 0.0,
    "-zero": -0.0,
    "huge": 1e20,
    "-huge": -1e20,
    "largest": 3e38,
    "-largest": -3e38,
    "tiny": 1e-42,
    "-tiny": -1e-42,
}

_EXP = "The kernel's exp does not reach 0 for huge arguments, whose product with x is then no NaN and not 0."
_SQUARES = "The kernel's variance is the mean of the squares less the square of the mean, which overflows."
_ONE_OFFSET = "The kernel subtracts mean · scale · σ⁻¹ as one number, which is rounded, or as infinite as the other."
_ORDER = "The kernel's products and sums overflow in another order."
_OF_NONE = "The kernel's statistics of no element are NaN."
_NO_RESULT = "The kernel gives no lengths if there is no element."
_ZERO_SCALE = "The kernel refuses to divide by 0."
_PADDING = "There is no kernel; the zeros of the padding are multiplied too, as by kernels that unfold the image."
_MATRIX = "There is no kernel; a product with a matrix has 0 for the elements that an element does not come from."
_NO_OVERFLOW = "There is no kernel, and float64 does not overflow."

_RECURRENT = ("Grad", "Training")
_CLAMPED = (
    "The kernel's sigmoid and tanh are polynomials of clamped arguments: they make a number of NaN, and one goes "
    "below 0. Its products and sums overflow in another order."
)

_GELU = dict.fromkeys(("[XB] *inf*", "[XB] *largest*"), _EXP)
DIFFERENCES: dict[str, dict[str, str]] = {
    "BatchNormInternal": {
        "batch 0": _OF_NONE,
        **dict.fromkeys(("X *huge", "scale *inf*", "scale *largest*"), _ONE_OFFSET),
    },
    "BatchNormalizationGrad": {"dY *largest*": _ORDER},
    "BiasGeluGrad_dX": _GELU,
    "ConcatTraining": {"batch 0": _NO_RESULT},
    "Conv2DBackpropFilter": {"* *largest*": _NO_OVERFLOW},
    "Conv2DBackpropInput": {"* *largest*": _NO_OVERFLOW},
    "ConvGrad": {"[Xd]* *largest*": _ORDER},
    "ConvTransposeGrad": {"* *largest*": _NO_OVERFLOW, "[WX] *inf in places": _PADDING},
    "GeluGrad": _GELU,
    **{f"GRU{kind}": dict.fromkeys(("* *inf*", "* NaN*", "* *huge*", "* *largest*"), _CLAMPED) for kind in _RECURRENT},
    **{f"LSTM{kind}": dict.fromkeys(("* *inf*", "* NaN*", "* *largest*"), _CLAMPED) for kind in _RECURRENT},
    "LayerNormalization": dict.fromkeys(("X *huge*", "X *largest*"), _SQUARES),
    "ResizeGrad": {"dY *largest*": _NO_OVERFLOW, "dY *inf*": _MATRIX},
    "Scale": {"scale *zero*": _ZERO_SCALE},
    "SoftmaxCrossEntropyLossGrad": {"weight *largest*": _ORDER},
}
"""By operator, the situations in which results are not the kernel's, and why."""
NOT_RUN: dict[str, dict[str, str]] = {
    **{
        operator: {"batch 0": "The kernel divides integers by 0, which ends the process."}
        for operator in ("ConvGrad", *LOSSES, *LOSS_GRADIENTS)
    },
    **{
        operator: {"batch 0": "The kernel asserts that its operands have elements, which ends the process."}
        for operator in (f"{cell}{kind}" for cell in ("GRU", "LSTM") for kind in _RECURRENT)
    },
    "ConvTransposeGrad": {
        "batch 0": "The weight's gradient is a Conv over no channel, for which onnxruntime 1.19 to 1.24 multiply what "
        "its memory held before by 0: a NaN stays."
    },
    "MaxPoolGrad": dict.fromkeys(
        ("X NaN", "X -inf"), "MaxPool finds no maximum: its Indices are -1, and the kernel writes before its memory."
    ),
}
"""By operator, the situations that are not compared, and why."""
KERNELS_OF: dict[int, int] = {TensorProto.DOUBLE: TensorProto.FLOAT}
"""The example of MaxPoolGrad is of doubles, for which there is no kernel."""


def operator_model(operator: str, batch: int | None) -> ModelProto:
    """The example of an operator in float32; with a batch, as a number, since some kernels do not take a symbol."""
    model = example(operator)
    for value in (*model.graph.input, *model.graph.output):
        tensor = value.type.tensor_type
        tensor.elem_type = KERNELS_OF.get(tensor.elem_type, tensor.elem_type)
        for dim in tensor.shape.dim:
            if dim.dim_param == "N" and batch is not None:
                dim.dim_value = batch
    return model


def session(model: ModelProto) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    loaded = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in loaded.get_outputs()]
    inputs = [value.name for value in loaded.get_inputs()]
    return lambda feeds: dict(zip(names, loaded.run(names, {name: feeds[name] for name in inputs}), strict=True))


def kernel(operator: str, batch: int, chosen: Sequence[tuple[str, dict[str, Array]]]) -> Run:
    """The kernel's results of an operator's example, or those by its definition in float64.

    That is where there is no kernel, or it fails in the first of the chosen situations.
    """
    model = operator_model(operator, batch)
    names = [value.name for value in model.graph.output]
    try:
        if operator == "InPlaceAccumulatorV2":  # its second output is the sum, its first one a flag
            model.graph.node[0].output.insert(0, "updated")
        found = session(model)
        for _, feeds in chosen[:1]:
            found(feeds)
    except Exception:  # onnxruntime raises errors of many classes

        def by_definition(feeds: Mapping[str, Array]) -> dict[str, Array]:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return dict(zip(names, oracle.as_given(EXAMPLES[operator](*feeds.values())), strict=True))

        return by_definition
    return found


def situations(operator: str, batch: int) -> Iterator[tuple[str, dict[str, Array]]]:
    """Operands with each of the values, everywhere or in every second place of one operand."""
    feeds = operands(operator, operator_model(operator, batch), batch)
    yield f"batch {batch}", feeds
    if batch < BATCH:
        return
    for name, array in feeds.items():
        if array.dtype.kind != "f":
            continue
        for text, value in VALUES.items():
            for step in (1, 2):
                changed = array.copy()
                changed.reshape(-1)[::step] = value
                yield f"{name} {text}{' in places' if step > 1 else ''}", {**feeds, name: changed}


def differs(found: Array, expected: Array | None) -> bool:
    """Whether two arrays are not equal but for roundings, the signs of zeros, and the payloads of NaN."""
    if expected is None or found.shape != expected.shape:
        return True
    if found.dtype.kind != "f":
        return not np.array_equal(found, expected)
    one, other = found.astype(F64), expected.astype(F64)
    finite = np.isfinite(other)
    largest = float(np.abs(other[finite]).max(initial=1))
    if not np.array_equal(one[~finite], other[~finite], equal_nan=True):
        return True
    with np.errstate(all="ignore"):
        return not bool((np.abs(one - other)[finite] <= TOLERANCES[np.dtype(F32)] * largest).all())


def differences(operator: str) -> Iterator[str]:
    for batch in (0, 1, BATCH):
        chosen = [row for row in situations(operator, batch) if row[0] not in NOT_RUN.get(operator, {})]
        expected = kernel(operator, batch, chosen)
        for declared in (None, batch):
            definition = session(standardised(operator_model(operator, declared)))
            for name, feeds in chosen:
                found = definition(feeds)
                try:
                    wanted = expected(feeds)
                except Exception:  # onnxruntime raises errors of many classes
                    yield name
                    continue
                if any(differs(found[output], wanted[output]) for output in found):
                    yield name


@pytest.mark.parametrize("operator", OPERATORS)
def test_operands_at_the_edges(operator: str) -> None:
    rows = DIFFERENCES.get(operator, {})
    found = {*differences(operator)}
    unexplained = {name for name in found if not any(fnmatchcase(name, pattern) for pattern in rows)}
    assert not unexplained
    stale = {pattern for pattern in rows if not any(fnmatchcase(name, pattern) for name in found)}
    assert not stale


# -- losses

X = np.random.default_rng(0).standard_normal((4, 3)).astype(F32)
NO_SCORE = np.where(np.arange(12).reshape(4, 3) % 5 == 1, F32(-np.inf), X)
LABELS = {
    "none counts": [-100, -100, -100, -100],
    "one counts": [-100, 2, -100, -100],
    "all count": [0, 0, 2, 1],
    "-1": [-1, 1, -1, 0],
}
WEIGHTS = {"none": None, "positive": [0.5, 1.5, 2.0], "zeros": [0.0, 0.0, 0.0], "NaN for class 0": [np.nan, 1.0, 2.0]}
SCORES = {
    "normal": X,
    "-inf": NO_SCORE,
    "NaN where none counts": np.where(np.arange(4)[:, None] == 0, F32(np.nan), X),
    "inf": np.where(np.arange(4)[:, None] == 1, F32(np.inf), X),
}


@pytest.mark.parametrize("ignored", [None, -100])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("operator", [*LOSSES, *LOSS_GRADIENTS])
def test_losses_at_the_edges(operator: str, reduction: str, ignored: int | None) -> None:
    for (what, scores), (which, labels), (how, given) in (
        (a, b, c) for a in SCORES.items() for b in LABELS.items() for c in WEIGHTS.items()
    ):
        label = np.array(labels)
        if which == ("-1" if ignored is not None else "none counts") or (which == "one counts" and ignored is None):
            continue  # the kernel reads before its memory for other labels below 0
        weight = None if given is None else np.array(given, F32)
        each = np.asarray(X[:, 0] if reduction == "none" else F32(0.7))
        with np.errstate(all="ignore"):
            log_prob = np.asarray(scores - np.log(np.exp(scores).sum(1, keepdims=True)), F32)
        feeds: dict[str, Array | None] = {"X": scores, "label": label, "weight": weight}
        outputs = {"Y": each, "log_prob": scores}
        if operator in LOSS_GRADIENTS:
            feeds, outputs = {"dY": each, "log_prob": log_prob, "label": label, "weight": weight}, {"dX": scores}
        attributes: dict[str, Any] = {"reduction": reduction}
        if "Internal" in operator:
            feeds["ignore_index"] = None if ignored is None else np.array(ignored)
        elif ignored is not None:
            attributes["ignore_index"] = ignored
        domain = "" if operator == LOSSES[0] else "com.microsoft"
        model = one_node(operator, feeds, outputs, domain=domain, **attributes)
        given_feeds = {name: array for name, array in feeds.items() if array is not None}
        expected, found = session(model)(given_feeds), session(standardised(model))(given_feeds)
        for name, array in expected.items():
            assert not differs(found[name], array), (what, which, how, name, found[name], array)


def test_the_tables_name_definitions() -> None:
    assert DIFFERENCES.keys() | NOT_RUN.keys() <= set(OPERATORS)
