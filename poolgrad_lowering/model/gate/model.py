# SPDX-License-Identifier: Apache-2.0

"""The top level of a model: its format, the operator sets that it imports for its nodes, its outputs and functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import onnx
from onnx import ModelProto

from poolgrad_lowering.model.diagnostics.faults import Fault, Flaw, shown
from poolgrad_lowering.model.gate.names import encoding_flaw
from poolgrad_lowering.model.ir.scopes import LOCAL, Scope, canonical_domain


def ir_version_flaw(version: int) -> Flaw | None:
    """The flaw of a model's `ir_version`, or None."""
    if version < 1:
        return Flaw(Fault.IR_VERSION, f"its ir_version is {version}")
    if version > onnx.IR_VERSION:
        return Flaw(Fault.IR_VERSION, f"its ir_version is {version}; onnx {onnx.__version__} knows {onnx.IR_VERSION}")
    return None


def imports_flaw(imports: Iterable[onnx.OperatorSetIdProto]) -> Flaw | None:
    """The flaw of the operator sets that a model or function imports, or None."""
    newest = onnx.defs.onnx_opset_version()
    versions: dict[str, int] = {}
    for entry in imports:
        domain, version = canonical_domain(entry.domain), entry.version
        if (flaw := encoding_flaw((domain,))) is not None:
            return flaw
        if version < 1:
            return Flaw(Fault.OPSET_VERSION, f"domain {shown(domain)} is imported in version {version}")
        if domain == "" and version > newest:
            what = f"ONNX's operators are imported in version {version}; onnx {onnx.__version__} knows {newest}"
            return Flaw(Fault.OPSET_VERSION, what)
        if (first := versions.setdefault(domain, version)) != version:
            return Flaw(Fault.OPSET_TWICE, f"domain {shown(domain)} is imported in versions {first} and {version}")
    return None


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


def operator_flaw(scope: Scope) -> tuple[int, Flaw] | None:
    """The position of the first node with a faulty operator, and the flaw, or None. Checks each operator once."""
    for (domain, op_type), positions in scope.by_op.items():
        if not op_type:
            return positions[0], Flaw(Fault.NO_OPERATOR, "it has no op_type")
        imported = "" if domain == LOCAL else domain
        if imported not in scope.opsets:
            return positions[0], Flaw(Fault.DOMAIN_NOT_IMPORTED, f"domain {shown(imported)} is not imported")
    return None
