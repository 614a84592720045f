# SPDX-License-Identifier: Apache-2.0

"""The contrasts of the style sheet's variables, in the light scheme, in the dark scheme and in print."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from tests.html_report.contrast import CONTROL, TEXT, contrast

STYLE = "".join(
    files(f"poolgrad_lowering.{room}").joinpath("style.css").read_text(encoding="utf-8")
    for room in ("report.drawing", "report.html")
)


def schemes() -> list[dict[str, tuple[int, ...]]]:
    """The colours of the variables of each `:root` block, in order: light, dark, print."""
    blocks = re.findall(r":root \{(.*?)\}", STYLE, re.S)
    return [
        {name: colour(value) for name, value in re.findall(r"--([a-z-]+): #([0-9a-f]+);", block)} for block in blocks
    ]


def colour(digits: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(digits if len(digits) == 6 else "".join(2 * digit for digit in digits)))


@pytest.mark.parametrize("variables", schemes(), ids=["light", "dark", "print"])
def test_contrasts(variables: dict[str, tuple[int, ...]]) -> None:
    for behind in ("page", "surface", "removed-tint"):
        assert contrast(variables["control"], variables[behind]) >= CONTROL
        for text in ("text", "muted", "link"):
            assert contrast(variables[text], variables[behind]) >= TEXT
    for kind in ("lowered", "refused", "npu", "removed"):
        assert contrast(variables[kind], variables[f"{kind}-tint"]) >= TEXT
        assert contrast(variables[kind], variables["page"]) >= CONTROL


@pytest.mark.parametrize("rule", ["input, select, button", "svg rect", ".key .outside::before"])
def test_controls_and_drawings_use_that_colour(rule: str) -> None:
    [declarations] = re.findall(rf"^{re.escape(rule)} \{{(.*?)\}}", STYLE, re.S | re.M)
    assert "var(--control)" in declarations
