# SPDX-License-Identifier: Apache-2.0

"""Which inputs of a pool or gradient have which role, also of nodes that lack them, and that every form has a row."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import onnx
import pytest

from poolgrad_lowering import lower, patterns, verify
from poolgrad_lowering.dialect import DOMAIN, OPS
from poolgrad_lowering.patterns import all_forms
from poolgrad_lowering.verification.graph import input_roles
from poolgrad_lowering.verification.graph.flat import main_unit
from poolgrad_lowering.verification.graph.input_roles import INPUT_ROLES, TENSORFLOW_DOMAIN
from poolgrad_lowering.verification.graph.roles import incoming_gradient, pooled, same_shape, without_row
from tests.pool_graphs import parse

IMPORTS = '"org.pytorch.aten": 1, "npu": 1'


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("org.pytorch.aten.max_pool2d_with_indices_backward(G, X, K, K, K, K, K, I)", ("G", None, "I")),
        ("org.pytorch.aten.avg_pool2d_backward(G, X)", ("G", "X", None)),
        ("npu.MaxPool3DGradWithArgmax(X, G, I)", ("G", "X", "I")),
        ("org.pytorch.aten.max_pool2d_with_indices_backward()", (None, None, None)),
        ("npu.MaxPoolBackward()", (None, None, None)),
        ("npu.MaxPool3DGradWithArgmax()", (None, None, None)),
    ],
)
def test_roles(node: str, expected: tuple[str | None, ...]) -> None:
    model = parse(
        f"g (float[1,1,4] X, float[1,1,2] G, int64[1] K, int64[1,1,2] I) => (Y) {{ Y = {node} }}", imports=IMPORTS
    )
    [found] = main_unit(model).nodes
    assert (incoming_gradient(found), pooled(found), same_shape(found)) == expected


ANCHORS = sorted({anchor for pattern in all_forms() for anchor in pattern.anchors})


@pytest.mark.parametrize("op", [*ANCHORS, *((DOMAIN, name) for name in OPS)])
def test_every_anchor_and_every_operator_of_the_dialect_has_a_row(op: tuple[str, str]) -> None:
    """TensorFlow's operators have the same row in the default domain."""
    assert op in INPUT_ROLES or (op[0] == "" and (TENSORFLOW_DOMAIN, op[1]) in INPUT_ROLES)


@pytest.mark.parametrize("example", sorted(Path("docs/examples").glob("*.onnxtxt")), ids=lambda path: path.stem)
def test_every_operator_of_a_form_has_a_row(example: Path) -> None:
    model = onnx.parser.parse_model(example.read_text(encoding="utf-8"))
    assert without_row(main_unit(model).nodes) is None


# -- an operator of another package, of which the model has the definition: it overwrites

ACME = """
import sys
sys.path.append("examples")
from own_form import FORM
from poolgrad_lowering.verification.graph.input_roles import InputRoles

INPUT_ROLES = {("com.acme", "PoolBackward"): InputRoles("dy indices", overwrites=True)}
EXCHANGED = {("com.acme", "PoolBackward"): InputRoles("indices dy", overwrites=True)}
ADDS = {("com.acme", "PoolBackward"): InputRoles("dy indices")}
OF_ONNX = {("", "Softsign"): InputRoles("dy")}
NO_ROWS = 3
"""
OVERWRITING = """<ir_version: 8, opset_import: ["": 18, "com.acme": 1]>
training (float[2,3,8,8] x, float[2,3,4,4] dy) => (float[2,3,8,8] dx) {
    y, recorded = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
    dx = com.acme.PoolBackward (dy, recorded)
}
<domain: "com.acme", opset_import: ["": 18]>
PoolBackward (dy, recorded) => (dx) {
    dx = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (dy, recorded)
}"""
MISSING = "verification does not know what the inputs of com.acme.PoolBackward are: declare them by an "


@pytest.fixture
def proven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str | None], tuple[str, str]]]:
    """Returns the status and the reason of the site, with acme's form installed, and its roles if they are named."""
    (tmp_path / "acme_roles.py").write_text(ACME, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    def prove(declared: str | None, text: str = OVERWRITING) -> tuple[str, str]:
        info = tmp_path / "acme-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n", encoding="utf-8")
        roles = f"[{input_roles.GROUP}]\nacme = acme_roles:{declared}\n" if declared else ""
        entries = f"[poolgrad_lowering.patterns]\nacme = acme_roles:FORM\n{roles}"
        (info / "entry_points.txt").write_text(entries, encoding="utf-8")
        patterns._plugins.cache_clear()
        input_roles._declared.cache_clear()
        model = onnx.parser.parse_model(text)
        lowered = lower(model, forward=False)
        [site] = verify(model, lowered, whole_model=False).sites
        return site.status, site.reason or ""

    yield prove
    patterns._plugins.cache_clear()
    input_roles._declared.cache_clear()
    for name in ("acme_roles", "own_form"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("declared", [None, "NO_ROWS", "OF_ONNX", "NOTHING"])
def test_an_operator_without_a_row_is_said_to_have_none(
    proven: Callable[[str | None], tuple[str, str]], declared: str | None
) -> None:
    status, reason = proven(declared)
    assert status == "unproven"
    assert reason.startswith(f"the two sides gave different results, and {MISSING}")


def test_an_operator_that_nothing_computes_is_said_to_have_no_row(
    proven: Callable[..., tuple[str, str]],
) -> None:
    status, reason = proven(None, OVERWRITING.partition("<domain")[0])
    assert status == "unproven"
    assert f"; {MISSING}" in reason


def test_a_declared_row_makes_a_proof_possible(proven: Callable[[str | None], tuple[str, str]]) -> None:
    assert proven("INPUT_ROLES") == ("proven", "")


@pytest.mark.parametrize("declared", ["ADDS", "EXCHANGED"])
def test_a_wrong_row_makes_no_proof(proven: Callable[[str | None], tuple[str, str]], declared: str) -> None:
    assert proven(declared)[0] != "proven"
