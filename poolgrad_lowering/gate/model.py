# SPDX-License-Identifier: Apache-2.0

"""The top level of a model: the format is known, the graph has outputs, and functions are unique."""

from __future__ import annotations

from collections import Counter

from onnx import ModelProto

from poolgrad_lowering.diagnostics.faults import Fault, Flaw, shown
from poolgrad_lowering.gate.imports import imports_flaw, ir_version_flaw
from poolgrad_lowering.gate.names import encoding_flaw
from poolgrad_lowering.ir.scopes import canonical_domain


def model_flaw(model: ModelProto) -> Flaw | None:
    """The flaw of a model's top level, or None. Does not check nodes."""
    if not model.HasField("graph"):
        return Flaw(Fault.NOT_ONNX, "it has no graph")
    if (flaw := ir_version_flaw(model.ir_version)) is not None:
        return flaw
    if not model.opset_import:
        return Flaw(Fault.DOMAIN_NOT_IMPORTED, "it imports no operator set")
    if (flaw := imports_flaw(model.opset_import)) is not None:
        return flaw
    if not model.graph.output:
        return Flaw(Fault.NO_OUTPUT, "its graph has no outputs")
    return _functions_flaw(model)


def _functions_flaw(model: ModelProto) -> Flaw | None:
    keys = Counter((canonical_domain(f.domain), f.name, f.overload) for f in model.functions)
    for key, count in keys.items():
        if (flaw := encoding_flaw(key)) is not None:
            return flaw
        if count > 1:
            return Flaw(Fault.FUNCTION_TWICE, f"function {shown('.'.join(filter(None, key)))} is defined {count} times")
    return None
