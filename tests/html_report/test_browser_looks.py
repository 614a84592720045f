# SPDX-License-Identifier: Apache-2.0

"""How the pages look in Chromium: widths, frames that scroll, labels of drawings, contrast, pictures."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.html_report.contrast import CONTROL, TEXT, contrast, luminance
from tests.html_report.view import INDEX, LARGE, LENET, MANY, WILD, View, needs_chromium

pytestmark = needs_chromium


@pytest.mark.parametrize("width", [400, 1200])
@pytest.mark.parametrize("name", [LENET, WILD, INDEX])
def test_nothing_is_wider_than_the_window(browser: Any, folder: Path, name: str, width: int) -> None:
    with View(browser, folder / name, width=width) as page:
        if name != INDEX:
            page.get_by_role("button", name="Open all").click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("name", [LENET, MANY, WILD, INDEX])
def test_tables_of_a_summary_wrap(browser: Any, folder: Path, name: str) -> None:
    """In a narrow window each cell has its column's name before it, and no table has to be scrolled."""
    with View(browser, folder / name, width=400) as page:
        frames = page.locator(".scroll:has(> table.stacked)")
        assert frames.count() > 0
        assert all(frame.evaluate("frame => frame.scrollWidth <= frame.clientWidth") for frame in frames.all())
        first = page.locator("table.stacked td").first
        assert first.evaluate("cell => getComputedStyle(cell, '::before').content").startswith('"')
        assert first.get_attribute("data-label") is not None


def test_a_frame_that_scrolls_shows_it(browser: Any, folder: Path) -> None:
    """A drawing that is cut off has a shadow at that edge and none at the other."""
    with View(browser, folder / LENET, width=400) as page:
        page.locator("#anchor-2 > summary").click()
        frame = page.locator("#anchor-2 figure .scroll").first
        assert frame.evaluate("frame => frame.scrollWidth > frame.clientWidth")
        left, right = edges(page, frame)
        frame.evaluate("frame => frame.scrollTo(10_000, 0)")
        left_at_end, right_at_end = edges(page, frame)
        assert left == right_at_end != right
        assert left_at_end not in (left, right_at_end)


def edges(page: Any, frame: Any) -> tuple[bytes, bytes]:
    """Pictures of one pixel at the left and at the right edge of a frame, above its content."""
    page.evaluate("scrollTo(0, 0)")
    box = frame.bounding_box()
    places = (box["x"] + 3, box["x"] + box["width"] - 4)
    first, second = (
        page.screenshot(clip={"x": x, "y": box["y"] + 4, "width": 1, "height": 1}, full_page=True) for x in places
    )
    return first, second


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_of_controls(browser: Any, folder: Path, scheme: str) -> None:
    """The border of every control has a contrast of at least 3 : 1 to both of its sides, as WCAG requires (AA)."""
    with View(browser, folder / LARGE, scheme=scheme) as page:
        page.locator("#anchor-1 button.copy").last.wait_for()
        found = page.evaluate(
            """() => [...document.querySelectorAll("input, select, button")].filter((element) =>
                element.checkVisibility()
            ).flatMap((element) => {
                let behind = element.parentElement;
                while (getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
                const style = getComputedStyle(element);
                const sides = [style.backgroundColor, getComputedStyle(behind).backgroundColor];
                return sides.map((side) => [style.borderTopColor, side]);
            })"""
        )
        assert len(found) > 30
        for border, side in found:
            assert contrast(channels(border), channels(side)) >= CONTROL, (border, side)


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
