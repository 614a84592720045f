# SPDX-License-Identifier: Apache-2.0

"""Replaces the operators of the dialect that no graph of CANN can have by the nodes of their function bodies."""

from __future__ import annotations

import onnx.inliner
from onnx import ModelProto

from poolgrad_lowering.dialect import DOMAIN, OPS
from poolgrad_lowering.ge.registered import PROTOTYPES


def expand_operators(model: ModelProto) -> list[str]:
    """Inline the functions of the dialect's operators without a prototype in CANN; return the operators' names.

    aclnn runs such an operator (AdaptiveMaxPool3DGrad), but a graph cannot contain it. An operator whose function the
    model lacks stays.
    """
    expanded = sorted(
        function.name
        for function in model.functions
        if function.domain == DOMAIN and function.name in OPS.keys() - PROTOTYPES.keys()
    )
    if expanded:
        model.CopyFrom(onnx.inliner.inline_selected_functions(model, [(DOMAIN, name) for name in expanded]))
    return expanded
