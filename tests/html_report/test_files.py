# SPDX-License-Identifier: Apache-2.0

"""The page is written with the model and the JSON report, all or none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from poolgrad_lowering import FileError, lower, lower_file
from poolgrad_lowering.entry.cli import main
from poolgrad_lowering.entry.files import inspect_file
from tests.external_models import DATA, external, onto_zeros
from tests.harness.processes import environment
from tests.html_report.pages import parsed, text_of
from tests.pool_graphs import GRADIENT, REFUSED, saved


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return saved(tmp_path / "<in>.onnx", GRADIENT)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_lower(source: Path) -> None:
    """The model is the same with and without a page; the page names the file, not the folder."""
    out, page, report = (source.with_name(name) for name in ("out.onnx", "page.html", "report.json"))
    assert main(["lower", str(source), "-o", str(out), "--html", str(page), "--report", str(report)]) == 0
    assert out.read_bytes() == lower(GRADIENT).model.SerializeToString()
    assert report.exists()
    root = parsed(page.read_bytes())
    [heading] = root.iter("h1")
    assert text_of(heading) == "<in>.onnx"
    assert str(source.parent) not in page.read_text(encoding="utf-8")


def test_inspect(source: Path) -> None:
    """`inspect` writes the same page and no other file."""
    page, other = source.with_name("page.html"), source.with_name("other.html")
    assert main(["inspect", str(source), "--html", str(page)]) == 0
    assert names(source.parent) == {"<in>.onnx", "page.html"}
    lower_file(source, source.with_name("out.onnx"), html_path=other)
    assert other.read_bytes() == page.read_bytes()


def test_the_page_is_the_same_in_every_process(source: Path) -> None:
    """The page does not depend on the order of Python's sets."""
    pages = [source.with_name(f"{seed}.html") for seed in (1, 2)]
    for seed, page in enumerate(pages, 1):
        command = [sys.executable, "-m", "poolgrad_lowering.entry.cli", "inspect", source, "--html", page]
        subprocess.run(command, env=environment() | {"PYTHONHASHSEED": str(seed)}, capture_output=True, check=True)
    assert pages[0].read_bytes() == pages[1].read_bytes()


def test_strict(tmp_path: Path) -> None:
    """With `strict`, the page is written although the model is not."""
    source = saved(tmp_path / "in.onnx", REFUSED)
    arguments = ["lower", str(source), "-o", str(tmp_path / "out.onnx"), "--html", str(tmp_path / "page.html")]
    assert main([*arguments, "--strict"]) == 1
    assert names(tmp_path) == {"in.onnx", "page.html"}


@pytest.mark.parametrize("same", ["in", "out", "report"])
def test_a_page_needs_a_file_of_its_own(source: Path, same: str) -> None:
    paths = {"in": source, "out": source.with_name("out.onnx"), "report": source.with_name("report")}
    with pytest.raises(FileError, match="give it a file of its own"):
        lower_file(source, paths["out"], report_path=paths["report"], html_path=paths[same])
    if same == "in":
        with pytest.raises(FileError, match="that is the model; give it a file of its own"):
            inspect_file(source, html_path=source)
    assert names(source.parent) == {"<in>.onnx"}
    assert source.read_bytes() == GRADIENT.SerializeToString()


def test_a_page_that_cannot_be_written_leaves_everything(source: Path) -> None:
    out = source.with_name("out.onnx")
    out.write_bytes(b"old")
    with pytest.raises(FileError, match="cannot write"):
        lower_file(source, out, html_path=source.with_name("absent") / "page.html")
    assert out.read_bytes() == b"old"
    assert names(source.parent) == {"<in>.onnx", "out.onnx"}


def test_external_data_that_is_not_there(tmp_path: Path) -> None:
    source = saved(tmp_path / "m.onnx", onto_zeros(external("", [6, 16])))
    report = inspect_file(source, html_path=tmp_path / "report.html")
    text = text_of(parsed((tmp_path / "report.html").read_bytes()))
    assert "Missing external data" in text
    assert report.warnings[0].reason in text
    (tmp_path / DATA).write_bytes(bytes(6 * 16 * 4))
    inspect_file(source, html_path=tmp_path / "report.html")
    assert "Missing external data" not in text_of(parsed((tmp_path / "report.html").read_bytes()))
