# SPDX-License-Identifier: Apache-2.0

"""Options of onnxruntime-cann's own provider, with which it computes right numbers beside this package's provider."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from poolgrad_lowering.model.diagnostics.errors import SessionError

logger = logging.getLogger(__name__)

CANN_PROVIDER = "CANNExecutionProvider"
"""onnxruntime-cann's own provider, for the rest of the graph on the NPU."""

_GRAPH_MODE, _SUBGRAPHS = "enable_cann_graph", "enable_cann_subgraph"
"""Its options: whole graphs instead of single operators (on by default), and parts of graphs (off by default)."""
_STORE, _PRECISION = "dump_om_model", "precision_mode"
"""Whether built parts are files in the current folder (on by default), and which element types GE may choose."""

_KEEPS_TYPES, _FLOAT16_WHERE_NEEDED = "must_keep_origin_dtype", "allow_fp32_to_fp16"
_WITHOUT_FLOAT32_CUBE = ("ascend310p", "ascend910a", "ascend910pro", "ascend910premium")
_FIRST_GENERATION = "ascend910b"
"""The exact name; Ascend910B1 and the like are of Atlas A2."""


_of_process: list[str] = []
"""The element types of the first session in graph mode, with which CANN builds all parts of the process."""


def is_graph_mode(options: dict[str, str]) -> bool:
    """Whether the provider hands parts of the graph to GE."""
    return _is_on(options.get(_GRAPH_MODE, "1"))


def set_defaults(options: dict[str, str], soc: str) -> None:
    """Set the options of graph mode that a user has not set. `soc` is the device's name.

    Parts of the graph are taken, not the whole graph or nothing. Built parts are not stored: a stored one is named
    after the names and shapes of its inputs, and a model with other weights would run as the one before. Element types
    are kept: without the option GE computes float32 in float16. Atlas training and inference products have no float32
    unit for convolutions and matrix products; there GE may use float16 where it must, which is logged as a warning.

    Raises `SessionError` if the options exclude parts of graphs.
    """
    if not is_graph_mode(options):
        return
    if not _is_on(options.setdefault(_SUBGRAPHS, "1")):
        raise SessionError(
            f"with {_GRAPH_MODE} and without {_SUBGRAPHS}, {CANN_PROVIDER} takes a whole graph or nothing, "
            f"which nodes of domain npu rule out: set {_SUBGRAPHS} to '1', or {_GRAPH_MODE} to '0'"
        )
    options.setdefault(_STORE, "0")
    if _PRECISION in options:
        return
    if _has_float32_cube(soc):
        options[_PRECISION] = _KEEPS_TYPES
    else:
        options[_PRECISION] = _FLOAT16_WHERE_NEEDED
        logger.warning(
            "%s has no float32 unit for convolutions and matrix products: %s is %s, which computes them in float16",
            soc,
            _PRECISION,
            _FLOAT16_WHERE_NEEDED,
        )


def require_one_precision(options: Mapping[str, str]) -> None:
    """Raise `SessionError` if the options ask for other element types than an earlier session of the process had."""
    if _of_process and options[_PRECISION] != _of_process[0]:
        raise SessionError(
            f"{_PRECISION} is {_of_process[0]} in this process: CANN takes it from the first session in graph mode; "
            f"for {options[_PRECISION]}, make the session in a process of its own"
        )


def note_precision(options: Mapping[str, str]) -> None:
    """Note the element types of a session that was made."""
    if not _of_process:
        _of_process.append(options[_PRECISION])


def _has_float32_cube(soc: str) -> bool:
    name = soc.lower()
    return name != _FIRST_GENERATION and not name.startswith(_WITHOUT_FLOAT32_CUBE)


def _is_on(option: object) -> bool:
    """Whether the CANN provider takes the value of one of its options for true."""
    return str(option) in ("1", "True", "true")
