# SPDX-License-Identifier: Apache-2.0

"""A hook of mkdocs: adds the pages of the repository's root, adapts links, and rejects pages that load other hosts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the repository's root."""
    for source, page in PAGES.items():
        content = as_page((ROOT / source).read_text(encoding="utf-8"))
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Turn the name of a page in code, as `docs/legality.md`, and links to files of the root into links to pages."""
    for source, page in PAGES.items():
        markdown = markdown.replace(f"](../{source}", f"]({page}")
    return re.sub(r"`docs/([\w-]+)\.md`", r"[\1](\1.md)", markdown)


def on_post_page(output: str, **_: Any) -> str:
    """Raise `PluginError` for a page that would load something from another host."""
    if fetched := re.search(
        r"""<(?:script|img|iframe)[^>]* src="?https?:[^>]*>|<link[^>]* href="?https?:[^>]*>""", output
    ):
        raise PluginError(f"a page would load {fetched[0]}")
    return output


def as_page(text: str) -> str:
    """A page of the root, with its links relative to `docs/`."""
    text = re.sub(r"\]\(docs/", "](", text)
    for source, page in PAGES.items():
        text = re.sub(rf"\]\({re.escape(source)}(?=[)#])", f"]({page}", text)
    return text
