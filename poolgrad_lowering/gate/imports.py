# SPDX-License-Identifier: Apache-2.0

"""Versions of the file format and of the operator sets that a model or function imports."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from poolgrad_lowering.diagnostics.faults import Fault, Flaw, shown
from poolgrad_lowering.gate.names import encoding_flaw
from poolgrad_lowering.ir.scopes import canonical_domain


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
