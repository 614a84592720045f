# SPDX-License-Identifier: Apache-2.0

"""The compiler's verdicts on all near misses of a graph, by codes and forms, and those that are recorded."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import onnx
from onnx import ModelProto

from models import catalogue
from poolgrad_lowering import InvalidModelError, lower
from poolgrad_lowering.report.report import AnchorReport
from tests.near_misses.edits import edited, edits

RECORDED = Path(__file__).parent / "recorded"
MOST = 100
"""Of the edits of a larger graph, so many are tried, evenly spread."""

GRAPHS = (
    *(f"ort/{name}" for name in ("column_major", "defaults", "gaps", "returned_indices", "same_lower")),
    *(f"ort/{name}" for name in ("stem_dynamic_shape", "video_ceil_dilated")),
    *(f"ort_module/{name}" for name in ("points", "whole_row")),
    *(f"torch/{name}" for name in ("adaptive_divisible", "dilated", "float64", "global", "maxima_of_six_axes")),
    *(f"torch/{name}" for name in ("maximum_over_axis", "maximum_over_channels", "maximum_over_points")),
    *(f"torch/{name}" for name in ("maximum_shared_by_ties", "min_pool", "nested", "tiling_overwritten", "unbatched")),
    "torch/video_ceil",
    *(f"torch_legacy/{name}" for name in ("adaptive", "adaptive_generic", "axis_maximum", "traced", "user_symbolic")),
)
"""Every form in a small graph; all rarer spellings are tried besides."""


def graphs() -> dict[str, Path]:
    """The files of the graphs whose near misses are tried, by name."""
    return {name: catalogue.entry(name).file for name in GRAPHS} | {e.name: e.file for e in catalogue.spellings()}


@dataclass(frozen=True)
class Said:
    """What the compiler says of each near miss of a graph, in the order of the edits, and a digest of all it writes."""

    verdicts: dict[str, list[str]]
    written: int


def said(path: Path) -> Said:
    """Lower each near miss of a graph."""
    model = onnx.load(path)
    changes = list(edits(model))
    verdicts = {}
    written = 0
    for name, edit in changes[:: -(-len(changes) // MOST)]:
        verdicts[name], nodes = verdict(edited(model, edit))
        written = zlib.crc32(nodes, written)
    return Said(verdicts, written)


def verdict(model: ModelProto) -> tuple[list[str], bytes]:
    """A line for each anchor, and the nodes after lowering; or the error."""
    try:
        result = lower(model)
    except InvalidModelError as error:
        return [f"invalid: {error.fault.value}"], b""
    nodes = b"".join(node.SerializeToString(deterministic=True) for node in result.model.graph.node)
    return [_line(anchor) for anchor in result.report.anchors], nodes


def _line(anchor: AnchorReport) -> str:
    if anchor.status != "lowered":
        return f"{anchor.site}: {anchor.pattern} {anchor.code}"
    forward = anchor.forward_op or anchor.forward_code
    attributes = json.dumps(anchor.attributes, sort_keys=True)
    return f"{anchor.site}: {anchor.pattern} {anchor.op} {attributes} or {anchor.alternatives}; {forward}"


def differences(graph: str, found: Said) -> list[str]:
    """What is said otherwise than was recorded: a line for each text that changed, with the first of its edits."""
    held = json.loads(_file(graph).read_text(encoding="utf-8"))
    before = [held["verdicts"][number] for number, times in held["runs"] for _ in range(times)]
    if len(found.verdicts) != len(before):
        return [f"{len(found.verdicts)} edits instead of {len(before)}"]
    changed: dict[str, list[str]] = {}
    for (name, new), old in zip(found.verdicts.items(), before, strict=True):
        if new != old:
            lines = [line for line in old if line not in new], [line for line in new if line not in old]
            changed.setdefault("\n    {}\n    → {}".format(*lines), []).append(name)
    texts = [f"{len(names)} edits, the first is {names[0]}: {text}" for text, names in changed.items()]
    return texts + ["other nodes are written"] * (held["written"] != found.written)


def record(graph: str, found: Said) -> None:
    """Record what was said: each text once, and how often each follows itself."""
    numbers: dict[tuple[str, ...], int] = {}
    order = [numbers.setdefault(tuple(lines), len(numbers)) for lines in found.verdicts.values()]
    texts = ",\n".join(f"  {json.dumps(lines, ensure_ascii=False)}" for lines in numbers)
    runs = json.dumps([[number, len(list(same))] for number, same in groupby(order)])
    text = f'{{"verdicts": [\n{texts}\n ],\n "runs": {runs},\n "written": {found.written}}}\n'
    _file(graph).write_text(text, encoding="utf-8")


def _file(graph: str) -> Path:
    return RECORDED / f"{graph.replace('/', '-')}.json"
