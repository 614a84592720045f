"""Sessions of the self-test: on the provider alone, and an error where the provider does not take a node."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.runtime.assignment import assignment
from poolgrad_lowering.runtime.library import get_ep_name
from poolgrad_lowering.runtime.registration import import_onnxruntime
from poolgrad_lowering.runtime.session import create_session

if TYPE_CHECKING:
    import onnx
    import onnxruntime

Array = npt.NDArray[Any]
_ERRORS_ONLY = 3  # onnxruntime's severity


class RefusedError(Exception):
    """The provider left a node to its function body; the message names it."""


class DifferentError(Exception):
    """A result is not what the definition gives; the message has the first element that differs."""


def open_session(model: onnx.ModelProto, backend: str, **options: Any) -> onnxruntime.InferenceSession:
    """A session in which the provider has every node of the dialect.

    Raises `RefusedError` if it does not take one, and what `create_session` raises.
    """
    quiet = import_onnxruntime().SessionOptions()
    quiet.log_severity_level = _ERRORS_ONLY
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of what is asked next
        session = create_session(model, backend=backend, session_options=quiet, **options)
    taken = [node.op_type for node in assignment(session) if node.provider == get_ep_name()]
    left = [node.op_type for node in model.graph.node if node.domain == DOMAIN and node.op_type not in taken]
    if left:
        raise RefusedError(f"the provider left {', '.join(left)} to its function body")
    return session


def run(session: onnxruntime.InferenceSession, feeds: Mapping[str, Array]) -> list[Array]:
    """All outputs of one Run."""
    return list(session.run(None, dict(feeds)))


def demand_same(name: str, found: Array, expected: Array) -> None:
    """Raise `DifferentError` unless both are the same bit for bit; one NaN is as good as another."""
    _demand(name, found, expected, (_bits(found) != _bits(expected)) & ~(np.isnan(found) & np.isnan(expected)))


def demand_close(name: str, found: Array, expected: Array, tolerance: Array) -> None:
    """Raise `DifferentError` where an element is farther from `expected` than its `tolerance`."""
    # Not "distance > tolerance": a NaN is not close.
    _demand(name, found, expected, ~(np.abs(found.astype(np.float64) - expected) <= tolerance))


def _demand(name: str, found: Array, expected: Array, differs: Array) -> None:
    if not differs.any():
        return
    where = tuple(np.argwhere(differs)[0].tolist())
    raise DifferentError(
        f"{name}: {np.count_nonzero(differs)} of {differs.size} elements differ, the first at {list(where)}: "
        f"{found[where]!s}, expected {expected[where]!s}"
    )


def _bits(array: Array) -> Array:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)
