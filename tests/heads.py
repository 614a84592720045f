# SPDX-License-Identifier: Apache-2.0

"""The heads and edges of test models in ONNX's text syntax."""

from __future__ import annotations


def head(opset: int, *domains: str, ir: int = 8, imports: str = "") -> str:
    """Return what stands before a graph: the IR version, and the imports of ONNX's operator set and further domains.

    The `domains` are imported in version 1; `imports` is the text of others.
    """
    sets = ", ".join(filter(None, [f'"": {opset}', *(f'"{domain}": 1' for domain in domains), imports]))
    return f"<ir_version: {ir}, opset_import: [{sets}]>"


def edges(
    x: str = "2,3,9,12",
    y: str = "2,3,5,6",
    *,
    element: str = "float",
    more: str = "",
    inputs: str = "",
    outputs: str = "",
) -> tuple[str, str]:
    """Return the inputs and outputs of a pool with its gradient, for x and y of these sizes: x, dy, `more`; y, dx.

    `inputs` and `outputs` are others in place of these.
    """
    given = ", ".join(filter(None, (f"{element}[{x}] x, {element}[{y}] dy", more)))
    return inputs or given, outputs or f"{element}[{y}] y, {element}[{x}] dx"
