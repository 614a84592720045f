# SPDX-License-Identifier: Apache-2.0

"""Forward pools that are a ReduceMax and an ArgMax: they move with their gradients and keep the bits, or stay."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper
from onnx.parser import parse_model

from poolgrad_lowering import lower, verify
from poolgrad_lowering.dialect import function_body
from poolgrad_lowering.dialect.op import Maximum
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.graphs import Written
from tests.oracles import assert_same_bits, run_ort, run_reference
from tests.patterns import lowering_checks
from tests.patterns.lowering_checks import Array, Runner, check_well_formed
from tests.patterns.reductions import axis_max, global_max
from tests.patterns.written_out import adaptive, pool
from tests.texts import Says

OP = "AdaptiveMaxPool3d"
RUNNERS: Sequence[Runner] = (run_reference, run_ort)
ADDED = 'dx = ScatterElements <axis={}, reduction="add"> (z, r, u)'


def maximum_over(
    axis: int, shape: tuple[int, ...], *, keeps: bool = False, opset: int = 18, element: str = "float"
) -> ModelProto:
    """Return the gradient of torch.max(x, axis, keepdim=keeps)."""
    pooled = [*shape[:axis], *([1] if keeps else []), *shape[axis + 1 :]]
    named = "(x, axes)" if opset >= 18 else "(x)"
    attribute = "" if opset >= 18 else f", axes=[{axis}]"
    y_type = f"{element}{pooled or ''}"
    text = axis_max(
        inputs=f"{element}{list(shape)} x, {y_type} dy",
        outputs=f"{y_type} y, {element}{list(shape)} dx",
        forward=f"y = ReduceMax <keepdims={int(keeps)}{attribute}> {named}",
        maximum=f"a = ArgMax <axis={axis}, keepdims={int(keeps)}> (x)",
        indices="r = Identity (a)" if keeps else "r = Unsqueeze (a, axes)",
        updates="u = Identity (dy)" if keeps else "u = Unsqueeze (dy, axes)",
        scatter=ADDED.format(axis) if element == "float" else f"dx = ScatterElements <axis={axis}> (z, r, u)",
        constants={
            "axes": f"int64[1] axes = {{{axis}}}",
            "zero": f"{element} zero = {{0}}",
            "x_shape": f"int64[{len(shape)}] x_shape = {{{','.join(map(str, shape))}}}",
        },
    )
    return parse_model(text.replace('"": 18', f'"": {opset}'))


def drawn(model: ModelProto, seed: int) -> dict[str, Array]:
    """Few values: zeros of both signs, then −1 as well, then NaN as well. What arrives has no −0.0."""
    random = np.random.default_rng(seed)
    x, dy = ([dim.dim_value for dim in held.type.tensor_type.shape.dim] for held in model.graph.input)
    dtype = helper.tensor_dtype_to_np_dtype(model.graph.input[0].type.tensor_type.elem_type)
    values = [0.0, -0.0, -1.0, np.nan][: 2 + seed % 3]
    return {"x": random.choice(values, x).astype(dtype), "dy": random.integers(1, 4, dy).astype(dtype)}


def check_same_bits(model: ModelProto, lowered: ModelProto, runners: Sequence[Runner] = RUNNERS) -> None:
    for run, seed in itertools.product(runners, range(6)):
        feeds = drawn(model, seed)
        if run is run_ort and np.isnan(feeds["x"].astype(np.float32)).any():
            continue  # where a NaN is, onnxruntime's ArgMax depends on the address and the release
        found = run(lowered, feeds)
        for name, value in run(model, feeds).items():
            assert_same_bits(found[name], value)


def check_moves(model: ModelProto, *, target: str = "atlas-a2", runners: Sequence[Runner] = RUNNERS) -> ModelProto:
    """Assert that the forward pools of all gradients move, with the same bits; neither maximum stays."""
    result = lower(model, target=target)
    assert [anchor.forward_op for anchor in result.report.anchors] == [OP] * len(result.report.anchors)
    assert result.report.anchors
    assert not {"ReduceMax", "ArgMax"} & {node.op_type for node in result.model.graph.node}
    check_same_bits(model, result.model, runners)
    check_well_formed(model, result.model, target)
    return result.model


def check_stays(model: ModelProto, code: Code) -> str:
    """Assert besides that the same bits are computed."""
    check_same_bits(model, lower(model).model)
    return lowering_checks.check_stays(model, code)


# -- what moves


def test_the_nodes(written: Written) -> None:
    """The axis is put back by a view of the maxima; the argmax is used as it is."""
    model = maximum_over(3, (2, 3, 4, 5))
    written(model, lower(model).model)


@pytest.mark.parametrize("opset", [13, 16, 17, 20])
def test_every_spelling_of_the_axes(opset: int) -> None:
    model = maximum_over(2, (2, 3, 9, 7), opset=opset)
    if opset < 16:  # scatters had no reduction
        del model.graph.node[-1].attribute[1:]
    check_moves(model)


def test_a_table_without_a_mask() -> None:
    """Where makes +0.0 of −0.0 in onnxruntime, so the body must not have one either."""
    check_moves(adaptive((6, 8), (3, 2), mask="m = Identity (w)"))


def test_proven_on_the_cpu_and_the_host_library() -> None:
    for model in (maximum_over(1, (2, 3, 4, 5)), parse_model(global_max()), adaptive((25,), (7,))):
        for backend in (None, "host"):
            assert verify(model, lower(model).model, backend=backend).proven


# -- what stays


@pytest.mark.refusal("forward-source")
def test_axes_that_are_computed() -> None:
    text = axis_max(more="int64[1] chosen", forward="y = ReduceMax <keepdims=0> (x, chosen)", scatter=ADDED.format(3))
    [anchor] = lower(parse_model(text)).report.lowered
    assert (anchor.forward_op, anchor.forward_code) == (None, "forward-source")


@pytest.mark.refusal("forward-body")
def test_a_model_that_has_another_body() -> None:
    model = maximum_over(3, (2, 3, 4, 5))
    body = function_body(OP, 18, [TensorProto.FLOAT], maximum=Maximum.FILLED)
    model.functions.append(body)
    model.opset_import.add(domain="npu", version=1)
    [anchor] = lower(model).report.lowered
    assert anchor.forward_code == "forward-body"
    body.CopyFrom(function_body(OP, 18, [TensorProto.FLOAT], maximum=Maximum.WHOLE))
    model.functions[0].CopyFrom(body)
    assert [anchor.forward_op for anchor in lower(model).report.lowered] == [OP]


@pytest.mark.refusal("forward-windows")
def test_windows_that_overlap_or_are_padded(says: Says) -> None:
    says(check_stays(pool((7, 9), (3, 2), (1, 1)), Code.FORWARD_WINDOWS))


def leaves_the_graph(model: ModelProto) -> None:
    model.graph.output.append(helper.make_tensor_value_info("a", TensorProto.INT64, [2, 3, 4]))


def is_converted(model: ModelProto) -> None:
    model.graph.node.append(helper.make_node("Cast", ["r"], ["k"], to=TensorProto.FLOAT))
    model.graph.output.append(helper.make_tensor_value_info("k", TensorProto.FLOAT, [2, 3, 4, 1]))


def is_measured(model: ModelProto) -> None:
    """Its shape is not that of the argmax: the axis is gone."""
    model.graph.node.append(helper.make_node("Shape", ["a"], ["k"]))
    model.graph.output.append(helper.make_tensor_value_info("k", TensorProto.INT64, [3]))


@pytest.mark.refusal("forward-readers")
@pytest.mark.parametrize("read", [leaves_the_graph, is_converted, is_measured])
def test_indices_with_another_reader(read: Any, says: Says) -> None:
    model = maximum_over(3, (2, 3, 4, 5))
    read(model)
    says(check_stays(model, Code.FORWARD_READERS))


@pytest.mark.refusal("unknown-shape")
def test_a_view_of_the_maxima_that_cannot_be_written(says: Says) -> None:
    text = axis_max(
        x="N,C,W",
        y="N,C",
        axes=[2],
        constants={"x_shape": "float unused = {0}"},
        forward="y = ReduceMax <keepdims=0> (x, axes)",
        maximum="a = ArgMax <axis=2, keepdims=0> (x)",
        canvas="shape = Shape (x)\nz = Expand (zero, shape)",
        scatter=ADDED.format(2),
    )
    [anchor] = lower(parse_model(text)).report.lowered
    assert anchor.forward_code == "unknown-shape"
    says(anchor.forward_reason)


@pytest.mark.refusal("opset")
def test_before_the_body_exists() -> None:
    model = maximum_over(3, (2, 3, 4, 5), opset=11)
    del model.graph.node[-1].attribute[1:]
    [anchor] = lower(model).report.lowered
    assert anchor.forward_code == "opset"
