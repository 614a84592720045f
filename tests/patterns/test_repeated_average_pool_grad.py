# SPDX-License-Identifier: Apache-2.0

"""Gradients of average pools without overlap repeat elements: text in and node out; what enlarges images stays."""

from __future__ import annotations

import onnx
import pytest

from poolgrad_lowering import lower
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.patterns.average_checks import check_average, of_pool
from tests.patterns.lowering_checks import check_refused
from tests.texts import Says

EXPECTED = of_pool((2, 3, 8, 12), (2, 3), (2, 3))
SCALES = "s = Constant <value = float[4] {1.0, 1.0, 2.0, 3.0}> ()"
NEAREST = 'Resize <mode = "nearest", coordinate_transformation_mode = "{}", nearest_mode = "{}"> (mean, , s)'


def gradient(
    repeat: str,
    *,
    before: str = "six",
    end: str = "dx = Identity (r)",
    batch: str = "2",
    opset: int = 18,
    shape: str = "",
) -> str:
    """Return the text of a gradient of windows of 2×3, repeated by `repeat`, and divided by `before` before."""
    return f"""<ir_version: 8, opset_import: ["" : {opset}]>
    g (float[{batch},3,4,4] dy) => (float[{shape or f"{batch},3,8,12"}] dx)
        <float six = {{6.0}}, float one = {{1.0}}> {{
        mean = Div (dy, {before}) {repeat} {end}
    }}"""


SPLIT = """v = Constant <value_ints = [{0},3,4,1,4,1]> () m = Reshape (mean, v)
    s = Constant <value_ints = [1,1,1,2,1,3]> () e = {1} (m, s)
    j = Constant <value_ints = [{0},3,8,12]> () r = Reshape (e, j)"""
REPEATS = {
    **{
        f"{way}, {rounding}": gradient(f"{SCALES} r = {NEAREST.format(way, rounding)}")
        for way, rounding in (
            ("asymmetric", "floor"),
            ("half_pixel", "round_prefer_floor"),
            ("half_pixel", "round_prefer_ceil"),
            ("pytorch_half_pixel", "round_prefer_floor"),
        )
    },
    "sizes": gradient(
        'z = Constant <value_ints = [2,3,8,12]> () r = Resize <mode = "nearest",'
        ' coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"> (mean, , , z)'
    ),
    "Expand": gradient(SPLIT.format(2, "Expand")),
    "Tile": gradient(SPLIT.format(2, "Tile")),
    "divided behind": gradient(SPLIT.format(2, "Expand"), before="one", end="dx = Div (r, six)"),
    "a symbolic batch": gradient(SPLIT.format(-1, "Expand"), batch="N"),
    "a Resize of a symbolic batch": gradient(f"{SCALES} r = {NEAREST.format('asymmetric', 'floor')}", batch="N"),
}


@pytest.mark.parametrize("name", REPEATS)
def test_repeats(name: str) -> None:
    nodes = check_average(REPEATS[name], EXPECTED, op="AvgPool3DGrad", sizes={"N": 2}, attributes={"ksize": [1, 2, 3]})
    assert "Resize" not in {node.op_type for node in nodes}


OLD = {"Resize": 10, "Upsample": 9}


@pytest.mark.refusal(Code.OPSET.value)
@pytest.mark.parametrize("op_type", OLD)
def test_older_opsets(op_type: str, says: Says) -> None:
    """They are recognised, and the operator has no function body there."""
    text = gradient(f'{SCALES} r = {op_type} <mode = "nearest"> (mean, s)', opset=OLD[op_type])
    says(check_refused(text, Code.OPSET))


def test_one_axis_of_several() -> None:
    """The axes before the first one that is repeated are all N and C."""
    text = gradient(
        "s = Constant <value_floats = [1.0, 1.0, 1.0, 3.0]> () r = " + NEAREST.format("asymmetric", "floor"),
        shape="2,3,4,12",
    ).replace("{6.0}", "{3.0}")
    check_average(text, of_pool((2, 3, 4, 12), (1, 3), (1, 3)), op="AvgPool3DGrad", attributes={"ksize": [1, 1, 3]})


LEFT = {
    "not divided": gradient(f"{SCALES} r = {NEAREST.format('asymmetric', 'floor')}", before="one"),
    "divided by another number": gradient(SPLIT.format(2, "Expand")).replace("{6.0}", "{5.0}"),
    "linear": gradient(f'{SCALES} r = Resize <mode = "linear"> (mean, , s)'),
    "other elements": gradient(f"{SCALES} r = {NEAREST.format('half_pixel', 'floor')}"),
    "three of a rounded place": gradient(f"{SCALES} r = {NEAREST.format('asymmetric', 'round_prefer_floor')}"),
    "corners": gradient(f"{SCALES} r = {NEAREST.format('align_corners', 'floor')}"),
    "half elements": gradient(
        f"s = Constant <value_floats = [1.0, 1.0, 2.0, 2.5]> () r = {NEAREST.format('asymmetric', 'floor')}",
        shape="2,3,8,10",
    ),
    "before each element": gradient(
        SPLIT.format(2, "Expand")
        .replace("{},4,1,4,1", "")
        .replace("[2,3,4,1,4,1]", "[2,3,1,4,1,4]")
        .replace("[1,1,1,2,1,3]", "[1,1,2,1,3,1]")
    ),
    "no view behind": gradient(
        "v = Constant <value_ints = [2,3,4,1,4,1]> () m = Reshape (mean, v)"
        " s = Constant <value_ints = [1,1,1,2,1,3]> () r = Expand (m, s)",
        shape="2,3,4,2,4,3",
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_no_anchors(name: str) -> None:
    """What enlarges an image is part of a network."""
    assert lower(onnx.parser.parse_model(LEFT[name])).report.anchors == ()
