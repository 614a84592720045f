# SPDX-License-Identifier: Apache-2.0

"""Inlines the functions of the original that an export for graph mode has inlined."""

from __future__ import annotations

import onnx.inliner
from onnx import ModelProto

from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.model.diagnostics.onnx_errors import ONNX_ERRORS


def with_functions_of(original: ModelProto, lowered: ModelProto) -> ModelProto:
    """Return the original with the functions inlined that the lowered model has no more; the same object if none.

    onnx names the values of a body by the order of the calls, so they have the names that they have in an export.
    """
    kept = {(each.domain, each.name) for each in lowered.functions}
    own = [(each.domain, each.name) for each in original.functions if each.domain != DOMAIN]
    gone = [name for name in own if name not in kept]
    if not gone:
        return original
    try:
        return onnx.inliner.inline_selected_functions(original, gone)
    except ONNX_ERRORS:
        return original
