# SPDX-License-Identifier: Apache-2.0

"""Lowers the folder of files that onnxruntime's `generate_artifacts` writes, for training with the lowered models.

Knows the names of the files and what `onnxruntime.training.api` requires of them. onnxruntime is not needed; if it is
installed, a note says whether it loads the written models.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from poolgrad_lowering.entry.file_io import FileOptions, OnProven, SideOutputs, require_other_file, with_data
from poolgrad_lowering.entry.files import lower_path
from poolgrad_lowering.model.diagnostics.errors import FileError, UsageError, explained
from poolgrad_lowering.model.diagnostics.note_codes import NoteCode
from poolgrad_lowering.model.io.atomic_write import Content, NewFolder, PathLike, write_bytes, write_files
from poolgrad_lowering.model.io.checkpoint import as_npz, read_checkpoint_file
from poolgrad_lowering.model.io.limits import DEFAULT_LIMITS, Limits
from poolgrad_lowering.model.io.model_file import parse_model, read_bytes
from poolgrad_lowering.report.report import Note, Report

TRAINING = "training_model.onnx"
OTHERS = ("eval_model.onnx", "optimizer_model.onnx")
STATES = ("checkpoint", "nominal_checkpoint")
STEP, VALUES = "training_step.onnx", "values.npz"
"""The files of a step in standard ONNX."""

NEWEST_IR_VERSION = 10
"""The newest IR version that onnxruntime 1.19.2 loads, the last release with training; onnx now writes newer ones."""


def lower_artifacts(
    source: PathLike,
    destination: PathLike,
    *,
    target: str | None = None,
    forward: bool = True,
    strict: bool = False,
    verify: bool = False,
    on_proven: OnProven | None = None,
    report_path: PathLike | None = None,
    standard: bool = False,
    accumulate: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Report:
    """Lower the training model in a folder of artifacts, and write all artifacts to a new folder.

    The folder must have a checkpoint; the evaluation and the optimizer model are lowered too if they exist. Each model
    gets an IR version that onnxruntime-training loads. `destination` must not exist or be an empty folder, and is
    created completely or not at all. Returns the report of the training model. The other parameters and the errors are
    those of `lower_file`.

    With `standard` the folder has a step in standard ONNX instead: `training_step.onnx`, the training model joined with
    the updates of the optimizer model; `eval_model.onnx`, whose inputs have the same names; `values.npz`, the first
    values of weights and state for `runtime.TrainingLoop`; and the checkpoint. Where onnxruntime is installed, a note
    of the report says whether it loads the models. With `accumulate` the step has an input `update`, and only adds up
    gradients where it is false. `strict` then also asks that every operator has a definition.
    """
    if accumulate and not standard:
        raise UsageError("accumulate is an option of a step in standard ONNX: standard must be given too")
    options = FileOptions(
        target=target,
        forward=forward,
        limits=limits,
        strict=strict,
        verify=verify,
        copy_external=True,
        standard=standard,
    )
    source, destination = Path(source), Path(destination)
    described = None if report_path is None else Path(report_path)
    found = _found(source)
    if described is not None:
        artifacts = [folder / name for folder in (source, destination) for name in (*found.models, *found.states)]
        require_other_file(described, "report", *artifacts)
    with NewFolder(destination) as folder:
        if standard:
            report, contents = _step(found, folder, options, on_proven, accumulate=accumulate)
        else:
            report, contents = _lowered(found, folder, options, on_proven), {}
        if not (strict and report.incomplete):
            write_files({**contents, **{folder.file(name): source / name for name in found.states}})
            if report.standard is not None and report.standard.is_standard:
                models = [path for path in contents if path.suffix == ".onnx"]
                report = report._replace(notes=(*report.notes, *session_notes(models)))
            folder.commit()
        if described is not None:
            write_bytes(described, report.to_json().encode())
    return report


class _Artifacts(NamedTuple):
    """Artifacts: their folder, what all names begin with, the models, the training model first, and the checkpoint."""

    folder: Path
    prefix: str
    models: list[str]
    states: list[str]


def _lowered(found: _Artifacts, folder: NewFolder, options: FileOptions, on_proven: OnProven | None) -> Report:
    """Write the lowered models; return the report of the training model."""
    targets = [folder.file(name) for name in found.models]
    reports = [
        lower_path(found.folder / name, target, options, SideOutputs(), on_proven)
        for name, target in zip(found.models, targets, strict=True)
    ]
    if not (options.strict and reports[0].incomplete):
        for target in targets:
            _give_loadable_version(target)
    return reports[0]


def _step(
    found: _Artifacts,
    folder: NewFolder,
    options: FileOptions,
    on_proven: OnProven | None,
    *,
    accumulate: bool,
) -> tuple[Report, dict[Path, Content]]:
    """Return the report of the training model, and the files of the step in standard ONNX, if it is to be written."""
    from poolgrad_lowering.entry.standard_step import renamed_evaluation, training_step  # noqa: PLC0415 - loads bodies

    source, prefix = found.folder, found.prefix
    checkpoint = read_checkpoint_file(source / f"{prefix}{STATES[0]}")
    training, optimizer = source / found.models[0], source / f"{prefix}{OTHERS[1]}"
    step = training_step(training, optimizer, checkpoint, options, on_proven, accumulate=accumulate)
    model, gate, values, report = step
    if options.strict and report.incomplete:
        return report, {}
    contents, written = with_data(gate, model, training, folder.file(f"{prefix}{STEP}"))
    report = report._replace(bytes_after=len(written))
    evaluation = source / (prefix + OTHERS[0])
    if evaluation.name in found.models:
        model, gate = renamed_evaluation(evaluation, checkpoint, options)
        contents |= with_data(gate, model, evaluation, folder.file(evaluation.name))[0]
    contents[folder.file(f"{prefix}{VALUES}")] = as_npz(values)
    return report, contents


def _found(folder: Path) -> _Artifacts:
    with explained(f"cannot read '{folder}'"):
        prefix = _prefix(folder)
        others = [prefix + name for name in OTHERS if (folder / (prefix + name)).exists()]
        return _Artifacts(folder, prefix, [prefix + TRAINING, *others], list(_states(folder, prefix)))


def _prefix(folder: Path) -> str:
    """The common prefix of the artifacts' names, which `generate_artifacts` can be given; empty by default."""
    if not folder.is_dir():
        raise FileError(f"cannot read '{folder}': it is not a folder")
    found = sorted(path.name for path in folder.iterdir() if path.name.endswith(TRAINING))
    if not found:
        raise FileError(f"'{folder}' holds no {TRAINING}: give the folder that generate_artifacts has written")
    if len(found) > 1:
        raise FileError(
            f"'{folder}' holds several training models, {' and '.join(found)}: give each a folder of its own"
        )
    return found[0].removesuffix(TRAINING)


def _states(folder: Path, prefix: str) -> Iterator[str]:
    """The paths of the checkpoint files, relative to the folder. A checkpoint is a file, several files, or a folder."""
    if not (folder / f"{prefix}{STATES[0]}").exists():
        raise FileError(
            f"'{folder}' holds no {prefix}{STATES[0]}, which training starts from: generate the artifacts again"
        )
    for path in sorted(folder.iterdir()):
        if path.name.startswith(tuple(prefix + name for name in STATES)):
            files = sorted(path.rglob("*")) if path.is_dir() else [path]
            yield from (file.relative_to(folder).as_posix() for file in files if not file.is_dir())


def _give_loadable_version(path: Path) -> None:
    """Lower the model's IR version to `NEWEST_IR_VERSION` if it is newer."""
    model = parse_model(read_bytes(path), path)
    if model.ir_version > NEWEST_IR_VERSION:
        model.ir_version = NEWEST_IR_VERSION
        write_bytes(path, model.SerializeToString())


def session_notes(paths: Sequence[Path]) -> tuple[Note, ...]:
    """Return what onnxruntime says of these models: a note that it loads them, or a warning for each that it does not.

    Empty without onnxruntime.
    """
    try:
        import onnxruntime  # noqa: PLC0415 - optional
    except ImportError:
        return ()
    name = f"onnxruntime {onnxruntime.__version__}"
    refusals = {path.name: refusal for path in paths if (refusal := _refusal(path))}
    if not refusals:
        return (Note(NoteCode.SESSION.value, False, f"{name} loads {' and '.join(path.name for path in paths)}"),)
    texts = [f"{name} does not load {model}: {refusal}" for model, refusal in refusals.items()]
    return tuple(Note(NoteCode.NO_SESSION.value, True, NoteCode.NO_SESSION.with_advice(text)) for text in texts)


def _refusal(path: Path) -> str:
    """Return the first line of onnxruntime's message about a model, empty if it loads it."""
    import onnxruntime  # noqa: PLC0415 - optional

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised as exceptions
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises errors of many classes
        return (str(error).replace(str(path), path.name).strip().splitlines() or [type(error).__name__])[0]
    return ""
