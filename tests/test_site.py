# SPDX-License-Identifier: Apache-2.0

"""The site's navigation has every page, and the generated ones tell their readers what to edit."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
FROM_THE_ROOT = {"index.md": "README.md", "changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}


def test_every_page_is_in_the_navigation_once() -> None:
    listed = re.findall(r"^ +- [^:\n]+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted([*FROM_THE_ROOT, *(page.name for page in (ROOT / "docs").glob("*.md"))])


def test_pages_of_the_root_are_there() -> None:
    assert all((ROOT / page).stat().st_size > 0 for page in FROM_THE_ROOT.values())


def test_links_lead_to_pages_and_headings() -> None:
    for page in (ROOT / "docs").glob("*.md"):
        for linked, anchor in re.findall(r"\]\(([\w-]+\.md)?(?:#([\w-]+))?\)", page.read_text(encoding="utf-8")):
            target = page.parent / linked if linked else page
            assert target.exists(), f"{page.name} links {linked}"
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert not anchor or anchor in map(slug, headings), f"{page.name} links {linked}#{anchor}"


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and the site make it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
