# SPDX-License-Identifier: Apache-2.0

"""What the page does in Chromium: filters, links, keyboard, print."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.html_report.view import LENET, MANY, View, needs_chromium

pytestmark = needs_chromium


def visible(page: Any) -> list[str]:
    """The names of the visible anchors."""
    return [row.inner_text() for row in page.locator(".anchor:visible > summary .name").all()]


def test_filters(browser: Any, folder: Path) -> None:
    with View(browser, folder / MANY) as page:
        assert visible(page) == ["main:A", "main:B", "main/choose.then_branch:T", "main/choose.else_branch:E"]
        page.get_by_role("combobox", name="Status").select_option("refused")
        assert visible(page) == ["main:B", "main/choose.then_branch:T", "main/choose.else_branch:E"]
        page.get_by_role("combobox", name="Code").select_option("indices-source")
        assert visible(page) == ["main:B", "main/choose.then_branch:T"]
        page.get_by_role("searchbox", name="Search").fill("THEN_branch")
        assert visible(page) == ["main/choose.then_branch:T"]
        assert page.locator("output").inner_text() == "1 of 4"
        page.get_by_role("searchbox", name="Search").fill("nothing has this name")
        assert visible(page) == []


def test_open_and_copy(browser: Any, folder: Path) -> None:
    with View(browser, folder / MANY) as page:
        other = page.locator("#anchor-2")
        assert not other.locator(".place").is_visible()
        other.locator("summary").first.click()
        assert other.locator(".place").is_visible()
        anchor = page.locator("#anchor-1")  # a lowered one, which is open from the beginning
        assert anchor.locator(".place").is_visible()
        assert anchor.locator("svg").first.is_visible()
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        anchor.get_by_role("button", name="Copy good", exact=True).click()
        anchor.get_by_role("button", name="copied").or_(anchor.get_by_text("copied")).wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == "good"
        page.get_by_role("button", name="Open all").click()
        assert page.locator(".anchor[open]").count() == 4
        page.get_by_role("button", name="Close all").click()
        assert page.locator(".anchor[open]").count() == 0


def test_links(browser: Any, folder: Path) -> None:
    """A link to an anchor opens its section, and a link to a code leads to its row."""
    with View(browser, folder / MANY) as page:
        page.goto(f"{page.url}#anchor-2")
        anchor = page.locator("#anchor-2")
        assert anchor.get_attribute("open") is not None
        anchor.get_by_role("link", name="indices-source").click()
        assert page.url.endswith("#code-indices-source")
        assert page.locator("#code-indices-source").is_visible()


def test_by_keyboard(browser: Any, folder: Path) -> None:
    """The first focus is the link to the anchors; Enter opens a section; drawings can be focused and scrolled."""
    with View(browser, folder / LENET) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the anchors"
        page.locator("#anchor-2 > summary").focus()
        page.keyboard.press("Enter")
        assert page.locator("#anchor-2").get_attribute("open") is not None
        frames = page.locator("#anchor-2 figure .scroll")
        frames.last.wait_for()
        assert [frame.get_attribute("tabindex") for frame in frames.all()] == ["0", "0"]


def test_without_script(browser: Any, folder: Path) -> None:
    with View(browser, folder / LENET, script=False) as page:
        assert not page.locator("#filter").is_visible()
        page.locator("#anchor-2 > summary").click()
        assert page.locator("#anchor-2 svg").first.is_visible()
        assert page.locator("#anchor-2 button").count() == 0


def test_in_print_everything_is_open(browser: Any, folder: Path) -> None:
    with View(browser, folder / LENET, script=False) as page:
        page.emulate_media(media="print")
        assert page.locator("#anchor-2 svg").first.is_visible()
        assert page.pdf()[:4] == b"%PDF"
