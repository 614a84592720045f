# SPDX-License-Identifier: Apache-2.0

"""The catalogue of the built training graphs in `built/`, with their feeds and expected outputs.

Reads `built/manifest.json` and the `.npz` files beside the graphs. Needs only numpy; knows neither the builders nor
the compiler.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Producer = Literal["torch", "torch_external", "torch_legacy", "ort", "ort_module"]

BUILT = Path(__file__).parent / "built"


@dataclass(frozen=True)
class Entry:
    """One built graph.

    `sites` counts the pool gradients that a compiler must find, by form (see README.md). `refused` counts the nodes
    that resemble a pool gradient and must not be lowered, by description.
    """

    name: str
    producer: Producer
    file: Path
    opset: int
    sites: Mapping[str, int]
    refused: Mapping[str, int]
    remarks: str

    @property
    def site_count(self) -> int:
        """The number of pool gradients of the graph."""
        return sum(self.sites.values())

    def feeds(self) -> dict[str, Array]:
        """Return the inputs by name."""
        return _with_prefix(self.file.with_suffix(".npz"), "in:")

    def expected(self) -> dict[str, Array]:
        """Return the outputs that the producer's own runtime computed for `feeds`, by name."""
        return _with_prefix(self.file.with_suffix(".npz"), "out:")

    def site_tensors(self) -> list[dict[str, Array]]:
        """Return X, dY, Indices and dX of each MaxPoolGrad in graph order; an empty list if they were not recorded."""
        path = self.file.with_suffix(".sites.npz")
        if not path.exists():
            return []
        return [_with_prefix(path, f"{k}:") for k in range(self.site_count)]


def entries(producer: Producer | None = None) -> list[Entry]:
    """Return the built graphs in the order of the manifest, of all producers or of one."""
    return [entry for entry in _rows("manifest.json") if producer in (None, entry.producer)]


def spellings() -> list[Entry]:
    """Return graphs of rarer forms. Only some have recorded outputs, because some producers have no runtime."""
    return _rows("spellings.json")


def external() -> list[Entry]:
    """Return graphs with external data (`<file>.data`), as PyTorch's exporter writes them by default."""
    return _rows("external.json")


def _rows(manifest: str) -> list[Entry]:
    rows = json.loads((BUILT / manifest).read_text(encoding="utf-8"))
    return [Entry(**{**row, "file": BUILT / row["file"]}) for row in rows]


def entry(name: str) -> Entry:
    """Return the built graph of that name.

    Raises:
        KeyError: there is none.
    """
    for candidate in entries():
        if candidate.name == name:
            return candidate
    raise KeyError(f"no built graph is named {name!r}; see {BUILT / 'manifest.json'}")


def _with_prefix(path: Path, prefix: str) -> dict[str, Array]:
    """Read the arrays of an npz file whose key starts with `prefix`, keyed by the rest."""
    with np.load(path, allow_pickle=False) as archive:
        return {key.removeprefix(prefix): archive[key] for key in archive.files if key.startswith(prefix)}
