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
    "argmax",
    "first_maximum",
    "forward_legality",
    "legality",
    "plane_gradient",
    "provenance",
    "recorded_scatter",
    "scatter",
    "scatter_nd",
    "views",
    "windows",
)


def modules() -> dict[str, Path]:
    """The files by the names of their modules, all patterns among them."""
    own = {f"poolgrad_lowering.{name}": _HOME / "poolgrad_lowering" / f"{name}.py" for name in _MODULES}
    patterns = sorted((_HOME / "patterns").glob("[!_]*.py"))
    return own | {f"poolgrad_lowering.patterns.{file.stem}": file for file in patterns}
