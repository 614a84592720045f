# SPDX-License-Identifier: Apache-2.0

"""Operators of onnx's reference evaluator that functions compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnx.reference.op_run import OpRun


def operator(name: str, function: Callable[..., Any], domain: str = "") -> type[OpRun]:
    """Return an operator whose result, or tuple of results, a function returns for its inputs and attributes."""

    def run(_: OpRun, *inputs: Any, **attributes: Any) -> tuple[Any, ...]:
        results = function(*inputs, **attributes)
        return results if isinstance(results, tuple) else (results,)

    return type(name, (OpRun,), {"_run": run, "op_domain": domain})
