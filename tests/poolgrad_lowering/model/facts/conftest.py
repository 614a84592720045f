# SPDX-License-Identifier: Apache-2.0

"""What the tests of the inference share."""

from __future__ import annotations

import onnx
import pytest
from onnx import ModelProto


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[ModelProto]:
    """The models on which inference runs."""
    found: list[ModelProto] = []
    infer = onnx.shape_inference.infer_shapes

    def watched(model: ModelProto | bytes) -> ModelProto:
        found.append(model if isinstance(model, ModelProto) else ModelProto.FromString(model))
        return infer(model)

    monkeypatch.setattr(onnx.shape_inference, "infer_shapes", watched)
    return found
