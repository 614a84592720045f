# SPDX-License-Identifier: Apache-2.0

"""Opens written models in onnxruntime, if it is installed, and says what came of it. Nothing else here needs it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from poolgrad_lowering.diagnostics.note_codes import NoteCode
from poolgrad_lowering.report.report import Note


def session_notes(paths: Sequence[Path]) -> tuple[Note, ...]:
    """Return what onnxruntime says of these models: a note that it loads them, or a warning for each that it does not.

    Empty without onnxruntime.
    """
    try:
        import onnxruntime  # noqa: PLC0415 - optional
    except ImportError:
        return ()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised as exceptions
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    name, refused = f"onnxruntime {onnxruntime.__version__}", []
    for path in paths:
        try:
            onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime raises errors of many classes
            what = f"{name} does not load {path.name}: {str(error).strip().splitlines()[0]}".replace(str(path), path.name)
            refused.append(Note(NoteCode.NO_SESSION.value, True, NoteCode.NO_SESSION.with_advice(what)))
    loaded = Note(NoteCode.SESSION.value, False, f"{name} loads {' and '.join(path.name for path in paths)}")
    return tuple(refused) or (loaded,)
