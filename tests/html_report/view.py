# SPDX-License-Identifier: Apache-2.0

"""A page in a window of Chromium, and the names of the pages that the tests look at."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium: `make test-browser`")

LENET, MANY, WILD, LARGE, INDEX = "lenet.html", "many.html", "wild.html", "large.html", "index.html"
SITES = 500
"""The number of sites of the large page, and of models of the index."""


class View:
    """A page in a window. It must not log to the console or request anything."""

    def __init__(
        self,
        browser: Any,
        path: Path,
        *,
        width: int = 1200,
        scheme: str = "light",
        script: bool = True,
        fragment: str = "",
    ) -> None:
        self._context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=script
        )
        self.page = self._context.new_page()
        self.said: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.said.append(request.url))
        self.page.goto(path.as_uri() + fragment)
        assert self.said == [path.as_uri()]
        self.said.clear()

    def __enter__(self) -> Any:
        return self.page

    def __exit__(self, *_: object) -> None:
        self._context.close()
        assert self.said == []
