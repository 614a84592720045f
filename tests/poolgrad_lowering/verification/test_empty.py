# SPDX-License-Identifier: Apache-2.0

"""Gradients of tensors without elements, whose Reshapes take a size of 0 as it is (`allowzero`)."""

from __future__ import annotations

import pytest
from onnx.parser import parse_model

from poolgrad_lowering import lower, verify
from tests.patterns.lookalikes.scatter import gradient


@pytest.mark.parametrize(("batch", "channels"), [(0, 3), (2, 0)])
def test_a_gradient_without_elements_is_proven(batch: int, channels: int) -> None:
    x, pooled = f"{batch}, {channels}, 9, 12", f"{batch}, {channels}, 5, 6"
    model = parse_model(
        gradient(
            inputs=f"float[{x}] x, float[{pooled}] dy",
            outputs=f"float[{pooled}] y, float[{x}] dx",
            constants={
                "row_shape": "int64[2] row_shape = {0, 30}",
                "canvas_shape": "int64[2] canvas_shape = {0, 108}",
                "x_shape": f"int64[4] x_shape = {{{x}}}",
            },
            rows="r = Reshape <allowzero=1> (p, row_shape)",
            updates="u = Reshape <allowzero=1> (dy, row_shape)",
            result="dx = Reshape <allowzero=1> (s, x_shape)",
        )
    )
    lowered = lower(model, target="atlas-a2").model
    assert "npu" in {node.domain for node in lowered.graph.node}
    found = verify(model, lowered)
    assert found.proven, found.sites
