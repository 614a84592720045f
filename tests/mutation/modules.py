# SPDX-License-Identifier: Apache-2.0

"""What is mutated and by whom it is tested: the modules that decide what is a gradient, and how its indices convert."""

from __future__ import annotations

from pathlib import Path

TESTS = (
    "tests/poolgrad_lowering",
    "tests/patterns",
    "tests/generators",
    "tests/test_docs.py::test_generated_page_is_up_to_date",
)
_HOME = Path(__file__).parents[2]
_MODULES = (
    "analysis.provenance",
    "checkpoint",
    "legality.gradients",
    "legality.pools",
    "legality.windows",
    "matching.first_maximum",
    "matching.axis_maximum",
    "matching.backward_ops",
    "matching.maxpool_scatter",
    "matching.reduction",
    "matching.scatter",
    "matching.scatter_nd",
    "matching.views",
    "rewriting.argmax",
)


def modules() -> dict[str, Path]:
    """The files by the names of their modules, all patterns among them."""
    folder = _HOME / "poolgrad_lowering"
    own = {f"poolgrad_lowering.{name}": folder / f"{name.replace('.', '/')}.py" for name in _MODULES}
    patterns = sorted((_HOME / "patterns").glob("[!_]*.py"))
    return own | {f"poolgrad_lowering.patterns.{file.stem}": file for file in patterns}
