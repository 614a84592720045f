# SPDX-License-Identifier: Apache-2.0

"""The maximum over one axis, text in and text out: every axis is lowered, what is no such gradient is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto
from onnx.parser import parse_model

from poolgrad_lowering import lower
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.graphs import Written
from tests.oracles import assert_same_bits, run_ort, run_reference
from tests.patterns.lowering_checks import NearMisses, check_refused, near_misses, random_feeds
from tests.patterns.reductions import axis_max, global_max
from tests.texts import Says

SHAPES: tuple[tuple[int, ...], ...] = ((5,), (3, 4), (2, 3, 4), (2, 3, 4, 5), (2, 3, 2, 3, 4), (2, 1, 3, 2, 2, 3))
LINES = [(shape, axis) for shape in SHAPES for axis in range(len(shape))]


def check(source: str, written: Written) -> None:
    """As `check_lowered`, on feeds without −0.0; onnx's evaluator and checker run here what older releases cannot."""
    model = parse_model(source)
    lowered = lower(model, forward=False).model
    written(model, lowered)
    for result in (lowered, lower(model).model):
        check_same_results(model, result)


def check_same_results(model: ModelProto, lowered: ModelProto) -> None:
    feeds = {name: np.asarray(value + value.dtype.type(0)) for name, value in random_feeds(model).items()}
    for run in (run_reference, run_ort):
        found = run(lowered, feeds)
        for name, value in run(model, feeds).items():
            assert_same_bits(found[name], value)


SPELLINGS = {
    "as_exported": axis_max(),
    "added": axis_max(scatter='dx = ScatterElements <axis=3, reduction="add"> (z, r, u)'),
    "axis_from_the_end": axis_max(scatter='dx = ScatterElements <axis=-1, reduction="none"> (z, r, u)'),
    "no_reduction_said": axis_max(scatter="dx = ScatterElements <axis=3> (z, r, u)"),
    "before_scatters_had_a_reduction": axis_max(scatter="dx = ScatterElements <axis=3> (z, r, u)")
    .replace('"": 18', '"": 13')
    .replace("ReduceMax <keepdims=0> (x, axes)", "ReduceMax <keepdims=0, axes=[3]> (x)"),
    "kept_axis": axis_max(
        y="2,3,4,1",
        forward="y = ReduceMax (x, axes)",
        maximum="r = ArgMax <axis=-1> (x)",
        indices="",
        updates="u = Identity (dy)",
    ),
    "an_axis_that_is_not_the_last": axis_max(
        y="2,3,5",
        axes=[2],
        maximum="a = ArgMax <axis=2, keepdims=0> (x)",
        scatter='dx = ScatterElements <axis=2, reduction="none"> (z, r, u)',
    ),
    "the_only_axis_of_symbolic_size": axis_max(
        x="N,3,W",
        y="N,3",
        axes=[2],
        constants={"x_shape": "float unused = {0}"},
        maximum="a = ArgMax <axis=2, keepdims=0> (x)",
        canvas="shape = Shape (x)\nz = Expand (zero, shape)",
        scatter='dx = ScatterElements <axis=2, reduction="none"> (z, r, u)',
    ),
}


@pytest.mark.parametrize("source", SPELLINGS.values(), ids=SPELLINGS)
def test_spellings(source: str, written: Written) -> None:
    check(source, written)


def over_rows(x: str, dy: str, rows: str, **changes: Any) -> str:
    """The gradient of AdaptiveMaxPool1d(1) after a tool removed the Reshape before ArgMax: the scatter is over rows."""
    lines, length = rows.split(",")
    constants = {
        "axes": "int64[1] axes = {2}",
        "x_shape": f"int64[3] x_shape = {{{x.replace('N', '-1')}}}",
        "rows": f"int64[2] rows = {{{lines}, {length}}}",
        "row": f"int64[2] row = {{{lines}, 1}}",
        **changes.pop("constants", {}),
    }
    steps = {
        "forward": "y = ReduceMax (x, axes)",
        "maximum": "a = ArgMax <axis=-1, keepdims=0> (x)",
        "indices": "r = Reshape (a, row)",
        "updates": "u = Reshape (dy, row)",
        "canvas": "z = Expand (zero, rows)",
        "scatter": 's = ScatterElements <axis=1, reduction="add"> (z, r, u)\ndx = Reshape (s, x_shape)',
    }
    outputs = changes.pop("outputs", f"float[{dy}] y, float[{x}] dx")
    inputs = f"float[{x}] x, float[{dy}] dy"
    return axis_max(inputs=inputs, outputs=outputs, constants=constants, **(steps | changes))


@pytest.mark.parametrize(("shape", "axis"), LINES, ids=str)
def test_every_axis_against_torch(shape: tuple[int, ...], axis: int) -> None:
    torch = pytest.importorskip("torch")
    result = lower(parse_model(over_axis(axis, ",".join(map(str, shape)))))
    assert [anchor.pattern for anchor in result.report.lowered] == ["max_over_axis"]
    random = np.random.default_rng(axis)
    x = random.integers(0, 4, shape).astype(np.float32)  # ties: torch takes the first of them too
    dy = np.asarray(random.normal(size=shape[:axis] + shape[axis + 1 :]).astype(np.float32))
    leaf = torch.tensor(x, requires_grad=True)
    torch.max(leaf, axis).values.backward(torch.tensor(dy))
    assert_same_bits(run_ort(result.model, {"x": x, "dy": dy})["dx"], leaf.grad.numpy())


LIKE_X = "shape = Shape (x)\nz = Expand (zero, shape)"


def over_axis(axis: int, shape: str, *, element: str = "float", dropped: str | None = None, **steps: Any) -> str:
    """Return the gradient of torch.max(x, axis) over an x of this shape (symbols in it only with LIKE_X as canvas)."""
    sizes = shape.split(",")
    pooled = ",".join(sizes[:axis] + sizes[axis + 1 :]) if dropped is None else dropped
    constants = {"axes": f"int64[1] axes = {{{axis}}}", "zero": f"{element} zero = {{0}}"}
    constants["x_shape"] = (
        f"int64[{len(sizes)}] x_shape = {{{shape}}}" if "canvas" not in steps else "float unused = {0}"
    )
    defaults = {
        "inputs": f"{element}[{shape}] x, {element}[{pooled}] dy",
        "outputs": f"{element}[{pooled}] y, {element}[{shape}] dx",
        "maximum": f"a = ArgMax <axis={axis}, keepdims=0> (x)",
        "scatter": f'dx = ScatterElements <axis={axis}, reduction="none"> (z, r, u)',
    }
    return axis_max(constants=constants | steps.pop("constants", {}), **defaults | steps)


def test_a_view_that_is_reduced() -> None:
    """Channels flattened with their batch: the maximum is one over axis 1 of the view."""
    source = global_max(
        flat_shape=[2, 60], row_shape=[2, 1], canvas_shape=[2, 60], inputs="float[2,3,4,5] x, float[2,1] dy"
    )
    model = parse_model(source)
    lowered = lower(model)
    assert [anchor.pattern for anchor in lowered.report.lowered] == ["max_over_axis"]
    feeds = random_feeds(model)
    for run in (run_reference, run_ort):
        assert_same_bits(run(lowered.model, feeds)["dx"], run(model, feeds)["dx"])


NEAR_MISSES: NearMisses = {
    (Code.ROWS_NOT_PLANES, "along_another_axis_of_channels"): over_axis(
        1, "2,3,3,3", scatter='dx = ScatterElements <axis=2, reduction="none"> (z, r, u)'
    ),
    (Code.UNRELATED_INDICES, "maxima_of_integers"): axis_max(
        inputs="int64[2,3,4,5] x, float[2,3,4] dy", outputs="int64[2,3,4] y, float[2,3,4,5] dx"
    ),
    (Code.UNKNOWN_SHAPE, "between_two_symbolic_sizes"): over_axis(1, "N,H,5", canvas=LIKE_X),
    (Code.UNKNOWN_SHAPE, "of_a_symbolic_size"): over_axis(1, "2,N,5", canvas=LIKE_X),
    (Code.EMPTY_WINDOW, "of_an_empty_axis"): over_axis(1, "2,0,4"),
    (Code.EMPTY_WINDOW, "of_no_lines"): over_axis(1, "0,3,4"),
    (Code.UNKNOWN_SHAPE, "axis_beyond_the_rank"): over_axis(
        1, "7", dropped="7", maximum="a = ArgMax <axis=1, keepdims=0> (x)"
    ),
    (Code.ROWS_NOT_PLANES, "onto_a_longer_line_of_channels"): over_axis(
        1, "2,3,4", outputs="float[2,4] y, float[2,4,4] dx", constants={"x_shape": "int64[3] x_shape = {2, 4, 4}"}
    ),
    (Code.LAST_MAXIMUM, "last_of_equal_maxima"): axis_max(
        maximum="a = ArgMax <axis=3, keepdims=0, select_last_index=1> (x)"
    ),
    (Code.REDUCTION, "multiplied"): axis_max(scatter='dx = ScatterElements <axis=3, reduction="mul"> (z, r, u)'),
    (Code.ROWS_NOT_PLANES, "along_another_axis"): axis_max(
        scatter='dx = ScatterElements <axis=2, reduction="none"> (z, r, u)'
    ),
    (Code.ROWS_NOT_PLANES, "over_longer_rows"): over_rows(
        "2,3,5",
        "2,3,1",
        "6,6",
        outputs="float[2,3,1] y, float[6,6] s",
        scatter='s = ScatterElements <axis=1, reduction="add"> (z, r, u)',
    ),
    (Code.ROWS_NOT_PLANES, "down_the_rows"): over_rows(
        "2,3,5", "2,3,1", "6,5", scatter="s = ScatterElements <axis=0> (z, r, u)\ndx = Reshape (s, x_shape)"
    ),
    (Code.ROWS_NOT_PLANES, "of_another_axis_over_rows"): over_rows(
        "2,3,5",
        "2,1,5",
        "10,3",
        maximum="a = ArgMax <axis=1, keepdims=0> (x)",
        constants={"axes": "int64[1] axes = {1}"},
    ),
    (Code.ROWS_NOT_PLANES, "onto_a_longer_axis"): axis_max(
        outputs="float[2,3,4] y, float[2,3,4,6] dx",
        constants={"x_shape": "int64[4] canvas_shape = {2, 3, 4, 6}"},
        canvas="z = Expand (zero, canvas_shape)",
    ),
    (Code.UNKNOWN_SHAPE, "base_of_unknown_shape"): axis_max(
        more="int64[k] shape", canvas="z = ConstantOfShape (shape)"
    ),
}


@pytest.mark.parametrize(("code", "source"), near_misses(NEAR_MISSES))
def test_near_miss(code: Code, source: str, says: Says) -> None:
    says(check_refused(source, code))
