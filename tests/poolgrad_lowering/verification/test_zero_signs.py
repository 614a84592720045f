# SPDX-License-Identifier: Apache-2.0

"""Whole models that differ by the -0.0 of a scatter that overwrites, which the data of its site leaves out."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import ModelProto, helper
from onnx.parser import parse_model

from poolgrad_lowering import lower, verify
from poolgrad_lowering.entry.cli import main
from poolgrad_lowering.verification.running.whole import compare_whole
from tests.heads import head
from tests.patterns.lookalikes.scatter import gradient
from tests.patterns.test_overwrite_scatter import PLAIN, ROW_SHAPE, TILES


def negative_zeros() -> ModelProto:
    """A pool gradient that overwrites, of an incoming gradient of +0.0 and -0.0."""
    steps = {**TILES, "scatter": PLAIN, "updates": "m = Mul (dy, zero)\nu = Reshape (m, row_shape)"}
    return parse_model(gradient(constants=ROW_SHAPE, **steps))


def test_they_are_spared_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = negative_zeros()
    lowered = lower(model, target="atlas-a2").model
    found = verify(model, lowered)
    assert [site.status for site in found.sites] == ["proven"]
    assert found.proven
    assert found.whole_model.status == "skipped"
    assert found.whole_model.reason is not None
    assert "output 'dx': " in found.whole_model.reason
    assert "only in the sign of zeros: a scatter that overwrites keeps the sign" in found.whole_model.reason
    paths = [tmp_path / "model.onnx", tmp_path / "lowered.onnx"]
    for path, saved in zip(paths, (model, lowered), strict=True):
        onnx.save(saved, path)
    assert main(["verify", *map(str, paths)]) == 0
    assert "only in the sign of zeros" in " ".join(capsys.readouterr().out.split())


def test_other_differences_are_not_spared() -> None:
    model = negative_zeros()
    changed = lower(model, target="atlas-a2").model
    _scale(changed)
    assert compare_whole(model, changed, 0, spares_zero_signs=True).status == "differs"


def test_they_are_differences_where_no_site_spares_them() -> None:
    """As of a scatter that adds: the sign of its zeros is that of the lowered node."""
    model = parse_model(head(18) + " g (float[4] x) => (float[4] z) { z = Neg (x) }")
    changed = parse_model(head(18) + " g (float[4] x) => (float[4] z) { z = Abs (x) }")
    for each in (model, changed):
        each.graph.node[0].input[0] = "zeros"
        each.graph.node.insert(0, helper.make_node("Sub", ["x", "x"], ["zeros"]))
    assert compare_whole(model, changed, 0).status == "differs"
    assert compare_whole(model, changed, 0, spares_zero_signs=True).status == "skipped"


def _scale(model: ModelProto) -> None:
    """Double the pool's result, an output."""
    node = next(node for node in model.graph.node if "y" in node.output)
    node.output[list(node.output).index("y")] = "half"
    model.graph.node.insert(len(model.graph.node), helper.make_node("Add", ["half", "half"], ["y"]))
