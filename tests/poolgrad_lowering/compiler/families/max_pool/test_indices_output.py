# SPDX-License-Identifier: Apache-2.0

"""MaxPools that get their Indices output, and what else must stay as it is."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import inliner

from poolgrad_lowering import lower
from poolgrad_lowering.compiler.lowering.options import Options
from poolgrad_lowering.compiler.lowering.pipeline import Decisions
from poolgrad_lowering.entry.in_place import lower_in_place
from poolgrad_lowering.model.gate.gate import Gate
from tests.oracles import run_reference
from tests.pool_graphs import parse, random_feeds

GRADIENT = '<ksize=[1,1,2,2], strides=[1,1,2,2], padding="VALID", data_format="NCHW">'


@pytest.mark.parametrize("absent", [[], [""]], ids=["no_output", "empty_name"])
def test_the_pool_gets_one_output_and_nothing_else(absent: list[str]) -> None:
    model = parse(
        f"""g (float[2,3,8,8] x, float[2,3,4,4] dy) => (float[2,3,4,4] y, float[2,3,8,8] dx) {{
            y = MaxPool <kernel_shape=[2,2], strides=[2,2]> (x)
            dx = MaxPoolGrad {GRADIENT} (x, y, dy)
        }}"""
    )
    pool = model.graph.node[0]
    pool.name = "pool"
    pool.output.extend(absent)
    result = lower(model, forward=False)
    found = result.model.graph.node[0]
    assert list(found.output) == ["y", "y/indices"]
    del found.output[1:]
    found.output.extend(absent)
    assert found.SerializeToString() == pool.SerializeToString()


def test_a_pool_outside_the_gradients_scope() -> None:
    model = parse(
        f"""g (bool wanted, float[2,3,8,8] x, float[2,3,4,4] dy) => (float[2,3,8,8] dx) {{
            y = MaxPool <kernel_shape=[2,2], strides=[2,2]> (x)
            dx = If (wanted) <
                then_branch = backward () => (float[2,3,8,8] a) {{ a = MaxPoolGrad {GRADIENT} (x, y, dy) }},
                else_branch = again () => (float[2,3,8,8] b) {{ b = MaxPoolGrad {GRADIENT} (x, y, dy) }}>
        }}"""
    )
    result = lower(model, forward=False)
    assert [anchor.scope for anchor in result.report.lowered] == ["main/dx.then_branch", "main/dx.else_branch"]
    assert list(result.model.graph.node[0].output) == ["y", "y/indices"]
    feeds = {
        **random_feeds(parse("g (float[2,3,8,8] x, float[2,3,4,4] dy) => (Y) { Y = Neg(x) }")),
        "wanted": np.array(True),
    }
    assert np.array_equal(run_reference(model, feeds)["dx"], run_reference(result.model, feeds)["dx"])


@pytest.mark.parametrize("forward", [True, False])
def test_a_pool_in_a_function(forward: bool) -> None:
    model = parse(
        "g (float[2,3,8,8] x, float[2,3,4,4] dy) => (float[2,3,8,8] dx) { dx = l.training (x, dy) }",
        imports='"l": 1',
        functions=f"""<domain: "l", opset_import: ["": 16]> training (x, dy) => (dx) {{
            y = MaxPool <kernel_shape=[2,2], strides=[2,2]> (x)
            dx = MaxPoolGrad {GRADIENT} (x, y, dy)
        }}""",
    )
    result = lower(model, forward=forward)
    assert len(result.report.lowered) == 1
    pool = result.model.functions[0].node[0]
    assert list(pool.output) == ["y", "y/argmax" if forward else "y/indices"]
    feeds = random_feeds(model)
    expected = run_reference(inliner.inline_local_functions(model), feeds)["dx"]
    assert np.array_equal(expected, run_reference(inliner.inline_local_functions(result.model), feeds)["dx"])


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
