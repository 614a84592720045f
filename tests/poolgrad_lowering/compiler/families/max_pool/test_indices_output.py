# SPDX-License-Identifier: Apache-2.0

"""MaxPools that get their Indices output, and what else must stay as it is."""

from __future__ import annotations

import pytest

from poolgrad_lowering.compiler.lowering.options import Options
from poolgrad_lowering.compiler.lowering.pipeline import Decisions
from poolgrad_lowering.entry.in_place import lower_in_place
from poolgrad_lowering.model.gate.gate import Gate
from tests.pool_graphs import parse

GRADIENT = '<ksize=[1,1,2,2], strides=[1,1,2,2], padding="VALID", data_format="NCHW">'


@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize("kept", ["y", ""], ids=["pooled_read", "pooled_unread"])
def test_the_model_is_as_it_was_until_the_rewrite(forward: bool, kept: str) -> None:
    """What observes a lowering sees a pool without Indices, and facts of what the model says."""
    output = "float[2,3,4,4] y, " if kept else ""
    model = parse(
        f"""g (float[2,3,8,8] x, float[2,3,4,4] dy) => ({output}float[2,3,8,8] dx) {{
            y = MaxPool <kernel_shape=[2,2], strides=[2,2]> (x)
            dx = MaxPoolGrad {GRADIENT} (x, y, dy)
        }}"""
    )
    before, seen = model.SerializeToString(), []

    def observe(decisions: Decisions) -> None:
        [pool] = [
            node for one in decisions.replaced for node in one.root.scope.proto.node if node.op_type == "MaxPool"
        ][:1]
        assert list(pool.output) == ["y"]
        seen.append(model.SerializeToString())

    lower_in_place(model, Options(forward=forward), Gate(), observe)
    assert seen == [before]
    outputs = [list(node.output) for node in model.graph.node if node.op_type in ("MaxPool", "MaxPool3DWithArgmaxV2")]
    assert outputs == [["y", "y/argmax" if forward else "y/indices"]]
