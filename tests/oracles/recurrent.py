# SPDX-License-Identifier: Apache-2.0

"""LSTM and GRU from their definitions in ONNX's operator documentation, in float64, and their gradients.

A gradient is the imaginary part of a loss at an operand that has moved by an imaginary step (W. Squire and G. Trapp,
Using complex variables to estimate derivatives of real functions): exact to rounding, without any rule of derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_STEP = 1e-40


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _of(weights: Array, gates: int) -> list[Array]:
    return np.split(weights[0], gates, axis=0)


def lstm(  # noqa: PLR0917 - the operands of the operator
    X: Array, W: Array, R: Array, B: Array, H0: Array, C0: Array
) -> dict[str, Array]:
    """HAll, HFinal, CFinal, CAll and gates of an LSTM with all its operands; the gates are i, o, f and c."""
    h, c, steps = H0[0], C0[0], []
    for x in X:
        i, o, f, g = (
            x @ w.T + h @ r.T + wb + rb for w, r, wb, rb in zip(_of(W, 4), _of(R, 4), *_biases(B, 4), strict=True)
        )
        i, o, f, g = _sigmoid(i), _sigmoid(o), _sigmoid(f), np.tanh(g)
        c = f * c + i * g
        h = o * np.tanh(c)
        steps.append((h, c, np.concatenate([i, o, f, g], 1)))
    all_h, all_c, gates = (np.stack(column)[:, None] for column in zip(*steps, strict=True))
    return {"HAll": all_h, "HFinal": all_h[-1], "CFinal": all_c[-1], "CAll": all_c, "gates": gates}


def gru(X: Array, W: Array, R: Array, B: Array, H0: Array, *, reset_after: bool) -> dict[str, Array]:
    """HAll, HFinal and gates of a GRU with all its operands; the gates are z, r and h."""
    (wz, wr, wn), (rz, rr, rn) = _of(W, 3), _of(R, 3)
    (bz, br, bn), (cz, cr, cn) = _biases(B, 3)
    h, steps = H0[0], []
    for x in X:
        z = _sigmoid(x @ wz.T + h @ rz.T + bz + cz)
        r = _sigmoid(x @ wr.T + h @ rr.T + br + cr)
        n = np.tanh(x @ wn.T + r * (h @ rn.T + cn) + bn if reset_after else x @ wn.T + (r * h) @ rn.T + cn + bn)
        h = (1 - z) * n + z * h
        steps.append((h, np.concatenate([z, r, n], 1)))
    all_h, gates = (np.stack(column)[:, None] for column in zip(*steps, strict=True))
    return {"HAll": all_h, "HFinal": all_h[-1], "gates": gates}


def _biases(biases: Array, gates: int) -> tuple[list[Array], list[Array]]:
    parts = np.split(biases[0], 2 * gates)
    return parts[:gates], parts[gates:]


def gradients(
    forward: Callable[..., Mapping[str, Array]], operands: Sequence[Array], arriving: Mapping[str, Array]
) -> tuple[Array, ...]:
    """The gradient of each operand, from those of results by their names."""
    found = []
    for position, operand in enumerate(operands):
        gradient = np.zeros(operand.shape)
        for place in np.ndindex(operand.shape):
            moved = [array.astype(np.complex128) for array in operands]
            moved[position][place] += 1j * _STEP
            results = forward(*moved)
            gradient[place] = sum(float((results[name].imag * dy).sum()) for name, dy in arriving.items()) / _STEP
        found.append(gradient)
    return tuple(found)
