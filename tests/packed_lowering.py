# SPDX-License-Identifier: Apache-2.0

"""Two ways into the compiler, one result: a model's messages, and its bytes with most of them packed, as of a file."""

from __future__ import annotations

from onnx import ModelProto

from poolgrad_lowering import lower
from poolgrad_lowering.gate.gate import Gate
from poolgrad_lowering.ir.model import read_model
from poolgrad_lowering.lowering.options import Options
from poolgrad_lowering.lowering.pipeline import lower_in_place


def assert_same_packed(model: ModelProto, *, target: str, forward: bool = True) -> None:
    """Lower the model both ways: the same anchors with the same verdicts, the same bytes."""
    packed = read_model(model.SerializeToString())
    outcome = lower_in_place(packed, Options(target, forward), Gate())
    result = lower(model, target=target, forward=forward)
    assert outcome.described.anchors == result.report.anchors
    assert packed.SerializeToString() == result.model.SerializeToString()
