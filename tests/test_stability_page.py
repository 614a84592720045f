# SPDX-License-Identifier: Apache-2.0

"""docs/stability.md lists the public names, and those are what the modules export."""

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
PAGE = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")
MODULES = {
    module: re.findall(r"`(\w+)`", names)
    for module, names in re.findall(r"^\| `(poolgrad_lowering[\w.]*)` \| (.*) \|$", PAGE, re.MULTILINE)
}


def test_the_page_has_every_public_module() -> None:
    assert list(MODULES) == ["poolgrad_lowering", "poolgrad_lowering.runtime", "poolgrad_lowering.runtime.training"]


@pytest.mark.parametrize("module", MODULES)
def test_the_names_are_those_that_the_module_exports(module: str) -> None:
    exported = importlib.import_module(module)
    assert sorted(exported.__all__) == sorted(MODULES[module])
    assert all(hasattr(exported, name) for name in MODULES[module])


def test_the_reference_has_every_public_name() -> None:
    reference = api_reference.reference()
    for module, names in MODULES.items():
        section = reference.split(f"## {module}\n")[1].split("\n## ")[0]
        assert set(re.findall(r"^####? (\w+)$", section, re.MULTILINE)) == {n for n in names if not n.startswith("__")}


@pytest.mark.parametrize(
    ("home", "name"),
    [
        ("families.gradient", "Pattern"),
        ("families.gradient", "Operand"),
        ("families.gradient", "View"),
        ("families.max_pool.gradient", "MaxPoolGradient"),
        ("diagnostics.codes", "Code"),
        ("diagnostics.codes", "Refuse"),
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
