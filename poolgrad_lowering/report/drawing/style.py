# SPDX-License-Identifier: Apache-2.0

"""The style sheet of drawings: the colours of the HTML report, light and dark, and what has which colour."""

from __future__ import annotations

import re
from importlib.resources import files


def stylesheet() -> str:
    """The style sheet of a page with drawings."""
    return files(__package__).joinpath("style.css").read_text(encoding="utf-8")


def scoped(selector: str) -> str:
    """The style sheet for the drawings within a selector of a page of other origin, in the light colours."""
    light, _, rest = stylesheet().partition("@media")
    rules = "\n".join(line for line in rest.splitlines() if line.startswith("svg "))
    return light.replace(":root", selector) + re.sub(r"(^|, )svg ", rf"\1{selector} svg ", rules, flags=re.M)
