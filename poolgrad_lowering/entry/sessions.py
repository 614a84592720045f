# SPDX-License-Identifier: Apache-2.0

"""Opens written models in onnxruntime, if it is installed, and says what came of it. Nothing else here needs it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from poolgrad_lowering.model.diagnostics.note_codes import NoteCode
from poolgrad_lowering.report.report import Note


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
