# SPDX-License-Identifier: Apache-2.0

"""The section on places: its table, its map, and the bound of the map's size."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from poolgrad_lowering.entry.files import inspect_file
from poolgrad_lowering.ge.placement import Place, PlacedNode, Placement
from poolgrad_lowering.report.html.places import MAX_CELLS, MAX_LISTED, places_section
from tests.html_report.pages import BUILT, HOSTILE, Element, parsed, text_of, with_class

WHERE = {"p": Place.PROVIDER, "a": Place.CANN, "c": Place.CPU}


def placement(text: str, name: str = "n", copies: int = 0) -> Placement:
    """The placement with a node for each letter: p on our provider, a on the CANN provider, c on the CPU."""
    nodes, sub_model = [], -1
    for number, letter in enumerate(text):
        sub_model += letter == "a" and (number == 0 or text[number - 1] != "a")
        place = WHERE[letter]
        nodes.append(PlacedNode(f"{name}{number}", "Op", place, sub_model if place is Place.CANN else None, 10))
    return Placement(tuple(nodes), copies, 0, (), ())


def section(found: Placement) -> Element:
    return parsed(f"<!DOCTYPE html><title>t</title>{places_section(found)}".encode())


def cells(root: Element) -> list[tuple[str, list[str]]]:
    """For each run of the map its class, and the tooltips of its cells."""
    [drawing] = with_class(root, "map", "svg")
    return [(group.get("class", ""), [text_of(path) for path in group.iter("path")]) for group in drawing.iter("g")]


def test_a_cell_for_each_node_in_the_order_of_a_step() -> None:
    root = section(placement("aapacc", copies=2))
    assert cells(root) == [
        ("cann", ["1. Op n0\nsub-model 1", "2. Op n1\nsub-model 1"]),
        ("provider", ["3. Op n2\nthis package's provider"]),
        ("cann", ["4. Op n3\nsub-model 2"]),
        ("cpu", ["5. Op n4\nCPU", "6. Op n5\nCPU"]),
    ]
    text = text_of(root)
    assert "2 sub-models, 2 values copied between host and device inside a step." in text
    assert "a cell is a node" in text
    assert "Nodes on the CPU, by operator" in text


def test_the_map_has_a_text_alternative() -> None:
    root = section(placement("aapacc"))
    [drawing] = with_class(root, "map", "svg")
    assert drawing.get("role") == "img"
    assert text_of(drawing[0]).startswith(
        "6 nodes: 1 on this package's provider, 3 on onnxruntime's CANN provider, 2 on CPU; 2 sub-models"
    )
    [words] = with_class(root, "words")
    assert [text_of(line) for line in words.iter("li")] == [
        "Sub-model 1: 2 nodes, 2 Op, from n0",
        "On this package's provider: Op n2",
        "Sub-model 2: Op n3",
        "On CPU: 2 nodes, 2 Op, from n4",
    ]


def test_places_differ_in_shape_too() -> None:
    shapes = [re.sub(r"^M\d+ \d+", "", path.get("d", "")) for path in section(placement("apc")).iter("path")]
    assert len(set(shapes)) == 3


@pytest.mark.parametrize("text", ["a" * 50_000, "ap" * 500 + "a" * 40_000, "ac" * 30_000])
def test_the_size_of_the_map_is_bounded(text: str) -> None:
    """With the longest names; more cells than `MAX_CELLS` join nodes of a run, or are left out."""
    found = placement(text, "x" * 1000)
    root = section(found)
    drawn = cells(root)
    assert MAX_CELLS / 2 < sum(len(run) for _, run in drawn) <= MAX_CELLS
    assert len(list(root.iter("li"))) <= MAX_LISTED + 1
    assert len(str(places_section(found))) < MAX_CELLS * 300
    assert ("nodes are drawn" in text_of(root)) == (text.count("ac") > MAX_CELLS)


def test_nodes_outside_the_cann_provider_are_never_joined_with_others() -> None:
    drawn = cells(section(placement("a" * 30_000 + "p" + "a" * 30_000 + "c")))
    assert [kind for kind, _ in drawn] == ["cann", "provider", "cann", "cpu"]
    assert drawn[1][1] == ["30001. Op n30000\nthis package's provider"]


def test_cells_stay_in_the_drawing() -> None:
    [drawing] = with_class(section(placement("aaap" * 300)), "map", "svg")
    _, _, width, height = map(int, drawing.get("viewBox", "").split())
    starts = [re.match(r"M(\d+) (\d+)", path.get("d", "")) for path in drawing.iter("path")]
    places = [(int(start[1]), int(start[2])) for start in starts if start]
    assert len(set(places)) == 1200
    assert max(x for x, _ in places) < width
    assert max(y for _, y in places) < height


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_names_are_text(name: str) -> None:
    node = PlacedNode(name, name, Place.CPU, None, 1)
    root = section(Placement((node,), 0, 0, (), ()))
    assert not list(root.iter("script"))
    assert not list(root.iter("img"))


def test_a_model_without_nodes_has_no_section() -> None:
    assert places_section(None) == places_section(Placement((), 0, 0, (), ())) == ""


def test_the_page_of_a_file_has_the_map(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    report = inspect_file(BUILT / "torch" / "lenet.onnx", html_path=page)
    root = parsed(page.read_bytes())
    assert report.placement is not None
    assert sum(len(run) for _, run in cells(root)) == sum(count.nodes for count in report.placement.places)
    assert "\nsub-model 5" in text_of(with_class(root, "map", "svg")[0])
