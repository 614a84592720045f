# SPDX-License-Identifier: Apache-2.0

"""The heads of test models in ONNX's text syntax."""

from __future__ import annotations


def head(opset: int, *domains: str, ir: int = 8) -> str:
    """Return what stands before a graph: the IR version, ONNX's operator set, and version 1 of further domains."""
    imports = ", ".join([f'"": {opset}', *(f'"{domain}": 1' for domain in domains)])
    return f"<ir_version: {ir}, opset_import: [{imports}]>"
