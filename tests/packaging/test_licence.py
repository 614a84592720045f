# SPDX-License-Identifier: Apache-2.0

"""Every source file names the licence in its first lines, as SPDX has it."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TAG = "SPDX-License-Identifier: Apache-2.0"
FOLDERS = ("poolgrad_lowering", "patterns", "runtime", "tests", "models", "benchmarks", "docs", "tools", "examples")
SOURCES = {".py", ".cpp", ".h", ".css", ".js", ".sh"}


@pytest.mark.parametrize("folder", FOLDERS)
def test_sources_name_the_licence(folder: str) -> None:
    sources = [path for path in (ROOT / folder).rglob("*") if path.suffix in SOURCES and path.stat().st_size]
    assert sources
    assert [str(path) for path in sources if TAG not in path.read_text(encoding="utf-8")[:100]] == []
