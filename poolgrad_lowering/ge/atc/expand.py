# SPDX-License-Identifier: Apache-2.0

"""Replaces the operators of the dialect that no graph of CANN can have by the nodes of their function bodies."""

from __future__ import annotations

import onnx.inliner
from onnx import ModelProto

from poolgrad_lowering.diagnostics.errors import InvalidModelError
from poolgrad_lowering.diagnostics.faults import Fault
from poolgrad_lowering.diagnostics.onnx_errors import ONNX_ERRORS
from poolgrad_lowering.dialect import DOMAIN, OPS
from poolgrad_lowering.ge.registered import PROTOTYPES


def expand_operators(model: ModelProto) -> list[str]:
    """Inline the functions of the dialect's operators without a prototype in CANN; return the operators' names.

    aclnn runs such an operator (AdaptiveMaxPool3DGrad), but a graph cannot contain it. An operator whose function the
    model lacks stays. Raises `InvalidModelError` if onnx cannot inline them.
    """
    expanded = sorted(
        function.name
        for function in model.functions
        if function.domain == DOMAIN and function.name in OPS.keys() - PROTOTYPES.keys()
    )
    if expanded:
        try:
            inlined = onnx.inliner.inline_selected_functions(model, [(DOMAIN, name) for name in expanded])
        except ONNX_ERRORS as error:
            what = f"onnx cannot inline the functions of {', '.join(expanded)}: {error}"
            raise InvalidModelError(Fault.TOO_LARGE, "the model", what) from error
        model.CopyFrom(inlined)
    return expanded
