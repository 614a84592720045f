"""The files that onnxruntime's `generate_artifacts` writes, lowered as one: a folder to train from.

Knows their names and what `onnxruntime.training.api` wants of them; needs no onnxruntime.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from poolgrad_lowering.diagnostics.errors import FileError, explained
from poolgrad_lowering.entry.files import lower_file
from poolgrad_lowering.entry.side_outputs import require_other_file
from poolgrad_lowering.gate.limits import DEFAULT_LIMITS, Limits
from poolgrad_lowering.io.atomic_folder import NewFolder
from poolgrad_lowering.io.atomic_write import PathLike, write_bytes, write_files
from poolgrad_lowering.io.model_file import parse_model, read_bytes
from poolgrad_lowering.report import Report

TRAINING = "training_model.onnx"
OTHERS = ("eval_model.onnx", "optimizer_model.onnx")
STATES = ("checkpoint", "nominal_checkpoint")

NEWEST_IR_VERSION = 10
"""The newest IR version that onnxruntime 1.19.2, the last one that trains, loads; a newer onnx writes newer ones."""


def lower_artifacts(
    source: PathLike,
    destination: PathLike,
    *,
    target: str | None = None,
    forward: bool = True,
    strict: bool = False,
    verify: bool = False,
    report_path: PathLike | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Report:
    """Lower the training model in a folder of artifacts, and write it to a new folder with all that trains it.

    The evaluation and the optimizer model go along where they are there, the checkpoint has to be. Each model gets an
    IR version that onnxruntime-training loads. `destination` may be an empty folder, and appears whole or not at all.
    All else is as with `lower_file`; the report is that of the training model.
    """
    source, destination = Path(source), Path(destination)
    described = None if report_path is None else Path(report_path)
    names, states = _found(source)
    if described is not None:
        artifacts = [folder / name for folder in (source, destination) for name in (*names, *states)]
        require_other_file(described, "report", *artifacts)
    with NewFolder(destination) as folder:
        reports = [
            lower_file(
                source / name,
                folder.file(name),
                target=target,
                forward=forward,
                strict=strict,
                verify=verify,
                copy_external=True,
                limits=limits,
            )
            for name in names
        ]
        report = reports[0]
        if not (strict and report.refused):
            _complete(folder, source, names, states)
            folder.put()
        if described is not None:
            write_bytes(described, report.to_json().encode())
    return report


def _complete(folder: NewFolder, source: Path, models: Iterable[str], states: Iterable[str]) -> None:
    """Bring into the folder what its lowered models need for a training."""
    for name in models:
        _give_loadable_version(folder.file(name))
    write_files({folder.file(name): source / name for name in states})


def _found(folder: Path) -> tuple[list[str], list[str]]:
    """The models in a folder, that of the training first, and the files of the checkpoints."""
    with explained(f"cannot read '{folder}'"):
        prefix = _prefix(folder)
        others = [prefix + name for name in OTHERS if (folder / (prefix + name)).exists()]
        return [prefix + TRAINING, *others], list(_states(folder, prefix))


def _prefix(folder: Path) -> str:
    """What the names of the artifacts begin with: `generate_artifacts` puts nothing there unless it is asked to."""
    if not folder.is_dir():
        raise FileError(f"cannot read '{folder}': it is no folder")
    found = sorted(path.name for path in folder.iterdir() if path.name.endswith(TRAINING))
    if not found:
        raise FileError(f"'{folder}' holds no {TRAINING}: give the folder that generate_artifacts has written")
    if len(found) > 1:
        raise FileError(
            f"'{folder}' holds several training models, {' and '.join(found)}: give each a folder of its own"
        )
    return found[0].removesuffix(TRAINING)


def _states(folder: Path, prefix: str) -> Iterator[str]:
    """The files of the checkpoints, relative to the folder. A checkpoint is one file, several, or a folder."""
    if not (folder / f"{prefix}{STATES[0]}").exists():
        raise FileError(
            f"'{folder}' holds no {prefix}{STATES[0]}, which a training starts from: write the artifacts anew"
        )
    for path in sorted(folder.iterdir()):
        if path.name.startswith(tuple(prefix + name for name in STATES)):
            files = sorted(path.rglob("*")) if path.is_dir() else [path]
            yield from (file.relative_to(folder).as_posix() for file in files if not file.is_dir())


def _give_loadable_version(path: Path) -> None:
    """Give the model an IR version that onnxruntime-training loads."""
    model = parse_model(read_bytes(path), path)
    if model.ir_version > NEWEST_IR_VERSION:
        model.ir_version = NEWEST_IR_VERSION
        write_bytes(path, model.SerializeToString())
