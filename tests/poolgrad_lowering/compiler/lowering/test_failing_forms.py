# SPDX-License-Identifier: Apache-2.0

"""An error in a form of this package refuses one anchor, is logged with its traceback, and has its exit code."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import onnx
import pytest

from poolgrad_lowering import lower, patterns
from poolgrad_lowering.compiler.families.registry import Choices
from poolgrad_lowering.compiler.lowering import match
from poolgrad_lowering.entry.cli import main
from poolgrad_lowering.entry.cli.exit_codes import ExitCode
from poolgrad_lowering.model.diagnostics.codes import Code, Refusal
from tests.pool_graphs import parse
from tests.texts import Says

MODEL = parse(
    """g (float[2,3,8,8] x, float[2,3,4,4] dy) => (float[2,3,8,8] dx, float[2,3,8,8] other) {
        y, i = MaxPool <kernel_shape = [2,2], strides = [2,2]> (x)
        dx = MaxPoolGrad (dy, i)
        other = AveragePoolGrad <kernel_shape = [2,2], strides = [2,2]> (dy)
    }"""
)


def _fails(*_: Any) -> None:
    raise ZeroDivisionError("division by zero")


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a form of this package fail on each anchor."""
    forms = tuple(
        form._replace(match=_fails) if form.name == "ort_max_pool_grad" else form for form in patterns.own_forms()
    )
    for name in ("all_forms", "own_forms"):
        monkeypatch.setattr(match, name, lambda: forms)


@pytest.mark.refusal(Code.FORM_FAILED.value)
@pytest.mark.usefixtures("failing")
def test_one_anchor_is_refused(caplog: pytest.LogCaptureFixture, says: Says) -> None:
    """All others are lowered, and the log has the traceback."""
    with caplog.at_level(logging.ERROR):
        report = lower(MODEL).report
    [refused] = report.refused
    assert (refused.site, refused.code) == ("main:dx", "form-failed")
    says(refused.reason)
    assert [anchor.site for anchor in report.lowered] == ["main:other"]
    assert report.defects == report.refused
    assert f"{refused.reason}\nTraceback (most recent call last):" in caplog.text
    assert ", in _fails\n" in caplog.text


@pytest.mark.refusal(Code.FORM_FAILED.value)
def test_so_does_an_error_behind_the_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Choices, "select", _fails)
    assert [anchor.code for anchor in lower(MODEL).report.anchors] == ["form-failed"] * 2


def test_an_error_is_not_hidden_by_the_refusal_of_another_form() -> None:
    codes = [code for code in Code if code not in (Code.FORM_FAILED, Code.PLUGIN_FAILED)]
    ranks = [Refusal(code, "", ()).rank for code in codes]
    assert Refusal(Code.FORM_FAILED, "", ()).rank < min(ranks)


COMMANDS = {
    "inspect": ["inspect", "model.onnx"],
    "lower": ["lower", "model.onnx", "-o", "out.onnx"],
    "a folder": ["lower", "models", "-o", "out"],
    "an export": ["export-atc", "model.onnx", "-o", "out.onnx", "--force"],
}


@pytest.mark.refusal(Code.FORM_FAILED.value)
@pytest.mark.usefixtures("failing")
@pytest.mark.parametrize("name", COMMANDS)
def test_the_exit_code(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("models").mkdir()
    onnx.save(MODEL, "model.onnx")
    onnx.save(MODEL, "models/model.onnx")
    code = main(COMMANDS[name])
    assert code == (ExitCode.FAILED if name == "an export" else ExitCode.DEFECT)  # GE has no MaxPoolGrad
    assert "a form failed on 1 anchor: this is a defect" in capsys.readouterr().err
