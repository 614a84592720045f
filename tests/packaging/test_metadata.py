# SPDX-License-Identifier: Apache-2.0

"""The metadata of the package: what a registry shows about it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tools import registry_page

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ADDRESS = "https://example.org/someone/poolgrad-lowering"
LINK = re.compile(r"!?\[[^\]]*\]\(([^)#]+)[^)]*\)")


@pytest.fixture(scope="module")
def project() -> Any:
    tomllib = pytest.importorskip("tomllib")  # Python 3.11
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_every_link_of_the_readme_becomes_absolute() -> None:
    page = registry_page.with_absolute_links(README, f"{ADDRESS}/", "1.2.3")
    targets = LINK.findall(page)
    assert len(targets) == len(LINK.findall(README)) > 30
    assert "![Before" in page
    for target in targets:
        kind = "raw" if target.endswith(".svg") else "blob"
        prefix = f"{ADDRESS}/{kind}/v1.2.3/"
        assert target.startswith(prefix)
        assert (ROOT / target.removeprefix(prefix)).is_file()
    assert f"({ADDRESS}/blob/v1.2.3/docs/convert.md#external-data)" in page
    assert "](#" in README
    assert re.findall(r"\]\(#.*?\)", page) == re.findall(r"\]\(#.*?\)", README)


def test_without_an_address_nothing_changes() -> None:
    assert registry_page.with_absolute_links(README, None, "1.2.3") == README


def test_the_address_is_that_of_the_project() -> None:
    text = f'[project]\nversion = "1.2.3"\n[project.urls]\nRepository = "{ADDRESS}"\n'
    assert registry_page.address(text) == (ADDRESS, "1.2.3")


def test_the_hook_reads_this_project(project: Any) -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert registry_page.address(text) == (project.get("urls", {}).get("Repository"), project["version"])
    found = registry_page.dynamic_metadata("readme")
    assert found["content-type"] == "text/markdown"
    assert found["text"].startswith("# poolgrad-lowering\n")
    with pytest.raises(ValueError, match="not urls"):
        registry_page.dynamic_metadata("urls")


def test_the_classifiers_name_the_pythons_that_are_tested(project: Any) -> None:
    [tested] = re.findall(r'"PYTHONS": "(.*)"', (ROOT / "noxfile.py").read_text(encoding="utf-8"))
    named = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    assert named == tested.split()
    assert project["requires-python"] == f">={named[0]}"


def test_wheels_with_libraries_do_not_claim_every_system(project: Any) -> None:
    systems = [name for name in project["classifiers"] if name.startswith("Operating System")]
    assert systems == ["Operating System :: POSIX :: Linux"]


def test_people_find_and_can_attribute_it(project: Any) -> None:
    assert project["authors"]
    assert {"onnx", "ascend", "onnxruntime"} <= set(project["keywords"])
