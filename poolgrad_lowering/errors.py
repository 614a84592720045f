"""The exceptions that leave this package: one family, each message saying what, where and what to do."""

from __future__ import annotations


class PoolgradError(Exception):
    """Base of every error that poolgrad_lowering raises on purpose."""


class UnknownTargetError(PoolgradError, ValueError):
    """The name is neither a product nor a SoC."""


class InvalidModelError(PoolgradError, ValueError):
    """The input is not an ONNX model that can be worked on."""


class FileError(PoolgradError, OSError):
    """A file cannot be read or written."""


class VerificationError(PoolgradError):
    """A lowered model is not proven to compute what its original does."""
