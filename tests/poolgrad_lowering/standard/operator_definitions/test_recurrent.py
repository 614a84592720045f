# SPDX-License-Identifier: Apache-2.0

"""LSTM and GRU that read their sequences backwards, or in both directions, for which onnxruntime has no kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.oracles import recurrent
from tests.poolgrad_lowering.standard.operator_definitions.cases import check, normal
from tests.poolgrad_lowering.standard.standard_models import Array

pytestmark = pytest.mark.without_kernel

STEPS, BATCH, SIZE, HIDDEN = 3, 2, 2, 3
DIRECTIONS = {"reverse": [True], "bidirectional": [False, True]}
KINDS: dict[str, tuple[Callable[..., dict[str, Array]], int, dict[str, int]]] = {
    "LSTM": (recurrent.lstm, 4, {}),
    "GRU": (partial(recurrent.gru, reset_after=False), 3, {"linear_before_reset": 0}),
    "GRU, reset after": (partial(recurrent.gru, reset_after=True), 3, {"linear_before_reset": 1}),
}


def in_directions(
    forward: Callable[..., dict[str, Array]], reversals: Sequence[bool], x: Array, *others: Array
) -> dict[str, Array]:
    """The results of a forward pass in each direction, joined."""
    parts = []
    for number, is_reversed in enumerate(reversals):
        turn = slice(None, None, -1 if is_reversed else None)
        found = forward(x[turn], *(array[number : number + 1] for array in others))
        parts.append({name: array[turn] if array.ndim == len("SDNH") else array for name, array in found.items()})
    return {name: np.concatenate([part[name] for part in parts], array.ndim - 3) for name, array in parts[0].items()}


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_directions(kind: str, direction: str) -> None:
    forward, gates, attributes = KINDS[kind]
    count, is_lstm = len(DIRECTIONS[direction]), kind == "LSTM"
    given: dict[str, Any] = {**attributes, "hidden_size": HIDDEN, "direction": direction}
    x, w, r = (
        normal(STEPS, BATCH, SIZE),
        normal(count, gates * HIDDEN, SIZE, seed=1),
        normal(count, gates * HIDDEN, HIDDEN),
    )
    operands = {"X": x, "W": w, "R": r, "B": normal(count, 2 * gates * HIDDEN, seed=2)}
    states = {name: normal(count, BATCH, HIDDEN, seed=3) for name in ("H0", "C0")[: 1 + is_lstm]}
    compute = partial(in_directions, forward, DIRECTIONS[direction])
    found = compute(*(array.astype(np.float64) for array in (*operands.values(), *states.values())))
    operator = kind.split(",", maxsplit=1)[0]
    check(f"{operator}Training", {**operands, "sequence_lengths": None, **states}, found, **given)

    arriving = {
        name: normal(*array.shape, seed=4) for name, array in found.items() if name in {"HAll", "HFinal", "CFinal"}
    }
    expected = recurrent.gradients(compute, [*operands.values(), *states.values()], arriving)
    results = dict(zip((f"d{name}" for name in (*operands, *states)), expected, strict=True))
    if is_lstm:
        del operands["B"]
    saved = {name: found[name].astype(np.float32) for name in ("HAll", "CAll", "gates") if name in found}
    gradients = {f"d{name}": array for name, array in arriving.items()}
    check(f"{operator}Grad", {**operands, "sequence_lengths": None, **states, **saved, **gradients}, results, **given)
