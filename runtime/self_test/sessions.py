# SPDX-License-Identifier: Apache-2.0

"""Sessions of the self-test, in which the provider must claim every node of the dialect."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.runtime.assignment import assignment
from poolgrad_lowering.runtime.library import get_ep_name
from poolgrad_lowering.runtime.self_test.reference import Array
from poolgrad_lowering.runtime.session import create_session

if TYPE_CHECKING:
    import onnx
    import onnxruntime


class RefusedError(Exception):
    """The provider did not claim a node, which runs as its function body; the message names it."""


class CloseError(Exception):
    """Results have other bits than those of Ascend's kernels, within the rounding of the definition's sums."""


class DifferentError(Exception):
    """A result differs from the definition; the message has the first element that differs."""


def open_session(model: onnx.ModelProto, backend: str, **options: Any) -> onnxruntime.InferenceSession:
    """Return a session in which the provider runs every node of the dialect.

    Raises `RefusedError` if it does not claim one, and the errors of `create_session`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # this function checks for it
        session = create_session(model, backend=backend, **options)
    taken = [node.op_type for node in assignment(session) if node.provider == get_ep_name()]
    left = [node.op_type for node in model.graph.node if node.domain == DOMAIN and node.op_type not in taken]
    if left:
        raise RefusedError(f"the provider left {', '.join(left)} to its function body")
    return session


def run(session: onnxruntime.InferenceSession, feeds: Mapping[str, Array]) -> list[Array]:
    """Return all outputs of one Run."""
    return list(session.run(None, dict(feeds)))


def check_same(name: str, found: Array, expected: Array) -> None:
    """Raise `DifferentError` unless both are the same bit for bit; all NaNs are equal."""
    _require_equal(name, found, expected, (_bits(found) != _bits(expected)) & ~(np.isnan(found) & np.isnan(expected)))


def check_close(name: str, found: Array, expected: Array, tolerance: Array) -> None:
    """Raise `DifferentError` if an element differs from `expected` by more than its `tolerance`."""
    # Not "distance > tolerance", which is false for NaN.
    _require_equal(name, found, expected, ~(np.abs(found.astype(np.float64) - expected) <= tolerance))


def _require_equal(name: str, found: Array, expected: Array, differs: Array) -> None:
    if not differs.any():
        return
    where = tuple(np.argwhere(differs)[0].tolist())
    raise DifferentError(
        f"{name}: {np.count_nonzero(differs)} of {differs.size} elements differ, the first at {list(where)}: "
        f"{found[where]!s}, expected {expected[where]!s}"
    )


def _bits(array: Array) -> Array:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)
