# SPDX-License-Identifier: Apache-2.0

"""Operators of onnx's reference evaluator that functions compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnx.reference.op_run import OpRun


def operator(name: str, function: Callable[..., Any], domain: str = "") -> type[OpRun]:
    """Return an operator whose result, or tuple of results, a function returns for its inputs and attributes."""

    def run(_: OpRun, *inputs: Any, **attributes: Any) -> tuple[Any, ...]:
        found = function(*inputs, **attributes)
        return found if isinstance(found, tuple) else (found,)

    return type(name, (OpRun,), {"op_domain": domain, "_run": run})
