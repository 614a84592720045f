# SPDX-License-Identifier: Apache-2.0

"""Writes the folder of cases that `runner` runs: models, lowered models, feeds.

Usage: python -m tests.harness.releases.prepare FOLDER [--corpus FOLDER]. Files are named by their content: a model that
several variants are lowered to is there, and run, once. `cases.json` has a row for each case of which something is
lowered.
"""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto

from models import catalogue
from models.catalogue import Entry
from poolgrad_lowering import lower
from poolgrad_lowering.model.diagnostics.errors import InvalidModelError
from tests.releases.cases import (
    FIRST_ADDING_SCATTER,
    Array,
    Case,
    drawn_feeds,
    gradient_sites,
    site_feeds,
    standard,
    unknown_operators,
)
from tests.releases.sweep import OPSETS, sweep
from tests.releases.texts import average, block, pooled_value, two_types

TARGETS = ("atlas-a2", "ascend950")
VARIANTS = {
    f"{target}{'' if forward else ', pools left'}": (target, forward) for target in TARGETS for forward in (True, False)
}
STORED = Path(__file__).parents[2] / "releases" / "models"
Recipe = Callable[[], list[Case]]


def main() -> None:
    """Write the folder that the command line names."""
    parser = argparse.ArgumentParser(description="Write the cases that lowered models are run by.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--corpus", type=Path)
    arguments = parser.parse_args()
    prepare(arguments.folder, arguments.corpus)


def prepare(folder: Path, corpus: Path | None = None, workers: int = 2) -> list[dict[str, Any]]:
    """Write the cases to a new folder; returns the rows of `cases.json`."""
    folder.mkdir(parents=True)
    with ProcessPoolExecutor(workers) as pool:
        parts = pool.map(partial(written, folder), recipes(corpus), chunksize=8)
        rows = [row for part in parts for row in part]
    (folder / "cases.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return rows


def recipes(corpus: Path | None) -> Iterator[Recipe]:
    """What makes the cases, in the order of `cases.json`."""
    for entry in (*catalogue.entries(), *catalogue.spellings()):
        yield partial(built, entry)
    for opset in OPSETS:
        yield from (partial(block, opset), partial(pooled_value, opset), partial(average, opset))
    yield from (partial(two_types, opset) for opset in OPSETS if opset >= FIRST_ADDING_SCATTER)
    yield from sweep()
    here = {path.relative_to(STORED): STORED for path in STORED.rglob("*.onnx")}
    further = {path.relative_to(corpus): corpus for path in corpus.rglob("*.onnx")} if corpus else {}
    for path, root in sorted({**further, **here}.items()):
        yield partial(stored, root, path)


def built(entry: Entry) -> list[Case]:
    """A built model, or its sites where its operators are unknown.

    The results of `torch_legacy` are PyTorch's of pools alone, to the bit; those of others depend on the machine.
    """
    recorded = entry.file.with_suffix(".npz")
    results = entry.expected() if entry.producer == "torch_legacy" else None
    sites = [{name: site[name] for name in ("X", "dY")} for site in entry.site_tensors()]
    return from_file(entry.name, entry.file, arrays(recorded), results, sites)


def stored(root: Path, path: Path) -> list[Case]:
    """A model at a path in a folder, with the feeds beside it."""
    return from_file(str(path.with_suffix("")), root / path, arrays((root / path).with_suffix(".npz")))


def arrays(recorded: Path) -> dict[str, Array]:
    """The recorded inputs of a model, by name; none where there is no such file."""
    if not recorded.exists():
        return {}
    with np.load(recorded, allow_pickle=False) as archive:
        return {key.removeprefix("in:"): archive[key] for key in archive.files if key.startswith("in:")}


def from_file(
    name: str,
    path: Path,
    feeds: Mapping[str, Array],
    results: Mapping[str, Array] | None = None,
    sites: Sequence[Mapping[str, Array]] = (),
) -> list[Case]:
    """The case of a model, if onnxruntime knows its operators, else those of its sites.

    Inputs are drawn where not all are recorded; `sites` are the recorded X and dY of each site.
    """
    model = onnx.load(path)
    if not feedable(model):
        return []
    drawn = drawn_feeds(model)
    whole = Case(name, model, feeds if drawn.keys() <= feeds.keys() else drawn, standard(model), results)
    if whole.original is not None and loads(whole.original):
        return [whole]
    found = []
    for number, (site, names) in enumerate(gradient_sites(model)):
        known = {names[role]: array for role, array in sites[number].items()} if sites else site_feeds(site, names)
        found.append(Case(f"{name}, site {number}", site, known, original=standard(site)))
    return found or [whole]


def loads(model: ModelProto) -> bool:
    """Whether the newest onnxruntime, that of this environment, has all operators of a model."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:
        return False
    return True


def feedable(model: ModelProto) -> bool:
    """Whether every input is a tensor of a type that numpy has, of a known rank."""
    tensors = [value.type.tensor_type for value in model.graph.input]
    return all(
        tensor.HasField("shape") and tensor.elem_type not in (0, TensorProto.STRING, TensorProto.BFLOAT16)
        for tensor in tensors
    )


def written(folder: Path, recipe: Recipe) -> list[dict[str, Any]]:
    """Lower the cases of a recipe and write their files; returns their rows."""
    return [row for made in recipe() if (row := write_case(folder, made)) is not None]


def write_case(folder: Path, made: Case) -> dict[str, Any] | None:
    """The row of a case; None where nothing is lowered, or nothing tells what is expected."""
    if made.original is None and made.recorded is None:
        return None
    lowered: dict[str, list[str]] = {}
    for variant, (target, forward) in VARIANTS.items():
        try:
            result = lower(made.model, target=target, forward=forward)
        except InvalidModelError:
            return None
        if result.report.lowered and not unknown_operators(result.model):
            name = write_file(folder, result.model.SerializeToString(deterministic=True), ".onnx")
            lowered.setdefault(name, []).append(variant)
    if not lowered:
        return None
    original, recorded = made.original, made.recorded
    return {
        "name": made.name,
        "original": original and write_file(folder, original.SerializeToString(deterministic=True), ".onnx"),
        "recorded": recorded and write_file(folder, packed(recorded), ".npz"),
        "feeds": write_file(folder, packed(made.feeds), ".npz"),
        "lowered": lowered,
    }


def packed(arrays: Mapping[str, Array]) -> bytes:
    """Arrays as an npz file."""
    out = io.BytesIO()
    np.savez(out, **dict(arrays))
    return out.getvalue()


def write_file(folder: Path, content: bytes, suffix: str) -> str:
    """Write a file under the name that its content gives it; returns the name."""
    name = sha256(content).hexdigest()[:20] + suffix
    if not (folder / name).exists():
        (folder / name).write_bytes(content)
    return name


if __name__ == "__main__":
    main()
