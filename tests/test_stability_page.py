# SPDX-License-Identifier: Apache-2.0

"""docs/security.md says what is stable: the names that the reference has, where forms find theirs, and versions."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import onnx
import pytest

import poolgrad_lowering
from docs import api_reference
from poolgrad_lowering.dialect import VERSION
from poolgrad_lowering.runtime.self_test.result import SCHEMA_VERSION

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8").partition("## What is stable")[2]
PUBLIC = ("poolgrad_lowering", "poolgrad_lowering.runtime", "poolgrad_lowering.runtime.training")


@pytest.mark.parametrize("module", PUBLIC)
def test_the_reference_has_every_public_name(module: str) -> None:
    assert f"`{module}`" in PAGE
    exported = importlib.import_module(module).__all__
    section = api_reference.reference().split(f"## {module}\n")[1].split("\n## ")[0]
    assert set(re.findall(r"^####? (\w+)$", section, re.MULTILINE)) == {n for n in exported if not n.startswith("__")}


@pytest.mark.parametrize(
    ("home", "name"),
    [
        ("compiler.families.gradient", "Form"),
        ("compiler.families.gradient", "Operand"),
        ("compiler.families.gradient", "View"),
        ("compiler.families.max_pool.gradient", "MaxPoolGradient"),
        ("model.diagnostics.codes", "Code"),
        ("model.diagnostics.codes", "Refuse"),
    ],
)
def test_what_forms_are_made_of_is_where_the_page_says(home: str, name: str) -> None:
    [sentence] = re.findall(r"^The entry point group.*?\.$", PAGE, re.MULTILINE | re.DOTALL)
    assert f"`{name}`" in sentence
    assert f"`poolgrad_lowering.{home}`" in sentence
    assert hasattr(importlib.import_module(f"poolgrad_lowering.{home}"), name)


def test_versions() -> None:
    model = onnx.load(ROOT / "models" / "built" / "torch" / "lenet.onnx")
    report = json.loads(poolgrad_lowering.inspect(model).to_json())
    assert f"`schema_version`, {report['schema_version']} |" in PAGE
    assert report["schema_version"] == SCHEMA_VERSION
    assert f"| domain `npu` | {VERSION} |" in PAGE


def test_the_changelog_has_the_version() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## ([\d.]+)", changes, re.MULTILINE)[0] == poolgrad_lowering.__version__
