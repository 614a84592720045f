# SPDX-License-Identifier: Apache-2.0

"""The pages of docs/ say what the code does, and the site's navigation has every page."""

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


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "noxfile.py"])
def test_sources_that_are_named_exist(name: str) -> None:
    """Those of a new form are made: `NAME`."""
    named = re.findall(
        r"\b(?:docs|poolgrad_lowering|runtime|tests)/[\w/.-]+\.(?:cpp|h|md|py)\b", (ROOT / name).read_text()
    )
    assert named
    assert not [path for path in named if "NAME" not in path and not (ROOT / path).exists()]


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


MAX_PAGES = 28
MAX_WORDS = 78_000
"""Of all pages together but the changelog. More is a decision: first look for what another page says already."""
MAX_WORDS_BEFORE_VERIFY = 230
FROM_THE_ROOT = {"index.md": "README.md", "changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}


def test_every_page_is_in_the_navigation_once() -> None:
    listed = re.findall(r"^ +- [^:\n]+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted([*FROM_THE_ROOT, *(page.name for page in (ROOT / "docs").glob("*.md"))])


def test_pages_of_the_root_are_there() -> None:
    assert all((ROOT / page).stat().st_size > 0 for page in FROM_THE_ROOT.values())


def test_the_pages_stay_few_and_short() -> None:
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / name for name in FROM_THE_ROOT.values())]
    assert len(pages) <= MAX_PAGES
    words = {page.name: len(page.read_text(encoding="utf-8").split()) for page in pages if page.stem != "CHANGELOG"}
    assert sum(words.values()) <= MAX_WORDS, words


def test_the_first_screen_of_the_readme_runs_in_a_clone() -> None:
    """Of what it reads; `test_docs_blocks` runs it. It says what an anchor is where it first has the word."""
    text, _, verify = (ROOT / "README.md").read_text(encoding="utf-8").partition("poolgrad verify ")
    assert len(text.split()) <= MAX_WORDS_BEFORE_VERIFY
    commands = [*re.findall("^poolgrad .*$", text, re.MULTILINE), f"poolgrad verify {verify.splitlines()[0]}"]
    assert [line.split()[1] for line in commands] == ["inspect", "lower", "verify"]
    assert all((ROOT / line.split()[2]).exists() for line in commands)
    first = re.findall(r"\banchors?\b[^.]*", " ".join(text.split()))[0]
    assert "the nodes whose operators may compute the gradient of a pool" in first


def test_links_lead_to_pages_and_headings() -> None:
    link = re.compile(r"\]\(((?:docs/|\.\./)?[\w-]+\.md)?(?:#([\w-]+))?\)")
    for page in [*(ROOT / "docs").glob("*.md"), *(ROOT / name for name in FROM_THE_ROOT.values())]:
        for linked, anchor in link.findall(page.read_text(encoding="utf-8")):
            target = page.parent / linked if linked else page
            assert target.exists(), f"{page.name} links {linked}"
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert not anchor or anchor in map(slug, headings), f"{page.name} links {linked}#{anchor}"


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and the site make it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def test_the_home_page_has_the_drawings() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\(docs/images/(\w+)\.svg\)", page) == ["before_after", "flow"]


def test_code_in_tables_is_not_broken_inside_words() -> None:
    """Of the site and of the HTML report."""
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "extra_css: [site.css]" in config
    site = (ROOT / "docs" / "site.css").read_text(encoding="utf-8")
    report = (ROOT / "poolgrad_lowering" / "report" / "html" / "style.css").read_text(encoding="utf-8")
    rules = re.findall(r"^ *([^{}\n]*(?:table|td)[^{}\n]*code[^{}\n]*) \{([^}]*)\}", site + report, re.MULTILINE)
    assert len(rules) >= 4
    assert not [selector for selector, body in rules if "anywhere" in body or "break-all" in body]
