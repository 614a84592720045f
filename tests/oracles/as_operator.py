# SPDX-License-Identifier: Apache-2.0

"""Functions of arrays as operators of onnx's reference evaluator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnx.reference.op_run import OpRun

from tests.oracles.pooling import Array


def as_operator(name: str, domain: str, function: Callable[..., Any]) -> type[OpRun]:
    """Return a function of inputs and attributes, which returns one array or a tuple, as an operator."""

    def run(_: OpRun, *inputs: Array, **attributes: Any) -> tuple[Array, ...]:
        found = function(*inputs, **attributes)
        return found if isinstance(found, tuple) else (found,)

    return type(name, (OpRun,), {"op_domain": domain, "_run": run})
