# SPDX-License-Identifier: Apache-2.0

"""Measures training steps beside the CANN provider, and writes the table of the page on it: the session `coverage`."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from models.artifact_runs import RUNS
from poolgrad_lowering import lower
from tests.cann_ep.placements import copies_inside
from tests.harness.sessions.coverage import SOCS, Coverage, measure
from tests.harness.sessions.standard_steps import OPTIMIZERS, standard_step

_DOCS = Path(__file__).parents[2] / "docs"
_PROVIDERS = ("AclnnExecutionProvider", "CANNExecutionProvider")


def row(name: str, model: onnx.ModelProto, found: Coverage) -> dict[str, Any]:
    """Return the row of a step; copies inside of it are those beyond its inputs and outputs."""
    network, optimizer, precision = name.split("__")
    draws = any(node.op_type.startswith("Random") for node in model.graph.node)
    return {
        "network": network,
        "optimizer": optimizer,
        "precision": precision,
        "nodes": sum(found.nodes.get(provider, 0) for provider in _PROVIDERS),
        "parts": found.sub_models,
        "refused": len(found.refused),
        "scalars": len(found.rank_0_inputs),
        "on_cpu": found.nodes_on_the_cpu,
        "copies": copies_inside(model, found),
        "violations": len(found.violations),
        "same_bits": found.same_bits,
        "why": "" if found.same_bits else "draws other masks" if draws else f"{found.largest_error:.1e}",
        "error": found.error,
    }


def rounds_in_another_order(why: str, target: str) -> bool:
    """Whether results differ by roundings on Atlas A2, which adds overlapping windows from the last to the first."""
    return target == "atlas-a2" and why.endswith(("e-07", "e-08"))


def main() -> None:
    """Measure the steps of a folder that are in float32, and the built artifacts as steps in standard ONNX.

    Those of the benchmarks' networks are for the table of the benchmarks.
    """
    folder = Path(sys.argv[1])
    _write(_DOCS / "benchmarks" / "placements.json", _steps(folder / "trained"))
    _write(_DOCS / "graph_mode.json", chain(_steps(folder), _artifacts()))


def _steps(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(folder.glob("*__float32.onnx")):
        model = lower(onnx.load(file), target="ascend950", keep_onnx=True).model
        feeds = {name[3:]: array for name, array in np.load(file.with_suffix(".npz")).items()}
        yield row(file.name.removesuffix(".onnx"), model, measure(model, feeds, soc=SOCS["ascend950"]))


def _artifacts() -> Iterator[dict[str, Any]]:
    for name in RUNS:
        with tempfile.TemporaryDirectory() as folder:
            model, feeds = standard_step(name, "ascend950", Path(folder, "step"))
        found = measure(model, feeds, soc=SOCS["ascend950"])
        yield row(f"{name}, artifacts__{OPTIMIZERS[name]}__float32", model, found)


def _write(page: Path, rows: Iterable[dict[str, Any]]) -> None:
    found = []
    for each in rows:
        found.append(each)
        sys.stdout.write(f"{each}\n")
    page.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
