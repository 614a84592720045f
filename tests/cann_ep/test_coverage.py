# SPDX-License-Identifier: Apache-2.0

"""What the runner of `coverage` says of models whose coverage is known."""

from __future__ import annotations

import onnx
import pytest

from poolgrad_lowering.runtime import get_ep_name
from tests.harness.sessions.coverage import NOT_ON_THE_CPU, Coverage, measure, summarize
from tests.harness.sessions.mixed_sessions import ALTERNATING, CANN, image
from tests.heads import head
from tests.runtime.device_models import model_of

pytestmark = pytest.mark.cann_ep

FEEDS = {"x": image(1, 2, 4, 4), "b": image(1, 2, 4, 4)}
FRACTIONS = {name: array / 3 for name, array in FEEDS.items()}
EXACT = {"precision_mode": "must_keep_origin_dtype"}


def test_a_model_that_runs() -> None:
    found = measure(model_of(ALTERNATING), FRACTIONS, options=EXACT)
    assert found.runs
    assert found == Coverage(
        nodes={get_ep_name(): 2, CANN: 4},
        sub_models=3,
        copies={"to device": 2, "to host": 2},
        precision_mode="must_keep_origin_dtype",
        same_bits=True,
    )


def test_a_model_in_float16_has_other_bits() -> None:
    found = measure(model_of(ALTERNATING), FRACTIONS, options={"precision_mode": "force_fp16"})
    assert not found.same_bits
    assert not found.runs
    assert 0 < found.largest_error < 2**-10  # a unit in the last place of float16
    assert not found.error


def test_all_sub_models_are_counted_though_the_first_is_refused() -> None:
    model = model_of(ALTERNATING)
    model.opset_import[0].version = 19
    found = measure(model, FEEDS, as_it_is=True)
    assert found.sub_models == len(found.refused) == 3
    assert all("type[ai.onnx::19::" in refusal for refusal in found.refused)
    assert "aclgrphParseONNXFromMem" in found.error
    assert not found.runs


def test_scalar_inputs_of_sub_models() -> None:
    text = ALTERNATING.replace("W] b)", "W] b, float rate)").replace(
        "s = Add (dx, b)", "t = Mul (b, rate) s = Add (dx, t)"
    )
    found = measure(model_of(text), {**FEEDS, "rate": image(seed=2)}, as_it_is=True)
    [scalar] = found.rank_0_inputs
    assert scalar.endswith(": rate")
    assert ["E10002" in refusal for refusal in found.refused] == [True]
    assert "aclgrphBuildModel" in found.error
    mended = measure(model_of(text), {**FEEDS, "rate": image(seed=2)})
    assert mended.runs
    assert mended.rank_0_inputs == []


def test_a_model_that_the_cpu_provider_does_not_run() -> None:
    text = head(17) + " model (float[2] x) => (float[2] y) {y = Nothing (x)}"
    assert measure(onnx.parser.parse_model(text), {"x": image(2)}).error.startswith(NOT_ON_THE_CPU)


def test_the_summary() -> None:
    right = Coverage({CANN: 2}, 2, same_bits=True)
    refused = Coverage(
        {CANN: 1, "CPUExecutionProvider": 1}, 1, ["m_1: E11010: the plugin of a (ai.onnx::18::Conv) failed: no"]
    )
    scalar = Coverage({CANN: 1}, 1, ["m_1: E10002: input_shape: 'r' is not name:sizes"], ["m_1: r"], error="Fail")
    wrong = Coverage({CANN: 1}, 3)
    found = summarize({"right": right, "refused": refused, "scalar": scalar, "wrong": wrong})
    assert found["sessions"] == 4
    assert found["run"] == 1
    assert found["taken and without scalar inputs"] == 2
    assert found["no node on the CPU"] == 3
    assert (found["sub-models"], found["refused sub-models"], found["scalar inputs"]) == (7, 2, 1)
    assert found["refusals"] == {
        "E10002: input_shape: '…' is not name:sizes": ["scalar"],
        "E11010: ai.onnx::18::Conv: no": ["refused"],
    }
    assert found["other bits"] == ["refused", "wrong"]
