# SPDX-License-Identifier: Apache-2.0

"""`dw = ∂y/∂w`, asked for by ONNX's preview operator: `dw = Gradient <xs, zs, y> (…)`. Recognised and never lowered.

The operator names a gradient and leaves its computation to a runtime; no runtime implements it. The gradient of a
MaxPool between `xs` and `y` is then in no node of the graph, so there is nothing to lower: another tool has to write
the backward graph out first.

What must hold to be reported: `y` is computed from a MaxPool. Without one the node is no anchor.
"""

from __future__ import annotations

from poolgrad_lowering.compiler.families.gradient import form
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.attributes import text
from poolgrad_lowering.model.ir.scopes import Node


@form(
    ("ai.onnx.preview.training", "Gradient"),
    summary="ONNX's preview operator Gradient over a graph with a MaxPool: refused",
    priority=10,
)
def match(facts: Facts, node: Node) -> None:
    """Why a Gradient node is not lowered; None where no MaxPool is in front of what is differentiated."""
    if facts.is_function(node):
        return
    name = text(node, "y") or ""
    differentiated = node.scope.resolve(name)
    for value in differentiated.ancestors(lambda node: node.inputs) if differentiated is not None else ():
        pool = value.producer
        if pool is not None and pool.is_a("MaxPool"):
            what = "Gradient '{}' differentiates '{}' through MaxPool '{}', and no node computes that"
            raise Refuse(Code.IMPLICIT_GRADIENT, what, node.label, name, pool.label)
