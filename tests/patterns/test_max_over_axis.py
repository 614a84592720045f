"""The maximum over one axis, text in and text out: every spatial axis is lowered, what is no such gradient is not."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto
from onnx.parser import parse_graph, parse_model

from poolgrad_lowering import lower
from poolgrad_lowering.diagnostics.codes import Code
from tests.oracles import assert_same_bits, run_ort, run_reference
from tests.patterns.lowering_checks import NearMisses, backward, check_refused, near_misses, node_text, random_feeds
from tests.patterns.reductions import axis_max

FORWARD = """y = ReduceMax <keepdims=0> (x, axes)
    a = ArgMax <axis=3, keepdims=0, select_last_index=0> (x)
    r = Unsqueeze (a, axes)
    u = Unsqueeze (dy, axes)"""


def window(sizes: str) -> str:
    """A window of these sizes, one beside the other."""
    return f"ksize=[{sizes}], strides=[{sizes}], pads=[0,0,0], dilation=[1,1,1], ceil_mode=0"


def check(source: str, expected: str, target: str = "atlas-a2") -> None:
    """As `check_lowered`, but on feeds without −0.0, whose sign an overwrite keeps and an addition to zero loses."""
    model = parse_model(source)
    lowered = lower(model, target=target).model
    assert node_text(lowered.graph) == node_text(parse_graph(f"g () => () {{ {expected} }}"))
    check_same_results(model, lowered)


def check_same_results(model: ModelProto, lowered: ModelProto) -> None:
    feeds = {name: value + value.dtype.type(0) for name, value in random_feeds(model).items()}
    for run in (run_reference, run_ort):
        found = run(lowered, feeds)
        for name, value in run(model, feeds).items():
            assert_same_bits(found[name], value)


LAST_AXIS = f"""{FORWARD}
    dx_first = Constant <value = int64[4,1] {{0, 5, 10, 15}}> ()
    dx_plane_index = Add (r, dx_first)
    dx_argmax = Cast <to=6> (dx_plane_index)
    {backward("x, u, dx_argmax", window=window("1,1,5"))}"""


def test_as_exported() -> None:
    check(axis_max(), LAST_AXIS)


SPELLINGS = {
    "added": axis_max(scatter='dx = ScatterElements <axis=3, reduction="add"> (z, r, u)'),
    "axis_from_the_end": axis_max(scatter='dx = ScatterElements <axis=-1, reduction="none"> (z, r, u)'),
    "no_reduction_said": axis_max(scatter="dx = ScatterElements <axis=3> (z, r, u)"),
}


@pytest.mark.parametrize("source", SPELLINGS.values(), ids=SPELLINGS)
def test_spellings(source: str) -> None:
    check(source, LAST_AXIS)


def test_before_scatters_had_a_reduction() -> None:
    check(
        SPELLINGS["no_reduction_said"]
        .replace('"" : 18', '"" : 13')
        .replace("ReduceMax <keepdims=0> (x, axes)", "ReduceMax <keepdims=0, axes=[3]> (x)"),
        LAST_AXIS.replace("ReduceMax <keepdims=0> (x, axes)", "ReduceMax <keepdims=0, axes=[3]> (x)"),
    )


def test_kept_axis() -> None:
    source = axis_max(
        inputs="float[2,3,4,5] x, float[2,3,4,1] dy",
        outputs="float[2,3,4,1] y, float[2,3,4,5] dx",
        forward="y = ReduceMax (x, axes)",
        maximum="r = ArgMax <axis=-1> (x)",
        indices="",
        updates="u = Identity (dy)",
    )
    check(
        source,
        f"""y = ReduceMax (x, axes)
            r = ArgMax <axis=-1> (x)
            u = Identity (dy)
            dx_first = Constant <value = int64[4,1] {{0, 5, 10, 15}}> ()
            dx_plane_index = Add (r, dx_first)
            dx_argmax = Cast <to=6> (dx_plane_index)
            {backward("x, u, dx_argmax", window=window("1,1,5"))}""",
    )


def test_an_axis_that_is_not_the_last() -> None:
    source = axis_max(
        inputs="float[2,3,4,5] x, float[2,3,5] dy",
        outputs="float[2,3,5] y, float[2,3,4,5] dx",
        maximum="a = ArgMax <axis=2, keepdims=0> (x)",
        scatter='dx = ScatterElements <axis=2, reduction="none"> (z, r, u)',
        constants={"axes": "int64[1] axes = {2}"},
    )
    check(
        source,
        f"""y = ReduceMax <keepdims=0> (x, axes)
            a = ArgMax <axis=2, keepdims=0> (x)
            r = Unsqueeze (a, axes)
            u = Unsqueeze (dy, axes)
            dx_axis_step = Constant <value = int64 {{5}}> ()
            dx_axis_offset = Mul (r, dx_axis_step)
            dx_first = Constant <value = int64[1,5] {{0, 1, 2, 3, 4}}> ()
            dx_plane_index = Add (dx_axis_offset, dx_first)
            dx_argmax = Cast <to=6> (dx_plane_index)
            {backward("x, u, dx_argmax", window=window("1,4,1"))}""",
    )


def test_the_only_axis_of_symbolic_size() -> None:
    source = axis_max(
        inputs="float[N,3,W] x, float[N,3] dy",
        outputs="float[N,3] y, float[N,3,W] dx",
        maximum="a = ArgMax <axis=2, keepdims=0> (x)",
        canvas="shape = Shape (x)\nz = Expand (zero, shape)",
        scatter='dx = ScatterElements <axis=2, reduction="none"> (z, r, u)',
        constants={"axes": "int64[1] axes = {2}", "x_shape": "float unused = {0}"},
    )
    check(
        source,
        """y = ReduceMax <keepdims=0> (x, axes)
            a = ArgMax <axis=2, keepdims=0> (x)
            r = Unsqueeze (a, axes)
            u = Unsqueeze (dy, axes)
            dx_argmax = Cast <to=6> (r)
            dx = npu.AdaptiveMaxPool3DGrad (x, u, dx_argmax)""",
    )


@pytest.mark.parametrize("axis", [2, 3, 4])
def test_every_axis_of_three_against_torch(axis: int) -> None:
    torch = pytest.importorskip("torch")
    shape, pooled = [2, 3, 4, 5, 6], [2, 3, 4, 5, 6]
    del pooled[axis]
    sizes = ",".join(map(str, shape))
    source = axis_max(
        inputs=f"float[{sizes}] x, float[{','.join(map(str, pooled))}] dy",
        outputs=f"float[{','.join(map(str, pooled))}] y, float[{sizes}] dx",
        maximum=f"a = ArgMax <axis={axis}, keepdims=0> (x)",
        scatter=f'dx = ScatterElements <axis={axis}, reduction="none"> (z, r, u)',
        constants={"axes": f"int64[1] axes = {{{axis}}}", "x_shape": f"int64[5] x_shape = {{{sizes}}}"},
    )
    result = lower(parse_model(source))
    assert [anchor.pattern for anchor in result.report.anchors] == ["max_over_axis"]
    random = np.random.default_rng(axis)
    x = random.integers(0, 4, shape).astype(np.float32)  # ties: torch takes the first of them too
    dy = random.normal(size=pooled).astype(np.float32)
    leaf = torch.tensor(x, requires_grad=True)
    torch.max(leaf, axis).values.backward(torch.tensor(dy))
    assert_same_bits(run_ort(result.model, {"x": x, "dy": dy})["dx"], leaf.grad.numpy())


NEAR_MISSES: NearMisses = {
    "over_channels": (
        Code.NOT_SPATIAL,
        "ArgMax 'a' is over axis 1 of [2, 3, 4, 5]",
        axis_max(
            inputs="float[2,3,4,5] x, float[2,4,5] dy",
            outputs="float[2,4,5] y, float[2,3,4,5] dx",
            maximum="a = ArgMax <axis=1, keepdims=0> (x)",
            scatter='dx = ScatterElements <axis=1, reduction="none"> (z, r, u)',
            constants={"axes": "int64[1] axes = {1}"},
        ),
    ),
    "last_of_equal_maxima": (
        Code.LAST_MAXIMUM,
        "ArgMax 'a' selects the last of equal maxima",
        axis_max(maximum="a = ArgMax <axis=3, keepdims=0, select_last_index=1> (x)"),
    ),
    "multiplied": (
        Code.REDUCTION,
        "ScatterElements 'dx' has reduction=mul, not add or none",
        axis_max(scatter='dx = ScatterElements <axis=3, reduction="mul"> (z, r, u)'),
    ),
    "onto_ones": (
        Code.BASE_NOT_ZERO,
        "'z' is not proven to be all zero",
        axis_max(constants={"zero": "float zero = {1}"}),
    ),
    "along_another_axis": (
        Code.ROWS_NOT_PLANES,
        "[2, 3, 4, 1] onto [2, 3, 4, 5] is not proven to go along axis 3 of [2, 3, 4, 5]",
        axis_max(scatter='dx = ScatterElements <axis=2, reduction="none"> (z, r, u)'),
    ),
    "onto_a_longer_axis": (
        Code.ROWS_NOT_PLANES,
        "[2, 3, 4, 1] onto [2, 3, 4, 6] is not proven to go along axis 3 of [2, 3, 4, 5]",
        axis_max(
            outputs="float[2,3,4] y, float[2,3,4,6] dx",
            constants={"x_shape": "int64[4] canvas_shape = {2, 3, 4, 6}"},
            canvas="z = Expand (zero, canvas_shape)",
        ),
    ),
    "along_two_axes_of_which_one_is_symbolic": (
        Code.UNKNOWN_SHAPE,
        "'r' cannot be converted to plane-local indices for [2, 3, H, 5]: sizes are not known",
        axis_max(
            inputs="float[2,3,H,5] x, float[2,3,H] dy",
            outputs="float[2,3,H] y, float[2,3,H,5] dx",
            canvas="shape = Shape (x)\nz = Expand (zero, shape)",
        ),
    ),
    "base_of_unknown_shape": (
        Code.UNKNOWN_SHAPE,
        "the shapes of ScatterElements 'dx' are not known",
        axis_max(inputs="float[2,3,4,5] x, float[2,3,4] dy, int64[k] shape", canvas="z = ConstantOfShape (shape)"),
    ),
}


@pytest.mark.parametrize(("code", "reason", "source"), near_misses(NEAR_MISSES))
def test_near_miss(code: Code, reason: str, source: str) -> None:
    check_refused(source, code, reason)
