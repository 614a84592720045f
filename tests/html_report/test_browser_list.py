# SPDX-License-Identifier: Apache-2.0

"""The list of 500 anchors in Chromium: its pages, and what is built when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from poolgrad_lowering.report.html.page import PAGE_SIZE
from tests.html_report.view import LARGE, SITES, View, needs_chromium

pytestmark = needs_chromium


def shown(page: Any) -> list[str]:
    """The names of the first and the last visible anchor, and the number of all visible ones."""
    names = page.locator(".anchor:visible > summary .name").all_inner_texts()
    return [names[0], names[-1], str(len(names))]


def elements(page: Any) -> int:
    return int(page.evaluate("document.getElementsByTagName('*').length"))


def unbuilt(page: Any) -> int:
    """The number of anchors whose details are text."""
    return int(page.locator(".anchor noscript").count())


def test_details_are_built_when_they_are_opened(browser: Any, folder: Path) -> None:
    """All that makes "Open all" fast: few elements before, the details of one page after, a page of bounded height."""
    with View(browser, folder / LARGE) as page:
        assert unbuilt(page) == SITES - 1  # the first one is open from the beginning
        before = elements(page)
        assert before < 40 * SITES
        page.locator("#anchor-7 > summary").click()
        page.locator("#anchor-7 svg").first.wait_for()
        assert unbuilt(page) == SITES - 2
        assert elements(page) < before + 300
        page.get_by_role("button", name="Open all").click()
        assert page.locator(".anchor[open]").count() == PAGE_SIZE
        assert unbuilt(page) == SITES - PAGE_SIZE
        assert elements(page) < before + 300 * PAGE_SIZE
        assert page.evaluate("document.documentElement.scrollHeight") < 2000 * PAGE_SIZE
        page.get_by_role("button", name="Next").first.click()
        assert page.locator(".anchor[open]:visible").count() == 0
        page.get_by_role("button", name="Close all").click()
        assert page.locator(".anchor[open]").count() == 0


def test_pages(browser: Any, folder: Path) -> None:
    with View(browser, folder / LARGE) as page:
        above, below = page.locator("nav.pager").all()
        count = page.locator("output")
        assert shown(page) == ["main:D0", "main:D49", "50"]
        assert count.inner_text() == "500 of 500, 1–50 shown"
        below.get_by_role("button", name="Next").click()
        assert shown(page) == ["main:D50", "main:D99", "50"]
        assert above.get_by_role("button", name="Next").evaluate("button => button === document.activeElement")
        page.keyboard.press("Enter")
        assert shown(page) == ["main:D100", "main:D149", "50"]
        above.get_by_role("combobox").select_option("451–500")
        assert shown(page) == ["main:D450", "main:D499", "50"]
        assert count.inner_text() == "500 of 500, 451–500 shown"
        assert above.get_by_role("button", name="Next").get_attribute("aria-disabled") == "true"
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert shown(page) == ["main:D450", "main:D499", "50"]
        above.get_by_role("button", name="Previous").click()
        assert shown(page) == ["main:D400", "main:D449", "50"]


def test_a_search_finds_on_every_page(browser: Any, folder: Path) -> None:
    with View(browser, folder / LARGE) as page:
        page.get_by_role("button", name="Next").first.click()
        page.get_by_role("searchbox", name="Search").fill("grad_4")
        assert shown(page) == ["main:D4", "main:D438", "50"]
        assert page.locator("output").inner_text() == "111 of 500, 1–50 shown"
        page.get_by_role("searchbox", name="Search").fill("I437")
        assert shown(page) == ["main:D437", "main:D437", "1"]
        assert not page.locator("nav.pager").first.is_visible()


@pytest.mark.parametrize("searched", ["", "grad_12"])
def test_a_link_leads_to_its_page(browser: Any, folder: Path, searched: str) -> None:
    """A link shows the page of its anchor and opens it, even if a filter hid it."""
    with View(browser, folder / LARGE) as page:
        page.get_by_role("searchbox", name="Search").fill(searched)
        page.goto(f"{page.url}#anchor-437")
        anchor = page.locator("#anchor-437")
        anchor.locator("svg, table").first.wait_for()
        assert shown(page) == ["main:D400", "main:D449", "50"]
        assert 0 <= anchor.bounding_box()["y"] < 100


def test_a_link_from_outside(browser: Any, folder: Path) -> None:
    with View(browser, folder / LARGE, fragment="#anchor-437") as page:
        assert shown(page) == ["main:D400", "main:D449", "50"]
        assert page.locator("#anchor-437").get_attribute("open") is not None
        assert 0 <= page.locator("#anchor-437").bounding_box()["y"] < 100


def test_print_has_what_matches_of_all_pages(browser: Any, folder: Path) -> None:
    with View(browser, folder / LARGE) as page:
        page.get_by_role("searchbox", name="Search").fill("grad_4")
        page.evaluate("addEventListener('beforeprint', () => (window.printed = document.body.cloneNode(true)))")
        assert page.pdf()[:4] == b"%PDF"
        assert page.evaluate("printed.querySelectorAll('details.anchor:not([hidden])').length") == 111
        assert page.evaluate("printed.querySelectorAll('details.anchor:not([hidden]) noscript').length") == 0
        assert unbuilt(page) == SITES - 112  # the first one is open from the beginning
        assert shown(page) == ["main:D4", "main:D438", "50"]


def test_without_script_the_list_is_whole(browser: Any, folder: Path) -> None:
    with View(browser, folder / LARGE, script=False) as page:
        assert shown(page) == ["main:D0", "main:D499", str(SITES)]
        assert not page.locator("nav.pager").first.is_visible()
        page.locator("#anchor-437 > summary").click()
        assert page.locator("#anchor-437 table").first.is_visible()
