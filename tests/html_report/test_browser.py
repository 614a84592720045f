# SPDX-License-Identifier: Apache-2.0

"""The page in Chromium: filters, links, keyboard, contrast and pictures."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.html_report.contrast import TEXT, contrast, luminance
from tests.html_report.page_models import BUILT, HOSTILE, MIXED, renamed
from tests.html_report.pages import page as page_of
from tests.pool_graphs import parse

sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright: `make test-browser`")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium: `make test-browser`")

LENET, MANY, WILD = "lenet.html", "many.html", "wild.html"


WILD_NAMES = {"view_6": HOSTILE[1], "relu_1": HOSTILE[7], "scatter_add": "W" * 500}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three pages: of a network, of every kind of candidate, and of unusual names."""
    folder = tmp_path_factory.mktemp("pages")
    lenet = onnx.load(BUILT / "torch" / "lenet.onnx")
    for name, model in ((LENET, lenet), (MANY, parse(MIXED)), (WILD, renamed(lenet, WILD_NAMES))):
        (folder / name).write_bytes(page_of(model, name.replace("html", "onnx")))
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class View:
    """A page in a window. It must not log to the console or request anything."""

    def __init__(
        self, browser: Any, path: Path, *, width: int = 1200, scheme: str = "light", script: bool = True
    ) -> None:
        self._context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=script
        )
        self.page = self._context.new_page()
        self.said: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.said.append(request.url))
        self.page.goto(path.as_uri())
        assert self.said == [path.as_uri()]
        self.said.clear()

    def __enter__(self) -> Any:
        return self.page

    def __exit__(self, *_: object) -> None:
        self._context.close()
        assert self.said == []


def visible(page: Any) -> list[str]:
    """The names of the visible candidates."""
    return [row.inner_text() for row in page.locator(".anchor:visible > summary .name").all()]


def test_filters(browser: Any, folder: Path) -> None:
    with View(browser, folder / MANY) as page:
        assert visible(page) == ["good", "bad", "inner", "E"]
        page.get_by_role("combobox", name="Status").select_option("refused")
        assert visible(page) == ["bad", "inner", "E"]
        page.get_by_role("combobox", name="Code").select_option("indices-source")
        assert visible(page) == ["bad", "inner"]
        page.get_by_role("searchbox", name="Search").fill("THEN_branch")
        assert visible(page) == ["inner"]
        assert page.locator("output").inner_text() == "1 of 4"
        page.get_by_role("searchbox", name="Search").fill("nothing has this name")
        assert visible(page) == []


def test_open_and_copy(browser: Any, folder: Path) -> None:
    with View(browser, folder / MANY) as page:
        anchor = page.locator("#anchor-1")
        assert not anchor.locator(".place").is_visible()
        anchor.locator("summary").first.click()
        assert anchor.locator(".place").is_visible()
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        anchor.get_by_role("button", name="Copy good", exact=True).click()
        anchor.get_by_role("button", name="copied").or_(anchor.get_by_text("copied")).wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == "good"
        page.get_by_role("button", name="Open all").click()
        assert page.locator(".anchor[open]").count() == 4
        page.get_by_role("button", name="Close all").click()
        assert page.locator(".anchor[open]").count() == 0


def test_links(browser: Any, folder: Path) -> None:
    """A link to a candidate opens its section, and a link to a code leads to its row."""
    with View(browser, folder / MANY) as page:
        page.goto(f"{page.url}#anchor-2")
        anchor = page.locator("#anchor-2")
        assert anchor.get_attribute("open") is not None
        anchor.get_by_role("link", name="indices-source").click()
        assert page.url.endswith("#code-indices-source")
        assert page.locator("#code-indices-source").is_visible()


def test_by_keyboard(browser: Any, folder: Path) -> None:
    """The first focus is the link to the candidates; Enter opens a section; drawings can be focused and scrolled."""
    with View(browser, folder / LENET) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the candidates"
        page.locator("#anchor-2 > summary").focus()
        page.keyboard.press("Enter")
        assert page.locator("#anchor-2").get_attribute("open") is not None
        frames = page.locator("#anchor-2 figure .scroll")
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


@pytest.mark.parametrize("width", [400, 1200])
@pytest.mark.parametrize("name", [LENET, WILD])
def test_nothing_is_wider_than_the_window(browser: Any, folder: Path, name: str, width: int) -> None:
    with View(browser, folder / name, width=width) as page:
        page.get_by_role("button", name="Open all").click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("name", [LENET, WILD])
def test_labels_are_inside_their_boxes(browser: Any, folder: Path, name: str) -> None:
    with View(browser, folder / name) as page:
        page.get_by_role("button", name="Open all").click()
        outside = page.evaluate(
            """() => [...document.querySelectorAll("svg .box")].flatMap((box) => {
                const frame = box.querySelector("rect").getBBox();
                return [...box.querySelectorAll("text")].filter((text) => {
                    const inner = text.getBBox();
                    return inner.x < frame.x + 2 || inner.x + inner.width > frame.x + frame.width - 2
                        || inner.y < frame.y || inner.y + inner.height > frame.y + frame.height;
                }).map((text) => text.textContent);
            })"""
        )
        assert page.locator("svg .box").count() > 20
        assert outside == []


def channels(colour: str) -> list[int]:
    """Red, green and blue of a computed CSS colour."""
    return [int(part) for part in re.findall(r"\d+", colour)[:3]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(browser: Any, folder: Path, scheme: str) -> None:
    """Every text has a contrast of at least 4.5 : 1 to its background, as WCAG requires (AA)."""
    with View(browser, folder / LENET, scheme=scheme) as page:
        page.get_by_role("button", name="Open all").click()
        found = page.evaluate(
            """() => [...document.querySelectorAll("body *")].filter((element) =>
                [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim())
                && element.checkVisibility() && !element.closest("title, script, option")
            ).map((element) => {
                const style = getComputedStyle(element);
                const box = element.closest("svg .box");
                if (box) return [element.textContent, style.fill, getComputedStyle(box.querySelector("rect")).fill];
                let behind = element;
                while (getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
                return [element.textContent, style.color, getComputedStyle(behind).backgroundColor];
            })"""
        )
        assert len(found) > 100
        for text, colour, behind in found:
            assert contrast(channels(colour), channels(behind)) >= TEXT, (text, colour, behind)


def test_pictures_of_both_schemes(browser: Any, folder: Path) -> None:
    """Pictures of the page are not blank, and differ between the light and dark schemes."""
    pictures = []
    for scheme in ("light", "dark"):
        with View(browser, folder / LENET, scheme=scheme) as page:
            background = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert luminance(channels(background)) > 0.9 or scheme == "dark"
            pictures.append(page.screenshot())
    assert all(len(picture) > 20_000 for picture in pictures)
    assert all(first != second for first, second in pairwise(pictures))
