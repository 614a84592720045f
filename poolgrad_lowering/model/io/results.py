# SPDX-License-Identifier: Apache-2.0

"""Results that hold a model, which functions accept in its place. Imports no onnx, which the runtime loads late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from onnx import ModelProto


class WithModel(Protocol):
    """A result with a model, such as `LoweringResult`."""

    @property
    def model(self) -> ModelProto:
        """The model."""


def model_of(given: Any) -> Any:
    """Return the model of a result, and anything else as it is."""
    return getattr(given, "model", given)
