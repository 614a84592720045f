# SPDX-License-Identifier: Apache-2.0

"""The section on function bodies: their sizes, and the time to create sessions of models that have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.tables import seconds, table

MILLI = 1e-3

BODIES = """## Function bodies

The number of nodes in the bodies of a 2-D max pool in float32 and of its gradient, including those of subgraphs, by the
opset of the model. A pool without a body stays an ONNX node.
"""

SESSIONS = """Joint graphs of PyTorch from `models/built`, before and after lowering: the bytes of the file, and the
time to make a session of it in onnxruntime's CPU provider at its default optimisation level and delete it again. The
original is measured a second time, to show which ratios are noise.
"""


def bodies(result: dict[str, Any], _: Path) -> str:
    """The section on function bodies, as Markdown."""
    counts = (
        (row["target"], _opsets(row), _nodes(row["pool"]), str(row["gradient"]), str(row["pool"] + row["gradient"]))
        for row in result["counts"]
    )
    parts = [BODIES, table(("target", "opsets", "pool", "gradient", "together"), counts), SESSIONS]
    for model in result["models"]:
        before = model["rows"][0]["bytes"]
        rows = (
            (row["name"], f"{row['bytes']:,}", f"{row['bytes'] / before:.2f}", seconds(row, MILLI, 2),
             f"{row['ratio']:.2f}")
            for row in model["rows"]
        )  # fmt: skip
        parts.append(f"### {model['name']}: {model['remarks']}\n")
        parts.append(table(("", "bytes", "× original", "ms for a session", "× original"), rows))
    return "\n".join(parts)


def _opsets(row: dict[str, Any]) -> str:
    return str(row["first"]) if row["first"] == row["last"] else f"{row['first']}–{row['last']}"


def _nodes(count: int) -> str:
    return str(count) if count else "–"
