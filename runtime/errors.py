# SPDX-License-Identifier: Apache-2.0

"""The errors of the runtime."""

from __future__ import annotations

from poolgrad_lowering.model.diagnostics.errors import PoolgradError


class LibraryMissingError(PoolgradError, FileNotFoundError):
    """A shared library of this package is not installed."""


class OnnxRuntimeMissingError(PoolgradError, ImportError):
    """No onnxruntime is installed, or one that is too old for plugin execution providers."""


class SessionError(PoolgradError, RuntimeError):
    """The provider cannot be registered, or a session cannot be created on it."""
