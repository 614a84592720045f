# SPDX-License-Identifier: Apache-2.0

"""What is mutated, and by which tests: every module between a model that is read and the model that is lowered."""

from __future__ import annotations

from pathlib import Path

TESTS = (
    "tests/poolgrad_lowering",
    "tests/patterns",
    "tests/generators",
    "tests/near_misses",
    "tests/test_docs.py::test_generated_page_is_up_to_date",
)
_HOME = Path(__file__).parents[2]
_ROOMS = ("compiler/**", "dialect/**", "model", "model/facts/**", "model/gate/**", "model/ir/**")


def modules() -> dict[str, Path]:
    """The files by the names of their modules, all patterns among them."""
    folder = _HOME / "poolgrad_lowering"
    files = [file for room in _ROOMS for file in sorted(folder.glob(f"{room}/[!_]*.py"))]
    own = {".".join(file.relative_to(_HOME).with_suffix("").parts): file for file in files}
    patterns = sorted((_HOME / "patterns").glob("[!_]*.py"))
    return own | {f"poolgrad_lowering.patterns.{file.stem}": file for file in patterns}
