# SPDX-License-Identifier: Apache-2.0

"""Adaptive gradients as PyTorch's operators, text in and text out: every spelling that is lowered, and to what."""

from __future__ import annotations

import onnx
import pytest

from poolgrad_lowering import lower
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.graphs import Written
from tests.patterns.aten_graphs import PLANE_INDICES, adaptive_gradient
from tests.patterns.lowering_checks import NearMisses, check_lowered, check_refused, near_misses
from tests.texts import Says

FORWARD = 'y, i = org.pytorch.aten.ATen <operator="adaptive_max_pool2d"> (x, size)'


@pytest.mark.parametrize("operator", ["ATen", "op_type"])
def test_forward_spelt_by_its_own_name(operator: str, written: Written) -> None:
    """The TorchScript exporter's fallback modes: the backward node is in either spelling."""
    forward = "y, i = org.pytorch.aten.adaptive_max_pool2d (x, size)"
    node = {
        "ATen": 'dx = org.pytorch.aten.ATen <operator="adaptive_max_pool2d_backward", overload_name=""> (dy, x, i)',
        "op_type": "dx = org.pytorch.aten.adaptive_max_pool2d_backward (dy, x, i)",
    }[operator]
    check_lowered(adaptive_gradient(forward=forward, backward=node), written)


def test_output_size_from_outside() -> None:
    """Nothing needs it: the operator takes the windows from the shapes."""
    text = adaptive_gradient(constant="size = Identity (given)")
    text = text.replace("float[2,3,4,5] dy)", "float[2,3,4,5] dy, int64[2] given)")
    assert [anchor.op for anchor in lower(onnx.parser.parse_model(text)).report.lowered] == ["AdaptiveMaxPool3DGrad"]


def test_indices_of_a_max_pool_made_plane_local(written: Written) -> None:
    """An exporter writes a forward whose sizes divide as MaxPool."""
    forward = PLANE_INDICES.replace("[3,3], strides=[2,2], pads=[1,1,1,1]", "[3,4], strides=[3,4]")
    check_lowered(adaptive_gradient("3,3", constant="unused = Identity (x)", forward=forward), written)


NEAR_MISSES: NearMisses = {
    (Code.INDICES_SOURCE, "indices_of_another_operator"): adaptive_gradient(
        forward=FORWARD.replace("adaptive_max", "adaptive_min")
    ),
    (Code.POOL_ATTRIBUTES, "indices_of_a_pool_over_three_axes"): adaptive_gradient(forward=FORWARD.replace("2d", "3d")),
    (Code.POOL_ATTRIBUTES, "output_size_zero"): adaptive_gradient("0,5"),
}


@pytest.mark.parametrize(("code", "text"), near_misses(NEAR_MISSES))
def test_near_miss(code: Code, text: str, says: Says) -> None:
    says(check_refused(text, code))
