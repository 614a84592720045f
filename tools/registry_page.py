# SPDX-License-Identifier: Apache-2.0

"""The README as a package registry shows it: a hook of scikit-build-core, for every wheel and sdist.

A registry shows the README outside of the repository, so its links have to be absolute. They lead to the tag of the
release in the repository that `[project.urls]` of `pyproject.toml` names, in the form that GitHub and Gitee have.
Without such an address the README stays as it is, and its links lead nowhere on a registry's page.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

_LINK = re.compile(r"(!?)(\[(?:[^\[\]]|\[[^\]]*\])*\])\((?!https?:|#)([^)]+)\)")
"""A link to a file of the repository, or a picture, in Markdown."""


def dynamic_metadata(field: str, _settings: Mapping[str, object] | None = None) -> dict[str, str]:
    """Return the field `readme` of the package's metadata."""
    if field != "readme":
        raise ValueError(f"this hook makes the field readme, not {field}")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    return {"content-type": "text/markdown", "text": with_absolute_links(readme, *address(project))}


def address(project: str) -> tuple[str | None, str]:
    """Return the address of the repository in the text of a `pyproject.toml`, None if it has none, and the version."""
    values = dict(re.findall(r'^(Repository|version) = "(.+)"', project, re.MULTILINE))
    return values.get("Repository"), values["version"]


def with_absolute_links(readme: str, repository: str | None, version: str) -> str:
    """Return a README whose links lead to files of a release in the repository; unchanged without a repository."""
    if repository is None:
        return readme

    def absolute(found: re.Match[str]) -> str:
        picture, text, path = found.groups()
        return f"{picture}{text}({repository.rstrip('/')}/{'raw' if picture else 'blob'}/v{version}/{path})"

    return _LINK.sub(absolute, readme)
