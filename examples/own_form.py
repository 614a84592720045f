# SPDX-License-Identifier: Apache-2.0

"""Adds a form of one's own: how another exporter writes the gradient of a max pool, here as acme's PoolBackward.

    python examples/own_form.py

In a package of one's own this file is a module, and entry points in `pyproject.toml` make it known to the compiler and
to `verify`:

    [project.entry-points."poolgrad_lowering.patterns"]
    acme_max_pool_grad = "own_form:FORM"

    [project.entry-points."poolgrad_lowering.roles"]
    acme_max_pool_grad = "own_form:INPUT_ROLES"

Needs `pip install poolgrad-lowering`. CONTRIBUTING.md describes what a form may ask.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import onnx

from poolgrad_lowering import lower
from poolgrad_lowering.compiler.analysis.provenance import indices
from poolgrad_lowering.compiler.families.gradient import Form, Operand
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.max_pool.matching.forward import forward_pool
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.scopes import Node
from poolgrad_lowering.verification.graph.input_roles import InputRoles


def match(facts: Facts, node: Node) -> MaxPoolGradient:
    """acme's dx = PoolBackward(dy, indices), with the Indices of a MaxPool as they are."""
    grad, recorded, dx = node.input(0), node.input(1), node.output(0)
    if grad is None or recorded is None or dx is None:
        raise Refuse(Code.ARITY, "PoolBackward '{}' lacks an input", node.label)
    found = indices(facts, recorded)
    forward = forward_pool(facts, found.pool)
    return MaxPoolGradient(
        x=Operand(forward.x),
        grad=Operand(grad),
        argmax=Operand(found.argmax),
        dx=Operand(dx),
        numbering=found.argmax_numbering,
        element_type=forward.element_type,
        windows=forward.attributes,
        x_shape=forward.x_shape,
        pooled_shape=forward.pooled_shape,
    )


FORM = Form("acme_max_pool_grad", (("com.acme", "PoolBackward"),), "acme's gradient of a max pool", match)

INPUT_ROLES = {("com.acme", "PoolBackward"): InputRoles("dy indices")}
"""What `verify` has to know of the operator beside its definition: what its inputs are."""

ENTRY_POINTS = """
[poolgrad_lowering.patterns]
acme_max_pool_grad = own_form:FORM

[poolgrad_lowering.roles]
acme_max_pool_grad = own_form:INPUT_ROLES
"""

MODEL = """
<ir_version: 8, opset_import: ["": 18, "com.acme": 1]>
training (float[2,3,8,8] x, float[2,3,4,4] dy) => (float[2,3,8,8] dx) {
    y, recorded = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
    [gradient] dx = com.acme.PoolBackward (dy, recorded)
}
"""


def main() -> None:
    """Lower a model in this form, with the entry point as an installed package has it."""
    with tempfile.TemporaryDirectory() as folder:
        installed = Path(folder, "acme-1.0.dist-info")
        installed.mkdir()
        (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n", encoding="utf-8")
        (installed / "entry_points.txt").write_text(ENTRY_POINTS, encoding="utf-8")
        sys.path[:0] = [folder, str(Path(__file__).parent)]
        for anchor in lower(onnx.parser.parse_model(MODEL)).report.anchors:
            print(f"{anchor.name}: {anchor.status} by {anchor.pattern}: {anchor.op or anchor.reason}")


if __name__ == "__main__":
    main()
