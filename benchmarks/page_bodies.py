# SPDX-License-Identifier: Apache-2.0

"""The section on function bodies: their sizes, and the time to create sessions of models that have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.tables import grouped, seconds, table

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
    targets: dict[tuple[str, ...], list[str]] = {}
    for row in result["counts"]:
        counts = (_opsets(row), _nodes(row["pool"]), str(row["gradient"]), str(row["pool"] + row["gradient"]))
        targets.setdefault(counts, []).append(row["target"])
    rows = ((", ".join(names), *counts) for counts, names in targets.items())
    sessions = (
        (f"{model['name']}: {model['remarks']}", row["name"], f"{row['bytes']:,}",
         f"{row['bytes'] / model['rows'][0]['bytes']:.2f}", seconds(row, MILLI, 2), f"{row['ratio']:.2f}")
        for model in result["models"]
        for row in model["rows"]
    )  # fmt: skip
    head = ("model", "", "bytes", "× original", "ms for a session", "× original")
    return "\n".join(
        [
            BODIES,
            table(("target", "opsets", "pool", "gradient", "together"), grouped(rows)),
            SESSIONS,
            table(head, grouped(sessions)),
        ]
    )


def _opsets(row: dict[str, Any]) -> str:
    return str(row["first"]) if row["first"] == row["last"] else f"{row['first']}–{row['last']}"


def _nodes(count: int) -> str:
    return str(count) if count else "–"
