# SPDX-License-Identifier: Apache-2.0

"""Shared by the builders: writes a built graph, its tensors and its row of the manifest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx

from models.catalogue import BUILT, Array

SEED = 20240607
"""The seed of all weights and feeds."""


def save(
    producer: Literal["torch", "torch_external", "ort"],
    name: str,
    model: onnx.ModelProto,
    arrays: Mapping[str, Array],
    *,
    site_arrays: Mapping[str, Array] | None = None,
    manifest: str = "manifest.json",
    **row: Any,
) -> None:
    """Write `<producer>/<name>.onnx`, `.npz`, `.sites.npz` if there are `site_arrays`, and the file's manifest row."""
    stem = built(producer, name)
    onnx.save(model, stem.with_suffix(".onnx"))
    np.savez_compressed(stem.with_suffix(".npz"), **dict(arrays))  # type: ignore[arg-type]
    if site_arrays:
        np.savez_compressed(stem.with_suffix(".sites.npz"), **dict(site_arrays))  # type: ignore[arg-type]
    _record(
        {
            "name": f"{producer}/{name}",
            "producer": producer,
            "file": f"{producer}/{name}.onnx",
            "opset": next(entry.version for entry in model.opset_import if not entry.domain),
            **row,
        },
        BUILT / manifest,
    )


def built(producer: str, name: str) -> Path:
    """Return the path of a built graph without the suffixes of its files. Creates the folder."""
    folder = BUILT / producer
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name


def _record(row: dict[str, Any], manifest: Path) -> None:
    """Insert the row in the order of names, or replace the row of the same name."""
    rows = json.loads(manifest.read_text(encoding="utf-8")) if manifest.exists() else []
    rows = [other for other in rows if other["name"] != row["name"]] + [row]
    rows.sort(key=lambda other: other["name"])
    manifest.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
