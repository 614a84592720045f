# SPDX-License-Identifier: Apache-2.0

"""Brings a model into the form that GE reads, before a session runs parts of it in graph mode."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poolgrad_lowering.model.diagnostics.errors import SessionError
from poolgrad_lowering.model.diagnostics.text import first_of

if TYPE_CHECKING:
    import onnx

    from poolgrad_lowering.model.diagnostics.obstacles import NodeObstacle

_DATA_FOLDER = "session.model_external_initializers_file_folder_path"
"""The session entry with the folder of the external data of a model that is given as bytes."""
_SHOWN = 3
"""Obstacles that a message names."""
_CALLER = 4
"""The place of the caller of `create_session` in the stack, for warnings."""


def for_graph_mode(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto, options: Any, *, force: bool
) -> tuple[str | os.PathLike[str] | bytes | onnx.ModelProto, bool]:
    """Return the bytes of the model in a form that GE reads, and whether the indices of all gradients are proven.

    `options` are the session's: they learn the data's folder. A model that this package cannot read is returned as it
    is, with a warning.

    Raises `SessionError` if GE refuses or changes a node of it; with `force` that is a warning.
    """
    from google.protobuf.message import DecodeError  # noqa: PLC0415 - importing the runtime must not load onnx

    from poolgrad_lowering.ge.graph_mode import prepare_for_graph_mode  # noqa: PLC0415 - as above
    from poolgrad_lowering.model.io.external_data import ExternalData  # noqa: PLC0415 - as above
    from poolgrad_lowering.model.ir.external import ModelFolder  # noqa: PLC0415 - as above

    path = Path(model) if isinstance(model, (str, os.PathLike)) else None
    try:
        prepared = parsed(model)
        folder = None if path is None else ModelFolder.of_file(path)
        outcome = prepare_for_graph_mode(prepared, ExternalData(folder))
    except (OSError, DecodeError) as error:
        warnings.warn(f"graph mode gets the model as it is: {error}", RuntimeWarning, stacklevel=_CALLER)
        return model, False
    _report(outcome.obstacles, force=force)
    if path is not None:
        options.add_session_config_entry(_DATA_FOLDER, str(path.resolve().parent))
    return prepared.SerializeToString(), outcome.has_proven_indices


def parsed(model: str | os.PathLike[str] | bytes | onnx.ModelProto) -> onnx.ModelProto:
    """Return the model as a message that may be changed. Raises `OSError` and `DecodeError`."""
    import onnx  # noqa: PLC0415 - importing the runtime must not load onnx

    copied = onnx.ModelProto()
    if isinstance(model, onnx.ModelProto):
        copied.CopyFrom(model)
    else:
        copied.ParseFromString(model if isinstance(model, bytes) else Path(model).read_bytes())
    return copied


def _report(obstacles: Sequence[NodeObstacle], *, force: bool) -> None:
    weak = [found for found in obstacles if found.is_weak]
    strong = [found for found in obstacles if not found.is_weak]
    if strong and not force:
        advice = dict.fromkeys(found.advice for found in strong)
        raise SessionError(
            f"CANN's graph engine refuses or changes {_shown(strong)}. {' '.join(advice)} Or run single operators "
            "(enable_cann_graph=0), or create the session with force=True"
        )
    if obstacles:
        text = f"CANN's graph engine may refuse, change or leave to the CPU {_shown([*strong, *weak])}"
        warnings.warn(text, RuntimeWarning, stacklevel=_CALLER + 1)


def _shown(obstacles: Sequence[NodeObstacle]) -> str:
    texts = [f"{found.node or 'the model'} ({found.code}: {found.reason})" for found in obstacles]
    return first_of(texts, _SHOWN, "; ")
