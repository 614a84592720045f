# SPDX-License-Identifier: Apache-2.0

"""Training steps out of PyTorch beside the CANN provider: all of a step is on the NPU, and nothing is copied in it.

`make test-cann-ep` writes a few steps to build/steps; all that are there are measured.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from poolgrad_lowering import lower
from tests.cann_ep.placements import assert_predicted
from tests.cann_ep.write_coverage import rounds_in_another_order, row
from tests.harness.sessions.coverage import SOCS, Coverage, measure
from tests.harness.sessions.mixed_sessions import ROOT

STEPS = sorted((ROOT / "build" / "steps").glob("*.onnx"))

pytestmark = pytest.mark.cann_ep


def measured(file: Path, target: str) -> tuple[onnx.ModelProto, Coverage]:
    model = lower(onnx.load(file), target=target, keep_onnx=True).model
    feeds = {name[3:]: array for name, array in np.load(file.with_suffix(".npz")).items()}
    return model, measure(model, feeds, soc=SOCS[target])


@pytest.mark.parametrize("target", SOCS)
@pytest.mark.parametrize("file", [file for file in STEPS if "bfloat16" not in file.stem], ids=lambda file: file.stem)
def test_a_step_is_on_the_npu(file: Path, target: str) -> None:
    model, session = measured(file, target)
    assert_predicted(model, session)
    found = row(file.stem, model, session)
    problems = ("refused", "scalars", "on_cpu", "copies", "violations", "error")
    assert {name: found[name] for name in problems if found[name]} == {}
    draws_or_rounds = "draws" in found["why"] or "float16" in file.stem
    draws_or_rounds |= rounds_in_another_order(found["why"], target)
    assert found["same_bits"] or draws_or_rounds, found["why"]


def test_there_are_steps() -> None:
    assert len(STEPS) >= 3
