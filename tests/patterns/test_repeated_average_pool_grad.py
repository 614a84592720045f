# SPDX-License-Identifier: Apache-2.0

"""Gradients of average pools without overlap repeat elements: text in and node out; what enlarges images stays."""

from __future__ import annotations

import onnx
import pytest

from poolgrad_lowering import lower
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.patterns.lowering_checks import check_refused
from tests.texts import Says

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


OLD = {"Resize": 10, "Upsample": 9}


@pytest.mark.refusal(Code.OPSET.value)
@pytest.mark.parametrize("op_type", OLD)
def test_older_opsets(op_type: str, says: Says) -> None:
    """They are recognised, and the operator has no function body there."""
    text = gradient(f'{SCALES} r = {op_type} <mode = "nearest"> (mean, s)', opset=OLD[op_type])
    says(check_refused(text, Code.OPSET))


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
