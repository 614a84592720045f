# SPDX-License-Identifier: Apache-2.0

"""onnxruntime-training trains a network of average pools with our operators as it trains the original."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from models.ort_nets import Net, forward
from poolgrad_lowering import lower, lower_artifacts, verify
from poolgrad_lowering.runtime.training import session_options
from poolgrad_lowering.verification.result import Verification
from tests.harness.sessions.ep_process import run_python
from tests.harness.torch_npu.client import ATLAS_A2
from tests.training.training_runs import AVERAGES, SEED, Outcome, make_artifacts, train

pytestmark = pytest.mark.training

GRADIENT = "AvgPool3DGrad"
TOLERANCE = 2e-6
"""Of a loss or a weight. The host library divides, as Ascend 950 does, and the bodies add in another order;
onnxruntime's kernel multiplies by reciprocals. Terms differ in the last bit, unless all divisors are powers of two, and
50 steps of AdamW amplify that: 1.2e-7 is measured, the last bit of a loss above 1.
"""
RUNS: list[tuple[str, Callable[[], Any]]] = [
    ("lowered.onnx", session_options),
    ("bare.onnx", session_options),  # nothing but the custom operators can run it
    ("lowered.onnx", onnxruntime.SessionOptions),  # nothing but the bodies
]


def make_lowered(folder: Path, net: Net) -> None:
    """The artifacts, and the training model lowered, with function bodies and without."""
    make_artifacts(folder, forward(net, SEED))
    lowered = lower(onnx.load(folder / "training_model.onnx")).model
    operators = [node.op_type for node in lowered.graph.node]
    assert operators.count(GRADIENT) == net.pools
    assert "AveragePoolGrad" not in operators
    onnx.save(lowered, folder / "lowered.onnx")
    del lowered.functions[:]
    onnx.save(lowered, folder / "bare.onnx")


def distance(one: Outcome, other: Outcome) -> float:
    """The largest difference of a loss or a weight."""
    assert one.weights.keys() == other.weights.keys()
    pairs = [
        (np.frombuffer(one.weights[name], np.float32), np.frombuffer(other.weights[name], np.float32))
        for name in one.weights
    ]
    return max(float(np.abs(a - b).max()) for a, b in (*pairs, (np.array(one.losses), np.array(other.losses))))


@pytest.mark.parametrize("name", AVERAGES)
def test_losses_and_weights_are_those_of_the_original(name: str, tmp_path: Path) -> None:
    make_lowered(tmp_path, AVERAGES[name])
    original = train(tmp_path, "training_model.onnx", onnxruntime.SessionOptions())
    assert len(set(original.losses)) == len(original.losses)
    for model, options in RUNS:
        found = train(tmp_path, model, options())
        if name == "tiling":  # quotients by 4 are exact, and none is added to another
            assert found == original
        else:
            assert distance(found, original) < TOLERANCE


def check_equal(folder: str, tolerance: float) -> None:
    """The losses and weights of the original, to a tolerance; to none: the same bits."""
    original = train(Path(folder), "training_model.onnx", onnxruntime.SessionOptions())
    found = train(Path(folder), "bare.onnx", session_options())
    assert found == original or distance(found, original) < tolerance


@pytest.mark.parametrize("name", AVERAGES)
def test_the_arithmetic_of_atlas_a2(name: str, tmp_path: Path) -> None:
    """Which multiplies, as onnxruntime's kernel does: nothing differs, but for a convolution's order of sums."""
    make_lowered(tmp_path, AVERAGES[name])
    tolerance = TOLERANCE if name == "padding counts" else 0.0
    code = f"from {__name__} import check_equal; check_equal({str(tmp_path)!r}, {tolerance}); answer(True)"
    assert run_python(code, ACLNN_HOST_SOC=ATLAS_A2)


def test_a_symbolic_batch(tmp_path: Path) -> None:
    """With which the original ends the process."""
    fixed, symbolic = tmp_path / "fixed", tmp_path / "symbolic"
    make_lowered(fixed, AVERAGES["overlapping"])
    make_artifacts(symbolic, forward(replace(AVERAGES["overlapping"], batch="batch"), SEED))
    lower_artifacts(symbolic, tmp_path / "lowered")
    expected = train(fixed, "lowered.onnx", session_options())
    assert train(tmp_path / "lowered", "training_model.onnx", session_options()) == expected


@pytest.mark.parametrize("batch", [None, "batch"])
@pytest.mark.parametrize("name", AVERAGES)
def test_a_step_in_standard_onnx_is_proven(name: str, batch: str | None, tmp_path: Path) -> None:
    make_artifacts(tmp_path / "artifacts", forward(replace(AVERAGES[name], batch=batch), SEED))
    proofs: list[Verification] = []
    lower_artifacts(tmp_path / "artifacts", tmp_path / "step", standard=True, verify=True, on_proven=proofs.append)
    [proof] = proofs
    assert proof.proven
    assert [site.status for site in proof.sites] == ["proven"] * AVERAGES[name].pools
    assert proof.whole_model.status == "same"


@pytest.mark.parametrize(
    ("sizes", "attributes"),
    [
        ("1,2,4,5,5", "kernel_shape = [2,2,2]"),
        ("1,2,5", "kernel_shape = [2], strides = [2], ceil_mode = 1, count_include_pad = 1"),
    ],
)
def test_averages_of_which_the_package_has_another_gradient(sizes: str, attributes: str) -> None:
    """As the page says; the lowered model is proven by the definition."""
    original = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 18]> g (float[{sizes}] x) => (float[{sizes}] dX)'
        f" {{ y = AveragePool <{attributes}> (x) dX = AveragePoolGrad <{attributes}> (y) }}"
    )
    found = verify(original, lower(original).model)
    assert [site.status for site in found.sites] == ["proven"]
    assert found.whole_model.status == "differs"
