# SPDX-License-Identifier: Apache-2.0

"""Chromium, and a folder with pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest

from poolgrad_lowering.report.html.page import index_page
from poolgrad_lowering.report.report import FileResult
from tests.html_report.pages import BUILT, HOSTILE, MIXED, many_sites, observed, page, renamed
from tests.html_report.view import CHROMIUM, INDEX, LARGE, LENET, MANY, SITES, WILD
from tests.pool_graphs import parse

WILD_NAMES = {"view_6": HOSTILE[1], "relu_1": HOSTILE[7], "scatter_add": "W" * 500}


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pages: of a network, of every kind of anchor, of unusual names, of many sites, and an index."""
    folder = tmp_path_factory.mktemp("pages")
    lenet = onnx.load(BUILT / "torch" / "lenet.onnx")
    models = {LENET: lenet, MANY: parse(MIXED), WILD: renamed(lenet, WILD_NAMES), LARGE: many_sites(SITES)}
    for name, model in models.items():
        (folder / name).write_bytes(page(model, name.replace("html", "onnx")))
    report, _ = observed(parse(MIXED))
    paths = [f"team_{n % 7}/{'long_' * (n % 20)}network_{n}.onnx" for n in range(SITES)]
    failed = FileResult("failed.onnx", error="W" * 500)
    rows = [failed, *(FileResult(path, report) for path in paths)]
    (folder / INDEX).write_bytes(index_page("models", rows))
    return folder


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright: `make test-browser`")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()
