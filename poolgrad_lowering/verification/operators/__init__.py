# SPDX-License-Identifier: Apache-2.0

"""Operators for onnx's reference evaluator: those that it lacks, computes incorrectly, or computes slowly.

Written in numpy from the operators' documentation, independent of the dialect and the compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnx.reference.op_run import OpRun

from poolgrad_lowering.verification.operators import aten, moving, pooling


def _operator(domain: str, name: str, function: Callable[..., Any]) -> type[OpRun]:
    """Return an operator whose result, or tuple of results, a function returns for its inputs and attributes."""

    def run(_: OpRun, *inputs: Any, **attributes: Any) -> tuple[Any, ...]:
        results = function(*inputs, **attributes)
        return results if isinstance(results, tuple) else (results,)

    return type(name, (OpRun,), {"_run": run, "op_domain": domain})


_FUNCTIONS = moving.FUNCTIONS | pooling.FUNCTIONS | aten.FUNCTIONS
OPERATORS: tuple[type[OpRun], ...] = (
    *(moving.Resize, pooling.AveragePoolGrad, pooling.ConvTranspose),
    *(_operator(*op, function) for op, function in _FUNCTIONS.items()),
)
