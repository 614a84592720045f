# SPDX-License-Identifier: Apache-2.0

"""The pages of docs/ say what the code does: they are what the code's tables make, and name every field."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import onnx
import pytest

from docs import generate
from poolgrad_lowering import inspect
from tests.torch_npu.cases import count_average_cases, count_cases

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
REPORT_PAGE = (DOCS / "report.md").read_text(encoding="utf-8")
GENERATED = sorted(path.stem for path in (DOCS / "templates").iterdir())
LINKED = re.compile(r"\((docs/[\w/]+\.md)\)|`(docs/\w+\.md)`")


def test_every_template_has_its_page() -> None:
    assert sorted(generate.PAGES) == GENERATED


@pytest.mark.parametrize("name", GENERATED)
def test_generated_page_is_up_to_date(name: str) -> None:
    committed = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert committed == generate.page(name), f"docs/{name}.md is not what the code's tables make: run `make docs`"


def test_page_on_hardware_counts_the_cases_of_torch_npu() -> None:
    page = (DOCS / "hardware.md").read_text(encoding="utf-8")
    assert f"{count_cases():,} cases" in page
    assert f"{count_average_cases():,} cases" in page


@pytest.mark.parametrize("name", generate.PICTURES)
def test_picture_is_up_to_date(name: str) -> None:
    committed = (DOCS / "images" / f"{name}.svg").read_text(encoding="utf-8")
    assert committed == generate.PICTURES[name](), f"docs/images/{name}.svg is not what the code draws: run `make docs`"
    assert ET.fromstring(committed).tag == "{http://www.w3.org/2000/svg}svg"


def test_pages_name_only_pages_that_exist() -> None:
    for path in [ROOT / "README.md", *DOCS.glob("*.md")]:
        for linked, quoted in LINKED.findall(path.read_text(encoding="utf-8")):
            assert (ROOT / (linked or quoted)).exists(), f"{path.name} names {linked or quoted}"


def test_report_page_names_every_field() -> None:
    report: dict[str, Any] = inspect(onnx.load(ROOT / "models" / "built" / "torch" / "lenet.onnx")).to_dict()
    for heading, fields in {
        "Reports and plans": report,
        "An anchor": report["anchors"][0],
        "The summary": report["summary"],
    }.items():
        [section] = re.findall(rf"^#+ {heading}\n(.*?)(?=^#|\Z)", REPORT_PAGE, re.MULTILINE | re.DOTALL)
        rows = re.findall(r"^\| (`.*?`) \|", section, re.MULTILINE)
        assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(fields)
